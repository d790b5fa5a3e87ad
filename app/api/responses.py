"""One reply on its way to one caller, from the read callback of the model server's socket into the ASGI `send`.

No task is switched and nothing is awaited for a chunk. Where the caller reads slower than the model writes, reading
from the server is paused.

The commit rule: until the server's first word, and at most `commit_seconds`, an error is an HTTP status; from then on
the stream is open (200, heartbeats) and an error is the last frame.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from app.api.send_queue import Send, SendQueue
from app.chat.events import Event, Failed, Finish
from app.chat.stream import Reply
from app.errors import Internal, ParleyError, UpstreamFailed
from app.formats.base import Encoder, ReplyInfo

log = logging.getLogger("parley.delivery")

HEARTBEAT = b": heartbeat\n\n"
STREAM_HEADERS = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store, no-transform"),
    (b"x-accel-buffering", b"no"),
)
JSON_HEADERS = ((b"content-type", b"application/json"), (b"cache-control", b"no-store"))


MAX_WARNINGS_BYTES = 4096
"""Of the header: many clients and proxies take no more than 8 KB for all headers."""


def _warnings_header(warnings: Sequence[str]) -> bytes:
    """A JSON list of ASCII; the last entry counts those for which there is no room."""
    told: list[str] = []
    size = 2
    for text in warnings:
        size += len(json.dumps(text)) + 2
        if size > MAX_WARNINGS_BYTES - 32:
            told.append(f"and {len(warnings) - len(told)} more")
            break
        told.append(text)
    return json.dumps(told).encode("ascii")


class ReplyResponse:
    """`stream` picks between frames as they come and one JSON body at the end; `hang_up` drops the connection of a
    caller who reads nothing."""

    def __init__(
        self,
        send: Send,
        encoder: Encoder,
        info: ReplyInfo,
        *,
        stream: bool,
        heartbeat_seconds: float,
        commit_seconds: float,
        stall_seconds: float,
        refusal: Callable[[dict[str, Any]], dict[str, Any]],
        warning: Callable[[str], str] = str,
        hang_up: Callable[[], None] | None = None,
    ) -> None:
        loop = asyncio.get_running_loop()
        self._loop = loop
        self._send_queue = SendQueue(send)
        self._encoder = encoder
        self.info = info
        self._stream = stream
        self._heartbeat_seconds = heartbeat_seconds
        self._commit_seconds = commit_seconds
        self._stall_seconds = stall_seconds
        self._write_error = refusal
        self._warning = warning
        self._abort_connection = hang_up
        self._reply: Reply | None = None
        self._created = loop.time()
        self._last_sent = self._ticked = self._created
        self._quiet = False
        self.done: asyncio.Future[None] = loop.create_future()
        """The reply has ended, well or badly, or nobody waits for it."""
        self.started = False
        self.finished = False
        self.status = 0
        self.first_at: float | None = None
        """The loop's time when the model's first event came."""
        self.outcome: Finish | None = None
        self.error: ParleyError | None = None
        self.disconnected = False
        """The caller left before the end."""

    # -- from the model server --------------------------------------------------------------------------------------

    def start(self, reply: Reply) -> None:
        self._reply = reply
        if self.finished:
            reply.close()
            return
        if self._send_queue.blocked:
            reply.pause()
        reply.start(self)

    def on_events(self, events: list[Event]) -> None:
        if self.finished:
            return
        try:
            self._write_events(events)
        except Exception as error:
            self.on_crash(error)

    def on_batches(self, batches: Sequence[list[Event]]) -> None:
        """All that came before the last batch goes out with it, in one write."""
        if self.finished:
            return
        try:
            ahead = [batch for batch in batches[:-1] if batch]
            if ahead:
                self._record_first_event()
                self.start_stream()
            self._write_events(batches[-1], b"".join([self._encoder.feed(batch) for batch in ahead]))
        except Exception as error:
            self.on_crash(error)

    def _record_first_event(self) -> None:
        if self.first_at is None:
            self.first_at = self._loop.time()

    def _write_events(self, events: list[Event], ahead: bytes = b"") -> None:
        if not events:
            self.start_stream()
            self._write(ahead)
            return
        self._record_first_event()
        last = events[-1]
        if type(last) is Failed:
            self._write(ahead)
            self._write_failure(events, last)
            return
        self.start_stream()  # the frame that opens the stream is numbered before those of the events
        data = ahead + self._encoder.feed(events) if ahead else self._encoder.feed(events)
        if type(last) is Finish:
            self.outcome = last
            self._end(200, data)
        elif data:  # a format may have nothing to say of an event: heartbeats go on meanwhile
            self._quiet = False
            self._write(data)

    def _write_failure(self, events: list[Event], last: Failed) -> None:
        """What came before the failure is told; a failure that is all that came can still be a status."""
        self.error = UpstreamFailed(last.fault)
        if self._stream and (self.started or len(events) > 1):
            self.start_stream()
            self._end(200, self._encoder.feed(events))
        else:
            if not self._stream:
                self._encoder.feed(events)
            self.fail(self.error)

    def on_crash(self, error: Exception) -> None:
        """A defect of ours ends this reply, and no other."""
        log.error("request %s: defect while reading a reply", self.info.request_id, exc_info=error)
        try:
            self.fail(Internal("the gateway failed while reading the reply"))
        except Exception:
            self.disconnect()

    # -- to the caller ------------------------------------------------------------------------------------------------

    def start_stream(self) -> None:
        """Open the stream: from now on an error is a frame."""
        if not self._stream or self.started or self.finished:
            return
        self._send_head(200, STREAM_HEADERS)
        self._write(self._encoder.open())

    def fail(self, error: ParleyError) -> None:
        """End with an error: a status where nothing was sent, else the last frame."""
        if self.finished:
            return
        self.error = error
        told = error.to_dict(self.info.request_id)
        if self.started:
            self._end(200, self._encoder.fail(told))
        else:
            body = msgspec.json.encode(self._write_error(told)) if self._stream else self._encoder.fail(told)
            self._end_whole(error.status, body, error)

    def _end(self, status: int, data: bytes) -> None:
        if not self._stream:
            self._end_whole(status, data, None)
            return
        self.start_stream()
        self._write(data, last=True)
        self._finish()

    def _end_whole(self, status: int, body: bytes, error: ParleyError | None) -> None:
        length = (b"content-length", b"%d" % len(body))
        extra = tuple((name.encode(), value.encode()) for name, value in (error.headers if error else {}).items())
        self._send_head(status, (*JSON_HEADERS, length, *extra))
        self._write(body, last=True)
        self._finish()

    def _finish(self) -> None:
        self.finished = True
        if self._reply is not None:
            self._reply.close()
        if not self._send_queue.blocked:
            self._resolve()

    def _resolve(self) -> None:
        if not self.done.done():
            self.done.set_result(None)

    def _send_head(self, status: int, headers: tuple[tuple[bytes, bytes], ...]) -> None:
        self.started = True
        self.status = status
        start = {"type": "http.response.start", "status": status, "headers": [*headers, *self._reply_headers()]}
        self._send(start)

    def _reply_headers(self) -> Iterator[tuple[bytes, bytes]]:
        origin = self.info.origin
        yield b"x-parley-response-id", self.info.response_id.encode()
        yield b"x-parley-cache", origin.label.encode()
        if origin.age_seconds is not None:
            yield b"age", b"%d" % origin.age_seconds
        if self.info.warnings:
            yield b"x-parley-warnings", _warnings_header([self._warning(text) for text in self.info.warnings])

    def _write(self, data: bytes, *, last: bool = False) -> None:
        if data or last:
            self._send({"type": "http.response.body", "body": data, "more_body": not last})

    def _send(self, message: dict[str, Any]) -> None:
        if not self.disconnected:
            self._send_queue.put(message, self)

    def on_blocked(self) -> None:
        if self._reply is not None:
            self._reply.pause()

    def on_clear(self) -> None:
        if self.finished:
            self._resolve()
        elif self._reply is not None:
            self._reply.resume()

    # -- from the clock and the caller ------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Heartbeats, the commit deadline, and a caller that reads nothing."""
        beat, self._ticked = now - self._ticked, now
        try:
            if self._reply is not None:
                self._reply.tick(now)
            if self._send_queue.blocked:
                self._drop_stalled(now)
            elif self._stream and not self.finished:
                self._keep_alive(now, beat)
        except Exception as error:
            self.on_crash(error)

    def _drop_stalled(self, now: float) -> None:
        if now - self._send_queue.blocked_since > self._stall_seconds:
            self.disconnect()
            if self._abort_connection is not None:
                self._abort_connection()

    def _keep_alive(self, now: float, beat: float) -> None:
        """What was written since the last tick may be as old as that tick, and the next one may be too late."""
        if not self.started:
            if now - self._created >= self._commit_seconds:
                self._last_sent = now
                self.start_stream()
        elif not self._quiet:
            self._quiet, self._last_sent = True, now - beat
        elif now + beat - self._last_sent >= self._heartbeat_seconds:
            self._last_sent = now
            self._write(HEARTBEAT)

    def disconnect(self) -> None:
        """Nobody waits for the reply: the model server's connection is closed at once. May be called at any time."""
        if self.finished and not self._send_queue.blocked:
            return
        self.finished = self.disconnected = True
        if self._reply is not None:
            self._reply.close()
        self._send_queue.close()
        self._resolve()
