"""Messages of a conversation with AutoGen's agents."""

from typing import Any

from app.chat.messages import Media, Message, Part, Text, ToolResult


def make_message(role: Any, *parts: Part, name: str | None = None, **fields: Any) -> Message:
    return Message(role, parts, name, **fields)


def answer(*parts: Part, **fields: Any) -> Message:
    return make_message("assistant", *parts, name="a", **fields)


def result(id_: str | None, *content: Text | Media, name: str = "f") -> Message:
    return Message("tool", (ToolResult(content, name, id_),), name)


def kinds(items: list[Any]) -> list[str]:
    return [one["type"] for one in items]
