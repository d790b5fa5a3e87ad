"""Parses AgentScope 1.x messages."""

from typing import Any

from msgspec.structs import replace
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
"""AgentScope 0.1 wrote the last two for its own use."""


def read_message(item: Json, path: str) -> list[Message]:
    """Return the pieces of a valid message."""
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
    """Append the media of 0.1's `url` after the text of their message."""
    if all(part.kind in ("text", "media") for part in last.parts):
        return [replace(last, parts=(*last.parts, *media))]
    return [last, replace(top, parts=media)]


def _find_misplaced_blocks(item: Json, path: str) -> list[Violation]:
    """Find calls in messages that are not the assistant's, where they would be lost."""
    if item["role"] == "assistant":
        return []
    return [
        Violation(f"{path}.content[{place}]", "only an assistant message can have a tool_use")
        for place, block in enumerate(_blocks(item["content"]))
        if block["type"] == "tool_use"
    ]


def _warnings(item: Json, path: str) -> list[str]:
    warnings = [f"{path}.{key} is not a field of an AgentScope message and was ignored" for key in item.keys() - _KNOWN]
    if item["role"] != "assistant":
        for place, block in enumerate(_blocks(item["content"])):
            if block["type"] == "thinking":
                warnings.append(f"{path}.content[{place}] was not sent: only an assistant message can have thinking")
    return sorted(warnings)


_RULES = ParseRules(
    Messages, TypeAdapter(Messages), TypeAdapter(AgentScopeMsg), _find_misplaced_blocks, read_message, _warnings
)
parse_messages, validate_and_read = _RULES.parse, _RULES.validate_and_read
