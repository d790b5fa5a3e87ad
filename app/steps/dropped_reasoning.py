"""Finds tool calls of a history whose reasoning or signature the client dropped, and puts it back.

Some servers refuse a tool turn without the reasoning that led to it (DeepSeek, Kimi) or without its signature (Gemini),
or answer worse, and most clients do not return them. The gateway keeps them under a key of each call: the call's id,
its name and its arguments. An id that ends in a counter (`call_0`, `functions.f:1`) comes again in later replies, so
its key also has the text of the message that the reply answered.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from app.chat.messages import ChatRequest, Message, Reasoning, Text, ToolCall, ToolResult
from app.openai_messages.grouping import group_messages
from app.openai_messages.groups import MessageGroup
from app.openai_messages.messages import has_signature
from app.profiles import Profile

_COUNTER = re.compile(r"(.*[^0-9A-Za-z])?\d{1,6}|\D*", re.DOTALL)
_encode = msgspec.json.Encoder(order="sorted").encode


class Wanted(Struct, frozen=True):
    """What the servers of a model want back with the calls of a history."""

    reasoning: bool
    signatures: bool
    details: bool = False
    """The opaque items of the whole turn: signed or encrypted reasoning."""


NOTHING_WANTED = Wanted(reasoning=False, signatures=False)


_ITEMS = ("item", "item_text")
"""The ways to send reasoning that also send what the server has encrypted."""


def find_wanted(profiles: Iterable[Profile]) -> Wanted:
    restoring = [profile for profile in profiles if profile.restore_reasoning]
    return Wanted(
        any(profile.replay_reasoning != "none" for profile in restoring),
        any(profile.replay_extra_content for profile in restoring),
        any(profile.replay_details or profile.replay_reasoning in _ITEMS for profile in restoring),
    )


class DroppedReasoning(Struct, frozen=True):
    """A turn of the assistant that has calls, and lacks their reasoning or their signature."""

    first: int
    """The position of its first message."""
    path: str
    calls: Mapping[str, ToolCall]
    """Its calls by their keys."""
    lacks_reasoning: bool
    lacks_signature: bool
    lacks_details: bool = False


class KeptParts(Struct, frozen=True):
    """What was kept of a reply for one of its calls."""

    reasoning: str = ""
    extra_content: Any = None
    """Of the call itself."""
    details: Sequence[Any] = ()
    """`reasoning_details` of its turn, each signed text with the text that it signs."""


def find_dropped_reasoning(messages: Sequence[Message], wanted: Wanted) -> list[DroppedReasoning]:
    if not any(type(part) is ToolCall for message in messages for part in message.parts):
        return []
    places = {id(message): number for number, message in enumerate(messages)}
    turns = [
        _make_dropped(group, messages, places[id(group.sources[0])], wanted)
        for group in group_messages(messages)[0]
        if group.calls
    ]
    return [turn for turn in turns if turn.lacks_reasoning or turn.lacks_signature or turn.lacks_details]


def _make_dropped(group: MessageGroup, messages: Sequence[Message], first: int, wanted: Wanted) -> DroppedReasoning:
    lacks_reasoning = wanted.reasoning and not group.reasonings and not group.details
    lacks_signature = wanted.signatures and not any(has_signature(one.call.extra) for one in group.calls)
    lacks_details = wanted.details and not group.details
    calls: dict[str, ToolCall] = {}
    if lacks_reasoning or lacks_signature or lacks_details:
        context = describe_context(messages[:first])
        for one in group.calls:
            calls[make_key(one.call.id or "", one.call.name, one.call.arguments, context)] = one.call
    return DroppedReasoning(first, messages[first].path, calls, lacks_reasoning, lacks_signature, lacks_details)


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
    request: ChatRequest, dropped: Sequence[DroppedReasoning], found: Mapping[str, KeptParts]
) -> tuple[ChatRequest, list[str]]:
    """Return the request with what was found, by the keys of calls, and a warning for each turn."""
    messages, warnings = list(request.messages), []
    signed: dict[int, ToolCall] = {}
    """The calls that get their opaque fields back, by the identity of the caller's ones."""
    for turn in dropped:
        kept = {key: found[key] for key in turn.calls if key in found}
        text = next((one.reasoning for one in kept.values() if one.reasoning), "") if turn.lacks_reasoning else ""
        if text:
            message = messages[turn.first]
            messages[turn.first] = replace(message, parts=(Reasoning(text), *message.parts))
            warnings.append(f"{turn.path}: the reasoning before this tool call was missing and was restored")
        details = next((one.details for one in kept.values() if one.details), ()) if turn.lacks_details else ()
        if details:
            message = messages[turn.first]
            messages[turn.first] = replace(message, extra={**message.extra, "reasoning_details": [*details]})
            warnings.append(f"{turn.path}: the signed reasoning of this turn was missing and was restored")
        extras = {key: one.extra_content for key, one in kept.items() if one.extra_content and turn.lacks_signature}
        for key, extra_content in extras.items():
            call = turn.calls[key]
            signed[id(call)] = replace(call, extra={**call.extra, "extra_content": extra_content})
        if extras:
            warnings.append(f"{turn.path}: the signature of this tool call was missing and was restored")
    if not warnings:
        return request, []
    if signed:
        messages = [_replace_calls(message, signed) for message in messages]
    return replace(request, messages=tuple(messages)), warnings


def _replace_calls(message: Message, calls: Mapping[int, ToolCall]) -> Message:
    if not any(id(part) in calls for part in message.parts):
        return message
    return replace(message, parts=tuple(calls.get(id(part), part) for part in message.parts))
