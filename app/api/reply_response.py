"""Send one reply to one client: from the read callback of the upstream's socket to the ASGI `send`.

`EventStreamResponse` writes frames as the events come, `JsonResponse` one body at the end. A chunk causes no task
switch and no `await`. While the client reads more slowly than the model writes, the upstream is not read.
"""

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace
from typing_extensions import override

from app.api.reply_encoders import JoinedReplyEncoder, SkipFrames, is_within_call
from app.api.reply_headers import write_attempts_header, write_warnings_header
from app.api.response_writer import Headers, ResponseWriter
from app.cache import InFlightCall, ReplaySource
from app.chat.event_runs import EventRuns
from app.chat.events import Event, Failed, Finish, is_end
from app.chat.stage import Pipe, Stage, feed_to_end
from app.chat.stream import AttemptLog, Origin, Reply
from app.errors import Internal, ParleyError, UpstreamFailed
from app.formats.base import (
    EVENT_STREAM,
    DescribedMedium,
    Encoder,
    Format,
    ReplyInfo,
    ReplyMode,
    choose_status,
)
from app.formats.encoders import encode_each

log = logging.getLogger("parley.delivery")

_UNSTORED = ((b"cache-control", b"no-store, no-transform"), (b"x-accel-buffering", b"no"))
STREAM_HEADERS = ((b"content-type", EVENT_STREAM), *_UNSTORED)
JSON_HEADERS = ((b"content-type", b"application/json"), (b"cache-control", b"no-store"))


class ResponseLimits:
    __slots__ = ("commit_seconds", "heartbeat_seconds", "stall_seconds")

    def __init__(self, heartbeat_seconds: float, commit_seconds: float, stall_seconds: float) -> None:
        self.heartbeat_seconds = heartbeat_seconds
        """After this time without data, a stream sends a comment."""
        self.commit_seconds = commit_seconds
        """A stream is opened after this time, even if the upstream has not answered yet."""
        self.stall_seconds = stall_seconds
        """A client that reads nothing for this time is disconnected."""


class EndObserver(Protocol):
    """Learns how a response ends, before its client does. An end that it holds is sent by `send_end` or `fail`."""

    def on_end(self, end: Finish | Failed) -> bool:
        """Called with the end of the reply. Returns whether to hold it."""

    def on_failure(self, error: ParleyError) -> bool:
        """Called with an error that would end a stream which is open. Returns whether to hold it."""

    def on_close(self) -> None:
        """Called when the response has ended, or its client has disconnected."""


class ReplyResponse(ABC):
    """Receives the events of one reply and sends them to one client. The base class of both kinds of response."""

    finished = False
    """The last data was handed over; nothing more is sent."""
    status = 0
    """The HTTP status; 0 before the head of the response is sent."""
    first_at: float | None = None
    """When the model's first event came, by `time.perf_counter`."""
    send_seconds: float | None = None
    """How long it took from the first event to the first bytes of the reply; for a whole reply, from the last."""
    outcome: Finish | None = None
    error: ParleyError | None = None
    disconnected = False
    """The client disconnected before the end."""
    attempts: AttemptLog | None = None
    """The requests to model servers for this reply; None if another request made them."""
    call: InFlightCall | None = None
    """The call that was started for this response; it can go on when the response has ended."""
    answers: str | None = None
    """What the reply answers, if its reasoning is kept for later requests."""
    owner = ""
    """The caller to whom the reply belongs, as `AppContext.owner` names it."""
    on_keepalive: Callable[[], None] | None = None
    """Called after a heartbeat that has a number among the frames of the reply."""
    _holds_end = False
    """The end is known, but sent later. Other events are dropped."""
    _encoder: Encoder | None = None
    """Made when the stream or the reply starts, from what is known about the reply by then."""
    _awaits_reply = False
    """The stream is open, and its reply is not known."""
    _has_begun = False
    """What begins the stream was written. An encoder may leave it to the events of a server."""

    def __init__(
        self,
        writer: ResponseWriter,
        info: ReplyInfo,
        reply_format: Format,
        mode: ReplyMode,
        limits: ResponseLimits,
    ) -> None:
        loop = asyncio.get_running_loop()
        self._loop = loop
        self._writer = writer
        self.notices_disconnect = writer.notices_disconnect
        """Whether the writer reports by itself that the client has disconnected."""
        self.info = info
        self.format = reply_format
        self.mode = mode
        self._limits = limits
        self._reply: Reply | None = None
        self.source: ReplaySource | None = None
        """The reply in the cache; None if it is not kept."""
        self._end_observer: EndObserver | None = None
        self._stage: Stage | None = reply_format.make_stage(info, mode)
        """The stages of this response; those of the call are in the reply."""
        self.done: asyncio.Future[None] = loop.create_future()
        """Resolved when the response has been sent or has failed, or the client has disconnected."""
        # Last, because it calls `disconnect` if the client has left before.
        writer.attach(self)

    def set_origin(self, origin: Origin) -> None:
        """Set where the reply comes from, once it is known. The reply of a fallback model has that model's name."""
        if origin == self.info.origin:
            return
        info = replace(self.info, origin=origin)
        if origin.fallback_model is not None:
            text = (
                f"the model {info.model!r} could not answer: this is a reply of its fallback {origin.fallback_model!r}"
            )
            info = replace(info, model=origin.fallback_model, warnings=(*info.warnings, text))
        self.set_info(info)

    def list_warnings(self) -> list[str]:
        """Return the warnings of the request, and those of the reply if it has ended."""
        return [*self.info.warnings] if self.outcome is None else self.info.warnings_with(self.outcome)

    def add_warnings(self, warnings: Sequence[str]) -> None:
        self.set_info(replace(self.info, warnings=(*self.info.warnings, *warnings)))

    def add_descriptions(self, descriptions: Sequence[DescribedMedium]) -> None:
        self.set_info(replace(self.info, descriptions=(*self.info.descriptions, *descriptions)))

    def set_info(self, info: ReplyInfo) -> None:
        """Replace `info`. A stream that is already open goes on with a new encoder that has it."""
        self.info = info
        if self._encoder is not None and not self.finished:
            self._encoder = self._make_encoder()
            self._write_beginning(self._encoder.open())

    def _write_beginning(self, data: bytes) -> None:
        """Write what an encoder begins an open stream with, unless that was written."""
        if self.status and not self._awaits_reply and not self._has_begun:
            self._has_begun = bool(data)
            self._write(data)

    def _make_encoder(self) -> Encoder:
        encoder = self.format.reply_encoder(self.info, self.mode)
        return JoinedReplyEncoder(encoder) if self.info.origin.label == "shared" else encoder

    @property
    def encoder(self) -> Encoder:
        if self._encoder is None:
            self._encoder = self._make_encoder()
        return self._encoder

    @property
    def blocked(self) -> bool:
        """Whether the client reads more slowly than the response is written."""
        return self._writer.blocked

    def add_first_stage(self, stage: Stage) -> None:
        """Let the events of the reply pass through this stage before others."""
        self._stage = stage if self._stage is None else Pipe((stage, self._stage))

    def observe_end(self, observer: EndObserver) -> None:
        self._end_observer = observer

    # The reply calls these methods.

    def start(self, reply: Reply) -> None:
        """Take the events of this reply. The response closes the reply when it ends."""
        if self.finished:
            reply.close()
            return
        self._reply = reply
        if self._writer.blocked:
            reply.pause()
        reply.start(self)

    def on_events(self, events: list[Event]) -> None:
        if self.finished or self._holds_end:
            return
        try:
            if self._stage is not None:
                events = self._stage.feed(events)
            if self._end_observer is not None and is_end(events):
                self._write_observed_end(events)
            else:
                self._write_events(events)
        except Exception as error:
            self.on_crash(error)

    def on_batches(self, batches: Sequence[list[Event]]) -> None:
        if self.finished or self._holds_end:
            return
        try:
            if self._stage is not None:
                batches = feed_to_end(self._stage, batches)
            if self._end_observer is None or not is_end(batches[-1]):
                self._write_batches(batches)
                return
            if len(batches) > 1:
                self._write_batches(batches[:-1])
            self._write_observed_end(batches[-1])
        except Exception as error:
            self.on_crash(error)

    def _write_observed_end(self, events: list[Event]) -> None:
        """Write the last events of the reply, and its end unless the observer holds it."""
        end = events[-1]
        assert type(end) is Finish or type(end) is Failed
        if len(events) > 1 and not self.finished:
            self._write_events(events[:-1])
        if not self.finished and self._end_observer is not None:
            self._holds_end = self._end_observer.on_end(end)
        if not self.finished and not self._holds_end:
            self._write_events([end])

    def send_end(self, end: Finish | Failed) -> None:
        """Send the end that was held."""
        if self.finished:
            return
        try:
            self._write_events([end])
        except Exception as error:
            self.on_crash(error)

    def on_crash(self, error: Exception) -> None:
        """A defect of the gateway ends this response and no other."""
        log.error("request %s: defect while reading a reply", self.info.request_id, exc_info=error)
        try:
            self.fail(Internal("the gateway failed while reading the reply"))
        except Exception:
            self.disconnect()

    @abstractmethod
    def _write_events(self, events: list[Event]) -> None:
        """Write the events of one read; an empty list means that the upstream is alive but sent no event yet."""

    @abstractmethod
    def _write_batches(self, batches: Sequence[list[Event]]) -> None:
        """Write the events of several reads."""

    # The request's handler calls these methods.

    @abstractmethod
    def fail(self, error: ParleyError) -> None:
        """End the response with an error. Does nothing after the end."""

    def disconnect(self) -> None:
        """Stop: the upstream's connection is closed at once. May be called at any time, and more than once."""
        if self.finished and not self._writer.blocked:
            return
        self.finished = self.disconnected = True
        self._close_reply()
        self._writer.detach()
        self._resolve()

    def close(self) -> None:
        """Disconnect the client unless the response has ended, and detach from the connection."""
        self.disconnect()
        self._writer.detach()

    def _finish(self) -> None:
        """End the response after its last bytes. It is done when the client can take them."""
        self.finished = True
        self._close_reply()
        if not self._writer.blocked:
            self._resolve()

    def _close_reply(self) -> None:
        # Both may hold this response, so all would wait for the garbage collector.
        observer, self._end_observer = self._end_observer, None
        reply, self._reply = self._reply, None
        if reply is not None:
            reply.close()
        if observer is not None:
            observer.on_close()

    def _resolve(self) -> None:
        if not self.done.done():
            self.done.set_result(None)

    # Writing.

    def _send_head(self, status: int, headers: Headers, length: int | None = None) -> None:
        self.status = status
        if not self.disconnected:
            self._writer.start(status, (*headers, *self._reply_headers()), length)

    def _reply_headers(self) -> list[tuple[bytes, bytes]]:
        info, attempts = self.info, self.attempts
        origin = info.origin
        headers = [(b"x-parley-response-id", info.response_id.encode()), (b"x-parley-cache", origin.label.encode())]
        if origin.age_seconds is not None:
            headers.append((b"age", b"%d" % origin.age_seconds))
        if attempts is not None and attempts.shown and attempts.attempts:
            headers.append((b"x-parley-attempts", write_attempts_header(attempts.attempts)))
        if info.warnings:
            headers.append((b"x-parley-warnings", write_warnings_header(info.warnings)))
        return headers

    def _send_body(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        """Send a whole JSON response and end."""
        more = [(name.encode(), value.encode()) for name, value in headers.items()] if headers else ()
        self._send_head(status, (*JSON_HEADERS, *more), len(body))
        self._write(body, last=True)
        self._finish()

    def _describe_error(self, error: ParleyError) -> dict[str, Any]:
        """Return the error as `ParleyError.to_dict` does, with the status that this format has for it."""
        return error.to_dict(self.info.request_id) | {"status": choose_status(self.format.error, error)}

    def _send_error_body(self, error: ParleyError, body: bytes) -> None:
        self._send_body(choose_status(self.format.error, error), body, error.list_headers())

    def _write(self, data: bytes, *, last: bool = False) -> None:
        if (data or last) and not self.disconnected:
            self._writer.write(data, last=last)

    # The writer calls these methods.

    def on_blocked(self) -> None:
        if self._reply is not None:
            self._reply.pause()

    def on_clear(self) -> None:
        if self.finished:
            self._resolve()
        elif self._reply is not None:
            self._reply.resume()

    # The ticker calls this method.

    def tick(self, now: float) -> None:
        """Look for timeouts of the upstream, and for a client that reads nothing."""
        try:
            if self._reply is not None:
                self._reply.tick(now)
            if self._writer.blocked:
                self._drop_stalled(now)
        except Exception as error:
            self.on_crash(error)

    def _drop_stalled(self, now: float) -> None:
        if now - self._writer.blocked_since > self._limits.stall_seconds:
            self.disconnect()
            self._writer.abort()


class EventStreamResponse(ReplyResponse):
    """Sends every read of the upstream as SSE frames in one write.

    The stream is opened (200, heartbeats) by the upstream's first byte, or after `commit_seconds`. Before that an error
    is an HTTP status; afterwards it is the last frame.
    """

    def __init__(
        self,
        writer: ResponseWriter,
        info: ReplyInfo,
        reply_format: Format,
        mode: ReplyMode,
        limits: ResponseLimits,
        skip_frames: int = 0,
        *,
        keep_last: bool = True,
    ) -> None:
        """The first `skip_frames` frames are not sent: the client has read them, but with `keep_last` not the last one
        of the reply."""
        super().__init__(writer, info, reply_format, mode, limits)
        self._skip_frames = skip_frames
        self._keep_last = keep_last
        now = self._loop.time()
        self._commit_at = now + limits.commit_seconds
        self._last_sent = self._ticked = now
        self._quiet = False
        """Nothing was written since the last tick."""

    @override
    def _make_encoder(self) -> Encoder:
        encoder = super()._make_encoder()
        return (
            SkipFrames(encoder, self._skip_frames, keep_last=self._keep_last, reply_format=self.format)
            if self._skip_frames
            else encoder
        )

    def start_stream(self) -> None:
        """Open the stream, unless it is open. From now on an error is a frame."""
        if (self.status and not self._awaits_reply) or self.finished:
            return
        if not self.status:
            self._send_head(200, ((b"content-type", self.format.stream_type), *_UNSTORED))
        self._awaits_reply = False
        self._write_beginning(self.encoder.open())

    def await_reply(self) -> None:
        """Open a stream whose reply is not known yet: it has heartbeats only. Call `set_info` and `start_stream` with
        the reply."""
        self._send_head(200, ((b"content-type", self.format.stream_type), *_UNSTORED))
        self._write(self.format.heartbeat)
        self._awaits_reply = True

    def end_with(self, frames: bytes) -> None:
        """End an open stream with these frames."""
        if not self.finished:
            self._end_stream(frames)

    @override
    def _write_events(self, events: list[Event], earlier: bytes = b"") -> None:
        """Write the events of one read. `earlier` holds the frames of earlier reads; all go out in one write."""
        if not events:
            self.start_stream()
            self._write(earlier)
            return
        last = events[-1]
        if type(last) is Failed:
            self._write(earlier)
            self._write_failure(events, last)
            return
        if self.first_at is None:
            self.first_at = time.perf_counter()
        if not self.status:
            self.start_stream()  # the frame that opens the stream must get the first number
        data = (self._encoder or self.encoder).feed(events)
        if earlier:
            data = earlier + data
        self._write_data(data, last if type(last) is Finish else None)

    def _write_data(self, data: bytes, finish: Finish | None) -> None:
        if finish is not None:
            self.outcome = finish
            self._end_stream(data)
        elif data:  # some formats have no frame for some events: then heartbeats must go on
            self._quiet = False
            if not self.disconnected:
                self._writer.write(data, last=False)
        if self.send_seconds is None and self.first_at is not None:
            self.send_seconds = time.perf_counter() - self.first_at

    @override
    def _write_batches(self, batches: Sequence[list[Event]]) -> None:
        if type(batches) is EventRuns:
            if self.first_at is None:
                self.first_at = time.perf_counter()
            self.start_stream()
            self._write_data(encode_each(self.encoder, batches), batches.finish)
            return
        earlier = [batch for batch in batches[:-1] if batch]
        if earlier:
            if self.first_at is None:
                self.first_at = time.perf_counter()
            self.start_stream()
        self._write_events(batches[-1], encode_each(self.encoder, earlier))

    def _write_failure(self, events: list[Event], last: Failed) -> None:
        """Send what came before the failure. A failure that came alone and first can still be an HTTP status."""
        self.error = UpstreamFailed(last.fault)
        if self.status or len(events) > 1:
            self.start_stream()
            self._end_failed_stream(self.encoder.feed(events))
        else:
            self.fail(self.error)

    @override
    def fail(self, error: ParleyError) -> None:
        if self.finished:
            return
        if self.status and self._end_observer is not None and self._end_observer.on_failure(error):
            self._holds_end = True
            return
        self.error = error
        fields = self._describe_error(error)
        if self.status:
            self.start_stream()
            self._end_failed_stream(self.encoder.fail(fields))
        else:
            self._send_error_body(error, msgspec.json.encode(self.format.error(fields)))

    def _end_stream(self, data: bytes) -> None:
        self._write(data, last=True)
        self._finish()

    def _end_failed_stream(self, data: bytes) -> None:
        """End a stream with an error. The body has no end where clients of the format would take half a reply for a
        whole one."""
        cuts = self.format.cuts_failed
        if cuts == "never" or (cuts == "calls" and not is_within_call(self.encoder)):
            self._end_stream(data)
            return
        self._write(data)
        if not self.disconnected:
            self._writer.cut()
        self._finish()

    @override
    def tick(self, now: float) -> None:
        """Do what every response does, start the stream after `commit_seconds`, and send heartbeats."""
        interval, self._ticked = now - self._ticked, now
        super().tick(now)
        if self.finished or self._writer.blocked:
            return
        try:
            self._keep_alive(now, interval)
        except Exception as error:
            self.on_crash(error)

    def _keep_alive(self, now: float, interval: float) -> None:
        """Start the stream or send a heartbeat if it is due before the next tick. Data that was written since the last
        tick counts as written at that tick."""
        if not self.status:
            if now >= self._commit_at:
                self._last_sent = now
                self.start_stream()
        elif not self._quiet:
            self._quiet, self._last_sent = True, now - interval
        elif now + interval - self._last_sent >= self._limits.heartbeat_seconds:
            self._last_sent = now
            self._write(self.format.heartbeat if self._awaits_reply else self.encoder.heartbeat())
            if self.on_keepalive is not None and self.info.keepalives:
                self.on_keepalive()


class JsonResponse(ReplyResponse):
    """Sends the whole reply as one JSON body. An error is always an HTTP status."""

    @override
    def _write_events(self, events: list[Event]) -> None:
        if not events:
            return
        last = events[-1]
        if type(last) is Failed:
            self.encoder.feed(events)
            self.fail(UpstreamFailed(last.fault))
            return
        if type(last) is Finish:
            self._write_reply(events, last)
            return
        if self.first_at is None:
            self.first_at = time.perf_counter()
        (self._encoder or self.encoder).feed(events)

    def _write_reply(self, events: list[Event], finish: Finish) -> None:
        began = time.perf_counter()
        if self.first_at is None:
            self.first_at = began
        self._end_reply(self.encoder.feed(events), finish, began)

    def _end_reply(self, data: bytes, finish: Finish, began: float) -> None:
        self.outcome = finish
        self._send_body(200, data, {})
        self.send_seconds = time.perf_counter() - began

    @override
    def _write_batches(self, batches: Sequence[list[Event]]) -> None:
        if type(batches) is EventRuns:
            self._write_runs(batches)
            return
        for events in batches:
            self._write_events(events)

    def _write_runs(self, batches: EventRuns) -> None:
        began = time.perf_counter()
        if self.first_at is None:
            self.first_at = began
        data = encode_each(self.encoder, batches)
        if batches.finish is not None:
            self._end_reply(data, batches.finish, began)

    @override
    def fail(self, error: ParleyError) -> None:
        """End with an HTTP error. If the format allows it, the body also holds the reply up to the error."""
        if self.finished:
            return
        self.error = error
        self._send_error_body(error, self.encoder.fail(self._describe_error(error)))
