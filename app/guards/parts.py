"""The parts of a conversation that guards are asked about, and a conversation with other texts in their places."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from app.chat.messages import Media, Message, Reasoning, Text, ToolCall, ToolResult
from app.guards.rules import GuardRule
from app.guards.verdicts import Group, TextPart


class Place(Struct, frozen=True):
    """Where a part is: the number of its message, of the part in it, and of the content of a result."""

    message: int
    part: int
    content: int = -1


def find_last_answer(messages: Sequence[Message]) -> int:
    """Return the place of the last turn of the assistant that has something behind it; -1 if there is none."""
    end = len(messages)
    while end and messages[end - 1].role == "assistant":
        end -= 1
    while end and messages[end - 1].role != "assistant":
        end -= 1
    return end - 1


def find_question(messages: Sequence[Message]) -> int:
    """Return the place of the newest text of the user; -1 if there is none."""
    places = range(len(messages) - 1, -1, -1)
    return next((at for at in places if messages[at].role == "user" and _has_text(messages[at])), -1)


def _has_text(message: Message) -> bool:
    return any(isinstance(part, Text) for part in message.parts)


def list_parts(
    messages: Sequence[Message], first: int, last_answer: int, rule: GuardRule
) -> Iterator[tuple[Place, TextPart]]:
    """Yield the parts of messages, of which the first has this number, that a guard is asked about."""
    for offset, message in enumerate(messages):
        number = first + offset
        is_new = number > last_answer
        for index, part in enumerate(message.parts):
            id_ = f"messages[{number}].content[{index}]"
            group: Group = ("B" if isinstance(part, ToolResult) else "A") if is_new else "C"
            match part:
                case Text():
                    yield Place(number, index), TextPart(id_, message.role, "text", part.text, group)
                case Reasoning() if rule.reasoning == "check":
                    yield Place(number, index), TextPart(id_, message.role, "reasoning", part.text, group)
                case ToolCall():
                    made = TextPart(id_, message.role, "arguments", part.arguments, group, part.name, part.id)
                    yield Place(number, index), made
                case ToolResult():
                    for place, item in enumerate(part.content):
                        if isinstance(item, Text):
                            inner = f"{id_}.content[{place}]"
                            made = TextPart(inner, message.role, "result", item.text, group, part.name, part.id)
                            yield Place(number, index, place), made
                        elif rule.sends_images and item.media == "image":
                            inner = f"{id_}.content[{place}]"
                            made = TextPart(inner, message.role, "image", item.urls[0], group, item.name)
                            yield Place(number, index, place), made
                case Media() if rule.sends_images and part.media == "image":
                    yield Place(number, index), TextPart(id_, message.role, "image", part.urls[0], group, part.name)
                case _:
                    pass


def replace_texts(messages: Sequence[Message], first: int, new: Mapping[Place, str]) -> list[Message]:
    """Return the messages, of which the first has this number, with new texts in these places."""
    by_message: dict[int, dict[Place, str]] = {}
    for place, text in new.items():
        by_message.setdefault(place.message, {})[place] = text
    return [
        _replace_in(message, by_message[first + offset]) if first + offset in by_message else message
        for offset, message in enumerate(messages)
    ]


def _replace_in(message: Message, new: Mapping[Place, str]) -> Message:
    parts = list(message.parts)
    extra = message.extra
    for place, text in new.items():
        part = parts[place.part]
        if isinstance(part, Text):
            parts[place.part] = replace(part, text=text)
        elif isinstance(part, Reasoning):
            # What a server has signed or encrypted holds the text that was replaced.
            parts[place.part] = replace(part, text=text)
            extra = {name: value for name, value in extra.items() if name not in OPAQUE_REASONING}
        elif isinstance(part, ToolCall):
            parts[place.part] = replace(part, arguments=text)
        elif isinstance(part, ToolResult):
            content = list(part.content)
            content[place.content] = _replace_content(content[place.content], text)
            parts[place.part] = replace(part, content=tuple(content))
        else:
            parts[place.part] = Text(text)
    return replace(message, parts=tuple(parts), extra=extra)


def _replace_content(item: Text | Media, text: str) -> Text:
    return replace(item, text=text) if isinstance(item, Text) else Text(text)


OPAQUE_REASONING = ("reasoning_details", "thinking_blocks", "reasoning_signature")


def write_withheld(part: TextPart, guard: str, reason: str) -> str:
    """Return what stands in the place of a part that a guard refuses."""
    text = f"[withheld by policy {guard}: {reason}]"
    return msgspec.json.encode({"withheld": text}).decode() if part.kind == "arguments" else text
