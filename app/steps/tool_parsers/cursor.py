"""The reading position in a text that arrives in fragments, with the reading operations of the grammars.

`text` has only what may still be looked at. Whenever more text is waited for, everything before the position is
dropped, or set aside in pieces if it may be read again (`rewind`). Each operation reads up to the end of what has
arrived before it waits, but for what may be the beginning of a tag. So the time for a text is in proportion to its
length, whether it arrives at once or character by character.

The operations are generators that yield when they need more text.
"""

import re
from collections.abc import Callable, Generator
from functools import lru_cache
from typing import TypeAlias

from app.steps.partial_tag import partial_tag_length
from app.steps.tool_parsers.calls import NotACall, TruncatedCall

Steps: TypeAlias = Generator[None, None, None]
BoolSteps: TypeAlias = Generator[None, None, bool]


@lru_cache(maxsize=256)
def compile_tags(tags: tuple[str, ...]) -> re.Pattern[str]:
    """Return a pattern that finds the first of the tags. It reads nothing behind that tag, and of two that begin at the
    same position it finds the one that is named first."""
    return re.compile("|".join(map(re.escape, tags)) if tags else r"(?!)")


@lru_cache(maxsize=256)
def find_starts(tags: tuple[str, ...]) -> frozenset[str]:
    """Return the first characters of the tags."""
    return frozenset(tag[0] for tag in tags)


@lru_cache(maxsize=32)
def compile_characters(characters: frozenset[str]) -> re.Pattern[str]:
    """Return a pattern that finds the first of these characters."""
    return re.compile(f"[{re.escape(''.join(sorted(characters)))}]")


@lru_cache(maxsize=32)
def _compile_skipped(characters: str) -> re.Pattern[str]:
    return re.compile(f"[^{re.escape(characters)}]|\\Z")


_SHORTEST_PART = 3
"""A shorter part of a tag, at the end of the text, may be text."""
_NOT_BLANK = re.compile(r"\S|\Z")


class Cursor:
    def __init__(self) -> None:
        self.text = ""
        self.pos = 0
        self.ended = False
        self.reread = 0
        """How many characters `rewind` has moved back."""
        self._dropped = 0
        """How many characters of the reply came before `text`."""
        self._aside: list[str] = []
        """The text directly before `text` that may be read again."""
        self.look_ahead_from: int | None = None
        """The position to which an operation that looks ahead may move back."""

    @property
    def position(self) -> int:
        """The position in all text of the reply."""
        return self._dropped + self.pos

    def add_text(self, text: str) -> None:
        self.text += text

    def rewind(self, position: int) -> None:
        """Move back to a position that is not before `_first_needed`."""
        self.reread += self.position - position
        if position < self._dropped:
            pieces = [self.text]
            while position < self._dropped:
                pieces.append(self._aside.pop())
                self._dropped -= len(pieces[-1])
            self.text = "".join(reversed(pieces))
        self.pos = position - self._dropped

    def _first_needed(self) -> int | None:
        """Return the first position to which `rewind` may move; None if it may not move at all."""
        return self.look_ahead_from

    def _drop_read_text(self) -> None:
        pos, first = self.pos, self._first_needed()
        if self._aside and (first is None or first >= self._dropped):
            self._aside.clear()
        if pos:
            if first is not None and first < self._dropped + pos:
                self._aside.append(self.text[max(first - self._dropped, 0) : pos])
            self.text = self.text[pos:]
            self._dropped += pos
            self.pos = 0

    def _emit_certain(self) -> None:
        """Emit everything that is certain."""

    def wait_for_more(self) -> Steps:
        """Wait for more text.

        Raises:
            TruncatedCall: the text has ended.
        """
        self._emit_certain()
        if self.ended:
            raise TruncatedCall
        self._drop_read_text()
        yield

    def take_rest(self) -> str:
        """Return the unread text and move to its end."""
        rest, self.pos = self.text[self.pos :], len(self.text)
        return rest

    def peek(self) -> Steps:
        while self.pos >= len(self.text):
            yield from self.wait_for_more()

    def _skip(self, stop: re.Pattern[str]) -> str:
        """Move to the first match of a pattern that matches the end of the text, too. Return what is skipped."""
        found = stop.search(self.text, self.pos)
        assert found is not None
        start, self.pos = self.pos, found.start()
        return self.text[start : self.pos]

    def take_blanks(self) -> str:
        """Skip the white space that has arrived, and return it."""
        return self._skip(_NOT_BLANK)

    def skip_blanks(self) -> Steps:
        """Skip white space, and wait for a character after it."""
        while True:
            self._skip(_NOT_BLANK)
            if self.pos < len(self.text):
                return
            yield from self.wait_for_more()

    def is_at(self, literal: str) -> BoolSteps:
        """Return whether the literal comes next; do not skip it."""
        while len(self.text) - self.pos < len(literal) and literal.startswith(self.text[self.pos :]) and not self.ended:
            yield from self.wait_for_more()
        return self.text.startswith(literal, self.pos)

    def accept(self, literal: str) -> BoolSteps:
        """Return whether the literal comes next; if so, skip it."""
        found = yield from self.is_at(literal)
        if found:
            self.pos += len(literal)
        return found

    def read_head(self, *tags: str, limit: int) -> Generator[None, None, tuple[str, str]]:
        """Return the short text up to the first of the tags, and the tag; skip both.

        Raises:
            NotACall: the text is longer than `limit`; nothing is skipped.
        """
        find = compile_tags(tags).search
        most = limit + max(map(len, tags))
        while True:
            found = find(self.text, self.pos, self.pos + most)
            if found is not None and found.start() - self.pos <= limit:
                before, self.pos = self.text[self.pos : found.start()], found.end()
                return before, found.group()
            if found is not None or len(self.text) - self.pos >= most:
                raise NotACall
            yield from self.wait_for_more()

    def read_until(self, *tags: str) -> Generator[None, None, tuple[str, str]]:
        """Return the text up to the first of the tags, and the tag; skip both.

        If the text ends before, return the rest of it and "".
        """
        pieces: list[str] = []
        try:
            tag = yield from self.stream_until(pieces.append, *tags)
        except TruncatedCall:
            pieces.append(self.take_rest())
            tag = ""
        self.pos += len(tag)
        return "".join(pieces), tag

    def stream_until(self, put: Callable[[str], None], *tags: str) -> Generator[None, None, str]:
        """Pass text to `put` up to the first of the tags, and return the tag without skipping it.

        Text that may be part of a tag stays unread when the text ends.
        """
        find = compile_tags(tags).search
        while True:
            found = find(self.text, self.pos)
            if found is not None and not self._may_grow(found.start(), tags):
                start, self.pos = self.pos, found.start()
                put(self.text[start : self.pos])
                return found.group()
            rest = self.text[self.pos :] if self.pos else self.text
            ready = len(rest) - partial_tag_length(rest, tags)
            put(rest[:ready])
            self.pos += ready
            yield from self.wait_for_more()

    def _may_grow(self, start: int, tags: tuple[str, ...]) -> bool:
        """Whether the text from `start` on can become one of the tags that it is not yet: some are the beginning of
        others."""
        size = len(self.text) - start
        if self.ended or size >= max(map(len, tags)):
            return False
        rest = self.text[start:]
        return any(len(tag) > size and tag.startswith(rest) for tag in tags)

    def accept_tag(self, *tags: str, besides: str = "") -> Generator[None, None, str]:
        """Skip one of the tags and return it, if only white space and the characters in `besides` come before it.

        Otherwise return "" and skip nothing. At the end of the text, a part of a tag is skipped too.
        """
        start = self.position
        tag, part = yield from self._look_ahead(tags, besides)
        if tag or len(part) >= _SHORTEST_PART:
            self.pos += len(tag) or len(part)
        else:
            self.rewind(start)
        return tag

    def is_before_tag(self, *tags: str) -> BoolSteps:
        """Return whether only white space comes before one of the tags or the end of the text; skip nothing."""
        start = self.position
        tag, part = yield from self._look_ahead(tags)
        found = bool(tag or part) or self.pos == len(self.text)
        self.rewind(start)
        return found

    def is_before_object(self, opening: str) -> BoolSteps:
        """Return whether only white space stands between the opening, which comes next, and a brace; skip nothing."""
        start = self.position
        outer = self.look_ahead_from
        self.look_ahead_from = start if outer is None else outer
        self.pos += len(opening)
        try:
            yield from self.skip_blanks()
            return self.text[self.pos] in "{]"
        finally:
            self.look_ahead_from = outer
            self.rewind(start)

    def _look_ahead(self, tags: tuple[str, ...], besides: str = "") -> Generator[None, None, tuple[str, str]]:
        """Skip white space and the characters in `besides`; return the tag that comes next, and the part of a tag with
        which the text ends, or "". Neither is skipped."""
        stop = _compile_skipped(" \t\r\n" + besides)
        longest = max(map(len, tags))
        outer = self.look_ahead_from
        self.look_ahead_from = self.position if outer is None else outer
        while True:
            self._skip(stop)
            ahead = self.text[self.pos : self.pos + longest]
            growing = any(tag.startswith(ahead) and tag != ahead for tag in tags)
            if not growing or self.ended:
                break
            yield from self.wait_for_more()
        self.look_ahead_from = outer
        return max((tag for tag in tags if ahead.startswith(tag)), key=len, default=""), ahead if growing else ""

    def expect_tag(self, *tags: str) -> Generator[None, None, str]:
        """Skip white space and one of the tags, and return it.

        Raises:
            NotACall: something else comes next.
        """
        yield from self.skip_blanks()
        for tag in tags:
            if (yield from self.accept(tag)):
                return tag
        rest = self.text[self.pos : self.pos + max(map(len, tags))]
        raise TruncatedCall if any(tag.startswith(rest) for tag in tags) else NotACall
