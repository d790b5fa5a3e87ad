"""`PassingStage`: lets the events of a server go on to a client of the same API while the stages change nothing.

What a server's event (`Passed`) brings is given to the stages. It goes on when they have given back all of that. Until
then it waits, and all events behind it wait, too. When they give anything else, the events that wait are dropped: their
place is `PassedEnd`, and from there the client gets what its format's encoder writes of what the stages give.

An event that only opens an item waits for what follows it, so that nothing is opened that stays empty; so does the
event that says why the message ends, which a stage may know better. Where the server's events end by themselves, an
item that has been opened goes on in what the encoder writes.

Texts are compared without regard to where they are cut. Each call, extra fields and the rest are compared apart,
because stages may hold a text back.
"""

import re
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from app.chat.events import (
    COVERED_BY_PASSED,
    Event,
    Extra,
    Finish,
    Passed,
    PassedEnd,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    is_end,
)
from app.chat.stage import Pipe, Stage

_ITEMS = frozenset(("content_block_start", "response.output_item.added"))
_MESSAGE_END = "message_delta"
_OPENING = _ITEMS | {
    _MESSAGE_END,
    "response.content_part.added",
    "response.reasoning_part.added",
    "response.reasoning_summary_part.added",
}
_FOLLOWING = frozenset(
    ("ping", "keepalive", "content_block_delta", "response.output_text.delta", "response.refusal.delta")
    + ("response.function_call_arguments.delta", "response.reasoning_text.delta")
    + ("response.reasoning_summary_text.delta",)
)
"""Events that may bring nothing, and then wait with an opening one before them."""
_WAITING = _OPENING | _FOLLOWING
_BLOCK_TYPE = re.compile(r'"content_block"\s*:\s*\{[^{}]*"type"\s*:\s*"(text|thinking)"')
_BLOCK_OF_EVENT: Mapping[type[Event], str] = {TextDelta: "text", ReasoningDelta: "thinking", ToolCallDelta: "tool_use"}
_EXTRAS, _REST = -2, -1
"""The channels of events that are not of a call, whose channel is its index."""
_Value: TypeAlias = Event | str
"""What is compared apart from a text: the kind of the text, or all of an event that has none."""


class _Unit:
    """A server's event and what it brought."""

    __slots__ = ("brought", "missing", "own", "waits")

    def __init__(self, own: Passed | None) -> None:
        self.own = own
        self.brought: list[Event] = []
        self.missing = 0
        """How many parts of this the stages have not given back."""
        self.waits = True


class _Part:
    """A part of what an event brought: a text, or what has none."""

    __slots__ = ("text", "unit", "value")

    def __init__(self, unit: _Unit, value: _Value, text: str) -> None:
        self.unit = unit
        self.value = value
        self.text = text
        """What the stages have not given back of it."""


class PassingStage:
    """Runs the stages of a reply beside the server's own events."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        self._feed_stages = (Pipe(stages) if len(stages) != 1 else stages[0]).feed
        self._units: deque[_Unit] = deque()
        """Those that wait for the stages."""
        self._parts: dict[int, deque[_Part]] = {}
        """What the stages have not given back, by channel: in each, the order counts."""
        self._given: list[tuple[Event, _Unit]] = []
        """What they have given back of the units that wait."""
        self._opening: list[Event] = []
        """Events that have brought nothing, and wait for what follows."""
        self._has_ended = False

    def feed(self, events: list[Event]) -> list[Event]:
        waits = self._has_ended or self._units or self._opening
        if not waits and len(events) == 2 and type(events[0]) is Passed and type(events[1]) in COVERED_BY_PASSED:
            given = self._feed_stages(events[1:])
            if len(given) == 1 and given[0] is events[1]:
                return events
            return self._compare(events, given)
        if not events:
            return events
        if PassedEnd in map(type, events):
            return self._feed_end(events)
        brought = [event for event in events if type(event) is not Passed]
        given = self._feed_stages(brought) if brought else brought
        if self._has_ended:
            return given
        if not waits and _are_same(given, brought) and not _is_waiting(events[-1]):
            return events
        return self._compare(events, given)

    def _feed_end(self, events: list[Event]) -> list[Event]:
        """Take the events of a read in which those of the server end."""
        place = [type(event) for event in events].index(PassedEnd)
        out = self.feed(events[:place])
        if not self._has_ended:
            out = [*out, *self._take_opening(events[place + 1 :]), *self._end([])]
        return [*out, *self.feed(events[place + 1 :])]

    def _take_opening(self, following: list[Event]) -> list[Event]:
        """Return the events that open an item, if nothing behind them waits that stages may change, and what follows
        can be in that item."""
        opening = [event for event in self._opening if type(event) is Passed and event.name != _MESSAGE_END]
        if self._units or len(opening) != len(self._opening) or (opening and _opens_other(opening[-1], following)):
            return []
        return [*opening]

    def _compare(self, events: list[Event], given: list[Event]) -> list[Event]:
        """Return the events that can go on. `given` is what the stages gave for them."""
        self._add(events)
        for place, event in enumerate(given):
            rest = self._take(event)
            if rest:
                return [*self._release(), *self._end([*rest, *given[place + 1 :]])]
        out = self._release()
        return [*out, *self._end([])] if self._units and is_end(given) else out

    def _end(self, rest: list[Event]) -> list[Event]:
        """Drop the events that wait. What the stages gave for them comes before `rest`."""
        self._has_ended = True
        given = [event for event, unit in self._given if unit.waits]
        self._units.clear()
        self._parts.clear()
        self._given, self._opening = [], []
        return [PassedEnd(), *given, *rest]

    def _add(self, events: list[Event]) -> None:
        unit = _Unit(None)
        for event in events:
            if type(event) is Passed:
                unit = _Unit(event)
                self._units.append(unit)
                continue
            if not self._units or unit is not self._units[-1]:
                self._units.append(unit)
            unit.brought.append(event)
            self._add_parts(event, unit)

    def _add_parts(self, event: Event, unit: _Unit) -> None:
        parts = self._parts.setdefault(_find_channel(event), deque())
        for value, text in _split(event):
            parts.append(_Part(unit, value, text))
            unit.missing += 1

    def _take(self, event: Event) -> list[Event]:
        """Take what the stages gave. Returns the rest of it that is not what they were given."""
        rest: list[Event] = []
        for value, text in _split(event):
            left = None if rest else self._take_part(event, value, text)
            if rest or left is not None:
                rest.append(_make_part(event, value, text if left is None else left))
        return rest

    def _take_part(self, event: Event, value: _Value, text: str) -> str | None:
        """Take a part of what the stages gave. Returns None if they were given it, else the rest of its text."""
        parts = self._parts.get(_find_channel(event))
        while parts and _is_same(parts[0].value, value):
            part = parts[0]
            size = min(len(part.text), len(text))
            if part.text[:size] != text[:size]:
                return text
            self._given.append((_make_part(event, value, text[:size]), part.unit))
            part.text, text = part.text[size:], text[size:]
            if not part.text:
                parts.popleft()
                part.unit.missing -= 1
                if type(event) is Finish:
                    part.unit.brought[-1] = event
            if not text:
                return None
        return text

    def _release(self) -> list[Event]:
        """Return the events of which the stages have given everything back, up to the first other one."""
        out: list[Event] = []
        while self._units and not self._units[0].missing:
            unit = self._units.popleft()
            unit.waits = False
            own = unit.own
            if own is not None and not unit.brought and own.name in _WAITING:
                self._hold(own, out)
                continue
            out += self._opening
            self._opening = []
            if own is not None:
                out.append(own)
            out += unit.brought
        if not self._units:
            self._given = []
        return out

    def _hold(self, own: Passed, out: list[Event]) -> None:
        """Let an event wait that has brought nothing."""
        if own.name in _ITEMS:  # another item, so the one before it is no longer opening
            out += self._opening
            self._opening = []
        if own.name in _OPENING or self._opening:
            self._opening.append(own)
        else:
            out.append(own)


def _opens_other(opening: Passed, following: list[Event]) -> bool:
    """Whether a block of text or thinking is opened, and what follows is the other (BerriAI/litellm#33224)."""
    found = _BLOCK_TYPE.search(opening.data) if opening.name == "content_block_start" else None
    kinds = [type(event) for event in following if type(event) in _BLOCK_OF_EVENT]
    return found is not None and bool(kinds) and _BLOCK_OF_EVENT[kinds[0]] != found.group(1)


def _are_same(given: list[Event], brought: list[Event]) -> bool:
    return given is brought or (
        len(given) == len(brought) and all(one is other for one, other in zip(given, brought, strict=True))
    )


def _is_waiting(event: Event) -> bool:
    return type(event) is Passed and event.name in _WAITING


def _find_channel(event: Event) -> int:
    if type(event) is ToolCallDelta:
        return event.index
    return _EXTRAS if type(event) is Extra else _REST


def _split(event: Event) -> list[tuple[_Value, str]]:
    """Return the parts of an event, without those that say nothing."""
    if type(event) is TextDelta:
        return [("refusal" if event.refusal else "text", event.text)] if event.text else []
    if type(event) is ReasoningDelta:
        return [("reasoning", event.text)] if event.text else []
    if type(event) is not ToolCallDelta:
        return [(event, "")]
    parts: list[tuple[_Value, str]] = []
    if event.id or event.name:
        parts.append((ToolCallDelta(event.index, "", event.id, event.name), ""))
    if event.arguments:
        parts.append(("arguments", event.arguments))
    return parts


def _make_part(event: Event, value: _Value, text: str) -> Event:
    """Return the event that has only this part, of which a text may be cut."""
    if not isinstance(value, str):
        return value
    if type(event) is TextDelta:
        return TextDelta(text, event.refusal)
    return ToolCallDelta(event.index, text) if type(event) is ToolCallDelta else ReasoningDelta(text)


def _is_same(brought: _Value, given: _Value) -> bool:
    """Whether two values say the same to the client. What an end says beside its reason is not in a server's events."""
    if type(brought) is Finish and type(given) is Finish:
        return brought.reason == given.reason and brought.stopped_by == given.stopped_by
    if type(brought) is str or type(brought) is ToolCallDelta:
        return type(given) is type(brought) and brought == given
    return brought is given
