"""The text of a reply while a grammar reads it: what came, how far it is understood, and what follows from it.

A grammar is a generator that yields where it needs more text. It is resumed when more came, or when the text ended
for now (`ended`); what cannot be finished then raises `Cut`. Between two calls stands prose. From a marker on nothing
is told until it is certain that a call stands there: an attempt that fails gives its text back, and the prose goes on
behind the marker. Every decision follows from the text alone, never from where it was cut into pieces.
"""

from collections.abc import Generator, Mapping, Sequence

from app.chat.events import Event, Extra, ReasoningDelta, TextDelta
from app.chat.ids import make_call_id
from app.chat.messages import Tool
from app.steps.tool_parsers.calls import CallEmitter, NotACall, TruncatedCall
from app.steps.tool_parsers.cursor import Cursor, Steps, find_first, partial_tag_length

_BLANKS = " \t\r\n"


class ParseState(Cursor):
    def __init__(self, reply_id: str, tools: Sequence[Tool]) -> None:
        super().__init__()
        self.out: list[Event] = []
        self.tools: Mapping[str, Tool] = {tool.name: tool for tool in tools}
        self.idle = False
        """In prose, with nothing held."""
        self.marker_starts: frozenset[str] = frozenset()
        """The first characters of the markers that are looked for in this prose."""
        self.doubtful_closer: tuple[int, int] | None = None
        """Where a closing marker stood inside a string: the call may have ended there."""
        self.pending_closers: tuple[str, ...] = ()
        """The closing marker of the last call, where it has not come yet."""
        self.call: CallEmitter | None = None
        self.calls = 0
        self._restore_point: int | None = None
        """From here on the text is given back when no call comes of it."""
        self._marker = ""
        self._reply_id = reply_id
        self._ids: set[str] = set()

    def next_call(self, id_: str = "") -> tuple[int, str]:
        """The index and the id of the next call of the reply."""
        index = self.calls
        self.calls += 1
        if not id_ or id_ in self._ids:
            id_ = make_call_id(self._reply_id, index)
        self._ids.add(id_)
        return index, id_

    def open_call(self, name: str = "", id_: str = "") -> CallEmitter:
        self.call = CallEmitter(self, name, id_)
        return self.call

    def complete_call(self, call: CallEmitter) -> None:
        """The call is whole: nothing before this place is given back any more."""
        self.doubtful_closer = self.call = None
        call.flush()
        self._restore_point, self._marker = self.pos, ""

    def emit_text(self, text: str) -> None:
        if text:
            self.out.append(TextDelta(text))

    def emit_reasoning(self, text: str) -> None:
        if text:
            self.out.append(ReasoningDelta(text))

    def warn(self, what: str) -> None:
        self.out.append(Extra({"warning": what}))

    def _trim(self) -> None:
        if self.doubtful_closer is None:
            start = self.pos if self._restore_point is None else self._restore_point
            if start:
                self.text, self.pos = self.text[start:], self.pos - start
                self._restore_point = None if self._restore_point is None else 0

    def _flush_pending(self) -> None:
        if self.call is not None:
            self.call.flush()
            if self.call.certain:
                self._restore_point = None
        self._trim()

    def read_prose(self, *markers: str, blanks: bool = False) -> Generator[None, None, str]:
        """Text for the caller, up to one of the markers, which is passed. It survives the end of the text. `blanks`:
        white space before a marker belongs to it."""
        self._restore_point = self.call = self.doubtful_closer = None
        while True:
            place, marker = find_first(self.text, self.pos, markers)
            if not marker:
                place = len(self.text) - (0 if self.ended else partial_tag_length(self.text[self.pos :], markers))
            ready = self.text[self.pos : place]
            ready = ready.rstrip(_BLANKS) if blanks and (marker or not self.ended) else ready
            self.emit_text(ready)
            if marker:
                self._restore_point, self.idle = self.pos + len(ready), False
                self.pos = place + len(marker)
                self._marker = self.text[self._restore_point : self.pos]
                return marker
            self.pos += len(ready)
            self._trim()
            self.idle = not self.text
            self.marker_starts = frozenset(marker[0] for marker in markers) | frozenset(_BLANKS if blanks else "")
            yield
            self.idle = False

    def skip_rest(self) -> Steps:
        """Nothing of what comes now is told. Does not return."""
        while True:
            self.take_rest()
            self._restore_point = None
            self._trim()
            yield

    def commit(self) -> None:
        """What was read so far is understood: it is not given back."""
        self._restore_point = None

    def rewind_to_marker(self) -> None:
        """Go back to the marker that the prose ended at."""
        assert self._restore_point is not None
        self.pos = self._restore_point

    def attempt(self, call: Steps, *, guess: bool = False) -> Steps:
        """Read what stands behind the marker. What is no call gives its text back; `guess`: without a warning."""
        if guess:
            self._restore_point, self._marker = self.pos, ""
        try:
            yield from call
        except NotACall as error:
            cut = isinstance(error, TruncatedCall)
            if self.call is not None and self.call.certain:
                self._end_early(self.call, cut)
            elif self._restore_point is not None:
                self._restore_text(self._restore_point, cut, guess)
        self._restore_point = self.call = self.doubtful_closer = None

    def _restore_text(self, mark: int, cut: bool, guess: bool) -> None:
        self.pos = mark + len(self._marker)
        self.emit_text(self._marker)
        if not guess and self.text[mark:].strip():
            self.warn(f"a call {'that was cut off' if cut else 'that cannot be read'} is given as text")

    def _end_early(self, call: CallEmitter, cut: bool) -> None:
        """A call that has been told stays one; what is left of it is delivered as it is."""
        if self.doubtful_closer is not None:
            self.pos = self.doubtful_closer[1]
            call.forget_doubtful()
        elif cut:
            self.take_rest()
        call.finish()
