"""Recorded conversations of the original (`tests/goldens/qwen_agent`), as the steps see them."""

import json
from pathlib import Path
from typing import Any

from app.chat.events import Event
from app.chat.messages import ChatRequest, Tool
from app.formats.qwen import QWEN_AGENT
from app.formats.qwen.parse import parse_messages
from app.formats.qwen.schema import QwenMessage
from app.upstream.chat_completions import chunk_decoder
from app.upstream.chat_completions.assembler import Assembler
from app.upstream.reply.sse import EventReader

Json = dict[str, Any]
FOLDER = Path(__file__).parent.parent / "goldens" / "qwen_agent"


def load(name: str) -> Any:
    return json.loads((FOLDER / f"{name}.json").read_text("utf-8"))


def names(*groups: str) -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.json") if path.stem.startswith(groups))


def tools(functions: list[Json] | None) -> tuple[Tool, ...]:
    bare = [function.get("function", function) for function in functions or ()]
    return tuple(Tool(str(function["name"]), function) for function in bare)


def request(golden: Json) -> ChatRequest:
    parsed = parse_messages([QwenMessage.model_validate(message) for message in golden["messages"]])
    assert parsed.violations == []
    params = golden["llm_cfg"]["generate_cfg"] | (golden["extra_generate_cfg"] or {})
    return ChatRequest("m", parsed.messages, tools(golden["functions"]), params, policy=QWEN_AGENT)


def replies(golden: Json) -> list[Event]:
    """The recorded reply as events, cut as it was."""
    response = golden["upstream"][0]["response"]
    reader, assembler = EventReader(chunk_decoder.decode), Assembler("chat-1")
    events: list[Event] = []
    for chunk in response["chunks"]:
        events += assembler.feed(reader.feed(b"data: " + json.dumps(chunk).encode() + b"\n\n"))
    return events + assembler.feed(reader.feed(b"data: [DONE]\n\n")) + assembler.close()
