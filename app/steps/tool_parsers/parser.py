"""The state of a grammar that parses the text of a reply: the reading position, and the resulting events.

A grammar is a generator that yields when it needs more text. It is resumed when more text has arrived, or when the text
has ended (`ended`); an incomplete call then raises `TruncatedCall`. The text between calls is prose. After a marker
nothing is emitted until it is certain that a call follows: a failed attempt restores its text, and the prose continues
after the marker. Every decision depends on the text alone, not on how it was split into fragments.

What is restored is read again, and may have further markers. So that a text made of such markers does not take time in
proportion to the square of its length, the text that is read again is limited (`_MAX_REREAD`, `_REREAD_SHARE`): beyond
that, no more calls are parsed.
"""

import re
from collections.abc import Callable, Generator, Mapping, Sequence

from app.chat.events import Event, Extra, ReasoningDelta, TextDelta, ToolCallDelta
from app.chat.messages import Tool, make_call_id
from app.steps.partial_tag import partial_tag_length
from app.steps.tool_parsers.calls import NotACall, OpenCall, TruncatedCall
from app.steps.tool_parsers.cursor import Cursor, Steps, compile_tags, find_starts
from app.steps.tool_parsers.names import find_offered
from app.steps.tool_parsers.prose import Prose

_BLANKS = " \t\r\n"
_find_text = re.compile(r"\S").search
_REREAD_SHARE = 4
_MAX_REREAD = 65_536
"""At most 4 times the text so far and 65,536 characters are read again. A reply that a model meant to be read has far
less: a failed attempt is short, but for the one in which the text ends, and that is read again once."""
_TOO_MUCH_REREAD = "too much of the reply looks like tool calls and cannot be parsed: the rest is returned as text"


class ParseState(Cursor):
    def __init__(self, reply_id: str, tools: Sequence[Tool], *, strict: bool = False) -> None:
        """`strict`: no family of models is configured. Only a complete call of an offered function with an object as
        arguments is one, and only where prose does not quote it."""
        super().__init__()
        self.out: list[Event] = []
        self.strict = strict
        self.cut = False
        """The reply has not ended by itself, so what seems complete at its end may not be."""
        self.is_whole = False
        """The reply has ended by itself, and with this text."""
        self.prose = Prose() if strict else None
        self.family = ""
        """The family as which the text behind the last marker is read."""
        self.found_family = ""
        """The family of the last call."""
        self.tools: Mapping[str, Tool] = {tool.name: tool for tool in tools}
        self._end_starts = "<[" if tools else "<"
        """The first characters of tokens with which a text may end; those that close calls only if there may be any."""
        self.idle = False
        """Whether the grammar is in prose and nothing is buffered."""
        self.exhausted = False
        """Whether too much was read again, so that the rest of the text is prose."""
        self.marker_starts: frozenset[str] = frozenset()
        """The first characters of the markers that end this prose, and of tokens that may end a text."""
        self.all_starts: frozenset[str] = frozenset(self._end_starts)
        """The first characters of all markers that this reply has."""
        self.holds_blanks = False
        """Whether white space before a marker is part of it, so that it is held at the end of a text."""
        self.pending_closers: tuple[str, ...] = ()
        """The closing marker of the last call, if it has not come yet."""
        self.open_string: tuple[re.Pattern[str], Callable[[str], None]] | None = None
        """While the grammar waits for more of a string: the pattern of texts that only continue it, and what takes them
        in its place."""
        self.call: OpenCall | None = None
        self.calls = 0
        self._doubtful_closer: tuple[int, int] | None = None
        """The start and end of a closing marker inside a string: the call may have ended there."""
        self._restore_point: int | None = None
        """The position from which the text is read as prose if it is not a call."""
        self._marker = ""
        """The text directly before that position, which is then prose, too."""
        self._furthest = 0
        """The last position from which it was moved back."""
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

    def find_name(self, name: str) -> str:
        """Return the function that was offered and that this name stands for, or the name itself.

        Raises:
            NotACall: it was not offered, and must be.
        """
        found = find_offered(name, self.tools)
        if found is None and self.strict:
            raise NotACall
        return name if found is None else found

    def open_call(self, name: str = "", id_: str = "") -> OpenCall:
        """Begin a call.

        Raises:
            NotACall: no more calls are parsed, or the function must be offered and is not.
        """
        if self.exhausted:
            raise NotACall
        self.call = OpenCall(self.find_name(name) if name else "", id_)
        self.call.is_held = self.strict
        return self.call

    def complete_call(self, call: OpenCall) -> None:
        """Complete and emit the call: no text before this position is restored.

        Raises:
            NotACall: the call has no name, or must have an object as arguments and has not.
        """
        if self.strict and not call.is_object():
            raise NotACall
        call.complete()
        self.found_family = self.family
        self._emit_arguments(call)
        self._doubtful_closer = self.call = None
        self._restore_point, self._marker = self.position, ""

    def _emit_arguments(self, call: OpenCall) -> None:
        text = call.take_arguments()
        if not text:
            return
        if call.index >= 0:
            self.out.append(ToolCallDelta(call.index, text))
            return
        call.index, id_ = self.next_call(call.id)
        self.out.append(ToolCallDelta(call.index, text, id_, call.name))

    def is_prose(self, text: str) -> bool:
        """Whether the whole of this text, if it comes next, is prose that can be emitted at once."""
        if not self.idle or not self.marker_starts.isdisjoint(text):
            return False
        if self.prose is not None:
            self.prose.add(text)
        return not self.holds_blanks or not text or text[-1] not in _BLANKS

    def continue_string(self, text: str) -> bool:
        """Take a text that only continues an open string. False: it must be read, because it may be more than that, or
        because what came before it may still be read again."""
        if (
            self.open_string is None
            or self.text
            or self._restore_point is not None
            or self._doubtful_closer is not None
        ):
            return False
        pattern, put = self.open_string
        if pattern.fullmatch(text) is None:
            return False
        put(text)
        self._dropped += len(text)
        self._emit_certain()
        return True

    def emit_text(self, text: str) -> None:
        if text:
            self.out.append(TextDelta(text))
            if self.prose is not None:
                self.prose.add(text)

    def emit_reasoning(self, text: str) -> None:
        if text:
            self.out.append(ReasoningDelta(text))

    def warn(self, text: str) -> None:
        self.out.append(Extra({"warning": text}))

    def rewind(self, position: int) -> None:
        self._furthest = max(self._furthest, self.position)
        super().rewind(position)
        if self.reread > _MAX_REREAD + _REREAD_SHARE * self._furthest:
            self.exhausted = True

    def _first_needed(self) -> int | None:
        if self.look_ahead_from is None and self._doubtful_closer is None:
            return self._restore_point
        places = (self.look_ahead_from, self._restore_point, self._doubtful_closer and self._doubtful_closer[0])
        return min(place for place in places if place is not None)

    def _emit_certain(self) -> None:
        if self.call is not None and self.call.certain:
            self._emit_arguments(self.call)
            self._restore_point = None

    def read_prose(self, *markers: str, blanks: bool = False) -> Generator[None, None, str]:
        """Emit text up to one of the markers, skip the marker and return it.

        The end of the text raises no error here. `blanks`: white space before a marker is part of it.
        """
        self._restore_point = self.call = self._doubtful_closer = None
        if self.exhausted:
            self.warn(_TOO_MUCH_REREAD)
            markers, blanks = (), False
        self.marker_starts = find_starts(markers).union(self._end_starts)
        self.holds_blanks = blanks
        find = compile_tags(markers).search
        held: list[str] = []
        """White space at the end of the text so far, which may belong to a marker."""
        while True:
            found = find(self.text, self.pos)
            text = self.text[self.pos :] if found is None else self.text[self.pos : found.start()]
            if found is None and not self.ended and not self.marker_starts.isdisjoint(text):
                text = text[: len(text) - partial_tag_length(text, markers)]
            self.pos += len(text)
            ready = text.rstrip(_BLANKS) if blanks and (found or not self.ended) else text
            if ready or self.ended:
                self.emit_text("".join((*held, ready)) if held else ready)
                held.clear()
            if len(ready) < len(text):
                held.append(text[len(ready) :])
            if found is not None:
                self.pos = found.end()
                if self.prose is not None and not self.prose.may_begin_call():
                    self.emit_text(found.group())
                    continue
                self._restore_point, self._marker, self.idle = self.position, "".join((*held, found.group())), False
                return found.group()
            if self.pos:
                self._drop_read_text()
            self.idle = not self.text and not held
            yield
            self.idle = False

    def skip_rest(self) -> Steps:
        """Discard all text from here on. Does not return."""
        self._restore_point = None
        while True:
            self.take_rest()
            self._drop_read_text()
            yield

    def commit(self) -> None:
        """Accept the text that was read so far: it is not restored."""
        self._restore_point = None

    def rewind_to_marker(self) -> None:
        """Move back to directly after the marker at which the prose ended."""
        assert self._restore_point is not None
        self.rewind(self._restore_point)

    def attempt(self, call: Steps, *, guess: bool = False) -> Steps:
        """Run a grammar for the text after a marker. If it is not a call, restore the text.

        `guess`: there was no marker, and a failure gives no warning.
        """
        if guess:
            self._restore_point, self._marker = self.position, ""
        try:
            yield from call
        except NotACall as error:
            cut = isinstance(error, TruncatedCall)
            if self.call is not None and self.call.certain:
                self._end_early(self.call, cut)
            elif self._restore_point is not None:
                self._restore_text(self._restore_point, cut, guess)
        self._restore_point = self.call = self._doubtful_closer = None

    def _restore_text(self, position: int, cut: bool, guess: bool) -> None:
        self.rewind(position)
        self.emit_text(self._marker)
        if not guess and not self.exhausted and (self._marker or _find_text(self.text, self.pos)):
            what = "was cut off" if cut else "cannot be parsed"
            if self.strict:
                self.warn(
                    f"text that looks like a tool call of {self.family or 'a model'} is text: it {what}, or it is not "
                    "a call of an offered function with an object as arguments"
                )
            else:
                self.warn(f"a tool call that {what} is returned as text")

    def mark_doubtful_closer(self, length: int) -> None:
        """Note that the text from here on, of this length, is a closing marker inside a string of the arguments."""
        self._doubtful_closer = (self.position, self.position + length)
        if self.call is not None:
            self.call.in_doubt = True

    @property
    def in_doubt(self) -> bool:
        """Whether a closing marker was read as part of a string."""
        return self._doubtful_closer is not None

    def rewind_to_doubt(self, call: OpenCall) -> bool:
        """Move back to a closing marker that was read as part of a string; return False if there is none."""
        if self._doubtful_closer is None:
            return False
        self.rewind(self._doubtful_closer[0])
        self._doubtful_closer = None
        call.forget_doubtful()
        return True

    def _end_early(self, call: OpenCall, cut: bool) -> None:
        """Complete a call that was emitted in part."""
        if self._doubtful_closer is not None:
            self.rewind(self._doubtful_closer[1])
            call.forget_doubtful()
        elif cut:
            self.take_rest()
        self.complete_call(call)
