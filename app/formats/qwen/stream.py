"""Encodes a reply in Qwen-Agent's format: as a stream of deltas, as a stream of snapshots, or as one JSON body.

Frames are formatted without a JSON encoder for the whole, because there is one for every token. A frame has `id`,
`event` and one line of `data`, which repeats both. Text that was sent is never taken back.
"""

from typing import Any

from typing_extensions import override

from app.chat.accumulator import MessageAccumulator, ReplyMessage
from app.chat.event_runs import TextRun
from app.chat.events import Event, Finish, ServerResult
from app.chat.messages import Text
from app.errors import UpstreamFailed
from app.formats.base import ReplyInfo, is_cached
from app.formats.encoders import DeltaEncoder, WholeEncoder
from app.formats.snapshots import JsonText, SnapshotEncoder
from app.formats.sse import MAX_TEXT_CHARS, escape_line_separators, split_text
from app.formats.sse import encode_json as _json
from app.formats.sse import encode_json_lines as _json_lines

_HEAD = b'id: %d\nevent: message.delta\ndata: {"type":"message.delta","seq":%d,"index":'
_HEADS = [_HEAD % (seq, seq) for seq in range(2048)]
"""The beginnings of the frames of new texts, by their numbers: to look one up is faster than to format it."""
_DELTAS = {
    "reasoning_content": (b'%d,"delta":{"reasoning_content":', b"}}\n\n"),
    "content": (b'%d,"delta":{"content":', b"}}\n\n"),
    "function_call": (b'%d,"delta":{"function_call":{"arguments":', b"}}}\n\n"),
    "function_result": (b'%d,"delta":{"content":', b"}}\n\n"),
}
"""What is before and after the JSON of a new text, by the kind of its message; the value is the message's index."""
_TEXT_KEYS = {
    "reasoning_content": b'"reasoning_content":',
    "content": b'"content":',
    "function_call": b'"arguments":',
    "function_result": b'"content":',
}
"""The key of a message's text; before it there is no other key that is equal."""


def write_message(message: ReplyMessage, *, text: bool = True) -> dict[str, Any]:
    """Write a complete message. With `text=False`, the text that the deltas had is left out."""
    if message.media is not None:
        media = message.media
        item: dict[str, Any] = {"role": "assistant", "content": [{media.media: media.url}]}
        extra = {**media.fields, **message.extra}
        return item | {"extra": extra} if extra else item
    written, kind = message.text if text else "", message.kind
    if kind == "function_call":
        waits = {"approval": "required"} if message.server is not None and message.server.approval else {}
        return {
            "role": "assistant",
            "content": "",
            "function_call": {"name": message.name, "arguments": written},
            "extra": {"function_id": message.id, **message.extra, **waits},
        }
    if message.result is not None:
        return _write_result(message.result, written)
    body: dict[str, Any] = {"role": "assistant", "content": written if kind == "content" else ""}
    if kind == "reasoning_content":
        body["reasoning_content"] = written
    if message.extra:
        body["extra"] = dict(message.extra)
    return body


def _write_result(result: ServerResult, text: str) -> dict[str, Any]:
    """Write the result of a call that the gateway ran, as Qwen-Agent writes those that it runs itself."""
    content: Any = text
    if result.plain_text is None:
        content = [
            {"text": part.text} if isinstance(part, Text) else {part.media: part.urls[0]} for part in result.content
        ]
    extra = {"function_id": result.id, **({"is_error": True} if result.is_error else {})}
    return {"role": "function", "content": content, "name": result.name, "extra": extra}


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
    body: dict[str, Any] = {
        "finish_reason": finish.reason,
        "usage": finish.usage,
        "cached": is_cached(info, finish),
        "warnings": info.warnings_with(finish),
        **info.write_extensions(finish),
    }
    if accumulator.loose_extra or finish.native_reason is not None:
        native = {} if finish.native_reason is None else {"native_finish_reason": finish.native_reason}
        body["extra"] = {**accumulator.loose_extra, **native}
    return body


class _WrittenRun:
    """The frames of the last texts of a run. They are equal in every stream of deltas in which the run has this place,
    and so in every hit on one stored reply."""

    __slots__ = ("data", "last_seq", "place")

    def __init__(self, place: tuple[int, int, int], data: bytes, last_seq: int) -> None:
        self.place = place
        """The number of the frame before them, the index of their message, and how many texts of the run they have."""
        self.data = data
        self.last_seq = last_seq


class QwenDeltaEncoder(DeltaEncoder):
    """`stream_mode: delta`: every frame has only new text."""

    def __init__(self, info: ReplyInfo) -> None:
        super().__init__(info)
        self._frames = _FrameWriter()

    def open(self) -> bytes:
        return self._frames.write_started(self._info)

    @override
    def fail(self, error: dict[str, Any]) -> bytes:
        return self._frames.write_failed(error)

    @override
    def _write_finish(self, finish: Finish) -> bytes:
        return self._frames.write_completed(finish, self._accumulator, self._info)

    @override
    def _write_text(self, message: ReplyMessage, text: str) -> bytes:
        if len(text) > MAX_TEXT_CHARS:
            return b"".join([self._write_text(message, piece) for piece in split_text(text)])
        frames = self._frames
        seq = frames.seq = frames.seq + 1
        data = _json(text)
        if not data.isascii():
            data = escape_line_separators(data)
        head = _HEADS[seq] if seq < len(_HEADS) else _HEAD % (seq, seq)
        before, after = _DELTAS[message.kind]
        return b"".join((head, before % message.index, data, after))

    @override
    def _write_texts(self, message: ReplyMessage, texts: list[str]) -> bytes:
        if max(map(len, texts)) > MAX_TEXT_CHARS:
            return super()._write_texts(message, texts)
        first = self._frames.seq + 1
        end = first + len(texts)
        self._frames.seq = end - 1
        heads = _HEADS[first:end] if end <= len(_HEADS) else [_HEAD % (seq, seq) for seq in range(first, end)]
        before, after = _DELTAS[message.kind]
        before = before % message.index
        parts = [before] * (4 * len(texts))
        parts[0::4] = heads
        parts[2::4] = escape_line_separators(_json_lines(texts))[:-1].split(b"\n")
        parts[3::4] = [after] * len(texts)
        return b"".join(parts)

    @override
    def _write_run(self, run: TextRun, message: ReplyMessage, texts: list[str]) -> bytes:
        frames, place = self._frames, (self._frames.seq, message.index, len(texts))
        written = run.written
        if type(written) is _WrittenRun and written.place == place:
            frames.seq = written.last_seq
            return written.data
        data = self._write_texts(message, texts)
        run.written = _WrittenRun(place, data, frames.seq)
        return data

    @override
    def _write_completed(self, message: ReplyMessage) -> bytes:
        body = write_message(message, text=self._info.completed_bodies)
        return self._frames.render("message.completed", {"index": message.index, "message": body})

    @override
    def _write_started(self, message: ReplyMessage) -> bytes:
        head: dict[str, Any] = {"role": "assistant"}
        if message.kind == "function_call":
            head["function_call"] = {"name": message.name, "arguments": ""}
            head["extra"] = {"function_id": message.id}
        elif message.kind == "function_result":
            is_error = message.result is not None and message.result.is_error
            extra = {"function_id": message.id, **({"is_error": True} if is_error else {})}
            head = {"role": "function", "name": message.name, "extra": extra}
        kind = "content" if message.kind == "media" else message.kind
        fields = {"index": message.index, "kind": kind, "message": head}
        return self._frames.render("message.started", fields)


class QwenSnapshotEncoder(SnapshotEncoder):
    """`stream_mode: snapshot`: one frame for each read, with all messages so far, as Qwen-Agent yields them."""

    def __init__(self, info: ReplyInfo) -> None:
        super().__init__(info)
        self._frames = _FrameWriter()
        self._bodies: list[tuple[bytes, bytes]] = []
        """The JSON of each message before and after its text."""

    def open(self) -> bytes:
        return self._frames.write_started(self._info)

    def feed(self, events: list[Event]) -> bytes:
        changed, end = self._accumulate(events)
        out = self._write_snapshot() if changed else b""
        if isinstance(end, Finish):
            out += self._frames.write_completed(end, self._accumulator, self._info)
        elif end is not None:
            out += self.fail(UpstreamFailed(end.fault).to_dict(self._info.request_id))
        return out

    def fail(self, error: dict[str, Any]) -> bytes:
        return self._frames.write_failed(error)

    @override
    def _make_text(self, message: ReplyMessage) -> JsonText:
        return JsonText(b"" if _has_no_text(message) else b'""')

    def _write_snapshot(self) -> bytes:
        if self._has_new_fields:
            self._has_new_fields = False
            self._bodies = [self._write_around_text(message) for message in self._accumulator.messages]
        parts: list[bytes | bytearray] = []
        for (before, after), text in zip(self._bodies, self._texts, strict=True):
            parts += (before, text.json, after)
        parts[0] = parts[0][1:]
        seq = self._frames.seq = self._frames.seq + 1
        head = b'id: %d\nevent: messages\ndata: {"type":"messages","seq":%d,"messages":[' % (seq, seq)
        return b"".join((head, *parts, b"]}\n\n"))

    def _write_around_text(self, message: ReplyMessage) -> tuple[bytes, bytes]:
        """Write a comma and a message; return what is before and after its text. Media have none."""
        body = b"," + escape_line_separators(_json(write_message(message, text=False)))
        if _has_no_text(message):
            return body, b""
        text_at = body.index(_TEXT_KEYS[message.kind]) + len(_TEXT_KEYS[message.kind])
        return body[:text_at], body[text_at + len(b'""') :]


def _has_no_text(message: ReplyMessage) -> bool:
    return message.media is not None or (message.result is not None and message.result.plain_text is None)


class QwenWholeEncoder(WholeEncoder):
    """`stream: false`: one JSON body."""

    @override
    def _write_failure(self, error: dict[str, Any]) -> dict[str, Any]:
        """Return the error, and the messages so far."""
        body: dict[str, Any] = {"error": error}
        messages = self._messages()
        if messages:
            body["messages"] = messages
            if self._accumulator.has_results:
                body["error"] = {**error, "partial": messages}
        return body

    def _messages(self) -> list[dict[str, Any]]:
        return [write_message(message) for message in self._accumulator.messages]

    @override
    def _write_reply(self, finish: Finish) -> dict[str, Any]:
        return {
            **self._info.to_dict(),
            "messages": self._messages(),
            **write_finish(finish, self._accumulator, self._info),
        }
