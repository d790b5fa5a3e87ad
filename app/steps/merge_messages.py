"""Merges messages into one. Each text is joined once, however many messages there are."""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from app.chat.messages import ChatRequest, Message, Part, Reasoning, Text
from app.openai_messages.grouping import group_messages
from app.profiles import Profile

BREAK = "\n\n"


def merge_parts(runs: Iterable[Sequence[Part]]) -> tuple[Part, ...]:
    """Concatenate the parts of several messages. Two texts that meet become one, with a blank line between them, unless
    a cache mark ends the first."""
    merged: list[Part] = []
    meeting: list[str] = []
    """The texts that become the last part when no other text can meet them."""

    def join() -> None:
        if meeting:
            merged[-1] = replace(merged[-1], text=BREAK.join(text for text in meeting if text))
            meeting.clear()

    for run in runs:
        last, first = merged[-1] if merged else None, run[0] if run else None
        if not isinstance(last, Text) or not isinstance(first, Text):
            rest = run
        elif last.mark:
            rest = (replace(first, text=BREAK + first.text), *run[1:]) if first.text else run[1:]
        else:
            meeting += [first.text] if meeting else [last.text, first.text]
            merged[-1], rest = first, run[1:]
        if rest:
            join()
            merged += rest
    join()
    return tuple(merged)


def merge_messages(messages: Sequence[Message]) -> Message:
    """Merge one or more messages. The role and path are the first one's; name and turn are kept only if they are
    equal."""
    first = messages[0]
    if len(messages) == 1:
        return first
    return replace(
        first,
        parts=merge_parts(message.parts for message in messages),
        name=first.name if all(message.name == first.name for message in messages) else None,
        turn=first.turn if all(message.turn == first.turn for message in messages) else None,
        extra=_merge_extra(messages),
    )


def _merge_extra(messages: Sequence[Message]) -> dict[str, object]:
    extra = {key: value for message in messages for key, value in message.extra.items()}
    details = [message.extra.get("reasoning_details") for message in messages]
    if isinstance(extra.get("reasoning_details"), list):
        extra["reasoning_details"] = [item for items in details if isinstance(items, list) for item in items]
    return extra


def drop_empty_turns(request: ChatRequest) -> ChatRequest:
    """Drop empty assistant messages.

    Empty user and system messages are kept. If every message is an empty assistant message, all are kept, and
    `write_openai_messages` refuses them.
    """
    kept = tuple([one for one in request.messages if one.role != "assistant" or not is_empty_turn(one)])
    return replace(request, messages=kept) if 0 < len(kept) < len(request.messages) else request


def is_empty_turn(message: Message, *, reasoning_is_sent: bool = True) -> bool:
    """Return whether this is an assistant message without content; `reasoning_details` count as content."""
    if message.role != "assistant" or message.extra.get("reasoning_details"):
        return False
    for part in message.parts:
        is_unsent = isinstance(part, Reasoning) and not reasoning_is_sent
        if not is_unsent and not (isinstance(part, (Text, Reasoning)) and not part.text):
            return False
    return True


def drop_thought_only_turns(request: ChatRequest, profile: Profile) -> tuple[ChatRequest, list[str]]:
    """Drop assistant turns that have only reasoning, if the server refuses them; return (the request, warnings).

    If nothing else is left, all are kept, and the server decides.
    """
    if profile.thought_only_turns or not any(map(_is_thought, request.messages)):
        return request, []
    dropped = [
        group
        for group in group_messages(request.messages)[0]
        if group.role == "assistant" and not group.texts and not group.calls
    ]
    sources = {id(message) for group in dropped for message in group.sources}
    kept = tuple(message for message in request.messages if id(message) not in sources)
    if not dropped or not kept:
        return request, []
    reason = "was not sent: it has only reasoning, and this model's server refuses a turn without text and calls"
    warnings = [f"{group.sources[0].path} {reason}" for group in dropped]
    return replace(request, messages=kept), warnings


def _is_thought(message: Message) -> bool:
    return message.role == "assistant" and all(isinstance(part, Reasoning) for part in message.parts)
