"""Merges two messages into one."""

from msgspec.structs import replace

from app.chat.messages import Message, Part, Text

BREAK = "\n\n"


def merge_parts(first: tuple[Part, ...], second: tuple[Part, ...]) -> tuple[Part, ...]:
    """Concatenate the parts. Two adjacent texts become one, with a blank line between them, unless a cache mark ends
    the first."""
    if first and second and isinstance(first[-1], Text) and isinstance(second[0], Text):
        if first[-1].mark:
            return (*first, replace(second[0], text=BREAK + second[0].text), *second[1:]) if second[0].text else first
        meeting = BREAK.join(text for text in (first[-1].text, second[0].text) if text)
        return (*first[:-1], Text(meeting, second[0].mark), *second[1:])
    return first + second


def merge_messages(first: Message, second: Message) -> Message:
    """Merge two messages. The role and path are the first one's; name and turn are kept only if they are equal."""
    return replace(
        first,
        parts=merge_parts(first.parts, second.parts),
        name=first.name if first.name == second.name else None,
        turn=first.turn if first.turn == second.turn else None,
        extra=_merge_extra(first, second),
    )


def _merge_extra(first: Message, second: Message) -> dict[str, object]:
    extra = {**first.extra, **second.extra}
    earlier, later = first.extra.get("reasoning_details"), second.extra.get("reasoning_details")
    if isinstance(earlier, list) and isinstance(later, list):
        extra["reasoning_details"] = earlier + later
    return extra
