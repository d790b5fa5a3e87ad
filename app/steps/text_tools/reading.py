"""The text of a reply while a grammar reads it: what came, how far it is understood, and what follows from it.

A grammar is a generator that yields where it needs more text. It is resumed when more came, or when the text ended
for now (`ended`); what cannot be finished then raises `Cut`. Between two calls stands prose. From a marker on nothing
is told until it is certain that a call stands there: an attempt that fails gives its text back, and the prose goes on
behind the marker. Every decision follows from the text alone, never from where it was cut into pieces.
"""

import hashlib
from collections.abc import Generator, Mapping, Sequence

from app.chat.events import Event, Extra, ReasoningDelta, TextDelta
from app.chat.messages import Tool
from app.steps.text_tools.cursor import Cursor, Steps
from app.steps.text_tools.scan import first, held_suffix
from app.steps.text_tools.told import Cut, Told, Unreadable

_BLANKS = " \t\r\n"


class Reading(Cursor):
    def __init__(self, reply_id: str, tools: Sequence[Tool]) -> None:
        super().__init__()
        self.out: list[Event] = []
        self.tools: Mapping[str, Tool] = {tool.name: tool for tool in tools}
        self.idle = False
        """In prose, with nothing held."""
        self.leads: frozenset[str] = frozenset()
        """The first characters of the markers that are looked for in this prose."""
        self.doubt: tuple[int, int] | None = None
        """Where a closing marker stood inside a string: the call may have ended there."""
        self.owed: tuple[str, ...] = ()
        """The closing marker of the last call, where it has not come yet."""
        self.call: Told | None = None
        self.calls = 0
        self._mark: int | None = None
        """From here on the text is given back when no call comes of it."""
        self._marker = ""
        self._reply_id = reply_id
        self._ids: set[str] = set()

    def next_call(self, id_: str = "") -> tuple[int, str]:
        """The index and the id of the next call of the reply."""
        index = self.calls
        self.calls += 1
        if not id_ or id_ in self._ids:
            id_ = "call_" + hashlib.sha256(f"{self._reply_id}:{index}".encode()).hexdigest()[:24]
        self._ids.add(id_)
        return index, id_

    def open(self, name: str = "", id_: str = "") -> Told:
        self.call = Told(self, name, id_)
        return self.call

    def settle(self, call: Told) -> None:
        """The call is whole: nothing before this place is given back any more."""
        self.doubt = self.call = None
        call.flush()
        self._mark, self._marker = self.pos, ""

    def say(self, text: str) -> None:
        if text:
            self.out.append(TextDelta(text))

    def think(self, text: str) -> None:
        if text:
            self.out.append(ReasoningDelta(text))

    def warn(self, what: str) -> None:
        self.out.append(Extra({"warning": what}))

    def _trim(self) -> None:
        if self.doubt is None:
            start = self.pos if self._mark is None else self._mark
            if start:
                self.text, self.pos = self.text[start:], self.pos - start
                self._mark = None if self._mark is None else 0

    def _before_waiting(self) -> None:
        if self.call is not None:
            self.call.flush()
            if self.call.certain:
                self._mark = None
        self._trim()

    def prose(self, *markers: str, blanks: bool = False) -> Generator[None, None, str]:
        """Text for the caller, up to one of the markers, which is passed. It survives the end of the text. `blanks`:
        white space before a marker belongs to it."""
        self._mark = self.call = self.doubt = None
        while True:
            place, marker = first(self.text, self.pos, markers)
            if not marker:
                place = len(self.text) - (0 if self.ended else held_suffix(self.text[self.pos :], markers))
            ready = self.text[self.pos : place]
            ready = ready.rstrip(_BLANKS) if blanks and (marker or not self.ended) else ready
            self.say(ready)
            if marker:
                self._mark, self.idle = self.pos + len(ready), False
                self.pos = place + len(marker)
                self._marker = self.text[self._mark : self.pos]
                return marker
            self.pos += len(ready)
            self._trim()
            self.idle = not self.text
            self.leads = frozenset(marker[0] for marker in markers) | frozenset(_BLANKS if blanks else "")
            yield
            self.idle = False

    def drop(self) -> Steps:
        """Nothing of what comes now is told. Does not return."""
        while True:
            self.rest()
            self._mark = None
            self._trim()
            yield

    def begin(self) -> None:
        """What was read so far is understood: it is not given back."""
        self._mark = None

    def unread(self) -> None:
        """Go back to the marker that the prose ended at."""
        assert self._mark is not None
        self.pos = self._mark

    def attempt(self, call: Steps, *, guess: bool = False) -> Steps:
        """Read what stands behind the marker. What is no call gives its text back; `guess`: without a warning."""
        if guess:
            self._mark, self._marker = self.pos, ""
        try:
            yield from call
        except Unreadable as error:
            cut = isinstance(error, Cut)
            if self.call is not None and self.call.certain:
                self._break_off(self.call, cut)
            elif self._mark is not None:
                self._give_back(self._mark, cut, guess)
        self._mark = self.call = self.doubt = None

    def _give_back(self, mark: int, cut: bool, guess: bool) -> None:
        self.pos = mark + len(self._marker)
        self.say(self._marker)
        if not guess and self.text[mark:].strip():
            self.warn(f"a call {'that was cut off' if cut else 'that cannot be read'} is given as text")

    def _break_off(self, call: Told, cut: bool) -> None:
        """A call that has been told stays one; what is left of it is delivered as it is."""
        if self.doubt is not None:
            self.pos = self.doubt[1]
            call.forget_doubtful()
        elif cut:
            self.rest()
        call.finish()
