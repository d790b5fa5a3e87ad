"""Two messages said in one."""

from dataclasses import replace

from app.chat.messages import Message, Part, Text

BREAK = "\n\n"


def merge_parts(first: tuple[Part, ...], second: tuple[Part, ...]) -> tuple[Part, ...]:
    """Both in order; texts that meet become one, a blank line between them. What is to be cached ends with its part."""
    if first and second and isinstance(first[-1], Text) and isinstance(second[0], Text):
        if first[-1].mark:
            return (*first, replace(second[0], text=BREAK + second[0].text), *second[1:]) if second[0].text else first
        meeting = BREAK.join(text for text in (first[-1].text, second[0].text) if text)
        return (*first[:-1], Text(meeting, second[0].mark), *second[1:])
    return first + second


def merge_messages(first: Message, second: Message) -> Message:
    """The two as one message of the first one's role and place; what they do not share in name and turn is lost."""
    return replace(
        first,
        parts=merge_parts(first.parts, second.parts),
        name=first.name if first.name == second.name else None,
        turn=first.turn if first.turn == second.turn else None,
        extra=_merge_extra(first, second),
    )


def _merge_extra(first: Message, second: Message) -> dict[str, object]:
    extra = {**first.extra, **second.extra}
    ours, theirs = first.extra.get("reasoning_details"), second.extra.get("reasoning_details")
    if isinstance(ours, list) and isinstance(theirs, list):
        extra["reasoning_details"] = ours + theirs
    return extra
