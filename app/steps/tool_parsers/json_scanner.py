"""JSON as models write it into JSON as it is defined, while it comes; JSON itself passes unchanged.

Read beyond JSON (as JSON5 does): single quotes, bare keys, trailing commas, comments, hexadecimal numbers, raw line
breaks in strings; and Python's `True`, `False`, `None`. What comes out only grows: a comma waits for what follows it.
A closing marker inside a string puts the reading in doubt until the value has ended properly.

Whole texts as JSON values, read as models write them.
"""

import json
import re
from collections.abc import Callable, Generator, Sequence
from typing import Any

from app.steps.tool_parsers import literals
from app.steps.tool_parsers.calls import NotACall, TruncatedCall
from app.steps.tool_parsers.cursor import Steps, find_first, partial_tag_length
from app.steps.tool_parsers.parser import ParseState

_RUNS = {'"': re.compile(r'[^"\\\x00-\x1f]+'), "'": re.compile(r"""[^"'\\\x00-\x1f]+""")}
_WORD = re.compile(r"[\w$+\-.]+")
_COMMENTS = {"//": "\n", "/*": "*/"}
_ENDS = {"{": "}", "[": "]"}

Put = Callable[[str], None]


class JsonScanner:
    """One value from the reading into `put`. Raises Unreadable where it ceases to be one; `pos` stays there."""

    def __init__(self, reading: ParseState, put: Put, closers: Sequence[str] = ()) -> None:
        self._state = reading
        self._put = put
        self._closers = closers
        self._open: list[str] = []
        self._expects = "value"
        self._gap = ""
        """White space and a comma that stand before the next token."""

    def run(self) -> Steps:
        reading = self._state
        try:
            yield from reading.skip_blanks()
            while self._expects != "end":
                yield from reading.peek()
                char = reading.text[reading.pos]
                if char.isspace():
                    self._gap += char
                    reading.pos += 1
                elif char == "/":
                    yield from self._comment()
                else:
                    yield from self._token(char)
        except NotACall as error:
            self._flush_gap()
            if isinstance(error, TruncatedCall) and reading.doubtful_closer is None:
                self._put(reading.take_rest())
            raise

    def read_key(self) -> Steps:
        """The key of an object instead of a value."""
        self._expects = "key"
        yield from self._scalar(self._state.text[self._state.pos])

    def _flush_gap(self) -> None:
        self._put(self._gap)
        self._gap = ""

    def _token(self, char: str) -> Steps:
        if char in _ENDS and self._expects in ("value", "value or end"):
            self._open_container(char)
        elif self._open and char == self._open[-1] and self._expects in ("comma", "value or end", "key or end"):
            self._close_container(char)
        elif char == "," and self._expects == "comma":
            self._advance(",")
            self._expects = "key or end" if self._open[-1] == "}" else "value or end"
        elif char == ":" and self._expects == "colon":
            self._flush_gap()
            self._put(":")
            self._advance("")
            self._expects = "value"
        elif self._expects not in ("comma", "colon"):
            yield from self._scalar(char)
        else:
            raise NotACall

    def _advance(self, gap: str) -> None:
        self._gap += gap
        self._state.pos += 1

    def _open_container(self, char: str) -> None:
        self._flush_gap()
        self._put(char)
        self._advance("")
        self._open.append(_ENDS[char])
        self._expects = "key or end" if char == "{" else "value or end"

    def _close_container(self, char: str) -> None:
        self._gap = self._gap.replace(",", "")
        self._flush_gap()
        self._put(char)
        self._advance("")
        self._open.pop()
        self._after_value()

    def _after_value(self) -> None:
        self._expects = "comma" if self._open else "end"

    def _scalar(self, char: str) -> Steps:
        key = self._expects.startswith("key")
        if char in _RUNS:
            self._flush_gap()
            yield from self._string(char)
        else:
            word = yield from self._word()
            text = literals.to_json_key(word) if key else literals.to_json_value(word)
            self._flush_gap()
            self._put(text)
            self._state.pos += len(word)
        if key:
            self._expects = "colon"
        else:
            self._after_value()

    def _word(self) -> Generator[None, None, str]:
        """A word, not yet passed. It ends where something else begins, or with the text."""
        reading = self._state
        while True:
            match = _WORD.match(reading.text, reading.pos)
            if match is None:
                raise NotACall
            if match.end() < len(reading.text) or reading.ended:
                return match.group()
            yield from reading.wait_for_more()

    def _comment(self) -> Steps:
        reading = self._state
        for opening, closing in _COMMENTS.items():
            if (yield from reading.is_at(opening)):
                yield from reading.read_until(closing)
                return
        raise NotACall

    def _string(self, quote: str) -> Steps:
        reading, run = self._state, _RUNS[quote]
        reading.pos += 1
        self._put('"')
        while True:
            yield from reading.peek()
            match = run.match(reading.text, reading.pos)
            if match is not None:
                yield from self._read_plain(match.group(), match.end() == len(reading.text))
                continue
            char = reading.text[reading.pos]
            if char == "\\":
                yield from self._escape()
                continue
            reading.pos += 1
            self._put('"' if char == quote else json.dumps(char)[1:-1])
            if char == quote:
                return

    def _read_plain(self, text: str, open_ended: bool) -> Steps:
        """Plain characters of a string; a closing marker among them raises the doubt."""
        reading = self._state
        if reading.doubtful_closer is None and self._closers:
            place, closer = find_first(text, 0, self._closers)
            keep = partial_tag_length(text, self._closers) if open_ended and not closer else 0
            if closer:
                self._put(text[:place])
                start = reading.pos = reading.pos + place
                reading.doubtful_closer = (start, start + len(closer))
                text = text[place:]
            elif keep:
                text = text[:-keep]
        self._put(text)
        reading.pos += len(text)
        if not text:
            yield from reading.wait_for_more()

    def _escape(self) -> Steps:
        reading = self._state
        while len(reading.text) - reading.pos < 2:
            yield from reading.wait_for_more()
        char = reading.text[reading.pos + 1]
        length = {"u": 6, "x": 4}.get(char, 2)
        while len(reading.text) - reading.pos < length:
            yield from reading.wait_for_more()
        raw = reading.text[reading.pos : reading.pos + length]
        self._put(literals.to_json_escape(raw, char))
        reading.pos += length


def to_standard_json(text: str) -> str:
    """The text as standard JSON. Raises Unreadable where it is no value."""
    reading = ParseState("", ())
    reading.text, reading.ended = text, True
    pieces: list[str] = []
    for _ in JsonScanner(reading, pieces.append).run():
        raise AssertionError("a text that has ended is not waited for")
    if reading.text[reading.pos :].strip():
        raise NotACall
    return "".join(pieces)


def loads(text: str) -> Any:
    """The value of a JSON text as models write it. Raises Unreadable."""
    try:
        return json.loads(to_standard_json(text))
    except (ValueError, RecursionError) as exc:
        raise NotACall from exc
