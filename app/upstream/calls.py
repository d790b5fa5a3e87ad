"""Which call does a fragment belong to, and when may a call be told (rule 6 of the assembly).

Identity: a known id, else a valid index, else the place in the delta's list, else the call opened last. The first id
wins; a missing or repeated one is replaced by a generated one. A call is announced when its name is certain to be
whole: with its first argument text, when another call opens, or at the end. Calls stand in the order of their
indices, so a call whose index leaves a gap waits for the one that fills it. Arguments that begin with a quote are held
to the end: an object encoded twice is unwrapped once.
"""

import hashlib
import json
from typing import Any

import msgspec

from app.chat.events import CallDelta, Event, Extra, TextDelta
from app.upstream.chunks import Call


class _Open:
    """One call while its fragments come."""

    __slots__ = ("arguments", "extra", "fragments", "id", "index", "name", "number", "sealed")

    def __init__(self, index: int | None) -> None:
        self.index = index
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []
        self.extra: dict[str, Any] = {}
        self.fragments = 0
        self.number = -1
        """Its place among the announced calls; -1 before."""
        self.sealed = False
        """Another call has opened since: the name is whole."""

    @property
    def text(self) -> str:
        if len(self.arguments) > 1:
            self.arguments = ["".join(self.arguments)]
        return self.arguments[0] if self.arguments else ""

    @property
    def quoted(self) -> bool:
        return self.text.lstrip()[:1] == '"'

    def ready(self) -> bool:
        """Whether nothing that is told first can still change. An id may come one fragment late."""
        if not self.name or self.quoted:
            return False
        return self.sealed or (bool(self.text.strip()) and (bool(self.id) or self.fragments > 1))


class CallTable:
    """The calls of one reply."""

    def __init__(self, reply_id: str) -> None:
        self._reply_id = reply_id
        self._order: list[_Open] = []
        self._ids: dict[str, _Open] = {}
        self._indices: dict[int, _Open] = {}
        self._places: dict[int, _Open] = {}
        self._last: _Open | None = None
        """The call opened last: the only one that can be unsealed."""
        self._given: set[str] = set()
        self._announced = 0

    def __bool__(self) -> bool:
        return self._announced > 0

    def feed(self, fragments: list[Call], out: list[Event], *, whole: bool = False) -> None:
        """`whole`: the fragments are complete calls (a `message`, not a `delta`), each a call of its own."""
        for place, fragment in enumerate(fragments):
            call = self._find(fragment, place, len(fragments), whole)
            self._grow(call, fragment, out)
        self._announce(out)

    def _find(self, fragment: Call, place: int, places: int, whole: bool) -> _Open:
        current = None if whole else self._current(fragment, place, places)
        if current is None or _opens(current, fragment, fragment.id in self._ids):
            return self._open(fragment, place)
        return current

    def _current(self, fragment: Call, place: int, places: int) -> _Open | None:
        if fragment.id and fragment.id in self._ids:
            return self._ids[fragment.id]
        if fragment.index is not None and fragment.index >= 0:
            return self._indices.get(fragment.index)
        if places > 1:
            return self._places.get(place)
        return self._last

    def _open(self, fragment: Call, place: int) -> _Open:
        index = fragment.index if fragment.index is not None and fragment.index >= 0 else None
        call = _Open(index)
        if self._last is not None:
            self._last.sealed = True
        self._last = call
        self._order.insert(self._position(call), call)
        self._places[place] = call
        if index is not None:
            self._indices[index] = call
        return call

    def _position(self, call: _Open) -> int:
        """Behind all that are announced, before those of a higher index."""
        place = len(self._order)
        if call.index is None or call.index in self._indices:
            return place
        while place > self._announced:
            before = self._order[place - 1].index
            if before is None or before < call.index:
                break
            place -= 1
        return place

    def _grow(self, call: _Open, fragment: Call, out: list[Event]) -> None:
        call.fragments += 1
        if fragment.id:
            self._ids.setdefault(fragment.id, call)
            if not call.id and call.number < 0:
                call.id = fragment.id
        if fragment.extra_content is not None:
            call.extra["extra_content"] = fragment.extra_content
            if call.number >= 0:
                out.append(Extra(dict(call.extra), call.number))
        function = fragment.function
        if function is None:
            return
        if function.name and function.name != call.name and not call.text:
            call.name += function.name
        elif function.name and not call.name:
            call.name = function.name
        if function.arguments and not _repeats(call, function.name, function.arguments):
            call.arguments.append(function.arguments)
            if call.number >= 0:
                out.append(CallDelta(call.number, function.arguments))

    def _announce(self, out: list[Event], *, ending: bool = False) -> None:
        """Tell of every call whose turn has come."""
        while self._announced < len(self._order):
            call = self._order[self._announced]
            if not ending and not (call.ready() and self._no_gap(call)):
                return
            if not call.name:
                self._nameless(call, out)
                continue
            call.number = self._announced
            self._announced += 1
            out.append(CallDelta(call.number, call.text, self._unique_id(call), call.name))
            if call.extra:
                out.append(Extra(dict(call.extra), call.number))

    def _no_gap(self, call: _Open) -> bool:
        return call.index is None or all(index in self._indices for index in range(call.index))

    def _nameless(self, call: _Open, out: list[Event]) -> None:
        """No call without a name: what came of it is told as text, so that nothing is lost."""
        self._order.remove(call)
        if call.text.strip():
            out.append(TextDelta(call.text))

    def _unique_id(self, call: _Open) -> str:
        id_ = call.id
        if not id_ or id_ in self._given:
            seed = f"{self._reply_id}:{call.number}"
            id_ = "call_" + hashlib.sha256(seed.encode()).hexdigest()[:24]
        self._given.add(id_)
        return id_

    def settle(self, text: str, out: list[Event]) -> None:
        """Something else follows: announce what can be, so that it stands before it. Blank text is nothing yet."""
        last = self._last
        if last is None or last.sealed or text.isspace():
            return
        last.sealed = True
        self._announce(out)

    def close(self, out: list[Event]) -> None:
        """The reply ended well: blank arguments are `{}`, an object encoded twice is unwrapped."""
        for call in self._order:
            if call.number < 0 and call.name:
                call.arguments = [_unwrapped(call.text)]
            elif call.number >= 0 and not call.text.strip():
                out.append(CallDelta(call.number, "{}"))
        self._announce(out, ending=True)

    def flush(self, out: list[Event]) -> None:
        """The reply broke: tell what came, as it came."""
        self._announce(out, ending=True)


def _opens(current: _Open, fragment: Call, known_id: bool) -> bool:
    """Whether a fragment that was found to belong to `current` begins another call instead."""
    name = fragment.function.name if fragment.function else None
    if not name:
        return False
    arguments = (fragment.function.arguments if fragment.function else None) or ""
    text = current.text.strip()
    if known_id or not fragment.id:
        begins = arguments.lstrip().startswith("{") or (bool(current.name) and name != current.name)
        return bool(text) and begins and _complete(text) and not _repeats(current, name, arguments)
    return not text or _complete(text) or name != current.name


def _repeats(call: _Open, name: str | None, arguments: str) -> bool:
    """The whole call a second time."""
    return bool(name) and name == call.name and call.text == arguments and _complete(arguments)


def _complete(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict | list)
    except (ValueError, RecursionError):
        return False


def _unwrapped(text: str) -> str:
    if not text.strip():
        return "{}"
    try:
        inner = msgspec.json.decode(text, type=str)
        if isinstance(msgspec.json.decode(inner), dict):
            return inner
    except (msgspec.MsgspecError, RecursionError):
        pass
    return text
