"""A conversation of the vocabulary as Qwen-Agent messages: one payload a message."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from app.chat.messages import Media, Message, Reasoning, Text, ToolCall, ToolResult
from app.errors import Violation
from app.formats.qwen.sidecar import OF_CALL, collect_notes

_ROLES = {"system": "system", "user": "user", "assistant": "assistant", "tool": "function"}


def write_messages(messages: Sequence[Message]) -> tuple[list[dict[str, Any]], list[Violation]]:
    """(messages, losses). What has no key of its own rides in `extra`; only the order has rules that may be broken."""
    names: dict[str | None, str] = {}
    out: list[dict[str, Any]] = []
    for message in messages:
        names |= {part.id: part.name for part in message.parts if isinstance(part, ToolCall) and part.id}
        out += _split(message, names)
    return out, [*_find_order_losses(messages), *_find_unnamed_results(messages, names)]


def _find_order_losses(messages: Sequence[Message]) -> list[Violation]:
    """What Qwen-Agent refuses of a list: a second system message, and an assistant before a user."""
    systems = [one for one in messages if one.role == "system"]
    found = [Violation(one.path, "Qwen-Agent takes only one system message") for one in systems[1:]]
    first = next((one for one in messages if one.role != "system"), None)
    if first is not None and first.role != "user":
        found.append(Violation(first.path, "Qwen-Agent takes no list in which the user does not speak first"))
    return found


def _find_unnamed_results(messages: Sequence[Message], names: Mapping[str | None, str]) -> Iterator[Violation]:
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolResult) and not (part.name or names.get(part.id)):
                yield Violation(message.path, "Qwen-Agent takes no result of a function without a name")


def _split(message: Message, names: Mapping[str | None, str]) -> list[dict[str, Any]]:
    """Reasoning, content, calls, each in a message of its own. A result has the name of its call: `names`, by id."""
    out: list[dict[str, Any]] = []
    said: list[Text | Media] = []
    for part in message.parts:
        if isinstance(part, Text | Media):
            said.append(part)
        elif isinstance(part, Reasoning):
            out.append(_message(message, "", reasoning_content=part.text))
        elif isinstance(part, ToolCall):
            if said:
                out.append(_message(message, _content(said), extra=collect_notes(said)))
                said = []
            out.append(_call(message, part))
        else:
            out.append(_result(message, part, names))
    if said or not out:
        out.append(_message(message, _content(said), extra=collect_notes(said)))
    return out


def _message(message: Message, content: Any, **fields: Any) -> dict[str, Any]:
    own = fields.pop("extra", {})
    body: dict[str, Any] = {"role": _ROLES[message.role], "content": content, **fields}
    if message.name and "name" not in body:
        body["name"] = message.name
    extra = dict(message.extra) | ({"turn": message.turn} if message.turn else {}) | own
    return body | ({"extra": extra} if extra else {})


def _call(message: Message, part: ToolCall) -> dict[str, Any]:
    extra = {OF_CALL: part.extra[OF_CALL]} if OF_CALL in part.extra else {}
    extra |= ({"function_id": part.id} if part.id else {}) | collect_notes((), part)
    return _message(message, "", function_call={"name": part.name, "arguments": part.arguments}, extra=extra)


def _result(message: Message, part: ToolResult, names: Mapping[str | None, str]) -> dict[str, Any]:
    extra: dict[str, Any] = ({"function_id": part.id} if part.id else {}) | collect_notes(part.content)
    if part.is_error is not None:
        extra["is_error"] = part.is_error
    name = part.name or names.get(part.id)
    body = _message(message, _content(part.content), name=name, extra=extra)
    return body if name else {key: value for key, value in body.items() if key != "name"}


def _content(said: Sequence[Text | Media]) -> str | list[dict[str, Any]]:
    if not said:
        return ""
    if len(said) == 1 and isinstance(said[0], Text):
        return said[0].text
    return [_item(part) for part in said]


def _item(part: Text | Media) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"text": part.text}
    if part.media == "video" and part.frames:
        return {"video": list(part.urls)}
    if part.media == "audio" and part.format:
        return {"audio": {"data": part.urls[0], "format": part.format}}
    return {part.media: part.urls[0]}
