"""The recorded cases of AutoGen, and what the gateway makes of them."""

import json
from pathlib import Path
from typing import Any

from app.chat.messages import Message
from app.formats.autogen import AUTOGEN
from app.formats.base import Options

GOLDENS = Path(__file__).parents[2] / "goldens"


def cases(folder: str) -> dict[str, Any]:
    return {path.stem: json.loads(path.read_text("utf-8")) for path in sorted((GOLDENS / folder).glob("*.json"))}


def read(items: list[Any], agent: str | None = None) -> tuple[Message, ...]:
    """The messages of a list that has nothing wrong with it."""
    decoded = AUTOGEN.parse(items, Options(agent=agent))
    assert not decoded.violations
    return decoded.messages


def refused(items: list[Any]) -> list[str]:
    """The places of what is wrong with a list."""
    decoded = AUTOGEN.parse(items, Options())
    assert decoded.violations and not decoded.messages
    return [one.path for one in decoded.violations]


def written(messages: tuple[Message, ...], agent: str | None = None) -> list[Any]:
    return AUTOGEN.write(messages, Options(agent=agent)).messages


def text(source: str, content: str, **fields: Any) -> dict[str, Any]:
    return {"type": "TextMessage", "source": source, "content": content, **fields}


def thought(source: str, content: str, **fields: Any) -> dict[str, Any]:
    return {"type": "ThoughtEvent", "source": source, "content": content, **fields}


def calls(source: str, *ids: str) -> dict[str, Any]:
    content = [{"id": id_, "arguments": "{}", "name": f"f_{id_}"} for id_ in ids]
    return {"type": "ToolCallRequestEvent", "source": source, "content": content}


def results(source: str, *ids: str) -> dict[str, Any]:
    content = [{"content": f"r {id_}", "name": f"f_{id_}", "call_id": id_, "is_error": False} for id_ in ids]
    return {"type": "ToolCallExecutionEvent", "source": source, "content": content}


def summary(source: str, *ids: str) -> dict[str, Any]:
    fields = {"tool_calls": calls(source, *ids)["content"], "results": results(source, *ids)["content"]}
    return {"type": "ToolCallSummaryMessage", "source": source, "content": "in short", **fields}
