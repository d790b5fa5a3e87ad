"""Merges messages into one. Each text is joined once, however many messages there are."""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from app.chat.messages import Message, Part, Text

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
