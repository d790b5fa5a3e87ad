"""Divides a conversation into a beginning, which is prepared and written once, and the rest, because an agent sends its
conversation again with each request.

Preparing the two parts one after the other gives what preparing the whole gives. This holds where no step looks at
both: the conversation is not truncated, has no media, gets no text of the gateway, and its beginning ends between two
turns and causes no warning, unless that of a call or result that was repaired in it.
"""

from collections.abc import Sequence
from itertools import takewhile
from operator import is_

import msgspec
from msgspec.structs import replace

from app.chat.known_conversation import CHANGED_MESSAGES
from app.chat.messages import (
    Beginning,
    ChatRequest,
    Media,
    Message,
    Part,
    Text,
    TokenCounter,
    ToolCall,
    ToolResult,
)
from app.errors import ParleyError
from app.openai_messages.grouping import find_unmatched_calls
from app.openai_messages.messages import WriteBeginning
from app.profiles import Profile
from app.steps.json_format import is_enforced
from app.steps.media.requests import is_sent_unchanged
from app.steps.pipeline import prepare_repaired, repair_request
from app.steps.prompted_tools import uses_prompted_tools
from app.steps.truncation.truncate import input_limit

MIN_MESSAGES = 16
"""Shorter conversations are not divided: it would cost as much as it saves."""
_encode = msgspec.json.Encoder().encode


def divide(request: ChatRequest, profile: Profile, counter: TokenCounter, write: WriteBeginning) -> ChatRequest:
    """Return the rest of the request's conversation after its beginning, which `write` writes; the whole request if it
    cannot be divided, or nothing is remembered."""
    known, messages = request.known, request.messages
    if known is None or len(messages) < MIN_MESSAGES or not _is_divisible(request, profile):
        return request
    what = (write, id(profile), request.text_joiner, request.policy)
    found = known.find(what, messages)
    before: Beginning | None = None if found is None else found[1]
    if before is not None and not _has_entries(request, before):
        before = None
    if before is not None and not _begins_turn(messages, len(before.messages)):
        before = None
    start = 0 if before is None else len(before.messages)
    end = _find_end(messages, start)
    if end > start:
        extended = _extend(request, profile, counter, write, before, end)
        if extended is not None:
            before = extended
            known.keep(what, before.messages, (profile, before))
    if before is None:
        return request
    rest = messages[len(before.messages) :]
    if not _is_plain(rest, request, profile, before) or all(message.role == "assistant" for message in rest):
        return request
    return _cut(request, before, len(before.messages), len(messages))


def _cut(request: ChatRequest, before: Beginning | None, start: int, end: int) -> ChatRequest:
    """Return the request with only the messages from a place up to another."""
    source = None if request.source is None else request.source.cut(start, end)
    return replace(request, messages=request.messages[start:end], source=source, before=before)


def _has_entries(request: ChatRequest, before: Beginning) -> bool:
    """Whether the client's own entries are those of the beginning. What differs in them may be in no message."""
    given = () if request.source is None else request.source.entries
    return len(before.entries) <= len(given) and all(map(is_, before.entries, given))


def _is_divisible(request: ChatRequest, profile: Profile) -> bool:
    """Whether no step for this server looks at the whole conversation."""
    return (
        uses_prompted_tools(request, profile) is None
        and (request.source is None or not request.source.unsent)
        and input_limit(request.params, profile) is None
        and is_enforced(request, profile)
        and (not profile.default_system or _says_system(request.messages[0]))
    )


def _says_system(message: Message) -> bool:
    """Whether this is a system message that is sent: an empty one is dropped."""
    return message.role == "system" and any(map(_is_said, message.parts))


def _find_end(messages: Sequence[Message], start: int) -> int:
    """Return the last place after `start` at which the conversation can be divided, else `start`."""
    places = range(len(messages) - CHANGED_MESSAGES, start, -1)
    return next((place for place in places if _begins_turn(messages, place)), start)


def _begins_turn(messages: Sequence[Message], place: int) -> bool:
    """Whether messages of the assistant begin at this place, after others, and say something."""
    if place >= len(messages) or messages[place - 1].role not in ("user", "tool"):
        return False
    turn = takewhile(lambda message: message.role == "assistant", messages[place:])
    return any(_is_said(part) for message in turn for part in message.parts)


def _is_said(part: Part) -> bool:
    return type(part) is ToolCall or (type(part) is Text and bool(part.text.strip()))


def _extend(
    request: ChatRequest,
    profile: Profile,
    counter: TokenCounter,
    write: WriteBeginning,
    before: Beginning | None,
    end: int,
) -> Beginning | None:
    """Return the beginning up to this place; None if it does not end between turns, or needs more than its messages."""
    start = 0 if before is None else len(before.messages)
    part = request.messages[start:end]
    if not _is_plain(part, request, profile, before):
        return None
    if before is None and not any(message.role == "user" for message in part):
        return None  # the text of the system may go into the first message of the user
    repairs = () if before is None else before.warnings
    try:
        repaired, more = repair_request(_cut(request, before, start, end), profile)
        prepared, warnings = prepare_repaired(repaired, [], profile, counter, {})
    except ParleyError:
        return None
    if prepared.messages and prepared.messages[-1].role == "assistant":
        return None  # a text that was moved behind results, which the next turn may be merged with
    written = None if len(warnings) > len(repairs) else write(prepared, profile)
    if written is None or not written.messages:
        return None
    text = _encode(written.messages)[1:-1]
    if before is not None:
        text, head = b"%b,%b" % (before.written, text), before.head
    else:
        roles = [message.get("role") for message in written.messages]
        if "user" not in roles:
            return None
        head = tuple(written.messages[: roles.index("user") + 1])
    entries = () if request.source is None else request.source.cut(0, end).entries
    told = (*repairs, *more)
    return Beginning(request.messages[:end], written.calls, text, head, written.state, told, entries)


def _is_plain(messages: Sequence[Message], request: ChatRequest, profile: Profile, before: Beginning | None) -> bool:
    """Whether the messages have no media that are rewritten, no system message that is sent at another place than its
    own, and no result of a call that was repaired before them."""
    if before is not None and before.warnings and not _has_own_results(messages, before):
        return False
    moves_system = before is not None and profile.system not in ("anywhere", "then_user")
    for message in messages:
        if moves_system and message.role == "system":
            return False
        for part in message.parts:
            if type(part) is Media and not _stays(part, request, profile):
                return False
            if type(part) is ToolResult:
                for one in part.content:
                    if type(one) is Media and not _stays(one, request, profile):
                        return False
    return True


def _has_own_results(messages: Sequence[Message], before: Beginning) -> bool:
    """Whether each result names a call of these messages."""
    results = [part for message in messages for part in message.parts if type(part) is ToolResult]
    return all([result.id for result in results]) and not find_unmatched_calls(messages, before.calls).results


def _stays(part: Media, request: ChatRequest, profile: Profile) -> bool:
    """Whether a medium is part of a client's own entry, which nothing changes."""
    return request.source is not None and profile.tool_media and is_sent_unchanged(part, request, profile)
