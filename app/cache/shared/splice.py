"""A reply that was broken off, gone on with by another one to the same request.

While the new reply repeats what was told, run by run and character by character, nothing is told; what goes beyond is
the rest. Late fragments of calls may come in any order. How a reply was cut into events never matters.
"""

from collections.abc import Iterable

from app.cache.shared.reply_runs import ReplyRun, ReplyRuns, RunTracker, Words, cut, kind_of, text_of
from app.chat.events import End, Event, Extra, Failed, Fault, Finish, ToolCallDelta

DIVERGED = Fault(
    "upstream_incomplete", "the reply was broken off, and the model server, asked again, said something else", True
)


class _Diverged(Exception):
    pass


class Splice:
    """A stage. Nothing follows a `Finish`, a `Failed`, or the `Failed` that says that the two replies differ."""

    def __init__(self, told: Iterable[list[Event]]) -> None:
        self._before = ReplyRuns(told)
        self._tracker = RunTracker()
        self._left = len(self._before.runs)
        """Runs that were not wholly repeated yet."""
        self._over = False

    def feed(self, events: list[Event]) -> list[Event]:
        out: list[Event] = []
        for event in events:
            if self._over:
                break
            try:
                out += self._new_part(event)
            except _Diverged:
                self._over = True
                out.append(Failed(DIVERGED))
        return out

    def close(self) -> list[Event]:
        return []

    def _new_part(self, event: Event) -> list[Event]:
        """What of it was not told yet. Raises _Diverged."""
        if isinstance(event, End):
            if self._left and isinstance(event, Finish):
                raise _Diverged
            self._over = True
            return [event]
        if not self._left:
            return [self._with_unique_id(event)]
        at = self._step(event)
        run = self._before.runs.get(at)
        if run is None:
            return [self._with_unique_id(event)]
        was_done = run.done
        rest = self._repeat_extra(at, run, event) if isinstance(event, Extra) else self._repeat(at, run, event)
        self._left -= run.done and not was_done
        return rest

    def _step(self, event: Words | Extra) -> int:
        """Its run; the one that ends there must have been repeated whole."""
        before = self._tracker.open
        at = self._tracker.run_of(event)
        ended = self._before.runs.get(before) if before != self._tracker.open else None
        if ended is not None and not ended.done:
            raise _Diverged
        return at

    def _repeat_extra(self, at: int, run: ReplyRun, event: Extra) -> list[Event]:
        if run.extras_repeated == len(run.extras):
            self._must_be_open(at, event.index >= 0)
            return [event]
        if run.extras[run.extras_repeated].fields != event.fields:
            raise _Diverged
        run.extras_repeated += 1
        return []

    def _repeat(self, at: int, run: ReplyRun, event: Words) -> list[Event]:
        if run.kind is None:
            return [self._with_unique_id(event)]
        if not run.begun and run.kind != kind_of(event):
            raise _Diverged
        run.begun = True
        text = text_of(event)
        same = min(len(text), len(run.text) - run.repeated)
        if not run.text.startswith(text[:same], run.repeated):
            raise _Diverged
        run.repeated += same
        if same == len(text):
            return []
        self._must_be_open(at, isinstance(event, ToolCallDelta))
        return [cut(event, same)]

    def _must_be_open(self, at: int, always: bool) -> None:
        """What was told as ended cannot grow any more."""
        if not always and at < self._before.tracker.count and at != self._before.tracker.open:
            raise _Diverged

    def _with_unique_id(self, event: Words | Extra) -> Event:
        """Calls that were told keep their ids, and a new one never takes one of those."""
        if not isinstance(event, ToolCallDelta) or event.id not in self._before.ids:
            return event
        id = event.id
        while id in self._before.ids:
            id += "_"
        return ToolCallDelta(event.index, event.arguments, id, event.name)
