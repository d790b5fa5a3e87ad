"""Writes a conversation as Qwen-Agent messages, with one payload each."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from app.chat.messages import Media, Message, Reasoning, Text, ToolCall, ToolResult
from app.errors import Violation
from app.formats.qwen.sidecar import EXTRA_CONTENT, collect_notes

_ROLES = {"system": "system", "user": "user", "assistant": "assistant", "tool": "function"}


def write_messages(messages: Sequence[Message]) -> tuple[list[dict[str, Any]], list[Violation]]:
    """Return (messages, losses).

    Fields without a key are kept in `extra`; the losses are messages that Qwen-Agent would refuse.
    """
    names: dict[str | None, str] = {}
    out: list[dict[str, Any]] = []
    for message in messages:
        names |= {part.id: part.name for part in message.parts if isinstance(part, ToolCall) and part.id}
        out += _split(message, names)
    return out, [*_find_order_losses(messages), *_find_unnamed_results(messages, names)]


def _find_order_losses(messages: Sequence[Message]) -> list[Violation]:
    """Find what Qwen-Agent refuses: a second system message, and an assistant message before any user message."""
    systems = [message for message in messages if message.role == "system"]
    found = [Violation(message.path, "Qwen-Agent accepts only one system message") for message in systems[1:]]
    first = next((message for message in messages if message.role != "system"), None)
    if first is not None and first.role != "user":
        found.append(Violation(first.path, "Qwen-Agent requires a user message before all other messages"))
    return found


def _find_unnamed_results(messages: Sequence[Message], names: Mapping[str | None, str]) -> Iterator[Violation]:
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolResult) and not (part.name or names.get(part.id)):
                yield Violation(message.path, "Qwen-Agent requires a function name on a result")


def _split(message: Message, names: Mapping[str | None, str]) -> list[dict[str, Any]]:
    """Split a message into one for each payload. `names` has the function's name by call id, for the results."""
    out: list[dict[str, Any]] = []
    content: list[Text | Media] = []
    for part in message.parts:
        if isinstance(part, Text | Media):
            content.append(part)
            continue
        if content and isinstance(part, Reasoning | ToolCall):
            out.append(_message(message, _content(content), extra=collect_notes(content)))
            content = []
        if isinstance(part, Reasoning):
            out.append(_message(message, "", reasoning_content=part.text))
        elif isinstance(part, ToolCall):
            out.append(_call(message, part))
        else:
            out.append(_result(message, part, names))
    if content or not out:
        out.append(_message(message, _content(content), extra=collect_notes(content)))
    return out


def _message(message: Message, content: Any, **fields: Any) -> dict[str, Any]:
    notes = fields.pop("extra", {})
    body: dict[str, Any] = {"role": _ROLES[message.role], "content": content, **fields}
    if message.name and "name" not in body:
        body["name"] = message.name
    extra = dict(message.extra) | ({"turn": message.turn} if message.turn else {}) | notes
    return body | ({"extra": extra} if extra else {})


def _call(message: Message, part: ToolCall) -> dict[str, Any]:
    extra = {EXTRA_CONTENT: part.extra[EXTRA_CONTENT]} if EXTRA_CONTENT in part.extra else {}
    extra |= ({"function_id": part.id} if part.id else {}) | collect_notes((), part)
    return _message(message, "", function_call={"name": part.name, "arguments": part.arguments}, extra=extra)


def _result(message: Message, part: ToolResult, names: Mapping[str | None, str]) -> dict[str, Any]:
    extra: dict[str, Any] = ({"function_id": part.id} if part.id else {}) | collect_notes(part.content)
    if part.is_error is not None:
        extra["is_error"] = part.is_error
    name = part.name or names.get(part.id)
    body = _message(message, _content(part.content), name=name, extra=extra)
    return body if name else {key: value for key, value in body.items() if key != "name"}


def _content(parts: Sequence[Text | Media]) -> str | list[dict[str, Any]]:
    if not parts:
        return ""
    if len(parts) == 1 and isinstance(parts[0], Text):
        return parts[0].text
    return [_item(part) for part in parts]


def _item(part: Text | Media) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"text": part.text}
    if part.media == "video" and part.frames:
        return {"video": list(part.urls)}
    if part.media == "audio" and part.format:
        return {"audio": {"data": part.urls[0], "format": part.format}}
    return {part.media: part.urls[0]}
