"""Encodes a reply in Qwen-Agent's format: as a stream of deltas, as a stream of snapshots, or as one JSON body.

Frames are formatted without a JSON encoder for the whole, because there is one for every token. A frame has `id`,
`event` and one line of `data`, which repeats both. Text that was sent is never taken back.
"""

from typing import Any

from typing_extensions import override

from app.chat.accumulator import MessageAccumulator, MessageCompleted, MessageDelta, MessageStarted, ReplyMessage, Step
from app.chat.events import End, Event, Finish
from app.errors import UpstreamFailed
from app.formats.base import ReplyInfo, WholeEncoder
from app.formats.sse import MAX_TEXT_CHARS, escape_line_separators, split_text
from app.formats.sse import encode_json as _json

_FIELD = {
    "reasoning_content": b'{"reasoning_content":%b}',
    "content": b'{"content":%b}',
    "function_call": b'{"function_call":{"arguments":%b}}',
}


def write_message(message: ReplyMessage, *, text: bool = True) -> dict[str, Any]:
    """Write a complete message. With `text=False`, the text that the deltas had is left out."""
    if message.media is not None:
        media = message.media
        item: dict[str, Any] = {"role": "assistant", "content": [{media.media: media.url}]}
        extra = {**media.fields, **message.extra}
        return item | {"extra": extra} if extra else item
    written = message.text if text else ""
    body: dict[str, Any] = {"role": "assistant", "content": written if message.kind == "content" else ""}
    if message.kind == "reasoning_content":
        body["reasoning_content"] = written
    elif message.kind == "function_call":
        body["function_call"] = {"name": message.name, "arguments": written}
    extra = {"function_id": message.id, **message.extra} if message.kind == "function_call" else dict(message.extra)
    if extra:
        body["extra"] = extra
    return body


class _FrameWriter:
    """Numbers and renders frames."""

    def __init__(self) -> None:
        self.seq = 0

    def render(self, type_: str, fields: dict[str, Any]) -> bytes:
        self.seq += 1
        data = escape_line_separators(_json({"type": type_, "seq": self.seq, **fields}))
        return b"id: %d\nevent: %b\ndata: %b\n\n" % (self.seq, type_.encode(), data)

    def write_started(self, info: ReplyInfo) -> bytes:
        return self.render("response.started", info.to_dict())

    def write_completed(self, finish: Finish, accumulator: MessageAccumulator, info: ReplyInfo) -> bytes:
        return self.render("response.completed", write_finish(finish, accumulator, info))

    def write_failed(self, error: dict[str, Any]) -> bytes:
        return self.render("response.failed", {"error": error})


def write_finish(finish: Finish, accumulator: MessageAccumulator, info: ReplyInfo) -> dict[str, Any]:
    body: dict[str, Any] = {"finish_reason": finish.reason, "usage": finish.usage, "cached": info.cached}
    body["warnings"] = info.warnings_with(finish)
    extra = dict(accumulator.loose_extra)
    if finish.native_reason is not None:
        extra["native_finish_reason"] = finish.native_reason
    if extra:
        body["extra"] = extra
    return body


class _StreamEncoder:
    def __init__(self, info: ReplyInfo) -> None:
        self._info = info
        self._frames = _FrameWriter()
        self._accumulator = MessageAccumulator()

    def open(self) -> bytes:
        return self._frames.write_started(self._info)

    def fail(self, error: dict[str, Any]) -> bytes:
        return self._frames.write_failed(error)

    def _write_end(self, end: End) -> bytes:
        if isinstance(end, Finish):
            return self._frames.write_completed(end, self._accumulator, self._info)
        return self.fail(UpstreamFailed(end.fault).to_dict(self._info.request_id))


class QwenDeltaEncoder(_StreamEncoder):
    """`stream_mode: delta`: every frame has only new text."""

    def feed(self, events: list[Event]) -> bytes:
        return b"".join([self._write_step(step) for step in self._accumulator.feed(events)])

    def _write_step(self, step: Step) -> bytes:
        if type(step) is MessageDelta:
            if len(step.text) > MAX_TEXT_CHARS:
                return self._long_delta(step)
            return self._delta(step.message, step.text)
        if isinstance(step, MessageStarted):
            return self._write_message_started(step.message)
        if isinstance(step, MessageCompleted):
            body = write_message(step.message, text=self._info.completed_bodies)
            return self._frames.render("message.completed", {"index": step.message.index, "message": body})
        assert isinstance(step, End)
        return self._write_end(step)

    def _delta(self, message: ReplyMessage, text: str) -> bytes:
        frames = self._frames
        seq = frames.seq = frames.seq + 1
        return b'id: %d\nevent: message.delta\ndata: {"type":"message.delta","seq":%d,"index":%d,"delta":%b}\n\n' % (
            seq,
            seq,
            message.index,
            _FIELD[message.kind] % escape_line_separators(_json(text)),
        )

    def _long_delta(self, step: MessageDelta) -> bytes:
        return b"".join(self._delta(step.message, piece) for piece in split_text(step.text))

    def _write_message_started(self, message: ReplyMessage) -> bytes:
        head: dict[str, Any] = {"role": "assistant"}
        if message.kind == "function_call":
            head["function_call"] = {"name": message.name, "arguments": ""}
            head["extra"] = {"function_id": message.id}
        kind = "content" if message.kind == "media" else message.kind
        fields = {"index": message.index, "kind": kind, "message": head}
        return self._frames.render("message.started", fields)


class QwenSnapshotEncoder(_StreamEncoder):
    """`stream_mode: snapshot`: one frame for each read, with all messages so far, as Qwen-Agent yields them."""

    def feed(self, events: list[Event]) -> bytes:
        steps = self._accumulator.feed(events)
        ends = [step for step in steps if isinstance(step, End)]
        out = b""
        if len(steps) > len(ends):
            out = self._frames.render(
                "messages", {"messages": [write_message(one) for one in self._accumulator.messages]}
            )
        return out + b"".join(map(self._write_end, ends))


class QwenWholeEncoder(WholeEncoder):
    """`stream: false`: one JSON body."""

    @override
    def fail(self, error: dict[str, Any]) -> bytes:
        """Return the error, and the messages so far."""
        body: dict[str, Any] = {"error": error}
        messages = self._messages()
        if messages:
            body["messages"] = messages
        return _json(body)

    def _messages(self) -> list[dict[str, Any]]:
        return [write_message(message) for message in self._accumulator.messages]

    @override
    def _write_reply(self, finish: Finish) -> dict[str, Any]:
        info = self._info.to_dict() | {"messages": self._messages()}
        return info | write_finish(finish, self._accumulator, self._info)
