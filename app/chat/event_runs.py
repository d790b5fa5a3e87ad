"""`EventRuns`: batches of a reply, in which neighbouring events that differ only in their text are one `TextRun`.

A reply consists mostly of them. Code that knows `EventRuns` takes all texts of a run at once; for other code they are a
sequence of batches like any other.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import chain, groupby, islice
from typing import TypeAlias, overload

from typing_extensions import override

from app.chat.events import Event, Extra, Failed, Finish, ReasoningDelta, TextDelta, ToolCallDelta

MakeEvent: TypeAlias = Callable[[str], Event]
"""Makes an event of a text."""


class TextRun:
    __slots__ = ("make", "texts", "written")

    def __init__(self, make: MakeEvent, texts: list[str]) -> None:
        self.make = make
        self.texts = texts
        self.written: object = None
        """What an encoder wrote of the texts, which it can use when it meets the same run again."""

    def expand(self) -> Iterable[Event]:
        return map(self.make, self.texts)


class EventRuns(Sequence[list[Event]]):
    """Immutable, but for `TextRun.written`. No event is an `Extra` or a `Failed`."""

    __slots__ = ("_sizes", "runs")

    def __init__(self, batches: Sequence[list[Event]]) -> None:
        self.runs = list(_join_alike(batches))
        self._sizes = list(map(len, batches))

    def __len__(self) -> int:
        return len(self._sizes)

    @override
    def __iter__(self) -> Iterator[list[Event]]:
        events: Iterator[Event]
        events = chain.from_iterable([run.expand() if isinstance(run, TextRun) else (run,) for run in self.runs])
        return (list(islice(events, size)) for size in self._sizes)

    @overload
    def __getitem__(self, place: int) -> list[Event]: ...

    @overload
    def __getitem__(self, place: slice) -> list[list[Event]]: ...

    @override
    def __getitem__(self, place: int | slice) -> list[Event] | list[list[Event]]:
        return list(self)[place]

    @property
    def finish(self) -> Finish | None:
        """The end of the reply, if it is among the events."""
        last = self.runs[-1]
        return last if isinstance(last, Finish) else None


def join_texts(batches: Sequence[list[Event]]) -> list[Sequence[list[Event]]]:
    """Return the batches in their order, those that can be as `EventRuns` and the others as lists."""
    return [EventRuns(list(group)) if joined else list(group) for joined, group in groupby(batches, _can_be_joined)]


def _can_be_joined(events: list[Event]) -> bool:
    """Whether a stream of deltas is the same however these events are divided into batches, and they are not the end of
    a reply that failed. An `Extra` may belong to a message that begins in its batch."""
    return bool(events) and Extra not in (kinds := set(map(type, events))) and Failed not in kinds


def _join_alike(batches: Sequence[list[Event]]) -> "Iterator[TextRun | Event]":
    for make, group in groupby(chain.from_iterable(batches), _get_make):
        events = list(group)
        if make is None or len(events) == 1:
            yield from events
        else:
            yield TextRun(make, list(map(_get_text, events)))


_make_text: MakeEvent = TextDelta
_make_refusal: MakeEvent = partial(TextDelta, refusal=True)
_make_reasoning: MakeEvent = ReasoningDelta


def _get_make(event: Event) -> MakeEvent | None:
    """Return what makes the event of its text; None if it has more than that."""
    if type(event) is TextDelta:
        return _make_refusal if event.refusal else _make_text
    if type(event) is ReasoningDelta:
        return _make_reasoning
    if type(event) is ToolCallDelta and event.arguments and not event.id and not event.name:
        return _make_call(event.index)
    return None


@lru_cache(maxsize=256)
def _make_call(index: int) -> MakeEvent:
    """Return what makes the arguments of a call: the same function for the same index, by which runs are found."""
    return partial(ToolCallDelta, index)


def _get_text(event: Event) -> str:
    if type(event) is ToolCallDelta:
        return event.arguments
    assert type(event) is TextDelta or type(event) is ReasoningDelta
    return event.text
