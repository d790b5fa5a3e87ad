"""The messages of a request and of its reply as spans have them, where `tracing.capture_content` wants that.

They follow the JSON schemas of `gen_ai.input.messages` and `gen_ai.output.messages`:
https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/. Of media that are sent in the request itself, only the
kind is written, not the data.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, assert_never

import msgspec

from app.chat.accumulator import MessageAccumulator, ReplyMessage
from app.chat.events import Event
from app.chat.messages import Media, Message, Part, Reasoning, Text, ToolCall, ToolResult

Json: TypeAlias = dict[str, Any]

_FINISH_REASONS = {"tool_calls": "tool_call"}
"""The conventions' words for those finish reasons that have another one there."""
_DATA = "data:"


class CapturedContent:
    """The messages of one request, and those of its reply as far as it was read."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages
        self._reply = MessageAccumulator()

    def feed(self, events: list[Event]) -> list[Event]:
        """Add events of the reply. This is a stage that changes nothing."""
        self._reply.feed(events)
        return events

    @property
    def has_reply(self) -> bool:
        return bool(self._reply.messages)

    def write_input(self) -> str:
        """Return the value of `gen_ai.input.messages`."""
        return _encode([_write_message(message) for message in self._messages])

    def write_output(self, finish_reason: str | None) -> str:
        """Return the value of `gen_ai.output.messages`. Without a finish reason the reply has failed."""
        reason = "error" if finish_reason is None else _FINISH_REASONS.get(finish_reason, finish_reason)
        parts = [_write_reply_part(message) for message in self._reply.messages]
        return _encode([{"role": "assistant", "parts": parts, "finish_reason": reason}])


def _encode(messages: list[Json]) -> str:
    try:
        return msgspec.json.encode(messages).decode()
    except UnicodeEncodeError:  # half a surrogate pair
        return json.dumps(messages)


def _write_message(message: Message) -> Json:
    parts = [written for part in message.parts for written in _write_part(part)]
    named = {} if message.name is None else {"name": message.name}
    return {"role": message.role, "parts": parts, **named}


def _write_part(part: Part) -> Iterator[Json]:
    match part:
        case Text(text):
            yield {"type": "text", "content": text}
        case Reasoning(text):
            yield {"type": "reasoning", "content": text}
        case ToolCall(name, arguments, id_):
            yield _write_call(name, arguments, id_)
        case ToolResult(content):
            yield {"type": "tool_call_response", "id": part.id, "response": _write_result(content)}
        case Media():
            yield from _write_media(part)
        case _:
            assert_never(part)


def _write_call(name: str, arguments: str, id_: str | None) -> Json:
    try:
        value = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        value = arguments
    return {"type": "tool_call", "id": id_, "name": name, "arguments": value}


def _write_result(content: Iterable[Text | Media]) -> Any:
    """Return the text of a result, or its parts if it has others."""
    if all(isinstance(part, Text) for part in content):
        return "".join(part.text for part in content if isinstance(part, Text))
    return [written for part in content for written in _write_part(part)]


def _write_media(part: Media) -> Iterator[Json]:
    return (_write_url(part.media, url) for url in part.urls)


def _write_url(modality: str, url: str) -> Json:
    if not url.startswith(_DATA):
        return {"type": "uri", "modality": modality, "mime_type": None, "uri": url}
    type_ = url[len(_DATA) :].partition(",")[0].partition(";")[0]
    return {"type": "blob", "modality": modality, "mime_type": type_ or None, "content": ""}


def _write_reply_part(message: ReplyMessage) -> Mapping[str, Any]:
    match message.kind:
        case "content":
            return {"type": "text", "content": message.text}
        case "reasoning_content":
            return {"type": "reasoning", "content": message.text}
        case "function_call":
            return _write_call(message.name, message.text, message.id)
        case "media":
            assert message.media is not None
            return _write_url(message.media.media, message.media.url)
        case "function_result":
            assert message.result is not None
            return {"type": "tool_call_response", "id": message.id, "response": _write_result(message.result.content)}
        case _:
            assert_never(message.kind)
