"""Finds tool calls of a history whose reasoning the client dropped, and puts the reasoning back.

Some servers refuse a tool turn without the reasoning that led to it, or answer worse, and most clients do not return
it. The gateway keeps it under a key of each call: the call's id, its name and its arguments. An id that ends in a
counter (`call_0`, `functions.f:1`) comes again in later replies, so its key also has the text of the message that the
reply answered.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from app.chat.messages import ChatRequest, Message, Reasoning, Text, ToolCall, ToolResult
from app.openai_messages.grouping import MessageGroup, group_messages

_COUNTER = re.compile(r"(.*[^0-9A-Za-z])?\d{1,6}|\D*", re.DOTALL)
_encode = msgspec.json.Encoder(order="sorted").encode


class DroppedReasoning(Struct, frozen=True):
    """A turn of the assistant that has calls and no reasoning."""

    first: int
    """The position of its first message."""
    path: str
    keys: tuple[str, ...]
    """The keys of its calls."""


def find_dropped_reasoning(messages: Sequence[Message]) -> list[DroppedReasoning]:
    if not any(type(part) is ToolCall for message in messages for part in message.parts):
        return []
    places = {id(message): number for number, message in enumerate(messages)}
    return [
        _make_dropped(group, messages, places[id(group.sources[0])])
        for group in group_messages(messages)[0]
        if group.calls and not group.reasonings and not group.details
    ]


def _make_dropped(group: MessageGroup, messages: Sequence[Message], first: int) -> DroppedReasoning:
    context = describe_context(messages[:first])
    keys = tuple(make_key(one.call.id or "", one.call.name, one.call.arguments, context) for one in group.calls)
    return DroppedReasoning(first, messages[first].path, keys)


def describe_context(messages: Sequence[Message]) -> str:
    """Return the text of the last message of a user or a tool: what a reply to these messages answers."""
    for message in reversed(messages):
        if message.role in ("user", "tool"):
            part = message.parts[-1] if message.parts else None
            parts: Sequence[Any] = part.content if isinstance(part, ToolResult) else message.parts
            return "\n".join(one.text for one in parts if isinstance(one, Text))
    return ""


def make_key(id_: str, name: str, arguments: str, context: str) -> str:
    """Return the key of a call. Clients write the arguments again, so the white space and order of their JSON do not
    count."""
    try:
        canonical = _encode(msgspec.json.decode(arguments))
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        canonical = arguments.strip().encode("utf-8", "surrogatepass")
    seed = [id_, name, context if _COUNTER.fullmatch(id_) else ""]
    hashed = hashlib.blake2b(digest_size=20)
    for part in (*(one.encode("utf-8", "surrogatepass") for one in seed), canonical):
        hashed.update(b"%d:" % len(part) + part)
    return hashed.hexdigest()


def restore_reasoning(
    request: ChatRequest, dropped: Sequence[DroppedReasoning], found: Mapping[str, str]
) -> tuple[ChatRequest, list[str]]:
    """Return the request with the reasoning that was found, by the keys of calls, and a warning for each turn."""
    messages, warnings = list(request.messages), []
    for turn in dropped:
        text = next((found[key] for key in turn.keys if key in found), None)
        if text is not None:
            message = messages[turn.first]
            messages[turn.first] = replace(message, parts=(Reasoning(text), *message.parts))
            warnings.append(f"{turn.path}: the reasoning before this tool call was missing and was restored")
    return (replace(request, messages=tuple(messages)), warnings) if warnings else (request, [])
