"""What the encoders of replies have in common: one frame for each new text, or one JSON body at the end."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from app.chat.accumulator import (
    MessageAccumulator,
    MessageCompleted,
    MessageDelta,
    MessageStarted,
    ReplyMessage,
    Step,
    is_json,
)
from app.chat.event_runs import EventRuns, TextRun
from app.chat.events import Event, Extra, Failed, Finish, ToolsListed, TurnEnd
from app.errors import UpstreamFailed
from app.formats.base import HEARTBEAT, Encoder, ReplyInfo
from app.formats.sse import encode_json


class TokenCursor:
    """Which of the messages' log probabilities have been written."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}

    def take(self, message: ReplyMessage) -> list[dict[str, Any]]:
        """Return those that have not been written."""
        start, end = self._counts.get(message.index, 0), len(message.logprobs)
        if start == end:
            return []
        self._counts[message.index] = end
        return message.logprobs[start:]


class DeltaEncoder(ABC):
    """A stream that has a frame for each new text.

    Each token is such a text, so `feed` writes it without a `Step` for it. All other events become steps. If extra
    fields come in the same read as the message that they belong to, its first frame has them.
    """

    _looks_ahead = True
    """Whether that is so. Else a message starts with the fields that came before it, wherever a read ends."""

    def __init__(self, info: ReplyInfo) -> None:
        self._info = info
        self._accumulator = MessageAccumulator()

    def heartbeat(self) -> bytes:
        return HEARTBEAT

    def is_within_call(self) -> bool:
        """Whether the reply so far has a call for the client whose arguments are not whole."""
        calls = (one for one in self._accumulator.messages if one.kind == "function_call" and one.server is None)
        return not all(is_json(call.text) for call in calls)

    def feed(self, events: list[Event]) -> bytes:
        if len(events) == 1:
            delta = self._accumulator.extend(events[0])
            if delta is not None:
                return self._write_text(delta[0], delta[1])
        out: list[bytes] = []
        place = 0
        has_extra: bool | None = None
        while place < len(events):
            run = self._accumulator.extend_run(events, place)
            if run is not None:
                out.append(self._write_texts(run[0], run[1]))
                place += len(run[1])
                continue
            if has_extra is None:
                has_extra = self._looks_ahead and Extra in map(type, events)
            end = len(events) if has_extra else place + 1
            out += map(self._write_step, self._accumulator.feed(events[place:end]))
            place = end
        return out[0] if len(out) == 1 else b"".join(out)

    def feed_each(self, batches: Sequence[list[Event]]) -> bytes:
        """Return the bytes of `feed` for each of the batches. Those of one event, unless it is an `Extra`, are fed
        together."""
        if type(batches) is EventRuns:
            return b"".join([self._feed_run(run) for run in batches.runs])
        out: list[bytes] = []
        for size, group in groupby(batches, len):
            alike = list(group)
            single = [batch[0] for batch in alike] if size == 1 else list[Event]()
            if single and Extra not in map(type, single):
                out.append(self.feed(single))
            else:
                out += map(self.feed, alike)
        return b"".join(out)

    def _feed_run(self, run: TextRun | Event) -> bytes:
        if not isinstance(run, TextRun):
            return self.feed([run])
        steps, message, texts = self._accumulator.feed_run(run)
        out = list(map(self._write_step, steps))
        if message is not None:
            out.append(self._write_run(run, message, texts))
        return b"".join(out)

    def _write_run(self, run: TextRun, message: ReplyMessage, texts: list[str]) -> bytes:
        """Return the bytes of the last texts of a run, which are those of `_write_texts`."""
        return self._write_texts(message, texts)

    def _write_texts(self, message: ReplyMessage, texts: list[str]) -> bytes:
        return b"".join([self._write_text(message, text) for text in texts])

    def _write_step(self, step: Step) -> bytes:
        if type(step) is MessageDelta:
            return self._write_text(step.message, step.text)
        if type(step) is MessageStarted:
            return self._write_started(step.message)
        if type(step) is MessageCompleted:
            return self._write_completed(step.message)
        if type(step) is Failed:
            return self.fail(UpstreamFailed(step.fault).to_dict(self._info.request_id))
        if type(step) is TurnEnd:
            return self._write_turn_end(step)
        if type(step) is ToolsListed:
            return self._write_listed(step)
        assert type(step) is Finish
        return self._write_finish(step)

    def _write_turn_end(self, turn: TurnEnd) -> bytes:
        """Return the bytes of the end of a turn that is not the last of the reply."""
        return b""

    def _write_listed(self, listed: ToolsListed) -> bytes:
        """Return the bytes of the tools that a server offers."""
        return b""

    @abstractmethod
    def _write_started(self, message: ReplyMessage) -> bytes: ...

    @abstractmethod
    def _write_text(self, message: ReplyMessage, text: str) -> bytes: ...

    @abstractmethod
    def _write_completed(self, message: ReplyMessage) -> bytes: ...

    @abstractmethod
    def _write_finish(self, finish: Finish) -> bytes: ...

    @abstractmethod
    def fail(self, error: dict[str, Any]) -> bytes: ...


def encode_each(encoder: Encoder, batches: Sequence[list[Event]]) -> bytes:
    """Return the bytes of several reads, each encoded by itself."""
    if isinstance(encoder, DeltaEncoder):
        return encoder.feed_each(batches)
    if isinstance(encoder, WholeEncoder):
        return encoder.feed_each(batches)
    feed = encoder.feed
    return b"".join([feed(events) for events in batches])


_MOST_HELD = 256
_MIN_RUNS = 8
"""Among fewer events no runs of the same kind are searched for."""


class WholeEncoder(ABC):
    """`stream: false`: one JSON body, written at the end of the reply."""

    def __init__(self, info: ReplyInfo) -> None:
        self._info = info
        self._accumulator = MessageAccumulator()
        self._held: list[Event] = []
        """The last events, which are not accumulated yet: many at once take less time than each by itself."""

    def open(self) -> bytes:
        return b""

    def heartbeat(self) -> bytes:
        return b""

    def feed(self, events: list[Event]) -> bytes:
        self._held += events
        last = events[-1] if events else None
        if type(last) is Finish:
            self._accumulate()
            return encode_json(self._write_reply(last))
        if len(self._held) >= _MOST_HELD:
            self._accumulate()
        return b""

    def feed_each(self, batches: Sequence[list[Event]]) -> bytes:
        """Return the bytes of `feed` for each of the batches."""
        if type(batches) is not EventRuns:
            return b"".join(map(self.feed, batches))
        self._accumulate()
        finish = batches.finish
        for run in batches.runs:
            if isinstance(run, TextRun):
                self._accumulator.feed_run(run)
            elif run is not finish:
                self._accumulator.feed([run])
        return b"" if finish is None else self.feed([finish])

    def fail(self, error: dict[str, Any]) -> bytes:
        self._accumulate()
        return encode_json(self._write_failure(error))

    def _accumulate(self) -> None:
        accumulator, events = self._accumulator, self._held
        self._held = []
        if len(events) < _MIN_RUNS:
            accumulator.feed(events)
            return
        kind: type[Event] | None = None
        place = 0
        while place < len(events):
            event = events[place]
            run = accumulator.extend_run(events, place) if type(event) is kind else None
            if run is None:
                accumulator.feed([event])
                place, kind = place + 1, type(event)
            else:
                place += len(run[1])

    @abstractmethod
    def _write_reply(self, finish: Finish) -> dict[str, Any]:
        """Return the body of a reply that finished."""

    @abstractmethod
    def _write_failure(self, error: dict[str, Any]) -> dict[str, Any]:
        """Return the body of a reply that failed, with what came before if the format has a place for it."""
