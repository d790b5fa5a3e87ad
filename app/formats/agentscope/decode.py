"""AgentScope 1.x messages into the vocabulary."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pydantic import TypeAdapter, ValidationError

from app.chat.messages import Message
from app.errors import Violation
from app.formats.agentscope.blocks import TONGUE, linked
from app.formats.agentscope.schema import AgentScopeMsg, Messages
from app.formats.agentscope_history import head
from app.formats.agentscope_kept import read_item
from app.formats.agentscope_notes import Json
from app.formats.base import Decoded, Options
from app.formats.violations import unknown_keys, violations

_messages: TypeAdapter[Any] = TypeAdapter(Messages)
_message: TypeAdapter[Any] = TypeAdapter(AgentScopeMsg)
_KNOWN = frozenset({*AgentScopeMsg.model_fields, "__module__", "__name__"})
"""0.1 wrote the last two for itself."""


def decode(messages: list[Any], options: Options) -> Decoded:
    try:
        wire = _messages.validate_python(messages)
    except ValidationError as error:
        return Decoded((), violations(error, messages, "messages", Messages))
    wrong = [one for number, item in enumerate(messages) for one in _misplaced(item, f"messages[{number}]")]
    if wrong:
        return Decoded((), wrong)
    found: list[Message] = []
    warnings: list[str] = []
    for number, item in enumerate(messages):
        path = f"messages[{number}]"
        found += read(item, path)
        warnings += _warnings(item, path)
        unread = unknown_keys(wire[number].content, f"{path}.content")
        warnings += (f"{place} is not a field of an AgentScope block and was ignored" for place in unread)
    return Decoded(tuple(found), (), tuple(warnings))


def reread(item: Any) -> Sequence[Message] | None:
    """The pieces of a message that comes from somebody's `extra`."""
    try:
        _message.validate_python(item)
    except ValidationError:
        return None
    return None if _misplaced(item, "") else read(item, "")


def read(item: Json, path: str) -> list[Message]:
    """The pieces of a message that was checked."""
    created = item.get("timestamp")
    extra: Json = {"message_id": item["id"]} if item.get("id") else {}
    extra |= {"created_at": created} if created else {}
    top = head(item["role"], item["name"], item.get("id") or path, path, extra)
    pieces = read_item(item, _blocks(item.get("content")), top, TONGUE)
    if links := item.get("url"):
        urls = [links] if isinstance(links, str) else links
        media = tuple(linked(url, f"{path}.url") for url in urls)
        pieces[-1:] = _with(pieces[-1], media, top)
    return pieces


def _blocks(content: Any) -> list[Json]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return content or []


def _with(last: Message, media: tuple[Any, ...], top: Message) -> list[Message]:
    """0.1's links stand behind the text of their message."""
    if all(part.kind in ("text", "media") for part in last.parts):
        return [replace(last, parts=(*last.parts, *media))]
    return [last, replace(top, parts=media)]


def _misplaced(item: Json, path: str) -> list[Violation]:
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
