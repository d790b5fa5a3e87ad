"""AgentScope 1.x messages into the vocabulary."""

from dataclasses import replace
from typing import Any

from pydantic import TypeAdapter

from app.chat.messages import Message
from app.errors import Violation
from app.formats.agentscope.common_parse import ParseRules
from app.formats.agentscope.common_write import make_head
from app.formats.agentscope.notes import Json
from app.formats.agentscope.replay import read_item
from app.formats.agentscope.v1.blocks import SYNTAX, read_link
from app.formats.agentscope.v1.schema import AgentScopeMsg, Messages

_KNOWN = frozenset({*AgentScopeMsg.model_fields, "__module__", "__name__"})
"""0.1 wrote the last two for itself."""


def read_message(item: Json, path: str) -> list[Message]:
    """The pieces of a message that was checked."""
    created = item.get("timestamp")
    extra: Json = {"message_id": item["id"]} if item.get("id") else {}
    extra |= {"created_at": created} if created else {}
    top = make_head(item["role"], item["name"], item.get("id") or path, path, extra)
    pieces = read_item(item, _blocks(item.get("content")), top, SYNTAX)
    if links := item.get("url"):
        urls = [links] if isinstance(links, str) else links
        media = tuple(read_link(url, f"{path}.url") for url in urls)
        pieces[-1:] = _append_media(pieces[-1], media, top)
    return pieces


def _blocks(content: Any) -> list[Json]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return content or []


def _append_media(last: Message, media: tuple[Any, ...], top: Message) -> list[Message]:
    """0.1's links stand behind the text of their message."""
    if all(part.kind in ("text", "media") for part in last.parts):
        return [replace(last, parts=(*last.parts, *media))]
    return [last, replace(top, parts=media)]


def _find_misplaced_blocks(item: Json, path: str) -> list[Violation]:
    """Only an assistant can call: another's call would be lost."""
    if item["role"] == "assistant":
        return []
    return [
        Violation(f"{path}.content[{place}]", "only an assistant's message can have a tool_use")
        for place, block in enumerate(_blocks(item["content"]))
        if block["type"] == "tool_use"
    ]


def _warnings(item: Json, path: str) -> list[str]:
    said = [f"{path}.{key} is not a field of an AgentScope message and was ignored" for key in item.keys() - _KNOWN]
    if item["role"] != "assistant":
        for place, block in enumerate(_blocks(item["content"])):
            if block["type"] == "thinking":
                said.append(f"{path}.content[{place}] was not sent: only an assistant's message can think")
    return sorted(said)


_RULES = ParseRules(
    Messages, TypeAdapter(Messages), TypeAdapter(AgentScopeMsg), _find_misplaced_blocks, read_message, _warnings
)
parse_messages, validate_and_read = _RULES.parse, _RULES.validate_and_read
