"""A conversation of the vocabulary as OpenAI messages, and what OpenAI's form cannot say of it."""

from collections.abc import Sequence
from typing import Any

from app.chat.messages import Media, Message, Text, ToolResult
from app.errors import Violation
from app.grouping import Group, groups

_UNSAID = {"message_id": "its id", "created_at": "its time", "usage": "what it cost"}
_SAID = frozenset({"reasoning_details", "arguments_valid"})
_KEPT = ("agentscope", "agentscope2", "autogen")
"""Of `extra`: the item of another format that a message was read from."""
_BESIDE = ("autogen_before", "autogen_after")
_READ = frozenset({"id", "name", "source", "role", "content", "type", "timestamp", "created_at", "models_usage"})
"""Keys of such an item that are a field of the message, or stand in `extra` by themselves."""


def history(messages: Sequence[Message]) -> tuple[list[dict[str, Any]], list[Violation]]:
    """(messages, losses)."""
    grouped, losses = groups(messages)
    losses = list(losses)
    for message in messages:
        losses += _losses(message)
    return [item for one in grouped for item in _messages(one)], list(dict.fromkeys(losses))


def _losses(message: Message) -> list[Violation]:
    found = []
    for part in message.parts:
        if isinstance(part, ToolResult):
            if part.is_error:
                found.append(Violation(message.path, "that the result is an error cannot be said"))
            if any(isinstance(item, Media) for item in part.content):
                found.append(Violation(message.path, "media in a tool result moved into a user message after it"))
    unsaid = [_UNSAID.get(key, key) for key in sorted(set(message.extra) - _SAID - {*_KEPT, *_BESIDE})]
    unsaid += [key for kept in _KEPT for key in _unread(message.extra.get(kept)) if key not in unsaid]
    if unsaid:
        found.append(Violation(message.path, f"{', '.join(unsaid)} cannot be said"))
    count = sum(len(items) for key in _BESIDE if isinstance(items := message.extra.get(key), list))
    if count:
        found.append(Violation(message.path, f"{count} of the items beside it are no messages and cannot be said"))
    return found


def _unread(kept: Any) -> list[str]:
    """The keys of a kept item that say something nobody read."""
    raw = kept.get("raw") if isinstance(kept, dict) else None
    if not isinstance(raw, dict):
        return []
    metadata = raw.get("metadata")
    own = isinstance(metadata, dict) and metadata.keys() <= {"kind", "parley"}
    said = _READ | ({"metadata"} if own else set())
    return sorted(key for key, value in raw.items() if key not in said and value not in (None, "", [], {}))


def _messages(one: Group) -> list[dict[str, Any]]:
    message: dict[str, Any] = {"role": one.role}
    if one.name:
        message["name"] = one.name
    content = _content([part for said in one.texts for part in said])
    if one.role == "assistant" and one.calls and not content:
        content = None
    message["content"] = content
    if one.reasonings:
        message["reasoning_content"] = "\n".join(one.reasonings)
    if one.details:
        message["reasoning_details"] = one.details
    if one.calls:
        message["tool_calls"] = [
            {
                "id": issued.id,
                "type": "function",
                "function": {"name": issued.call.name, "arguments": issued.call.arguments},
                **issued.call.extra,
            }
            for issued in one.calls
        ]
    return [message, *_results(one)]


def _results(one: Group) -> list[dict[str, Any]]:
    """Tool messages hold text; their media follow all of them in one message of the user, as a model is sent them."""
    out: list[dict[str, Any]] = []
    labelled: list[Text | Media] = []
    for id_, result in one.results:
        lines = []
        for part in result.content:
            if isinstance(part, Text):
                lines.append(part.text)
            else:
                number = len(labelled) // 2 + 1
                labelled += [Text(f"[{part.media} {number}]"), part]
                lines.append(f"[{part.media} {number}: see below]")
        out.append({"role": "tool", "tool_call_id": id_, "content": "\n".join(lines)})
    if labelled:
        out.append({"role": "user", "content": _content(labelled)})
    return out


def _content(parts: list[Text | Media]) -> Any:
    if not parts:
        return ""
    if len(parts) == 1 and isinstance(parts[0], Text):
        return parts[0].text
    return [_part(part) for part in parts]


def _part(part: Text | Media) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    url = part.urls[0]
    match part.media:
        case "image":
            return {"type": "image_url", "image_url": _with({"url": url}, detail=part.detail)}
        case "audio":
            return {"type": "input_audio", "input_audio": _with({"data": url}, format=part.format)}
        case "file":
            return {"type": "file", "file": _with({"file_data": url}, filename=part.name)}
    if part.frames:
        return {"type": "video", "video": list(part.urls)}
    return {"type": "video_url", "video_url": {"url": url}}


def _with(body: dict[str, Any], **fields: str | None) -> dict[str, Any]:
    return body | {key: value for key, value in fields.items() if value is not None}
