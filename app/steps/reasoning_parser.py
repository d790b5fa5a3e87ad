"""Parses reasoning between tags in the content (rule 5 of docs/reference/assembly.md).

States: START, before it is known whether the reply starts with reasoning; SEEK, where a closing tag would show that it
did; THINK, inside reasoning; AFTER, after a closing tag, where line breaks are trimmed; TEXT, where everything passes
(or, interleaved, until the next opening tag). The stage buffers only what could still become a tag, the line breaks
that would be trimmed beside one, and in SEEK everything. Text that can no longer become a tag is buffered separately,
so that no text is searched twice. Once a server sends reasoning in a field of its own, tags in the content are content.

Some models forget the closing tag before a tool call: `interrupt` at the start of a line also ends the reasoning, and
is part of the text after it.

There is a text for every token. `_feed_plain` takes those without a line break and without the first character of a
tag, in which there is nothing to find.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Literal, TypeAlias

from app.chat.events import Event, Extra, ReasoningDelta, TextDelta, ToolCallDelta
from app.steps.partial_tag import partial_tag_length

ThinkMode: TypeAlias = Literal["leading", "forced_open", "auto_close", "interleaved", "off"]

_BREAKS = "\r\n"
_BLANKS = " \t\r\n"


@lru_cache(maxsize=32)
def _special_characters(opening: str, closing: str) -> re.Pattern[str]:
    """Return a pattern for characters that can begin a tag, and for line breaks, which are trimmed beside tags."""
    return re.compile(f"[{re.escape(opening[:1] + closing[:1])}{_BREAKS}]")


class ReasoningStage:
    def __init__(self, mode: ThinkMode, tags: tuple[str, str], interrupt: str | None = None) -> None:
        self._mode = mode
        self._open, self._close = tags
        self._interrupt = interrupt or ""
        self._held = ""
        """The end of the text, which could still become a tag."""
        self._kept: list[str] = []
        """The buffered text before `_held`, which cannot become a tag."""
        self._has_thought_text = False
        """The open reasoning has text, so that line breaks are no longer trimmed from its start."""
        self._state: Callable[[ReasoningStage, list[Event]], bool] = ReasoningStage._start
        """An unbound function: a bound method would make a reference cycle, which only the collector frees."""
        self._passing = mode == "off"
        self._find_special = _special_characters(*tags).search

    def feed(self, events: list[Event]) -> list[Event]:
        if self._passing:
            return events
        out: list[Event] = []
        for event in events:
            if type(event) is TextDelta and not event.refusal and not self._passing:
                if not self._held and self._feed_plain(event, out):
                    continue
                self._held += event.text
                while self._held and self._state(self, out):
                    pass
            else:
                if type(event) is not Extra and not self._passing:
                    self._end_search(event, out)
                out.append(event)
        return out

    def _feed_plain(self, event: TextDelta, out: list[Event]) -> bool:
        """Take a text that is passed on or kept as a whole. Nothing may be held. Any other is left alone: False."""
        state = self._state
        if self._find_special(event.text):
            return False
        if state is ReasoningStage._think and self._has_thought_text:
            self._think_text(event.text, out)
        elif state is ReasoningStage._seek:
            self._kept.append(event.text)
        elif state is ReasoningStage._text and self._mode == "interleaved" and event.text:
            out.append(event)
        else:
            return False
        return True

    def _end_search(self, event: Event, out: list[Event]) -> None:
        """Flush the buffer before a non-text event. A reasoning event, or a call before any tag, ends the search."""
        self._flush(out)
        if (
            isinstance(event, ReasoningDelta)
            or isinstance(event, ToolCallDelta)
            and self._state in (ReasoningStage._start, ReasoningStage._seek)
            and self._mode in ("leading", "auto_close")
        ):
            self._start_passing()

    def _flush(self, out: list[Event]) -> None:
        held, self._held = self._take_kept(self._held), ""
        if held and self._state == ReasoningStage._think:
            self._think_text(held, out)
        elif held:
            out.append(TextDelta(held))
        if self._state == ReasoningStage._seek:
            self._state = ReasoningStage._start

    def _start_passing(self) -> None:
        self._passing = True
        self._state = ReasoningStage._text

    def _start(self, out: list[Event]) -> bool:
        """Return True if the state has changed, so that `_held` must be processed again."""
        text = self._held.lstrip(_BLANKS)
        self._keep(len(self._held) - len(text))
        if text.startswith(self._open):
            self._kept.clear()
            self._begin(text[len(self._open) :])
            return True
        if self._open.startswith(text):
            return False
        self._held = self._take_kept(text)
        if self._mode == "auto_close":
            self._state = ReasoningStage._seek
        elif self._mode == "forced_open":
            self._begin(self._held)
        else:
            self._state = ReasoningStage._text
        return True

    def _seek(self, out: list[Event]) -> bool:
        before, tag, after = self._held.partition(self._close)
        if not tag:
            self._keep(len(self._held) - partial_tag_length(self._held, (self._close,)))
            return False
        self._think_text(self._take_kept(before).strip(_BREAKS), out)
        self._end(after)
        return True

    def _keep(self, size: int) -> None:
        """Move the first `size` characters of `_held` to `_kept`, because they can no longer become a tag."""
        if size:
            self._kept.append(self._held[:size])
            self._held = self._held[size:]

    def _take_kept(self, text: str) -> str:
        """Return the kept text followed by `text`."""
        if self._kept:
            text = "".join((*self._kept, text))
            self._kept.clear()
        return text

    def _begin(self, rest: str) -> None:
        self._held = rest
        self._has_thought_text = False
        self._state = ReasoningStage._think

    def _end(self, rest: str) -> None:
        self._kept.clear()
        self._held = rest
        self._state = ReasoningStage._after

    def _think(self, out: list[Event]) -> bool:
        if not self._has_thought_text:
            self._held = self._held.lstrip(_BREAKS)
        place, after = self._thought_end()
        if place >= 0:
            self._think_text(self._held[:place].rstrip(_BREAKS), out)
            self._end(self._held[after:])
            return True
        keep = max(partial_tag_length(self._held, (self._close,)), self._held_interrupt())
        passable = len(self._held) - keep
        ready = self._held[:passable].rstrip(_BREAKS)
        self._think_text(ready, out)
        self._held = self._held[len(ready) :]
        self._keep(passable - len(ready))
        return False

    def _thought_end(self) -> tuple[int, int]:
        """Return the end of the reasoning and the start of the text after it, or (-1, -1) if it has not ended."""
        place = self._held.find(self._close)
        if self._interrupt:
            leads = not self._has_thought_text and self._held.startswith(self._interrupt)
            line = -1 if leads else self._held.find("\n" + self._interrupt)
            start = 0 if leads else line + 1
            if (leads or line >= 0) and (place < 0 or start < place):
                return start, start
        return (place, place + len(self._close)) if place >= 0 else (-1, -1)

    def _held_interrupt(self) -> int:
        if not self._interrupt:
            return 0
        if not self._has_thought_text and self._interrupt.startswith(self._held):
            return len(self._held)
        return partial_tag_length(self._held, ("\n" + self._interrupt,))

    def _think_text(self, text: str, out: list[Event]) -> None:
        if text:
            self._has_thought_text = True
            out.append(ReasoningDelta(self._take_kept(text)))

    def _after(self, out: list[Event]) -> bool:
        self._held = self._held.lstrip(_BREAKS)
        if self._held:
            self._state = ReasoningStage._text
        return bool(self._held)

    def _text(self, out: list[Event]) -> bool:
        if self._mode != "interleaved":
            self._passing = True
            out.append(TextDelta(self._held))
            self._held = ""
            return False
        before, tag, after = self._held.partition(self._open)
        if tag:
            if before:
                out.append(TextDelta(before))
            self._begin(after)
            return True
        keep = partial_tag_length(self._held, (self._open,))
        ready = self._held[: len(self._held) - keep]
        if ready:
            out.append(TextDelta(ready))
        self._held = self._held[len(ready) :]
        return False
