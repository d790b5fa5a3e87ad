"""`AnswerResponse`: sends the answer to a request that is no conversation, as it comes from the model server."""

import time
from collections.abc import Sequence

import msgspec
from typing_extensions import override

from app.api.reply_response import ReplyResponse, ResponseLimits
from app.api.response_writer import Headers, ResponseWriter
from app.chat.events import AnswerPart, Event, Failed, Finish
from app.errors import ParleyError, UpstreamFailed
from app.formats.base import HEARTBEAT, Format, ReplyInfo

_EVENT_STREAM = b"text/event-stream"
ESTIMATED_HEADER = (b"x-parley-usage-estimated", b"true")


class AnswerResponse(ReplyResponse):
    """Before the first part of the answer, an error is an HTTP status. In a stream of events it is the last event
    afterwards, and in any other answer a connection that breaks: a client must not take a part for the whole."""

    def __init__(self, writer: ResponseWriter, info: ReplyInfo, reply_format: Format, limits: ResponseLimits) -> None:
        """`reply_format` is that of errors."""
        super().__init__(writer, info, reply_format, "whole", limits)
        self._is_stream = False
        self._last_sent = self._loop.time()

    @override
    def _write_events(self, events: list[Event]) -> None:
        end = events[-1] if events else None
        if self.first_at is None and events and type(events[0]) is AnswerPart:
            self.first_at = time.perf_counter()
        for event in events:
            if type(event) is AnswerPart:
                self._write_part(event, end)
        if type(end) is Finish:
            self._end(end)
        elif type(end) is Failed:
            self.fail(UpstreamFailed(end.fault))
        if self.send_seconds is None and self.first_at is not None:
            self.send_seconds = time.perf_counter() - self.first_at

    def _end(self, finish: Finish) -> None:
        self.outcome = finish
        if not self.status:
            self._send_head(200, ())
        self._write(b"", last=True)
        self._finish()

    def _write_part(self, part: AnswerPart, end: Event | None) -> None:
        if not self.status:
            self._begin(part.headers, end)
        if part.data:
            self._last_sent = self._loop.time()
            self._write(part.data)

    def _begin(self, headers: Headers, end: Event | None) -> None:
        """Send the head. Whether the usage is an estimate is known of an answer that has come whole."""
        lengths = [int(value) for name, value in headers if name == b"content-length" and value.isdigit()]
        lines = [line for line in headers if line[0] != b"content-length"]
        if type(end) is Finish and (end.usage or {}).get("estimated"):
            lines.append(ESTIMATED_HEADER)
        self._is_stream = any(name == b"content-type" and value.startswith(_EVENT_STREAM) for name, value in lines)
        if self._is_stream:
            lines.append((b"x-accel-buffering", b"no"))
        self._send_head(200, (*lines, (b"cache-control", b"no-store")), lengths[0] if lengths else None)

    @override
    def _reply_headers(self) -> list[tuple[bytes, bytes]]:
        """Return the headers of a reply, without the id by which a conversation's is read again."""
        return [line for line in super()._reply_headers() if line[0] != b"x-parley-response-id"]

    @override
    def _write_batches(self, batches: Sequence[list[Event]]) -> None:
        for events in batches:
            self._write_events(events)

    @override
    def fail(self, error: ParleyError) -> None:
        if self.finished:
            return
        self.error = error
        body = msgspec.json.encode(self.format.error(self._describe_error(error)))
        if not self.status:
            self._send_error_body(error, body)
        elif self._is_stream:
            self._write(b"data: %b\n\n" % body, last=True)
            self._finish()
        else:
            self._writer.abort()
            self._finish()

    @override
    def tick(self, now: float) -> None:
        """Do what every response does, and send a comment in a stream that is silent."""
        super().tick(now)
        if self.finished or not self._is_stream or self._writer.blocked:
            return
        if now - self._last_sent >= self._limits.heartbeat_seconds:
            self._last_sent = now
            self._write(HEARTBEAT)
