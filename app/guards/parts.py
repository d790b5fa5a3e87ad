"""The parts of a conversation that guards are asked about, and a conversation with other texts in their places."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from app.chat.messages import Media, Message, Reasoning, Text, Tool, ToolCall, ToolResult
from app.guards.rules import GuardRule
from app.guards.verdicts import Group, PartKind, Place, TextPart

JSON_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_OF_TOOLS = -1
"""The message number in the `Place` of a tool: no message has it."""


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
    messages: Sequence[Message],
    first: int,
    last_answer: int,
    rule: GuardRule,
    tools: Sequence[Tool] = (),
    text_kind: PartKind = "text",
) -> Iterator[tuple[Place, TextPart]]:
    """Yield the parts that a guard is asked about, of messages of which the first has this number, and of tools."""
    for number, tool in enumerate(tools if rule.sends_tools else ()):
        text = msgspec.json.encode({"type": "function", "function": tool.schema}).decode()
        yield Place(_OF_TOOLS, number), TextPart(f"tools[{number}]", "system", "tool", text, "A", tool.name)
    for number, message in enumerate(messages, first):
        for index, part in enumerate(message.parts):
            group: Group = "C" if number <= last_answer else "B" if isinstance(part, ToolResult) else "A"
            at, id_, role = Place(number, index), f"messages[{number}].content[{index}]", message.role
            match part:
                case Text():
                    yield at, TextPart(id_, role, text_kind, part.text, group)
                case Reasoning() if rule.reasoning == "check":
                    yield at, TextPart(id_, role, "reasoning", part.text, group)
                case ToolCall():
                    yield at, TextPart(id_, role, "arguments", part.arguments, group, part.name, part.id)
                case ToolResult():
                    yield from _list_contents(part, at, TextPart(id_, role, "result", "", group), rule)
                case Media() if rule.sends_images and part.media == "image":
                    yield at, TextPart(id_, role, "image", part.urls[0], group, part.name)
                case _:
                    pass


def _list_contents(
    result: ToolResult, place: Place, whole: TextPart, rule: GuardRule
) -> Iterator[tuple[Place, TextPart]]:
    """Yield the parts of a result; `whole` is one for all of it, without its text."""
    for index, item in enumerate(result.content):
        at, id_ = Place(place.message, place.part, index), f"{whole.id}.content[{index}]"
        if isinstance(item, Text):
            yield at, TextPart(id_, whole.role, "result", item.text, whole.group, result.name, result.id)
        elif rule.sends_images and item.media == "image":
            yield at, TextPart(id_, whole.role, "image", item.urls[0], whole.group, item.name)


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


def show_arguments(part: TextPart) -> TextPart:
    """Return the arguments of a call without escapes that JSON does not need: what runs the call reads what they stand
    for, so a guard must, too."""
    if part.kind != "arguments" or "\\" not in part.text:
        return part
    return replace(part, text=JSON_STRING.sub(lambda found: _write_string(found.group()), part.text))


def _write_string(quoted: str) -> str:
    """Return a string of JSON with as few escapes as possible; as it is, if it is none or has half a surrogate pair."""
    try:
        plain = json.dumps(json.loads(quoted, strict=False), ensure_ascii=False)
        return plain if plain.encode() else quoted
    except ValueError:
        return quoted


def write_withheld(part: TextPart, guard: str, reason: str) -> str:
    """Return what stands in the place of a part that a guard refuses."""
    text = f"[withheld by policy {guard}: {reason}]"
    return msgspec.json.encode({"withheld": text}).decode() if part.kind == "arguments" else text
