"""Writes messages of one payload each as AutoGen's items, one after the other."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from app.chat.messages import Media, Message, Reasoning, Text, ToolCall, ToolResult, make_call_id
from app.errors import Violation
from app.formats.autogen.parse import parse_items
from app.formats.autogen.replay import read_asides, validate_item
from app.formats.autogen.sidecar import add_sidecar, make_item_id, normalize_message
from app.formats.autogen.value_types import is_base64
from app.formats.call_ids import OpenCalls
from app.formats.sidecar import without_notes

_CALL_TYPES = frozenset({"ToolCallRequestEvent", "AssistantMessage"})
_RESULT_TYPES = frozenset({"ToolCallExecutionEvent", "FunctionExecutionResultMessage"})


class ItemWriter:
    def __init__(self, agent: str | None, agent_name: str) -> None:
        self.items: list[Any] = []
        self.losses: list[Violation] = []
        self._agent = agent
        self._agent_name = agent or agent_name
        self._caller = self._agent_name
        self._open_calls = OpenCalls()
        """(id, name) of the calls without a result."""

    def write_kept(self, run: Sequence[Message]) -> None:
        """Write the original item of these messages."""
        raw = run[0].extra["autogen"]["raw"]
        self._write_asides(run, "autogen_before")
        self.items.append(raw)
        self._write_asides(run, "autogen_after")
        self._track_calls(raw)

    def write(self, run: Sequence[Message], *, calls_follow: bool) -> None:
        """Write one item for one message, or for adjacent calls or results."""
        self._write_asides(run, "autogen_before")
        self.items.append(self._finish_item(self._item(run, calls_follow), run))
        self._write_asides(run, "autogen_after")

    def _track_calls(self, raw: Mapping[str, Any]) -> None:
        """Record the calls and results of an original item."""
        summary = raw if raw["type"] == "ToolCallSummaryMessage" else {}
        calls = raw["content"] if raw["type"] in _CALL_TYPES else summary.get("tool_calls")
        results = raw["content"] if raw["type"] in _RESULT_TYPES else summary.get("results")
        if isinstance(calls, list) and calls:
            for one in calls:
                self._open_calls.add(ToolCall(one["name"], "", one["id"]))
            self._caller = raw["source"]
        if isinstance(results, list):
            for one in results:
                while self._open_calls.take_id(one["call_id"]) is not None:
                    pass

    def _write_asides(self, run: Sequence[Message], key: str) -> None:
        for message in run:
            self.items += read_asides(message, key)

    def _finish_item(self, raw: dict[str, Any], run: Sequence[Message]) -> dict[str, Any]:
        """Return the item with its id, and a sidecar if parsing the item would not give identical messages."""
        if "source" in raw:
            raw = _add_common_fields(raw, run) | {"id": _id(raw, run, len(self.items))}
        item = validate_item(raw)
        assert item is not None
        messages, _, _ = parse_items([item], [raw], self._agent)
        if [normalize_message(one) for one in messages] != [normalize_message(one) for one in run]:
            raw = add_sidecar(item, raw, run)
        return raw

    def _item(self, run: Sequence[Message], calls_follow: bool) -> dict[str, Any]:
        first = run[0]
        part = first.parts[0] if first.parts else Text("")
        if isinstance(part, ToolResult):
            results = [self._result(one) for one in run]
            return {"source": self._caller, "content": results, "type": "ToolCallExecutionEvent"}
        if first.role == "system":
            return {"content": self._text(first), "type": "SystemMessage"}
        source = first.name or ("user" if first.role == "user" else self._agent_name)
        if isinstance(part, ToolCall):
            self._caller = source
            calls = [self._call(one, place) for place, one in enumerate(run)]
            return {"source": source, "content": calls, "type": "ToolCallRequestEvent"}
        if isinstance(part, Reasoning):
            kind = {"kind": "reasoning"}
            return {"source": source, "metadata": kind, "content": part.text, "type": "ThoughtEvent"}
        if first.role == "assistant" and calls_follow:
            kind = {"kind": "content"}
            return {"source": source, "metadata": kind, "content": self._text(first), "type": "ThoughtEvent"}
        if any(isinstance(one, Media) and _image(one) for one in first.parts):
            return {"source": source, "content": self._pieces(first), "type": "MultiModalMessage"}
        return {"source": source, "content": self._text(first), "type": "TextMessage"}

    def _text(self, message: Message) -> str:
        return self._join_parts([one for one in message.parts if isinstance(one, Text | Media)], message.path)

    def _join_parts(self, parts: Sequence[Text | Media], path: str) -> str:
        return "\n".join(one.text if isinstance(one, Text) else self._write_placeholder(one, path) for one in parts)

    def _pieces(self, message: Message) -> list[Any]:
        parts = [part for part in message.parts if isinstance(part, Text | Media)]
        return [part.text if isinstance(part, Text) else self._piece(part, message.path) for part in parts]

    def _piece(self, media: Media, path: str) -> Any:
        data = _image(media)
        return {"data": data} if data else self._write_placeholder(media, path)

    def _write_placeholder(self, media: Media, path: str) -> str:
        """Return a text for media that AutoGen's messages cannot contain, and record the loss."""
        urls = ", ".join(url for url in media.urls if url[:8].lower().startswith(("http://", "https://")))
        name = media.name or urls
        placeholder = f"[{media.media}: {name}]" if name else f"[{media.media}]"
        text = f"is written as the text {placeholder!r} and kept in metadata: AutoGen shows only images in base64"
        self.losses.append(Violation(media.path or path, text))
        return placeholder

    def _call(self, message: Message, place: int) -> dict[str, Any]:
        part = message.parts[0]
        assert isinstance(part, ToolCall)
        id_ = part.id or make_call_id(len(self.items), place, part.name, part.arguments)
        self._open_calls.add(replace(part, id=id_))
        # AutoGen parses arguments as JSON, which an empty string is not.
        return {"id": id_, "arguments": part.arguments if part.arguments.strip() else "{}", "name": part.name}

    def _result(self, message: Message) -> dict[str, Any]:
        part = message.parts[0]
        assert isinstance(part, ToolResult)
        id_, name = self._find_call(part)
        content = self._join_parts(part.content, message.path)
        return {"content": content, "name": name, "call_id": id_, "is_error": part.is_error}

    def _find_call(self, part: ToolResult) -> tuple[str, str]:
        """Return (id, name) of a result's call: the call with its id, or the first open one with its name."""
        if part.id:
            call = self._open_calls.take_id(part.id)
        else:
            call = (self._open_calls.take_name(part.name) if part.name else None) or self._open_calls.take_first()
        if call is None:
            return part.id or "", part.name or "tool"
        return part.id or call.id or "", part.name or call.name


def _add_common_fields(raw: dict[str, Any], run: Sequence[Message]) -> dict[str, Any]:
    """Add the common fields of AutoGen's messages: usage, metadata and time."""
    extra = run[0].extra
    given = extra.get("metadata")
    known = without_notes(given) if isinstance(given, dict) else {}
    metadata = {key: value for key, value in known.items() if isinstance(value, str)}
    body = {"id": None, "source": raw["source"], "models_usage": models_usage(run[-1].extra.get("usage"))}
    body["metadata"] = metadata | raw.get("metadata", {})
    dated = raw | {"created_at": extra["created_at"]} if "created_at" in extra else raw
    if dated is not raw and validate_item(dated) is not None:
        body["created_at"] = extra["created_at"]
    return body | {key: value for key, value in raw.items() if key not in body}


def models_usage(usage: Any) -> dict[str, int] | None:
    """Return AutoGen's two numbers, or None if one of them is unknown."""
    if not isinstance(usage, dict):
        return None
    numbers = {key: usage.get(key) for key in ("prompt_tokens", "completion_tokens")}
    return numbers if all(type(one) is int for one in numbers.values()) else None  # type: ignore[return-value]  # both are int


def _id(raw: dict[str, Any], run: Sequence[Message], number: int) -> str:
    id_ = run[0].extra.get("message_id")
    nameless = run[0].role != "tool" and not any(one.name for one in run)
    return id_ if isinstance(id_, str) and id_ else make_item_id(number, raw, nameless=nameless)


def _image(media: Media) -> str | None:
    """Return the base64 of an image, or None for media that AutoGen's messages cannot contain."""
    url = media.urls[0] if media.media == "image" and media.urls else ""
    head, comma, data = url.partition(";base64,")
    return data if comma and head.startswith("data:image/") and is_base64(data) else None
