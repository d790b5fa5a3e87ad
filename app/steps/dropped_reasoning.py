"""Finds tool calls of a history whose reasoning or signature the client dropped, and puts it back.

Some servers refuse a tool turn without the reasoning that led to it (DeepSeek, Kimi) or without its signature (Gemini),
or answer worse, and most clients do not return them. The gateway keeps them under a key of each call: the call's id,
its name and its arguments. An id that ends in a counter (`call_0`, `functions.f:1`) comes again in later replies, so
its key also has the text of the message that the reply answered.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from app.chat.known_conversation import KnownConversation, find_end, gather
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
    end: int
    """The position after its last message."""
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


def find_dropped_reasoning(
    messages: Sequence[Message], wanted: Wanted, known: KnownConversation | None = None
) -> Sequence[DroppedReasoning]:
    """Return the turns that lack something of what is wanted. Those of the beginning may be known."""

    def read(start: int, end: int) -> tuple[DroppedReasoning, ...]:
        return _list_dropped(messages, start, end, wanted)

    return gather((find_dropped_reasoning, wanted), read, messages, known, (), partial(_divides, messages))


def _divides(messages: Sequence[Message], place: int) -> bool:
    """Whether no turn goes on at this place."""
    return not messages[place - 1].role == messages[place].role == "assistant"


def _list_dropped(messages: Sequence[Message], start: int, end: int, wanted: Wanted) -> tuple[DroppedReasoning, ...]:
    """Return the turns between these places, at which no turn is divided."""
    part = messages[start:end]
    if not any(type(one) is ToolCall for message in part for one in message.parts):
        return ()
    places = {id(message): number for number, message in enumerate(part, start)}
    turns = [
        _make_dropped(group, messages, places[id(group.sources[0])], wanted)
        for group in group_messages(part)[0]
        if group.calls
    ]
    return tuple([turn for turn in turns if turn.lacks_reasoning or turn.lacks_signature or turn.lacks_details])


def _make_dropped(group: MessageGroup, messages: Sequence[Message], first: int, wanted: Wanted) -> DroppedReasoning:
    lacks_reasoning = wanted.reasoning and not group.reasonings and not group.details
    lacks_signature = wanted.signatures and not any(has_signature(one.call.extra) for one in group.calls)
    lacks_details = wanted.details and not group.details
    calls: dict[str, ToolCall] = {}
    if lacks_reasoning or lacks_signature or lacks_details:
        context = describe_context(messages, first)
        for one in group.calls:
            calls[make_key(one.call.id or "", one.call.name, one.call.arguments, context)] = one.call
    end, path = first + len(group.sources), messages[first].path
    return DroppedReasoning(first, end, path, calls, lacks_reasoning, lacks_signature, lacks_details)


def describe_context(messages: Sequence[Message], end: int | None = None) -> str:
    """Return the text of the last message of a user or a tool before this place: what the reply there answers."""
    for place in range(len(messages) if end is None else end, 0, -1):
        message = messages[place - 1]
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


class Restored(Struct, frozen=True):
    """Messages at the beginning of a conversation, with what was found for them."""

    messages: tuple[Message, ...] = ()
    warnings: tuple[str, ...] = ()
    """One for each turn and kind of what was found."""


def find_restored(request: ChatRequest, wanted: Wanted) -> Restored:
    """Return the beginning of a conversation as it was restored for an earlier request."""
    known = request.known
    return (None if known is None else known.find((restore_reasoning, wanted), request.messages)) or Restored()


def restore_reasoning(
    request: ChatRequest,
    dropped: Sequence[DroppedReasoning],
    found: Mapping[str, KeptParts],
    wanted: Wanted,
) -> tuple[ChatRequest, list[str]]:
    """Return the request with what was found, by the keys of calls, and a warning for each turn. `found` need not have
    what belongs to the beginning (`find_restored`)."""
    messages, before = request.messages, find_restored(request, wanted)
    if request.known is not None:
        end = find_end(len(before.messages), len(messages), partial(_divides, messages))
        if end > len(before.messages):
            before = _restore_part(before, messages, end, dropped, found)
            request.known.keep((restore_reasoning, wanted), messages[:end], before)
    restored = _restore_part(before, messages, len(messages), dropped, found)
    return (replace(request, messages=restored.messages), [*restored.warnings]) if restored.warnings else (request, [])


def _restore_part(
    before: Restored,
    given: Sequence[Message],
    end: int,
    dropped: Sequence[DroppedReasoning],
    found: Mapping[str, KeptParts],
) -> Restored:
    """Restore the messages after those that are restored, up to this place."""
    start, warnings = len(before.messages), [*before.warnings]
    messages = [*before.messages, *given[start:end]]
    for turn in dropped:
        if not start <= turn.first < end:
            continue
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
        signed = [
            (turn.calls[key], one.extra_content)
            for key, one in kept.items()
            if one.extra_content and turn.lacks_signature
        ]
        if signed:
            messages[turn.first : turn.end] = [_sign_calls(one, signed) for one in messages[turn.first : turn.end]]
            warnings.append(f"{turn.path}: the signature of this tool call was missing and was restored")
    return Restored(tuple(messages), tuple(warnings))


def _sign_calls(message: Message, signed: Sequence[tuple[ToolCall, Any]]) -> Message:
    """Return the message of a turn with the signatures of its calls."""
    parts = list(message.parts)
    for call, extra_content in signed:
        parts = [
            replace(call, extra={**call.extra, "extra_content": extra_content}) if part == call else part
            for part in parts
        ]
    return replace(message, parts=tuple(parts))
