"""The description of a family of calls in text, and the one reader of all families.

A block's opening or the opening of a call begins; what comes next decides how the call is written. Behind a call,
closing markers of any family are skipped, in any number and order. A family that is not configured is read with
`ParseState.strict`, and all families at once.
"""

import re
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from app.chat.template_tokens import CALL_CLOSERS, TURN_ENDS
from app.steps.tool_parsers.calls import NotACall, OpenCall
from app.steps.tool_parsers.cursor import BoolSteps, Steps, compile_tags
from app.steps.tool_parsers.inkling import CALL as INKLING_CALL
from app.steps.tool_parsers.inkling import InklingBlock
from app.steps.tool_parsers.json_calls import NamedCall, ObjectCalls, read_arguments, read_json_call
from app.steps.tool_parsers.names import find_offered
from app.steps.tool_parsers.parser import ParseState
from app.steps.tool_parsers.syntax import Syntax
from app.steps.tool_parsers.xml_calls import XmlSyntax

Grammar: TypeAlias = Callable[[ParseState], Steps]
Guess: TypeAlias = Literal["name", "object", "list"]

_SURPLUS = (*CALL_CLOSERS, *TURN_ENDS)
_HEAD = re.compile(r"[\w.\-:/]+(?:<\|[\w|>]*)?")
_PREFIXES, _DIGITS = ("functions.", "default_api."), "0123456789"
_LONGEST_TOKEN = 40
_FENCE, _LANGUAGES = "```", ("", "json", "tool_call", "tool_calls", "tool")
_LONGEST = 300
"""A name and a separator are shorter."""


class Family(Struct, frozen=True):
    name: str
    blocks: tuple[str, ...]
    """What opens a block of calls. Several of them may stand before a call."""
    calls: tuple[Syntax, ...]
    """How calls are written in it. The first that fits what comes next is read."""
    closers: tuple[str, ...] = ()
    """What closes a block, and so also ends a broken call."""
    fillers: tuple[str, ...] = ()
    """What else may stand between the opening of a block and a call."""
    guesses: tuple[Guess, ...] = ("name",)
    """What begins a call at the start of a reply, because the server has eaten the opening: the name of an offered
    function before a separator, an object with such a name before a closer (without one if the family has none, or if
    it is the whole reply), a list of Python calls. As the whole reply also such objects in blocks of code, and an
    object behind such a name, if the family writes one there."""
    start: Callable[[ParseState], Steps] | None = None
    """What else is read at the start of a reply."""
    dropped: tuple[str, ...] = ()
    """Markers that are no part of the text."""
    plain: tuple[str, ...] = ()
    """Closing markers in which an opening stands that has lost its bracket: alone, they are text."""


class _Way(Struct, frozen=True):
    """One way in which the text behind a marker may go on."""

    family: Family
    syntax: Syntax


class Reader:
    """Reads the calls of these families."""

    def __init__(self, families: Sequence[Family]) -> None:
        self._ways: dict[str, list[_Way]] = {}
        for family in families:
            for syntax in family.calls:
                for marker in (*family.blocks, *([syntax.opening] if syntax.opening else [])):
                    self._ways.setdefault(marker, []).append(_Way(family, syntax))
        self._blocks = frozenset(marker for family in families for marker in family.blocks)
        self._dropped = tuple(marker for family in families for marker in family.dropped)
        self._plain = frozenset(marker for family in families for marker in family.plain)
        self._markers = tuple(sorted({*self._ways, *self._dropped, *self._plain}, key=len, reverse=True))
        self._families = tuple(families)
        closers = (closer for family in families for closer in family.closers)
        self._starts = frozenset(marker[0] for marker in ("<", "[", *self._markers, *closers))
        named = _list_ways(families, "name")
        self._by_separator = {separator: way for way in reversed(named) for separator in _separators(way.syntax)}
        self._separators = tuple(sorted(self._by_separator, key=len, reverse=True))
        self._bare_named = [way for way in named if type(way.syntax) is NamedCall and not way.syntax.opening]
        self._lists = _list_ways(families, "list")
        self._list_closers = _collect(way.family.closers for way in self._lists)
        self._objects = _list_ways(families, "object")
        self._object_closers = _collect(way.family.closers for way in self._objects)
        self._unclosed = [way.family.name for way in self._objects if not way.family.closers]
        """The families with objects behind which nothing stands."""
        self._guesses: list[Grammar] = []
        """What reads calls at the start of a reply that has lost their opening."""
        self._guesses += [self._read_named, self._read_name_and_object] if named else []
        self._guesses += [self._read_list] if self._lists else []
        self._guesses += [self._read_objects, self._read_code_blocks] if self._objects else []

    def __call__(self, r: ParseState) -> Steps:
        """Read a reply. Does not return."""
        r.all_starts = self._starts
        for read in self._guesses if r.tools else ():
            if not r.calls:
                yield from r.attempt(read(r), guess=True)
        for family in self._families:
            if family.start is not None:
                r.family = family.name
                yield from r.attempt(family.start(r), guess=True)
        while True:
            marker = yield from r.read_prose(*self._markers, *r.pending_closers)
            r.pending_closers = ()
            if marker in self._ways:
                yield from r.attempt(self.read_block(r, marker))
            elif r.strict or marker in self._plain:
                r.emit_text(marker)

    def read_block(self, r: ParseState, marker: str) -> Steps:
        """Read the calls behind a marker."""
        if marker not in self._blocks:
            r.pos -= len(marker)
        ways = self._ways[marker]
        closers = _collect(way.family.closers for way in ways)
        openings = {way.syntax.opening for way in ways}
        nested = [
            token
            for token in _collect((*way.family.blocks, *way.family.fillers) for way in ways)
            if token not in openings
        ]
        while nested and (yield from r.accept_tag(*nested)):
            pass
        yield from r.skip_blanks()
        if (yield from _read_one(r, ways)):
            yield from _read_more(r, ways, closers)
        elif closers and (yield from r.accept_tag(*closers)):
            r.commit()
            r.warn("a block of tool calls without a call is left out")
        else:
            raise NotACall

    def _read_list(self, r: ParseState) -> Steps:
        yield from r.skip_blanks()
        if r.strict or r.text[r.pos] != "[" or not (yield from _read_one(r, self._lists)) or not r.calls:
            raise NotACall  # `[]` is text
        yield from _read_more(r, self._lists, self._list_closers)

    def _read_objects(self, r: ParseState) -> Steps:
        ways, closers = self._objects, self._object_closers
        must_close = r.strict or bool(closers)
        while True:
            calls = yield from _read_guessed(r, closers, must_close)
            if must_close:
                tag = yield from r.accept_tag(*closers)
                if not tag and not (r.strict and r.is_whole and not r.text[r.pos :].strip()):
                    raise NotACall
                r.family = next(way.family.name for way in ways if tag in (way.family.closers or ("",)))
            for call in calls:
                r.complete_call(call)
            _, tag = yield from _skip_closers(r, ("{",), closers)
            if not tag:
                return
            r.pos -= len(tag)

    def _read_code_blocks(self, r: ParseState) -> Steps:
        """Read objects in blocks of code that are the whole reply (Gitlawb/openclaude#1076)."""
        names = self._unclosed
        calls: list[OpenCall] = []
        yield from r.skip_blanks()
        while names and (yield from r.accept(_FENCE)):
            language, _ = yield from r.read_head("\n", limit=_LONGEST_TOKEN)
            if language.strip() not in _LANGUAGES:
                raise NotACall
            while not (yield from r.accept_tag(_FENCE)):
                calls += yield from _read_guessed(r, (_FENCE,), must_close=True)
            if calls and (yield from _is_whole(r)):
                if not all(call.is_object() for call in calls):
                    raise NotACall
                r.family = names[0]
                for call in calls:
                    r.complete_call(call)
                return
            yield from r.skip_blanks()
        raise NotACall

    def _read_name_and_object(self, r: ParseState) -> Steps:
        """Read the name of an offered function and an object that are the whole reply: a server has eaten the tokens
        around them (ml-explore/mlx-lm#792)."""
        if not self._bare_named:
            raise NotACall
        yield from _find_separator(r, ("{",))
        name, _ = yield from r.read_head("{", limit=_LONGEST)
        r.pos -= 1
        call = r.open_call(name.strip())
        call.is_held = True
        yield from read_arguments(r, call)
        if not call.is_object() or not (yield from _is_whole(r)):
            raise NotACall
        r.family = self._bare_named[0].family.name
        r.complete_call(call)

    def _read_named(self, r: ParseState) -> Steps:
        separator = yield from _find_separator(r, self._separators)
        way = self._by_separator[separator]
        r.family = way.family.name
        yield from way.syntax.read(r, way.family.closers)
        yield from _read_more(r, [way], way.family.closers)


def _list_ways(families: Sequence[Family], guess: Guess) -> list[_Way]:
    """Return how those calls are written that begin in this way without their opening."""
    return [_Way(family, syntax) for family in families if guess in family.guesses for syntax in family.calls]


def _is_whole(r: ParseState) -> BoolSteps:
    """Whether the reply ends here by itself."""
    while not r.text[r.pos :].strip() and not r.ended:
        r.take_blanks()
        yield from r.wait_for_more()
    return r.is_whole and not r.text[r.pos :].strip()


def _read_guessed(r: ParseState, closers: tuple[str, ...], must_close: bool) -> Generator[None, None, list[OpenCall]]:
    """Read an object, or a list of them, without completing the calls."""
    yield from r.skip_blanks()
    is_list = yield from r.accept("[")
    calls: list[OpenCall] = []
    while True:
        call = r.open_call()
        call.guessed, call.is_held = True, must_close or is_list
        yield from read_json_call(r, call, closers)
        calls.append(call)
        if not is_list:
            return calls
        yield from r.skip_blanks()
        r.pos += 1
        if r.text[r.pos - 1] == "]":
            return calls
        if r.text[r.pos - 1] != ",":
            raise NotACall


def _collect(groups: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(token for group in groups for token in group))


def _read_one(r: ParseState, ways: Sequence[_Way]) -> BoolSteps:
    """Read one call, or a list of them, if one comes next."""
    for way in ways:
        if (yield from way.syntax.is_next(r)):
            r.family = way.family.name
            yield from way.syntax.read(r, way.family.closers)
            return True
    return False


def _read_more(r: ParseState, ways: Sequence[_Way], closers: tuple[str, ...]) -> Steps:
    """Read the other calls of a block, and what closes it."""
    openings = tuple(dict.fromkeys(way.syntax.opening for way in ways if way.syntax.opening))
    if any(type(way.syntax) is ObjectCalls for way in ways):
        openings += ("{",)
    while True:
        closed, tag = yield from _skip_closers(r, openings, closers)
        if not tag:
            r.pending_closers = () if closed else closers
            return
        r.pos -= len(tag)
        yield from _read_one(r, ways)


def _skip_closers(
    r: ParseState, openings: tuple[str, ...], closers: tuple[str, ...]
) -> Generator[None, None, tuple[bool, str]]:
    """Skip closing markers, and the opening of the next call. Return whether the block was closed, and that opening."""
    closed = False
    while True:
        wanted = tuple(opening for opening in openings if opening != "{" or not closed)
        tag = yield from r.accept_tag(*wanted, *_SURPLUS, besides="},;" if "{" in wanted else "")
        if not tag or tag in wanted:
            return closed, tag
        closed = closed or tag in closers


def _separators(syntax: Syntax) -> tuple[str, ...]:
    """Return what stands behind a name as this syntax writes it, if no tag is before the name."""
    if isinstance(syntax, NamedCall):
        return (*syntax.separators, *([syntax.id_separator] if syntax.id_separator else []))
    if isinstance(syntax, InklingBlock):
        return (INKLING_CALL,)
    return (syntax.parameter,) if isinstance(syntax, XmlSyntax) and not syntax.call else ()


def _find_separator(r: ParseState, separators: tuple[str, ...]) -> Generator[None, None, str]:
    """Return the separator behind the name of an offered function that comes next; skip nothing but blanks. Longer ones
    come first.

    Raises:
        NotACall: there is none.
    """
    find = compile_tags(separators).search
    yield from r.skip_blanks()
    while True:
        text = r.text[r.pos : r.pos + _LONGEST]
        found = find(text)
        if found is not None:
            head = text[: found.start()].strip()
            if _HEAD.fullmatch(head) is None or find_offered(head, r.tools) is None:
                raise NotACall
            return found.group()
        if not _may_become_call(text, r, separators):
            raise NotACall
        yield from r.wait_for_more()


def _may_become_call(text: str, r: ParseState, separators: tuple[str, ...]) -> bool:
    """Whether a text that has no separator can be the beginning of a name and a separator."""
    for prefix in _PREFIXES:
        if prefix.startswith(text):
            return True
        text = text.removeprefix(prefix)
    for name in r.tools:
        if name.startswith(text):
            return True
        if text.startswith(name):
            rest = text[len(name) :]
            if rest[:1] == ":":
                rest = rest[1:].lstrip(_DIGITS)
            rest = rest.strip()
            if (rest[:2] == "<|" and len(rest) < _LONGEST_TOKEN) or any(
                separator.startswith(rest) for separator in separators
            ):
                return True
    return False
