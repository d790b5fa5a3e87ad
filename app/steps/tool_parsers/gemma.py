"""Parses Gemma 4's calls, `call:f{city:<|"|>Rome<|"|>,n:3}`, and FunctionGemma's, whose quotes are `<escape>`.

Keys have no quotes at any depth (vllm/tool_parsers/gemma4_tool_parser.py, functiongemma_tool_parser.py).
"""

import re
from typing import Any

from msgspec import Struct

from app.chat.template_tokens import CALL_CLOSERS, TURN_ENDS
from app.steps.tool_parsers.calls import NotACall
from app.steps.tool_parsers.cursor import BoolSteps, Steps
from app.steps.tool_parsers.json_scanner import loads, write_json
from app.steps.tool_parsers.parser import ParseState

_CALL = "call:"
_BARE_CALLS = (_CALL, "default_api:")
"""Gemini's name for its functions (bayesimpact/bayes-platform#731)."""
_QUOTES = ('<|"|>', "<escape>")
_MARKS = (*_QUOTES, "{", "}", "[", "]")
_ROUND_MARKS = (*_MARKS, "(", ")", '"')
"""Of a call in parentheses, whose texts have quotes (NousResearch/hermes-agent#7449)."""
_LIMIT = 200
_MAX_NESTING = 100
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BARE = re.compile(r"[^,{}\[\]]*")
_PLAIN = r"[^:\"'{}\[\],]+"
_KEY = re.compile(rf"[\"']?(<\|\"\|>{_PLAIN}\"\|>\s*|{_PLAIN})(?:[\"']\s*)?:\s*")
"""No two parts of it that follow each other take blanks, so it is matched in linear time."""
_GAP = re.compile(r"[\s,]*")


class GemmaCall(Struct, frozen=True):
    opening: str = ""

    def is_next(self, r: ParseState) -> BoolSteps:
        return (yield from r.is_at(_CALL))

    def read(self, r: ParseState, closers: tuple[str, ...]) -> Steps:
        r.pos += len(_CALL)
        yield from _read_call(r)


def _read_call(r: ParseState, *, must_be_offered: bool = False) -> Steps:
    head, bracket = yield from r.read_head("{", "(", limit=_LIMIT)
    call = r.open_call(head.strip())
    if must_be_offered and call.name not in r.tools:
        raise NotACall
    pieces = ["{"]
    yield from _read_braces(r, pieces, _MARKS if bracket == "{" else _ROUND_MARKS)
    call.put(write_json(_Values("".join((*pieces[:-1], "}"))).read()))
    r.complete_call(call)


def read_bare_call(r: ParseState) -> Steps:
    """Read a call of an offered function at the start of a reply that has lost its opening."""
    yield from r.skip_blanks()
    yield from r.expect_tag(*_BARE_CALLS)
    yield from _read_call(r, must_be_offered=True)
    while (yield from r.accept_tag(*CALL_CLOSERS, *TURN_ENDS)):
        pass


def _read_braces(r: ParseState, pieces: list[str], marks: tuple[str, ...]) -> Steps:
    """Collect the text up to the bracket that closes the arguments."""
    depth, quote = 1, ""
    while depth:
        tag = yield from r.stream_until(pieces.append, *([quote] if quote else marks))
        pieces.append(tag)
        r.pos += len(tag)
        if tag in _QUOTES or tag == '"':
            quote = "" if quote else tag
        else:
            depth += 1 if tag in "{[(" else -1
        if depth > _MAX_NESTING:
            raise NotACall


class _Values:
    """Reads the values of a text whose brackets match."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._pos = 0

    def read(self) -> Any:
        for quote in _QUOTES:
            if self._text.startswith(quote, self._pos):
                return self._read_quoted(quote)
        char = self._text[self._pos : self._pos + 1]
        if char == '"' and (found := _STRING.match(self._text, self._pos)) is not None:
            self._pos = found.end()
            return _read_bare(found.group())
        if char == "{":
            return self._read_object()
        if char == "[":
            return self._read_list()
        found = _BARE.match(self._text, self._pos)
        assert found is not None
        self._pos = found.end()
        return _read_bare(found.group().strip())

    def _read_quoted(self, quote: str) -> str:
        start = self._pos + len(quote)
        end = self._text.index(quote, start)
        self._pos = end + len(quote)
        return self._text[start:end]

    def _read_object(self) -> dict[str, Any]:
        values: dict[str, Any] = {}
        while not self._at_end("}"):
            key = _KEY.match(self._text, self._pos)
            if key is None:
                raise NotACall
            self._pos = key.end()
            name = key.group(1).strip()
            for quote in _QUOTES:
                name = name.removeprefix(quote).removesuffix(quote)
            values[name] = self.read()
        return values

    def _read_list(self) -> list[Any]:
        values = []
        while not self._at_end("]"):
            values.append(self.read())
        return values

    def _at_end(self, closer: str) -> bool:
        """Skip what separates values, and the closer; return whether it was there."""
        if self._text[self._pos] in "{[":
            self._pos += 1
        gap = _GAP.match(self._text, self._pos)
        assert gap is not None
        self._pos = gap.end()
        char = self._text[self._pos : self._pos + 1]
        if char in ("}", "]", ""):
            if char != closer:
                raise NotACall
            self._pos += 1
            return True
        return False


def _read_bare(text: str) -> Any:
    try:
        return loads(text)
    except NotACall:
        return text
