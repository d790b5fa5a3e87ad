"""Converts JSON as models write it to standard JSON while it streams; valid JSON passes unchanged.

It also accepts, as JSON5 does, single quotes, unquoted keys, trailing commas, comments, hexadecimal numbers and raw
line breaks in strings; and Python's `True`, `False` and `None`. Output is never taken back: a comma is written only
with the token after it. A closing marker inside a string is doubtful until the value has ended properly: it may be the
end of a call with a broken string.
"""

import json
import re
from collections import deque
from collections.abc import Callable, Generator, Sequence
from functools import lru_cache
from typing import Any

from app.steps.partial_tag import partial_tag_length
from app.steps.tool_parsers.calls import NotACall, TruncatedCall
from app.steps.tool_parsers.cursor import Steps, compile_tags
from app.steps.tool_parsers.parser import ParseState

_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_LOOSE = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_HEX = re.compile(r"[+-]?0[xX][0-9a-fA-F]+")
_CONSTANTS = {"true": "true", "false": "false", "null": "null", "True": "true", "False": "false", "None": "null"}
_ESCAPES = '"\\/bfnrt'
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def write_json(value: Any) -> str:
    """Return a value as JSON. `Infinity` and `NaN` are no JSON."""
    try:
        return join_surrogates(json.dumps(value, ensure_ascii=False, allow_nan=False))
    except (ValueError, TypeError, RecursionError) as exc:
        raise NotACall from exc


def join_surrogates(text: str) -> str:
    """Join surrogate pairs to characters; half a pair becomes U+FFFD, because UTF-8 cannot encode it."""
    if _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def to_json_escape(raw: str, char: str) -> str:
    if char in _ESCAPES:
        return raw
    if char in "ux" and all(digit in "0123456789abcdefABCDEF" for digit in raw[2:]):
        return raw if char == "u" else f"\\u00{raw[2:]}"
    if char in "ux":
        raise NotACall
    if char == "\n":
        return ""
    # A backslash before any other character is a literal backslash, as in regular expressions.
    return char if char == "'" else "\\\\" + json.dumps(char, ensure_ascii=False)[1:-1]


def to_json_key(word: str) -> str:
    if not word.replace("$", "_").isidentifier():
        raise NotACall
    return json.dumps(word, ensure_ascii=False)


def to_json_value(word: str) -> str:
    if word in _CONSTANTS:
        return _CONSTANTS[word]
    if _NUMBER.fullmatch(word):
        return word
    try:
        if _HEX.fullmatch(word):
            return str(int(word, 16))
        digits = word.lstrip("+-")
        if _LOOSE.fullmatch(word) and not re.match(r"0\d", digits):
            return write_json(int(word) if digits.isdigit() else float(word))
    except ValueError as exc:  # Python converts no integer of more than 4,300 digits
        raise NotACall from exc
    raise NotACall


_RUNS = {'"': re.compile(r'[^"\\\x00-\x1f]+'), "'": re.compile(r"""[^"'\\\x00-\x1f]+""")}
_WORD = re.compile(r"[\w$+\-.]+")
_COMMENTS = {"//": "\n", "/*": "*/"}
_ENDS = {"{": "}", "[": "]"}

Put = Callable[[str], None]


@lru_cache(maxsize=64)
def _plain_text(quote: str, closers: tuple[str, ...]) -> re.Pattern[str]:
    """Return the pattern of texts that a string of this quote is only continued by, and that begin no closer. A double
    quote in a string of single quotes is escaped."""
    starts = "".join(re.escape(closer[:1]) for closer in closers)
    return re.compile(rf'[^"{quote}\\\x00-\x1f{starts}]+')


class JsonScanner:
    """Writes one value to `put`.

    Raises:
        NotACall: the text is not a value; `pos` is the position of the error.
    """

    def __init__(self, state: ParseState, put: Put, closers: Sequence[str] = ()) -> None:
        self._state = state
        self._put = put
        self._closers = tuple(closers)
        self._open: list[str] = []
        self._expects = "value"
        self._gap: list[str] = []
        """White space and a comma before the next token."""

    def run(self) -> Steps:
        state = self._state
        try:
            yield from state.skip_blanks()
            while self._expects != "end":
                yield from state.peek()
                char = state.text[state.pos]
                if char.isspace():
                    self._gap.append(state.take_blanks())
                elif char == "/":
                    yield from self._comment()
                else:
                    yield from self._token(char)
        except NotACall as error:
            self._flush_gap()
            if isinstance(error, TruncatedCall) and not state.in_doubt:
                self._put(state.take_rest())
            raise

    def read_key(self) -> Steps:
        """Read the key of an object instead of a value."""
        self._expects = "key"
        yield from self._scalar(self._state.text[self._state.pos])

    def _flush_gap(self) -> None:
        self._put("".join(self._gap))
        self._gap.clear()

    def _token(self, char: str) -> Steps:
        if char in _ENDS and self._expects in ("value", "value or end"):
            self._open_container(char)
        elif self._open and char == self._open[-1] and self._expects in ("comma", "value or end", "key or end"):
            self._close_container(char)
        elif char == "," and self._expects == "comma":
            self._gap.append(",")
            self._state.pos += 1
            self._expects = "key or end" if self._open[-1] == "}" else "value or end"
        elif char == ":" and self._expects == "colon":
            self._flush_gap()
            self._put(":")
            self._state.pos += 1
            self._expects = "value"
        elif self._expects not in ("comma", "colon"):
            yield from self._scalar(char)
        else:
            raise NotACall

    def _open_container(self, char: str) -> None:
        self._flush_gap()
        self._put(char)
        self._state.pos += 1
        self._open.append(_ENDS[char])
        self._expects = "key or end" if char == "{" else "value or end"

    def _close_container(self, char: str) -> None:
        self._gap = [piece for piece in self._gap if piece != ","]
        self._flush_gap()
        self._put(char)
        self._state.pos += 1
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
            word = yield from self._word(to_json_key if key else to_json_value)
            self._flush_gap()
            self._put(word)
        if key:
            self._expects = "colon"
        else:
            self._after_value()

    def _word(self, convert: Callable[[str], str]) -> Generator[None, None, str]:
        """Skip the next word and return it as JSON. One that cannot be converted is not skipped."""
        state = self._state
        state.look_ahead_from = start = state.position
        pieces: list[str] = []
        while True:
            match = _WORD.match(state.text, state.pos)
            if match is not None:
                pieces.append(match.group())
                state.pos = match.end()
            if not pieces or state.pos < len(state.text) or state.ended:
                break
            yield from state.wait_for_more()
        state.look_ahead_from = None
        try:
            return convert("".join(pieces))
        except NotACall:
            state.rewind(start)
            raise

    def _comment(self) -> Steps:
        state = self._state
        for opening, closing in _COMMENTS.items():
            if (yield from state.is_at(opening)):
                comment, end = yield from state.read_until(closing)
                if not end:
                    self._gap.append(comment)
                    raise TruncatedCall
                return
        raise NotACall

    def _string(self, quote: str) -> Steps:
        state, run = self._state, _RUNS[quote]
        state.pos += 1
        self._put('"')
        while True:
            if state.pos >= len(state.text):
                yield from self._wait_in_string(quote)
            match = run.match(state.text, state.pos)
            if match is not None:
                yield from self._read_plain(match.group(), match.end() == len(state.text))
                continue
            char = state.text[state.pos]
            if char == "\\":
                yield from self._escape()
                continue
            state.pos += 1
            self._put('"' if char == quote else json.dumps(char)[1:-1])
            if char == quote:
                return

    def _wait_in_string(self, quote: str) -> Steps:
        """Wait for more of a string. Texts in which nothing is to be looked at are taken without this grammar."""
        state = self._state
        state.open_string = (_plain_text(quote, self._closers), self._put)
        try:
            yield from state.peek()
        finally:
            state.open_string = None

    def _read_plain(self, text: str, open_ended: bool) -> Steps:
        """Read characters of a string without escapes; record the first closing marker among them as doubtful."""
        state = self._state
        if self._closers and not state.in_doubt:
            closer = compile_tags(self._closers).search(text)
            keep = partial_tag_length(text, self._closers) if open_ended and closer is None else 0
            if closer is not None:
                self._put(text[: closer.start()])
                state.pos += closer.start()
                state.mark_doubtful_closer(len(closer.group()))
                text = text[closer.start() :]
            elif keep:
                text = text[:-keep]
        self._put(text)
        state.pos += len(text)
        if not text:
            yield from state.wait_for_more()

    def _escape(self) -> Steps:
        state = self._state
        while len(state.text) - state.pos < 2:
            yield from state.wait_for_more()
        char = state.text[state.pos + 1]
        length = {"u": 6, "x": 4}.get(char, 2)
        while len(state.text) - state.pos < length:
            yield from state.wait_for_more()
        raw = state.text[state.pos : state.pos + length]
        self._put(to_json_escape(raw, char))
        state.pos += length


def to_standard_json(text: str) -> str:
    """Return the text as standard JSON.

    Raises:
        NotACall: the text is not one value.
    """
    state = ParseState("", ())
    state.text, state.ended = text, True
    output: list[str] = []
    deque(JsonScanner(state, output.append).run(), maxlen=0)  # it waits for nothing: the text has ended
    if state.text[state.pos :].strip():
        raise NotACall
    return "".join(output)


def loads(text: str) -> Any:
    """Parse JSON as models write it.

    Raises:
        NotACall: the text is not one value.
    """
    try:
        return json.loads(to_standard_json(text))
    except (ValueError, RecursionError) as exc:
        raise NotACall from exc
