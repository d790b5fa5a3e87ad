"""Encodes a reply in AutoGen's format: as a stream of chunks and messages, or as one JSON body.

In the default stream, `interleaved`, every chunk has the id of its message, a message follows its chunks, and the
chunks of an id add up to the text of that message, which is a TextMessage, or a ThoughtEvent if calls follow. Arguments
are not streamed. `stream_compat` has the other two kinds of stream.
"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

from typing_extensions import override

from app.chat.accumulator import ReplyMessage
from app.chat.events import Event, Finish
from app.formats.autogen.reply_items import ItemFactory, PartialItem, error_item
from app.formats.base import ReplyInfo
from app.formats.encoders import DeltaEncoder
from app.formats.sse import encode_json, write_frame


def calls_of(messages: list[ReplyMessage]) -> list[dict[str, Any]]:
    """Write the calls. Blank arguments become `{}`, because AutoGen parses them as JSON."""
    calls = [one for one in messages if one.kind == "function_call"]
    return [{"id": one.id, "arguments": one.text if one.text.strip() else "{}", "name": one.name} for one in calls]


def write_media(messages: list[ReplyMessage]) -> dict[str, Any]:
    """Write audio and images as fields of the text message, because AutoGen's assistant messages have no media."""
    outputs = [(one.media, one.extra) for one in messages if one.media]
    media = [{"type": output.media, "url": output.url, **output.fields, **extra} for output, extra in outputs]
    return {"media": media} if media else {}


def joined(extras: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge the extras of several messages: lists are concatenated, for other values the last one counts."""
    out: dict[str, Any] = {}
    for extra in extras:
        for key, value in extra.items():
            known = out.get(key)
            out[key] = [*known, *value] if isinstance(known, list) and isinstance(value, list) else value
    return out


class AgentEventEncoder(DeltaEncoder):
    """The common part of the three kinds of stream. A failure is the last frame."""

    def __init__(self, info: ReplyInfo) -> None:
        super().__init__(info)
        self._factory = ItemFactory(info)

    def open(self) -> bytes:
        return b""

    @override
    def fail(self, error: dict[str, Any]) -> bytes:
        return write_frame(error_item(error))

    @override
    def _write_started(self, message: ReplyMessage) -> bytes:
        return b"" if message.media else self._on_started(message)

    @override
    def _write_text(self, message: ReplyMessage, text: str) -> bytes:
        return b"" if message.kind == "function_call" else self._on_delta(message, text)

    @override
    def _write_completed(self, message: ReplyMessage) -> bytes:
        return b"" if message.media else self._on_completed(message)

    @abstractmethod
    def _on_started(self, message: ReplyMessage) -> bytes: ...

    @abstractmethod
    def _on_delta(self, message: ReplyMessage, text: str) -> bytes: ...

    @abstractmethod
    def _on_completed(self, message: ReplyMessage) -> bytes: ...

    def body(self, finish: Finish) -> dict[str, Any]:
        """Return the finished reply as one object."""
        return self._factory.result(finish)

    @property
    def complete_items(self) -> list[dict[str, Any]]:
        """The messages that are complete."""
        return self._factory.messages

    def _extra(self, *kinds: str) -> dict[str, Any]:
        """Return the merged extras of all messages of these kinds."""
        return joined(one.extra for one in self._accumulator.messages if one.kind in kinds and not one.media)

    def _beside(self) -> dict[str, Any]:
        """Return the extras and media for which AutoGen has no message."""
        return joined((self._accumulator.loose_extra, write_media(self._accumulator.messages)))

    def _join_text(self, kind: str) -> str:
        return "".join([one.text for one in self._accumulator.messages if one.kind == kind])


class InterleavedEncoder(AgentEventEncoder):
    def __init__(self, info: ReplyInfo) -> None:
        super().__init__(info)
        self._thought: PartialItem | None = None
        self._text: PartialItem | None = None

    @override
    def _on_started(self, message: ReplyMessage) -> bytes:
        if message.kind == "reasoning_content":
            self._thought = self._factory.begin("reasoning")
        elif message.kind == "content":
            self._text = self._text or self._factory.begin("content")
        elif self._text is not None:
            return write_frame(self._preamble(self._text))
        return b""

    @override
    def _on_delta(self, message: ReplyMessage, text: str) -> bytes:
        item = self._thought if message.kind == "reasoning_content" else self._text
        assert item is not None
        item.texts.append(text)
        return self._factory.write_chunk(item, text)

    @override
    def _on_completed(self, message: ReplyMessage) -> bytes:
        if message.kind == "reasoning_content" and self._thought is not None:
            thought, self._thought = self._thought, None
            kind = {"kind": "reasoning"}
            return write_frame(self._factory.add_message("ThoughtEvent", thought.id, thought.text, kind, message.extra))
        if message.kind == "content" and self._text is not None:
            self._text.extra |= message.extra
        return b""

    def _preamble(self, text: PartialItem) -> dict[str, Any]:
        """Complete the text before calls as a ThoughtEvent."""
        self._text = None
        return self._factory.add_message("ThoughtEvent", text.id, text.text, {"kind": "content"}, text.extra)

    @override
    def _write_finish(self, finish: Finish) -> bytes:
        factory, messages, loose = self._factory, self._accumulator.messages, self._accumulator.loose_extra
        loose = loose | write_media(messages)
        calls = calls_of(messages)
        out = b""
        if calls:
            if self._text is not None:
                out = write_frame(self._preamble(self._text))
            extras = [one.extra for one in messages if one.kind == "function_call"]
            extras[-1] = extras[-1] | loose
            factory.add_message("ToolCallRequestEvent", factory.new_id(), calls, {}, *extras)
        else:
            text = self._text or factory.begin()
            factory.add_message("TextMessage", text.id, text.text, {}, text.extra | loose)
        factory.add_usage(finish.usage)
        return out + write_frame(factory.messages[-1]) + write_frame({"type": "TaskResult", **factory.result(finish)})


class AutogenWholeEncoder:
    """`stream: false`: one JSON body, from the encoder of the stream."""

    def __init__(self, stream: AgentEventEncoder) -> None:
        self._stream = stream

    def open(self) -> bytes:
        return b""

    def heartbeat(self) -> bytes:
        return b""

    def feed(self, events: list[Event]) -> bytes:
        self._stream.feed(events)
        last = events[-1] if events else None
        return encode_json(self._stream.body(last)) if isinstance(last, Finish) else b""

    def fail(self, error: dict[str, Any]) -> bytes:
        """Return the error, and the messages that are complete."""
        body = error_item(error)
        return encode_json(body | {"messages": self._stream.complete_items} if self._stream.complete_items else body)
