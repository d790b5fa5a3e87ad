"""A position in a text that arrives in fragments, with the reading operations of the grammars.

All methods but `take_rest` are generators that yield when they need more text.
"""

from collections.abc import Callable, Generator, Iterable
from typing import TypeAlias

from app.steps.partial_tag import partial_tag_length
from app.steps.tool_parsers.calls import NotACall, TruncatedCall


def find_first(text: str, start: int, tags: Iterable[str]) -> tuple[int, str]:
    """Return the position of the first of the tags, and the tag, or (-1, "")."""
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
        """Emit everything that is certain, and drop text that is no longer needed."""

    def wait_for_more(self) -> Steps:
        """Wait for more text.

        Raises:
            TruncatedCall: the text has ended.
        """
        self._flush_pending()
        if self.ended:
            raise TruncatedCall
        yield

    def take_rest(self) -> str:
        """Return the unread text and move to its end."""
        rest, self.pos = self.text[self.pos :], len(self.text)
        return rest

    def peek(self) -> Steps:
        while self.pos >= len(self.text):
            yield from self.wait_for_more()

    def skip_blanks(self) -> Steps:
        """Skip white space, and wait for a character after it."""
        while True:
            rest = self.text[self.pos :]
            self.pos += len(rest) - len(rest.lstrip())
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

    def read_until(self, *tags: str, limit: int | None = None) -> Generator[None, None, tuple[str, str]]:
        """Return the text up to the first of the tags, and the tag; skip both.

        Raises:
            NotACall: the text is longer than `limit`.
        """
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
        """Pass text to `put` up to the first of the tags, and return the tag without skipping it.

        Text that may be part of a tag stays unread when the text ends.
        """
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
        """Skip one of the tags and return it, if only white space and the characters in `besides` come before it.

        Otherwise return "" and skip nothing. At the end of the text, a part of a tag is skipped too.
        """
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
