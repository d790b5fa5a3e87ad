"""A model server's reply in progress: turns the bytes of each socket read into events for one receiver."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from app.chat.events import END_TYPES, Event, Failed, Fault, Finish, Passed
from app.chat.stage import Pipe, Stage
from app.chat.stream import Receiver
from app.profiles import EmptyReplies
from app.runtime.decompress import decompressor_for
from app.upstream import faults
from app.upstream.causes import FIRST_TOKEN_TIMEOUT, IDLE_TIMEOUT, REPLY_TOO_LARGE, Cause
from app.upstream.chat_completions.reader import make_reader as make_chat_reader
from app.upstream.http.client import Target, make_transport_fault
from app.upstream.http.transport import ResponseBody
from app.upstream.reply.answer import add_empty_warning, has_answer, may_lack_answer
from app.upstream.reply.reader import ReplyReader
from app.upstream.reply.sse import MalformedData


class StreamObserver(Protocol):
    """Learns how a reply goes. Exactly one of `on_failed`, `on_finished` and `on_closed` is called, before the receiver
    gets the end, and nothing after it."""

    def on_first_token(self) -> None:
        """The server has sent a part of the reply. Stages may still hold it back."""

    def on_held(self, events: list[Event]) -> None:
        """These events came while there is no receiver."""

    def on_failed(self, fault: Fault) -> None: ...

    def on_finished(self) -> None: ...

    def on_closed(self) -> None:
        """The reply was closed before its end, or the gateway has a defect."""


class _NullObserver:
    def on_first_token(self) -> None: ...

    def on_held(self, events: list[Event]) -> None: ...

    def on_failed(self, fault: Fault) -> None: ...

    def on_finished(self) -> None: ...

    def on_closed(self) -> None: ...


_NULL_OBSERVER = _NullObserver()


class UsageMeter(Protocol):
    """Learns what a reply used: exactly one method is called, when it ends."""

    def end(self, events: list[Event], count: int, reported: dict[str, Any] | None) -> list[Event]:
        """Return the last events of the reply, which has had `count` events, with what it used and cost. `reported` is
        the usage that the server has reported, where the last event has none."""

    def stop(self, count: int, reported: dict[str, Any] | None) -> object:
        """The reply was closed, or the gateway has a defect, after `count` events."""


class UpstreamStream:
    """A model server's reply in progress. Call `start` once, and `close` in every case.

    After `read_ahead` it is read before it has a receiver, which first gets the events so far.
    """

    crash: Exception | None = None
    """A defect of the gateway that ended the reply before it had a receiver."""
    has_answer = False
    """Whether a part of an answer has come from the last stage."""
    empty_warning: str | None = None
    """What is said of a reply that ended without an answer, if another one is to be tried in its place."""
    _over = False
    """The terminal event was sent, or the reply was closed. The body must not be used any more."""
    _active = True
    """Whether anything but empty chunks came since the last tick."""
    _event_count = 0
    _heartbeat_count = 0
    """How many of these events only say that the server is there."""
    _ticked_count: int | None = None
    """The number of events at the last tick; None after a pause."""
    _size = 0
    """The bytes of the reply so far, decompressed."""
    _reported = 0
    """What the receiver knows: 1 that the server sends, 2 that it has sent a part of the reply."""
    _paused = False
    _reads_ahead = False
    _is_receiver_paused = False

    def __init__(
        self,
        body: ResponseBody,
        reply_id: str,
        stages: Sequence[Stage],
        target: Target,
        observer: StreamObserver = _NULL_OBSERVER,
        meter: UsageMeter | None = None,
        empty_replies: EmptyReplies = "retry",
        fallback_model: str | None = None,
        make_reader: Callable[[str], ReplyReader] = make_chat_reader,
        has_own_items: bool = False,
    ) -> None:
        """`has_own_items`: the client has the API of the server, so it understands all items of that."""
        self.fallback_model = fallback_model
        self.held: list[list[Event]] = []
        """The events that came before there was a receiver."""
        self._body = body
        self._receiver: Receiver | None = None
        self._decompress = None if body.encoding is None else decompressor_for(body.encoding).feed
        self._target = target
        self._max_bytes = target.max_reply_bytes
        self._observer = observer
        self._meter = meter
        self._empty_replies = empty_replies
        self._has_own_items = has_own_items
        self._takes_reasoning = empty_replies != "retry_reasoning"
        reader = make_reader(reply_id)
        self._reader = reader.events
        self._feed_reader = self._reader.feed
        self._assembler = reader.assembler
        self._feed_stage = (Pipe(stages) if len(stages) != 1 else stages[0]).feed
        self._sent_at = self._last_active_at = self._last_event_at = body.sent_at

    @property
    def has_begun(self) -> bool:
        """Whether the server has sent a part of the reply. Stages may still hold it back."""
        return self._event_count > 0

    def read_ahead(self) -> None:
        self._reads_ahead = True
        self._body.push(self._on_data, self._on_end)

    def start(self, receiver: Receiver) -> None:
        if not self._over:
            self._receiver = receiver
        if not self._reads_ahead:
            self._body.push(self._on_data, self._on_end)
            return
        self._reads_ahead = False
        held, self.held = self.held, []
        if held:
            receiver.on_batches(held)
        if self.crash is not None:
            receiver.on_crash(self.crash)
        elif not self._is_receiver_paused:
            self.resume()

    def pause(self) -> None:
        self._is_receiver_paused = True
        self.hold()

    def hold(self) -> None:
        """Read no more, until there is a receiver or `resume` is called."""
        if not self._over:
            self._paused = True
            self._body.pause()

    def resume(self) -> None:
        self._is_receiver_paused = False
        if not self._over:
            self._paused = False
            self._active, self._ticked_count = True, None
            self._body.resume()

    def close(self) -> None:
        """Stop reading. Before the end of the reply this closes the connection. May be called twice."""
        if not self._over:
            self._end()
            self._body.abort()
            self._report_closed()

    def _report_closed(self) -> None:
        self._take_observer().on_closed()
        if self._meter is not None:
            self._meter.stop(self._event_count, self._assembler.read_usage())

    def _take_observer(self) -> StreamObserver:
        """Return the observer for its last call. Without it, the stream is freed without the garbage collector."""
        observer, self._observer = self._observer, _NULL_OBSERVER
        return observer

    def _end(self) -> Receiver | None:
        receiver, self._receiver = self._receiver, None
        self._over = True
        return receiver

    def _give(self, receiver: Receiver | None, events: list[Event]) -> None:
        if receiver is not None:
            receiver.on_events(events)
        elif events or self.has_begun:
            self.held.append(events)
            self._observer.on_held(events)

    def _give_crash(self, receiver: Receiver | None, error: Exception) -> None:
        if receiver is not None:
            receiver.on_crash(error)
        else:
            self.crash = error

    def _report_first_token(self, events: list[Event]) -> None:
        """Report the first part of the reply. A failure is none."""
        if (events or self.has_begun) and not (events and type(events[0]) is Failed):
            self._observer.on_first_token()

    def _on_data(self, data: bytes) -> None:
        if self._over:
            return
        receiver = self._receiver
        assembler = self._assembler
        try:
            if self._decompress is not None:
                items = self._read_compressed(data, self._decompress)
            else:
                self._size += len(data)
                items = self._feed_reader(data)
            if self._size > self._max_bytes:
                self._refuse(f"the model server's reply has more than {self._max_bytes} bytes")
                return
            events = assembler.feed(items)
            if events or assembler.check_progress():
                self._active = True
                self._event_count += len(events) or 1
                self._heartbeat_count += _is_heartbeat(events)
                events = self._feed_stages(events)
            elif not items:
                self._active = True
            last = type(events[-1]) if events else None
            if last is Failed:
                events = self._annotate_failure(events)
        except Exception as error:
            self._end()
            self._body.abort()
            self._report_closed()
            self._give_crash(receiver, error)
            return
        if assembler.ended:
            self._event_count -= 1  # the end is no part of the reply
            self._end()
            self._body.release()
            self._take_observer().on_finished()
            events = self._measure(events)
        elif last in END_TYPES:  # a stage ended the reply: a stop word
            self._end()
            self._body.abort()
            self._take_observer().on_finished()
            events = self._measure(events)
        if events:
            self._reported = 2
            self._give(receiver, events)
        elif self._reported < 2:
            self._report_progress(receiver)

    def _feed_stages(self, events: list[Event]) -> list[Event]:
        events = self._feed_stage(events)
        if not self.has_answer and events:
            self.has_answer = has_answer(events, reasoning=self._takes_reasoning, items=self._has_own_items)
        if self._reported < 2:
            self._report_first_token(events)
        return events

    def _report_progress(self, receiver: Receiver | None) -> None:
        """Report with an empty list that the server sends, and that it has sent a part of the reply which stages hold
        back."""
        reached = 2 if self.has_begun else 1 if self._reader.saw_line else 0
        if reached > self._reported:
            self._reported = reached
            self._give(receiver, [])

    def _read_compressed(self, data: bytes, decompress: Callable[[bytes], bytes]) -> list[Any]:
        try:
            data = decompress(data)
        except ValueError as error:
            return [MalformedData(b"", f"the model server sent {error}")]
        self._size += len(data)
        return self._feed_reader(data)

    def _on_end(self, error: Exception | None) -> None:
        if not self._over:
            self._finish(None if error is None else make_transport_fault(error, self._target, answered=True))

    def _finish(self, fault: Fault | None) -> None:
        """End the reply after its last byte; `fault` says what broke the body, None for a clean end."""
        receiver = self._end()
        try:
            events = self._assembler.feed(self._read_rest(fault is None))
            events += _name_failure(self._assembler.close(self._reader.junk, fault), self._reader.junk)
            events = self._annotate_failure(self._feed_stages(events))
        except Exception as error:
            self._report_closed()
            self._give_crash(receiver, error)
            return
        self._take_observer().on_finished()
        self._give(receiver, self._measure(events))

    def _measure(self, events: list[Event]) -> list[Event]:
        """Report the usage of the reply, which ends with these events, and return them with the cost, and with a
        warning if the reply is empty."""
        if not self.has_answer:
            events = self._warn_if_empty(events)
        if self._meter is None:
            return events
        last = events[-1] if events else None
        reported = None if type(last) is Finish and last.usage is not None else self._assembler.read_usage()
        return self._meter.end(events, self._event_count, reported)

    def _warn_if_empty(self, events: list[Event]) -> list[Event]:
        """Add a warning to a reply that ends well without an answer, unless it may."""
        last = events[-1] if events else None
        if type(last) is not Finish or self._empty_replies == "accept" or may_lack_answer(last):
            return events
        finish = add_empty_warning(last, reasoning=not self._takes_reasoning)
        if finish.reason != "length":  # the same request would reach its limit again
            self.empty_warning = finish.warnings[-1]
        return [*events[:-1], finish]

    def _annotate_failure(self, events: list[Event]) -> list[Event]:
        """Add the upstream's name and the cause to a failure that ends the events, and report it to the observer."""
        last = events[-1] if events else None
        if not isinstance(last, Failed):
            return events
        fault = self._target.annotate_fault(last.fault)
        self._take_observer().on_failed(fault)
        return [*events[:-1], Failed(fault)]

    def _read_rest(self, clean: bool) -> list[Any]:
        try:
            return self._reader.close(clean=clean)
        except ValueError:
            return []

    def tick(self, now: float) -> None:
        """Enforce the timeouts: for the first token, between tokens, between bytes, for the end and for the whole."""
        if self._over or not (self._reads_ahead or self._receiver):
            return
        target, started = self._target, self._assembler.started
        if self._active or self._paused or not started:
            self._active = False
            self._last_active_at = now
        count = self._event_count - self._heartbeat_count if self._assembler.finishing else self._event_count
        if count != self._ticked_count or self._paused or not started:
            self._ticked_count = count
            self._last_event_at = now
        event_seconds = max(target.first_token_seconds, target.idle_seconds)
        if now - self._sent_at > target.max_reply_seconds:
            self._time_out(IDLE_TIMEOUT, f"its reply took more than {target.max_reply_seconds:g} s")
        elif not started:
            if now - self._sent_at > target.first_token_seconds and not self._paused:
                self._time_out(FIRST_TOKEN_TIMEOUT, f"no first token within {target.first_token_seconds:g} s")
        elif self._assembler.finishing and now - self._last_event_at > target.grace_seconds:
            self._body.abort()
            self._finish(None)
        elif now - self._last_active_at > target.idle_seconds:
            self._time_out(IDLE_TIMEOUT, f"no new part of the reply for more than {target.idle_seconds:g} s")
        elif now - self._last_event_at > event_seconds:
            self._time_out(IDLE_TIMEOUT, f"nothing but comments for more than {event_seconds:g} s")

    def _refuse(self, reason: str) -> None:
        self._body.abort()
        self._finish(faults.make_fault("upstream_protocol", reason, status=200, cause=REPLY_TOO_LARGE.word))

    def _time_out(self, cause: Cause, reason: str) -> None:
        self._body.abort()
        self._finish(faults.make_fault("timeout", f"the model server timed out: {reason}", cause=cause.word))


def _is_heartbeat(events: list[Event]) -> bool:
    """Whether the server only says that it is there, to a client of its own API."""
    event = events[0] if len(events) == 1 else None
    return type(event) is Passed and event.name in ("ping", "keepalive")


def _name_failure(events: list[Event], junk: bytes) -> list[Event]:
    """Return the end of a reply that is not whole with what a line of words within it says of the failure
    (tetsuo-ai/agenc-core#2492)."""
    last = events[-1] if junk and events else None
    if type(last) is not Failed or last.fault.code != "upstream_incomplete":
        return events
    told = faults.make_protocol_fault(junk)
    if told.code == "upstream_protocol":
        return events
    return [*events[:-1], Failed(msgspec.structs.replace(told, status=200))]
