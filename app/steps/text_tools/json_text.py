"""JSON as models write it into JSON as it is defined, while it comes; JSON itself passes unchanged.

Read beyond JSON (as JSON5 does): single quotes, bare keys, trailing commas, comments, hexadecimal numbers, raw line
breaks in strings; and Python's `True`, `False`, `None`. What comes out only grows: a comma waits for what follows it.
A closing marker inside a string puts the reading in doubt until the value has ended properly.
"""

import json
import re
from collections.abc import Callable, Generator, Sequence

from app.steps.text_tools import words
from app.steps.text_tools.cursor import Steps
from app.steps.text_tools.reading import Reading
from app.steps.text_tools.scan import first, held_suffix
from app.steps.text_tools.told import Cut, Unreadable

_RUNS = {'"': re.compile(r'[^"\\\x00-\x1f]+'), "'": re.compile(r"""[^"'\\\x00-\x1f]+""")}
_WORD = re.compile(r"[\w$+\-.]+")
_COMMENTS = {"//": "\n", "/*": "*/"}
_ENDS = {"{": "}", "[": "]"}

Put = Callable[[str], None]


class Transcoder:
    """One value from the reading into `put`. Raises Unreadable where it ceases to be one; `pos` stays there."""

    def __init__(self, reading: Reading, put: Put, closers: Sequence[str] = ()) -> None:
        self._reading = reading
        self._put = put
        self._closers = closers
        self._open: list[str] = []
        self._wants = "value"
        self._gap = ""
        """White space and a comma that stand before the next token."""

    def run(self) -> Steps:
        reading = self._reading
        try:
            yield from reading.blanks()
            while self._wants != "end":
                yield from reading.peek()
                char = reading.text[reading.pos]
                if char.isspace():
                    self._gap += char
                    reading.pos += 1
                elif char == "/":
                    yield from self._comment()
                else:
                    yield from self._token(char)
        except Unreadable as error:
            self._fill_gap()
            if isinstance(error, Cut) and reading.doubt is None:
                self._put(reading.rest())
            raise

    def key(self) -> Steps:
        """The key of an object instead of a value."""
        self._wants = "key"
        yield from self._scalar(self._reading.text[self._reading.pos])

    def _fill_gap(self) -> None:
        self._put(self._gap)
        self._gap = ""

    def _token(self, char: str) -> Steps:
        if char in _ENDS and self._wants in ("value", "value or end"):
            self._begin(char)
        elif self._open and char == self._open[-1] and self._wants in ("comma", "value or end", "key or end"):
            self._end(char)
        elif char == "," and self._wants == "comma":
            self._advance(",")
            self._wants = "key or end" if self._open[-1] == "}" else "value or end"
        elif char == ":" and self._wants == "colon":
            self._fill_gap()
            self._put(":")
            self._advance("")
            self._wants = "value"
        elif self._wants not in ("comma", "colon"):
            yield from self._scalar(char)
        else:
            raise Unreadable

    def _advance(self, gap: str) -> None:
        self._gap += gap
        self._reading.pos += 1

    def _begin(self, char: str) -> None:
        self._fill_gap()
        self._put(char)
        self._advance("")
        self._open.append(_ENDS[char])
        self._wants = "key or end" if char == "{" else "value or end"

    def _end(self, char: str) -> None:
        self._gap = self._gap.replace(",", "")
        self._fill_gap()
        self._put(char)
        self._advance("")
        self._open.pop()
        self._after_value()

    def _after_value(self) -> None:
        self._wants = "comma" if self._open else "end"

    def _scalar(self, char: str) -> Steps:
        key = self._wants.startswith("key")
        if char in _RUNS:
            self._fill_gap()
            yield from self._string(char)
        else:
            word = yield from self._word()
            text = words.key(word) if key else words.value(word)
            self._fill_gap()
            self._put(text)
            self._reading.pos += len(word)
        if key:
            self._wants = "colon"
        else:
            self._after_value()

    def _word(self) -> Generator[None, None, str]:
        """A word, not yet passed. It ends where something else begins, or with the text."""
        reading = self._reading
        while True:
            match = _WORD.match(reading.text, reading.pos)
            if match is None:
                raise Unreadable
            if match.end() < len(reading.text) or reading.ended:
                return match.group()
            yield from reading.more()

    def _comment(self) -> Steps:
        reading = self._reading
        for opening, closing in _COMMENTS.items():
            if (yield from reading.sees(opening)):
                yield from reading.until(closing)
                return
        raise Unreadable

    def _string(self, quote: str) -> Steps:
        reading, run = self._reading, _RUNS[quote]
        reading.pos += 1
        self._put('"')
        while True:
            yield from reading.peek()
            match = run.match(reading.text, reading.pos)
            if match is not None:
                yield from self._run(match.group(), match.end() == len(reading.text))
                continue
            char = reading.text[reading.pos]
            if char == "\\":
                yield from self._escape()
                continue
            reading.pos += 1
            self._put('"' if char == quote else json.dumps(char)[1:-1])
            if char == quote:
                return

    def _run(self, text: str, open_ended: bool) -> Steps:
        """Plain characters of a string; a closing marker among them raises the doubt."""
        reading = self._reading
        if reading.doubt is None and self._closers:
            place, closer = first(text, 0, self._closers)
            keep = held_suffix(text, self._closers) if open_ended and not closer else 0
            if closer:
                self._put(text[:place])
                start = reading.pos = reading.pos + place
                reading.doubt = (start, start + len(closer))
                text = text[place:]
            elif keep:
                text = text[:-keep]
        self._put(text)
        reading.pos += len(text)
        if not text:
            yield from reading.more()

    def _escape(self) -> Steps:
        reading = self._reading
        while len(reading.text) - reading.pos < 2:
            yield from reading.more()
        char = reading.text[reading.pos + 1]
        length = {"u": 6, "x": 4}.get(char, 2)
        while len(reading.text) - reading.pos < length:
            yield from reading.more()
        raw = reading.text[reading.pos : reading.pos + length]
        self._put(words.escape(raw, char))
        reading.pos += length
