"""Parses blocks of reasoning behind the beginning of an answer: a model that thinks again (kekzl/imp#793).

An answer can also be about the tags of reasoning. So a block is reasoning only where its opening tag begins a line
outside of code and quotations, and only if it ends. Behind reasoning that the server has sent in a field, it must also
stand on lines of its own: that server parses tags, and what it leaves is more often a part of the answer.

A block is held until it is known what it is. One that does not end is reasoning if a call follows, otherwise text.
"""

import re

from app.chat.events import Event, Extra, ReasoningDelta, TextDelta, ToolCallDelta
from app.steps.partial_tag import partial_tag_length
from app.steps.tool_parsers.prose import Prose

_BREAKS = "\r\n"
_OPENS_LINE = re.compile(r"[ \t]*\r?\n")
_MAY_OPEN_LINE = re.compile(r"[ \t]*\r?\Z")
_ENDS_LINE = re.compile(r"[ \t]*[\r\n]")
_MAY_END_LINE = re.compile(r"[ \t]*\Z")
_find_no_break = re.compile(f"[^{_BREAKS}]|\\Z").search


class LaterThoughts:
    """Takes the events of a reply behind its first reasoning. `closings` end a block, and so does `interrupt` at the
    start of a line."""

    def __init__(self, opening: str, closings: tuple[str, ...], interrupt: str, *, own_lines: bool) -> None:
        self._open, self._own_lines = opening, own_lines
        self._first = opening[:1]
        ends = "|".join(map(re.escape, closings))
        stop = rf"|\n(?={re.escape(interrupt)})" if interrupt and not own_lines else ""
        self._find_end = re.compile(ends + stop).search
        self._partial = (*closings, "\n" + interrupt) if stop else closings
        self._prose = Prose()
        self._held = ""
        """The end of the text, which could still become an opening tag; in a block, what is not searched yet."""
        self._block: list[str] = []
        """The open block, with its opening tag. Empty outside of a block."""
        self._ending = ""
        """The closing tag of the open block, behind which nothing has come yet."""
        self._is_trimming = False
        """A block has ended, and line breaks behind it are left out."""

    def feed(self, events: list[Event]) -> list[Event]:
        if len(events) == 1 and self._is_plain(events[0]):
            return events
        out: list[Event] = []
        for event in events:
            if self._is_plain(event):
                out.append(event)
            elif type(event) is TextDelta and not event.refusal:
                text, at = self._held + event.text, 0
                while (after := self._read(text, at, out)) > at:
                    at = after
                self._held = text[at:]
            else:
                if type(event) is not Extra:
                    self._end(event, out)
                out.append(event)
        return out

    def _is_plain(self, event: Event) -> bool:
        """Whether nothing has begun that waits for more, and nothing can begin with this event."""
        if self._held or self._block:
            return False
        if type(event) is not TextDelta or event.refusal:
            return True
        if self._is_trimming or self._first in event.text:
            return False
        self._prose.add(event.text)
        return True

    def _read(self, text: str, at: int, out: list[Event]) -> int:
        """Read on at this place of the text; return where the rest begins, `at` if more must come first."""
        if self._ending:
            return self._read_behind(text, at, out)
        if self._block:
            return self._read_block(text, at, out)
        if self._is_trimming:
            found = _find_no_break(text, at)
            assert found is not None
            self._is_trimming = found.start() == len(text)
            if found.start() > at:
                return found.start()
        place = text.find(self._open, at)
        if place < 0:
            end = len(text) - partial_tag_length(text[at:], (self._open,))
            self._pass(text[at:end], out)
            return end
        self._pass(text[at:place], out)
        if self._prose.begins_line():
            self._block.append(self._open)
        else:
            self._pass(self._open, out)
        return place + len(self._open)

    def _read_block(self, text: str, at: int, out: list[Event]) -> int:
        if self._own_lines and len(self._block) == 1 and not _OPENS_LINE.match(text, at):
            if _MAY_OPEN_LINE.match(text, at) is None:
                self._refuse(out)
                return self._read(text, at, out)
            return at
        found = self._find_end(text, at)
        if found is None:
            end = len(text) - partial_tag_length(text[at:], self._partial)
            if end > at:
                self._block.append(text[at:end])
            return end
        self._block.append(text[at : found.start()])
        if found.group() == "\n":
            self._take_block(out)
        else:
            self._ending = found.group()
        return found.end()

    def _read_behind(self, text: str, at: int, out: list[Event]) -> int:
        """Look at what follows a block."""
        if not self._own_lines:
            self._take_block(out)
        elif at == len(text) or _MAY_END_LINE.match(text, at):
            return at
        elif _ENDS_LINE.match(text, at):
            self._take_block(out)
        else:
            self._block.append(self._ending)
            self._refuse(out)
        return self._read(text, at, out)

    def _refuse(self, out: list[Event]) -> None:
        """Pass a block on as text."""
        text = "".join(self._block)
        self._block.clear()
        self._ending = ""
        self._pass(text, out)

    def _take_block(self, out: list[Event]) -> None:
        text = "".join(self._block)[len(self._open) :]
        found = _OPENS_LINE.match(text)
        text = text[found.end() if found is not None else 0 :].strip(_BREAKS)
        self._block.clear()
        self._ending = ""
        self._is_trimming = True
        if text:
            out.append(ReasoningDelta(text))

    def _pass(self, text: str, out: list[Event]) -> None:
        if text:
            self._prose.add(text)
            out.append(TextDelta(text))

    def _end(self, event: Event, out: list[Event]) -> None:
        """Pass on what is held before something else."""
        if self._ending:
            self._take_block(out)
        elif self._block and type(event) is ToolCallDelta:
            self._block.append(self._held)
            self._take_block(out)
        elif self._block:
            self._block.append(self._held)
            self._refuse(out)
        else:
            self._pass(self._held, out)
        self._held = ""
