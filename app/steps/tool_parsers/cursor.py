"""A place in a text that comes in pieces, and the ways to go on from it.

All but `rest` are generators that yield where they need more text.

Looking for tags in a text that comes in pieces.
"""

from collections.abc import Callable, Generator, Iterable
from typing import TypeAlias

from app.steps.tool_parsers.calls import NotACall, TruncatedCall


def partial_tag_length(text: str, tags: Iterable[str]) -> int:
    """The length of the longest end of `text` that may become one of the tags."""
    longest = 0
    for tag in tags:
        for length in range(min(len(tag) - 1, len(text)), longest, -1):
            if text.endswith(tag[:length]):
                longest = length
                break
    return longest


def find_first(text: str, start: int, tags: Iterable[str]) -> tuple[int, str]:
    """The place of the first of the tags, and the tag; (-1, "") where there is none."""
    place, found = -1, ""
    for tag in tags:
        at = text.find(tag, start) if place < 0 else text.find(tag, start, place + len(tag) - 1)
        if at >= 0 and (place < 0 or at < place):
            place, found = at, tag
    return place, found


Steps: TypeAlias = Generator[None, None, None]
BoolSteps: TypeAlias = Generator[None, None, bool]


class Cursor:
    def __init__(self) -> None:
        self.text = ""
        self.pos = 0
        self.ended = False

    def _flush_pending(self) -> None:
        """What is known is to be told now, and text that is done with may go."""

    def wait_for_more(self) -> Steps:
        """Wait for more text. Raises Cut when it ended."""
        self._flush_pending()
        if self.ended:
            raise TruncatedCall
        yield

    def take_rest(self) -> str:
        """All that is not read yet; it counts as read."""
        rest, self.pos = self.text[self.pos :], len(self.text)
        return rest

    def peek(self) -> Steps:
        while self.pos >= len(self.text):
            yield from self.wait_for_more()

    def skip_blanks(self) -> Steps:
        """Pass white space; there is a character behind it."""
        while True:
            rest = self.text[self.pos :]
            self.pos += len(rest) - len(rest.lstrip())
            if self.pos < len(self.text):
                return
            yield from self.wait_for_more()

    def is_at(self, literal: str) -> BoolSteps:
        """Whether the literal stands here; it is not passed."""
        while len(self.text) - self.pos < len(literal) and literal.startswith(self.text[self.pos :]) and not self.ended:
            yield from self.wait_for_more()
        return self.text.startswith(literal, self.pos)

    def accept(self, literal: str) -> BoolSteps:
        """Whether the literal stands here; it is passed."""
        found = yield from self.is_at(literal)
        if found:
            self.pos += len(literal)
        return found

    def read_until(self, *tags: str, limit: int | None = None) -> Generator[None, None, tuple[str, str]]:
        """The text up to the first of the tags, and the tag; both are passed. Raises Unreadable when the text is
        longer than the limit."""
        seen = 0
        longest = max(map(len, tags), default=1)
        while True:
            place, tag = find_first(self.text, self.pos + seen, tags)
            length = (place if tag else len(self.text) - longest) - self.pos
            if limit is not None and length > limit:
                raise NotACall
            if tag:
                before, self.pos = self.text[self.pos : place], place + len(tag)
                return before, tag
            seen = max(0, length + 1)
            yield from self.wait_for_more()

    def stream_until(self, put: Callable[[str], None], *tags: str) -> Generator[None, None, str]:
        """Hand on what cannot belong to a tag, up to the first tag, which is not passed. What is held is left there
        when the text ends."""
        while True:
            place, tag = find_first(self.text, self.pos, tags)
            if not tag:
                place = len(self.text) - partial_tag_length(self.text[self.pos :], tags)
            put(self.text[self.pos : place])
            self.pos = place
            if tag:
                return tag
            yield from self.wait_for_more()

    def accept_tag(self, *tags: str, besides: str = "") -> Generator[None, None, str]:
        """Pass one of the tags, and say which, if it follows after nothing but white space and the characters
        `besides`; else leave everything."""
        while True:
            ahead = self.text[self.pos :].lstrip(" \t\r\n" + besides)
            growing = any(tag.startswith(ahead) and tag != ahead for tag in tags)
            tag = max((tag for tag in tags if ahead.startswith(tag)), key=len, default="")
            if growing and not self.ended:
                yield from self.wait_for_more()
                continue
            if tag or (growing and ahead):
                self.pos = len(self.text) - len(ahead) + (len(tag) or len(ahead))
            return tag
