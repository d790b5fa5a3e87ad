"""Continue a broken reply with a second reply to the same request.

As long as the second reply repeats the first, run by run and character by character, its events are dropped. What goes
beyond the first reply is passed on. Fragments of calls may come in any order. The division into events does not matter.
"""

from collections.abc import Iterable

from app.calls.shared.reply_runs import ContentEvent, ReplyRun, ReplyRuns, RunTracker, get_kind, get_text, skip_text
from app.chat.events import End, Event, Extra, Failed, Fault, Finish, ToolCallDelta

DIVERGED = Fault(
    "upstream_incomplete",
    "the reply was interrupted, and the model server's second reply to the same request was different",
    True,
)


class _Diverged(Exception):
    pass


class Splice:
    """A stage. It ends with a `Finish`, with a `Failed`, or with a `Failed` that says that the two replies differ."""

    def __init__(self, earlier: Iterable[list[Event]]) -> None:
        """`earlier` holds the events of the first reply."""
        self._earlier = ReplyRuns(earlier)
        self._tracker = RunTracker()
        self._unrepeated = len(self._earlier.runs)
        """How many runs the second reply has not repeated completely."""
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
        """Return the part of an event that goes beyond the first reply. Raises _Diverged."""
        if isinstance(event, End):
            if self._unrepeated and isinstance(event, Finish):
                raise _Diverged
            self._over = True
            return [event]
        if not self._unrepeated:
            return [self._with_unique_id(event)]
        number = self._step(event)
        run = self._earlier.runs.get(number)
        if run is None:
            return [self._with_unique_id(event)]
        was_done = run.done
        rest = self._repeat_extra(number, run, event) if isinstance(event, Extra) else self._repeat(number, run, event)
        self._unrepeated -= run.done and not was_done
        return rest

    def _step(self, event: ContentEvent | Extra) -> int:
        """Return the event's run. If another run ends here, it must have been repeated completely."""
        open_run = self._tracker.open
        number = self._tracker.find_run(event)
        ended = self._earlier.runs.get(open_run) if open_run != self._tracker.open else None
        if ended is not None and not ended.done:
            raise _Diverged
        return number

    def _repeat_extra(self, number: int, run: ReplyRun, event: Extra) -> list[Event]:
        if run.extras_repeated == len(run.extras):
            self._check_open(number, event.index >= 0)
            return [event]
        if run.extras[run.extras_repeated].fields != event.fields:
            raise _Diverged
        run.extras_repeated += 1
        return []

    def _repeat(self, number: int, run: ReplyRun, event: ContentEvent) -> list[Event]:
        if run.kind is None:
            return [self._with_unique_id(event)]
        if not run.begun and run.kind != get_kind(event):
            raise _Diverged
        run.begun = True
        text = get_text(event)
        same = min(len(text), len(run.text) - run.repeated)
        if not run.text.startswith(text[:same], run.repeated):
            raise _Diverged
        run.repeated += same
        if same == len(text):
            return []
        self._check_open(number, isinstance(event, ToolCallDelta))
        return [skip_text(event, same)]

    def _check_open(self, number: int, always: bool) -> None:
        """Raise _Diverged if the run had ended in the first reply: it cannot grow any more."""
        if not always and number < self._earlier.tracker.count and number != self._earlier.tracker.open:
            raise _Diverged

    def _with_unique_id(self, event: ContentEvent | Extra) -> Event:
        """Return the event of a new call with an id that no call of the first reply has."""
        if not isinstance(event, ToolCallDelta) or event.id not in self._earlier.ids:
            return event
        id_ = event.id
        while id_ in self._earlier.ids:
            id_ += "_"
        return ToolCallDelta(event.index, event.arguments, id_, event.name)
