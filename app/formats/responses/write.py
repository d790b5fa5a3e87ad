"""Writes a conversation as items of OpenAI's Responses API.

An assistant's message becomes one item for each of its parts. Ids that a message does not have are made from its
content, so that identical conversations give identical items. What a model's server wants back with reasoning or with a
call is in `encrypted_content` of a reasoning item.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Any, assert_never

from msgspec.structs import replace

from app.chat import datauri
from app.chat.messages import Media, Message, Reasoning, Text, ToolCall, ToolResult
from app.chat.turns import Turn
from app.errors import Violation
from app.formats.call_ids import fill_ids
from app.formats.losses import find_extra_losses
from app.formats.responses.tools import CALL_PREFIX, REQUEST_PREFIX
from app.formats.seal import Seal, write_seal
from app.formats.served_calls import find_served_ids, find_served_losses, is_served, join_result
from app.formats.sidecar import digest

_NO_FIELD = "cannot be written as items of the Responses API"
_WRITTEN_KEYS = frozenset({"reasoning_details", "extra_content", "arguments_valid", "developer", "refusal"})
_ID_DIGITS = 32
_NUMBERED = ("msg", "rs")
"""The beginnings of ids that are made from the content of their items."""


def write_items(messages: Sequence[Message]) -> tuple[list[dict[str, Any]], list[Violation]]:
    """Return (items, losses)."""
    filled = _fill_ids(messages)
    served = _ServedCalls(filled)
    items = [item for message in filled for item in _write_message(message, served)]
    losses = [loss for message in messages for loss in _find_losses(message, served.ids)]
    return _number_ids(items), list(dict.fromkeys([*losses, *_find_joined_turns(messages)]))


def _fill_ids(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with an id on every call and every result."""
    filled = iter(fill_ids([replace(message, parts=(part,)) for message in messages for part in message.parts]))
    return [replace(message, parts=tuple(next(filled).parts[0] for _ in message.parts)) for message in messages]


def _number_ids(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add ids to the items that need one: identical items at different places get different ids."""
    return [
        {"id": f"{item.pop('id')}_{digest([number, item], _ID_DIGITS)}", **item}
        if item.get("id") in _NUMBERED
        else item
        for number, item in enumerate(items)
    ]


class _ServedCalls:
    """The calls that a gateway ran. Each is one item with its result."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self.ids = find_served_ids(messages)
        self._results: dict[str | None, ToolResult] = {
            part.id: part for message in messages for part in message.parts if isinstance(part, ToolResult)
        }
        self._last = set(_find_ends(messages))
        """The ids of the last calls of turns."""

    def write(self, call: ToolCall) -> dict[str, Any]:
        item = {"server_label": call.server, "name": call.tool, "arguments": call.arguments}
        if call.awaits_approval:
            return {"id": f"{REQUEST_PREFIX}{call.id}", "type": "mcp_approval_request", **item}
        result = self._results.get(call.id)
        text = None if result is None else join_result(result)
        failed = result is not None and bool(result.is_error)
        content = [{"type": "text", "text": text or ""}]
        return {
            "id": f"{CALL_PREFIX}{call.id}",
            "type": "mcp_call",
            **item,
            "status": "failed" if failed else "incomplete" if result is None else "completed",
            "approval_request_id": None,
            "output": None if failed else text,
            "error": {"type": "mcp_tool_execution_error", "content": content} if failed else None,
            **({"parley": {"ends_turn": True}} if call.id in self._last else {}),
        }


def _find_ends(messages: Sequence[Message]) -> Iterator[str | None]:
    """Find the last call of each turn whose calls a gateway ran. One with other calls ends with their results."""
    calls: list[ToolCall] = []
    for message in messages:
        if message.role == "assistant":
            calls += (part for part in message.parts if isinstance(part, ToolCall))
            continue
        if calls and all(map(is_served, calls)):
            yield calls[-1].id
        calls = []


def _write_message(message: Message, served: _ServedCalls) -> list[dict[str, Any]]:
    if message.role == "assistant":
        return _write_assistant(message, served)
    results = [part for part in message.parts if isinstance(part, ToolResult)]
    if results or message.role == "tool":
        return [_write_result(result) for result in results if result.id not in served.ids]
    role = "developer" if message.extra.get("developer") is True and message.role == "system" else message.role
    content = [part for part in message.parts if isinstance(part, Text | Media)]
    return [{"type": "message", "role": role, "content": _write_content(content)}]


def _write_assistant(message: Message, served: _ServedCalls) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    run: list[Text | Media] = []
    refusal = message.extra.get("refusal") is True
    for part in message.parts:
        if isinstance(part, Text | Media):
            run.append(part)
            continue
        items += _write_text_item(run)
        run = []
        if isinstance(part, Reasoning):
            items.append(_make_reasoning([{"type": "reasoning_text", "text": part.text}]))
        elif isinstance(part, ToolCall) and part.server is not None:
            items.append(served.write(part))
        elif isinstance(part, ToolCall):
            call = {"type": "function_call", "call_id": part.id, "name": part.name, "arguments": part.arguments}
            items.append(call)
    items += _write_text_item(run, refusal=refusal)
    if not items:
        items = [{"id": "msg", **_message_item([])}]
    extra_content = message.extra.get("extra_content")
    texts = [item for item in items if item["type"] == "message"]
    if isinstance(extra_content, dict) and texts:
        texts[-1]["extra_content"] = extra_content
    return _add_seal(message, items)


def _add_seal(message: Message, items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add what the server wants back to the first reasoning item, or as an item of its own before the others."""
    details = message.extra.get("reasoning_details")
    details = details if isinstance(details, list) else []
    calls = {
        part.id: part.extra["extra_content"]
        for part in message.parts
        if isinstance(part, ToolCall) and part.id and part.extra.get("extra_content")
    }
    if not details and not calls:
        return items
    first = next((item for item in items if item["type"] == "reasoning"), None)
    if first is None:
        first = _make_reasoning([])
        items = [first, *items]
    text = "".join(part["text"] for part in first["content"])
    first["encrypted_content"] = write_seal(Seal(text, details, calls))
    return items


def _make_reasoning(content: list[dict[str, Any]]) -> dict[str, Any]:
    return {"id": "rs", "type": "reasoning", "summary": [], "content": content}


def _message_item(content: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "status": "completed", "content": content}


def _write_text_item(parts: "list[Text | Media]", *, refusal: bool = False) -> Iterator[dict[str, Any]]:
    if not parts:
        return
    content = [_write_output(part) for part in parts]
    last = parts[-1]
    if refusal and isinstance(last, Text):
        content[-1] = {"type": "refusal", "refusal": last.text}
    yield {"id": "msg", **_message_item(content)}


def _write_output(part: Text | Media) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "output_text", "text": part.text, "annotations": []}
    return _write_input(part)[0]


def _write_result(result: ToolResult) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": result.id, "output": _write_content(result.content)}


def _write_content(parts: "Sequence[Text | Media]") -> str | list[dict[str, Any]]:
    if not parts:
        return ""
    if len(parts) == 1 and isinstance(parts[0], Text) and parts[0].text:
        return parts[0].text
    return [written for part in parts for written in _write_input(part)]


def _write_input(part: Text | Media) -> list[dict[str, Any]]:
    if isinstance(part, Text):
        return [{"type": "input_text", "text": part.text}]
    url = part.urls[0]
    match part.media:
        case "image":
            return [_write_image(url, part.detail)]
        case "audio":
            return [{"type": "input_audio", "input_audio": _write_audio(part)}]
        case "file":
            key = "file_data" if datauri.is_data(url) else "file_url"
            return [{"type": "input_file", **({"filename": part.name} if part.name else {}), key: url}]
        case "video" if part.frames:
            return [_write_image(frame, None) for frame in part.urls]
        case "video":
            return [{"type": "input_video", "video_url": url}]
        case _:
            assert_never(part.media)


def _write_image(url: str, detail: str | None) -> dict[str, Any]:
    return {"type": "input_image", "image_url": url, "detail": detail or "auto"}


def _write_audio(part: Media) -> dict[str, Any]:
    """Write base64 and its format, as OpenAI does; a URL stays a URL."""
    url = part.urls[0]
    format_ = part.format
    if datauri.is_data(url):
        head = datauri.parse(url)
        format_ = format_ or datauri.AUDIO_FORMATS.get(head.media_type)
        url = url[head.start :] if head.base64 and format_ else url
    return {"data": url} | ({"format": format_} if format_ else {})


def _find_losses(message: Message, served: Collection[str | None]) -> Iterator[Violation]:
    if message.name and message.name != message.role and message.role != "tool":
        yield Violation(message.path, f"the name {message.name!r} {_NO_FIELD}")
    for part in message.parts:
        yield from find_served_losses(part, message.path, served)
        if isinstance(part, ToolResult) and part.is_error and part.id not in served:
            yield Violation(message.path, f"is_error {_NO_FIELD}")
        for one in part.content if isinstance(part, ToolResult) else (part,):
            if isinstance(one, Media) and one.frames:
                yield Violation(one.path or message.path, "the frames of a video are written as images")
    yield from find_extra_losses(message, _WRITTEN_KEYS, _NO_FIELD)


def _find_joined_turns(messages: Sequence[Message]) -> Iterator[Violation]:
    """Find turns of the assistant that directly follow another: the items of both are read as one turn."""
    turn: Turn | None = None
    for message in messages:
        if message.role != "assistant":
            turn = None
            continue
        if turn is not None and not turn.accepts(message, message.parts):
            yield Violation(message.path, "is a turn of its own, and is read as one turn with the one before it")
            turn = None
        turn = turn or Turn(message)
        turn.add(message.parts)
