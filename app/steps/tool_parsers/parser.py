"""The state of a grammar that parses the text of a reply: the buffered text, the position, and the resulting events.

A grammar is a generator that yields when it needs more text. It is resumed when more text has arrived, or when the text
has ended (`ended`); an incomplete call then raises `TruncatedCall`. The text between calls is prose. After a marker
nothing is emitted until it is certain that a call follows: a failed attempt restores its text, and the prose continues
after the marker. Every decision depends on the text alone, not on how it was split into fragments.
"""

import re
from collections.abc import Callable, Generator, Mapping, Sequence

from app.chat.events import Event, Extra, ReasoningDelta, TextDelta
from app.chat.ids import make_call_id
from app.chat.messages import Tool
from app.steps.partial_tag import partial_tag_length
from app.steps.tool_parsers.calls import CallEmitter, NotACall, TruncatedCall
from app.steps.tool_parsers.cursor import Cursor, Steps, find_first

_BLANKS = " \t\r\n"


class ParseState(Cursor):
    def __init__(self, reply_id: str, tools: Sequence[Tool]) -> None:
        super().__init__()
        self.out: list[Event] = []
        self.tools: Mapping[str, Tool] = {tool.name: tool for tool in tools}
        self.idle = False
        """Whether the grammar is in prose and nothing is buffered."""
        self.marker_starts: frozenset[str] = frozenset()
        """The first characters of the markers that end this prose."""
        self.holds_blanks = False
        """Whether white space before a marker is part of it, so that it is held at the end of a text."""
        self.doubtful_closer: tuple[int, int] | None = None
        """The start and end of a closing marker inside a string: the call may have ended there."""
        self.pending_closers: tuple[str, ...] = ()
        """The closing marker of the last call, if it has not come yet."""
        self.open_string: tuple[re.Pattern[str], Callable[[str], None]] | None = None
        """While the grammar waits for more of a string: the pattern of texts that only continue it, and what takes them
        in its place."""
        self.call: CallEmitter | None = None
        self.calls = 0
        self._restore_point: int | None = None
        """The position from which the text is emitted as prose if it is not a call."""
        self._marker = ""
        self._reply_id = reply_id
        self._ids: set[str] = set()

    def next_call(self, id_: str = "") -> tuple[int, str]:
        """Return the index and id of the next call. A missing or repeated id is replaced by a derived one."""
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
        """Mark the call as complete: no text before this position is restored."""
        self.doubtful_closer = self.call = None
        call.flush()
        self._restore_point, self._marker = self.pos, ""

    def is_prose(self, text: str) -> bool:
        """Whether the whole of this text, if it comes next, is prose that can be emitted at once."""
        if not self.idle or not self.marker_starts.isdisjoint(text):
            return False
        return not self.holds_blanks or not text or text[-1] not in _BLANKS

    def continue_string(self, text: str) -> bool:
        """Take a text that only continues an open string. False: it must be read, because it may be more than that, or
        because what came before it may still be restored as prose."""
        if self.open_string is None or self.text:
            return False
        pattern, put = self.open_string
        if pattern.fullmatch(text) is None:
            return False
        put(text)
        self._flush_pending()
        return True

    def emit_text(self, text: str) -> None:
        if text:
            self.out.append(TextDelta(text))

    def emit_reasoning(self, text: str) -> None:
        if text:
            self.out.append(ReasoningDelta(text))

    def warn(self, text: str) -> None:
        self.out.append(Extra({"warning": text}))

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
        """Emit text up to one of the markers, skip the marker and return it.

        The end of the text raises no error here. `blanks`: white space before a marker is part of it.
        """
        self._restore_point = self.call = self.doubtful_closer = None
        self.marker_starts, self.holds_blanks = frozenset(marker[0] for marker in markers), blanks
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
            yield
            self.idle = False

    def skip_rest(self) -> Steps:
        """Discard all text from here on. Does not return."""
        while True:
            self.take_rest()
            self._restore_point = None
            self._trim()
            yield

    def commit(self) -> None:
        """Accept the text that was read so far: it is not restored."""
        self._restore_point = None

    def rewind_to_marker(self) -> None:
        """Move back to the marker at which the prose ended."""
        assert self._restore_point is not None
        self.pos = self._restore_point

    def attempt(self, call: Steps, *, guess: bool = False) -> Steps:
        """Run a grammar for the text after a marker. If it is not a call, restore the text.

        `guess`: there was no marker, and a failure gives no warning.
        """
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
            self.warn(f"a tool call that {'was cut off' if cut else 'cannot be parsed'} is returned as text")

    def _end_early(self, call: CallEmitter, cut: bool) -> None:
        """Complete a call that was emitted in part, with the rest of its text as it is."""
        if self.doubtful_closer is not None:
            self.pos = self.doubtful_closer[1]
            call.forget_doubtful()
        elif cut:
            self.take_rest()
        call.finish()
