"""Parses reasoning between tags in the content (rule 5 of docs/reference/assembly.md).

States: START, before it is known whether the reply starts with reasoning; SEEK, where a closing tag would show that it
did; BLOCK, between the tags of reasoning or of the answer; AFTER, after a closing tag, where line breaks are trimmed
and the answer can have tags of its own; AGAIN, in a block directly behind another one; FIELD, after reasoning in a
field; REPEATED, in a block behind such reasoning, which is left out if it says the same; TEXT, where everything passes
(or, interleaved, until the next opening tag). The stage buffers only what could still become a tag, the line breaks
that would be trimmed beside one, and in SEEK everything. Text that can no longer become a tag is buffered separately,
so that no text is searched twice; of the rest, `_at` says what is read, so that no text is copied again and again when
one event has many blocks of reasoning.

Once a server sends reasoning in a field of its own, tags in the content are content. Only a block with the same text
with which the content begins, and a closing tag with which it begins, are none: the server has parsed the reasoning,
and left that tag of the template behind. The block may also come first, a piece of it before the same piece of the
field: as long as both say the same, each is told once.

A block directly behind a block of reasoning is reasoning, too (kekzl/imp#793). It is held until its closing tag comes:
an answer can begin with the name of a tag. `later_thoughts` finds those behind the beginning of the answer.

Some models forget the closing tag before a tool call: `interrupt` at the start of a line also ends the reasoning, and
is part of the text after it.

There is a text for every token. `_feed_plain` takes those without a line break and without the first character of a
tag, in which there is nothing to find.
"""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Literal, TypeAlias

from app.chat.events import Event, Extra, ReasoningDelta, TextDelta, ToolCallDelta
from app.chat.template_tokens import ANSWER_TAGS, STRAY_CLOSERS
from app.steps.doubled_text import UnrepeatedText
from app.steps.later_thoughts import LaterThoughts
from app.steps.partial_tag import partial_tag_length

ThinkMode: TypeAlias = Literal["leading", "forced_open", "auto_close", "interleaved", "off"]

_BREAKS = "\r\n"
_BLANKS = " \t\r\n"


@lru_cache(maxsize=32)
def _special_characters(*tags: str) -> re.Pattern[str]:
    """Return a pattern for characters that can begin a tag, and for line breaks, which are trimmed beside tags."""
    return re.compile(f"[{re.escape(''.join(tag[:1] for tag in tags))}{_BREAKS}]")


@lru_cache(maxsize=32)
def _block_ends(interrupt: str, *closings: str) -> re.Pattern[str]:
    """Return a pattern for what ends a block: a closing tag, or a line break before the interrupt."""
    ends = "|".join(map(re.escape, closings))
    return re.compile(ends + (rf"|\n(?={re.escape(interrupt)})" if interrupt else ""))


_STRAY_PARTS = frozenset(tag[:size] for tag in STRAY_CLOSERS for size in range(1, len(tag)))
_BETWEEN_BLOCKS = "\n\n"
_COMPARED = 32
"""How many characters of a block are compared while it grows."""
_find_no_blank = re.compile(f"[^{_BLANKS}]|\\Z").search
_find_no_break = re.compile(f"[^{_BREAKS}]|\\Z").search


class ReasoningStage:
    """`answer_tags` are those around the answer after reasoning in tags (Granite), None if it has none. `other_tags`
    are those of other models, which count if the reply begins with one; with them count the tags around other models'
    answers, too. `longest_rest` is how many characters of the reasoning in a field may come in the content, with the
    closing tag: vLLM holds as many back as its longest stop word has, but one (vllm-project/vllm#51641)."""

    def __init__(
        self,
        mode: ThinkMode,
        tags: tuple[str, str],
        interrupt: str | None = None,
        answer_tags: tuple[str, str] | None = None,
        other_tags: Sequence[tuple[str, ...]] = (),
        longest_rest: int = 0,
    ) -> None:
        self._mode = mode
        self._longest_rest = longest_rest
        self._open, self._close = tags
        self._other_tags = other_tags
        self._stray_tags = (tags[1], *STRAY_CLOSERS) if other_tags else tags[1:]
        """What ends no answer with which it begins."""
        self._answer_tags: tuple[tuple[str, str], ...] = () if answer_tags is None else (answer_tags,)
        """Empty once the answer has begun."""
        if other_tags and answer_tags is not None:
            self._answer_tags = (answer_tags, ANSWER_TAGS)
        self._interrupt = interrupt or ""
        self._has_field = False
        """The server has sent reasoning in a field."""
        self._field_events: list[Event] = []
        """The events since the field of reasoning began, until the content begins."""
        self._begins_alike = False
        """The block behind the field begins as that does."""
        self._has_blank_field = False
        """The server has sent white space in a field of reasoning."""
        self._is_compared = True
        """The block with which the content begins may still be repeated in a field."""
        self._is_repeating = False
        """The field has begun to say something beside that block."""
        self._block_ahead = UnrepeatedText()
        """What that block has said and the field has not."""
        self._field_ahead = UnrepeatedText()
        """What the field has said and that block has not."""
        self._left_out: list[str] = []
        """Texts of the field that are the beginning of what the block has said."""
        self._end_tags: tuple[str, ...] = (self._close,)
        """The closing tags of the open block."""
        self._thought_ends: tuple[str, ...] = self._end_tags
        """Those of reasoning."""
        self._in_answer = False
        """The open block is the answer."""
        self._is_behind_thought = False
        """The last block was reasoning, and no other one may follow anywhere."""
        self._held = ""
        """The end of the text, which could still become a tag."""
        self._at = 0
        """How much of `_held` is read. 0 between two events."""
        self._kept: list[str] = []
        """The buffered text before `_held`, which cannot become a tag."""
        self._has_block_text = False
        """The open block has text, so that line breaks are no longer trimmed from its start."""
        self._state: Callable[[ReasoningStage, list[Event]], bool] = ReasoningStage._start
        """An unbound function: a bound method would make a reference cycle, which only the collector frees."""
        self._passing = mode == "off"
        self._later: LaterThoughts | None = None
        """What takes the events once the answer has begun behind reasoning."""
        self._find_special = _special_characters(*tags, *self._list_answer_tags()).search
        self._find_block_end = self._find_thought_end = _block_ends(self._interrupt, self._close).search

    def feed(self, events: list[Event]) -> list[Event]:
        if self._passing:
            return events
        if self._later is not None:
            return self._later.feed(events)
        if self._state is ReasoningStage._field and self._holds_nothing() and _has_no_text(events):
            self._field_events += events
            return events
        return self._feed_each(events)

    def _feed_each(self, events: list[Event]) -> list[Event]:
        """A method of its own: mypyc takes an attribute that `feed` has found to be None for None to its end."""
        out: list[Event] = []
        for event in events:
            if self._later is not None:
                out += self._later.feed([event])
            elif type(event) is TextDelta and not event.refusal and not self._passing:
                if not self._held and self._feed_plain(event, out):
                    continue
                self._held += event.text
                while self._at < len(self._held) and self._state(self, out):
                    pass
                self._drop_read()
            else:
                if type(event) is ReasoningDelta and self._is_compared and self._take_repeated(event.text, out):
                    continue
                if type(event) is not Extra and not self._passing:
                    self._end_search(event, out)
                out.append(event)
        return out

    def _take_repeated(self, text: str, out: list[Event]) -> bool:
        """Take reasoning of a field beside a block that says the same. False: it says something else, or there is no
        such block."""
        state = self._state
        is_beside = state is ReasoningStage._after or (state is ReasoningStage._block and self._has_block_text)
        if self._passing or self._in_answer or not is_beside:
            return False
        if not self._is_repeating:
            text = text.lstrip(_BLANKS)
            self._is_repeating = bool(text)
        size = self._block_ahead.take(text)
        if size < 0:
            self._is_compared = False
            self._end_search(ReasoningDelta(text), out)
            out.append(ReasoningDelta("".join((*self._left_out, text))))
            return True
        self._left_out.append(text)
        if self._block_ahead:
            return True
        self._left_out.clear()
        if size < len(text):
            self._field_ahead.add(text[size:])
            out.append(ReasoningDelta(text[size:]))
        return True

    def _holds_nothing(self) -> bool:
        return not self._held and not self._kept

    def _feed_plain(self, event: TextDelta, out: list[Event]) -> bool:
        """Take a text that is passed on or kept as a whole. Nothing may be held. Any other is left alone: False."""
        state = self._state
        if self._find_special(event.text):
            return False
        if state is ReasoningStage._block and self._has_block_text:
            self._add_block_text(event.text, out)
        elif state is ReasoningStage._seek:
            self._kept.append(event.text)
        elif state is ReasoningStage._text and self._mode == "interleaved" and event.text:
            out.append(event)
        else:
            return False
        return True

    def _end_search(self, event: Event, out: list[Event]) -> None:
        """Flush the buffer before a non-text event. A reasoning event, or a call before any tag, ends the search."""
        state = self._state
        if state is ReasoningStage._repeated:
            if type(event) is ReasoningDelta:
                self._field_events.append(event)
            else:
                self._end_repeated(self._take_kept(self._held), out)
            return
        self._flush(out)
        if type(event) is ReasoningDelta:
            if state is ReasoningStage._start and event.text.isspace():
                self._has_blank_field = True
            elif state is ReasoningStage._start or state is ReasoningStage._field:
                self._has_field = True
                self._field_events.append(event)
                self._state = ReasoningStage._field
            else:
                self._start_passing()
        elif (
            type(event) is ToolCallDelta
            and (state is ReasoningStage._start or state is ReasoningStage._seek)
            and self._mode in ("leading", "auto_close")
        ):
            self._start_passing()

    def _flush(self, out: list[Event]) -> None:
        held, self._held = self._take_kept(self._held), ""
        if held and self._state is ReasoningStage._block:
            self._add_block_text(held, out)
        elif held:
            out.append(TextDelta(held))
        if self._state is ReasoningStage._seek:
            self._state = ReasoningStage._start
        elif self._state is ReasoningStage._again:
            self._start_passing()

    def _start_passing(self) -> None:
        self._passing = True
        self._field_events.clear()
        self._state = ReasoningStage._text

    def _begin_passing(self, events: list[Event]) -> list[Event]:
        """Begin the text of the answer, in which there may be reasoning if there was any before it."""
        self._passing = not self._has_field and not self._is_behind_thought
        if self._passing:
            return events
        self._later = LaterThoughts(self._open, self._thought_ends, self._interrupt, own_lines=self._has_field)
        return self._later.feed(events)

    def _start(self, out: list[Event]) -> bool:
        """Return True if the state has changed, so that `_held` must be processed again."""
        text = self._held.lstrip(_BLANKS)
        self._keep(len(self._held) - len(text))
        if text.startswith(self._open):
            self._kept.clear()
            self._begin(len(self._open))
            return True
        for tags in self._other_tags:
            if text.startswith(tags[0]):
                self._use_tags(tags)
                return True
        has_stray = self._has_blank_field or self._mode == "leading"
        if has_stray and self._remove_stray_tag(text):
            return True
        if self._open.startswith(text) or (has_stray and self._may_be_stray(text)):
            return False
        if any(tags[0].startswith(text) for tags in self._other_tags):
            return False
        self._held = self._take_kept(text)
        if self._has_blank_field:
            self._held = self._held.lstrip(_BREAKS)
        if self._mode == "auto_close":
            self._state = ReasoningStage._seek
        elif self._mode == "forced_open":
            self._begin(0)
        else:
            self._state = ReasoningStage._text
        return True

    def _list_answer_tags(self) -> list[str]:
        return [tag for pair in self._answer_tags for tag in pair]

    def _use_tags(self, tags: tuple[str, ...]) -> None:
        self._open, self._close = tags[:2]
        self._other_tags = ()
        self._end_tags = self._thought_ends = tags[1:]
        self._find_special = _special_characters(*tags, *self._list_answer_tags()).search
        self._find_block_end = self._find_thought_end = _block_ends(self._interrupt, *tags[1:]).search

    def _field(self, out: list[Event]) -> bool:
        text = self._held.lstrip(_BLANKS)
        self._keep(len(self._held) - len(text))
        if self._remove_stray_tag(text):
            return True
        if (end := self._find_late_end(text)) is not None:
            if end < 0:
                return False
            out.append(ReasoningDelta(self._take_kept(text[:end])))
            self._end(end + len(self._close))
            return True
        if self._may_be_stray(text) or (text != self._open and self._open.startswith(text)):
            return False
        if text.startswith(self._open):
            self._kept.clear()
            self._held = text
            self._state = ReasoningStage._repeated
            return True
        self._held = self._take_kept(text)
        self._start_passing()
        return True

    def _find_late_end(self, text: str) -> int | None:
        """Return where the closing tag stands if the content begins with the rest of the reasoning, and a line break
        follows; -1 if that may yet come, None for any other text."""
        if self._longest_rest == 0 or text.startswith(self._open):
            return None
        place = text.find(self._close, 0, self._longest_rest + len(self._close))
        if place < 0:
            size = len(text) - partial_tag_length(text, (self._close,))
            return -1 if size <= self._longest_rest else None
        behind = text[place + len(self._close) :][:1]
        return -1 if not behind else place if behind in _BREAKS else None

    def _repeated(self, out: list[Event]) -> bool:
        """Hold a block of reasoning behind reasoning in a field until it is known whether it says the same."""
        place = self._held.find(self._close)
        if place >= 0:
            block = self._take_kept(self._held[:place])
            if self._drop_repeated(block, out):
                self._end(place + len(self._close))
                return True
            self._held = block + self._held[place:]
        else:
            self._keep(len(self._held) - partial_tag_length(self._held, (self._close,)))
            if self._may_be_repeated():
                return False
            self._held = self._take_kept(self._held)
        self._start_passing()
        return True

    def _may_be_repeated(self) -> bool:
        """Whether the beginning of the block is that of the field. Once it is long enough, it is not compared again."""
        if self._begins_alike:
            return True
        block = "".join(self._kept)[len(self._open) :].strip()[:_COMPARED]
        field = self._join_field()[:_COMPARED]
        self._begins_alike = len(block) == _COMPARED
        return block.startswith(field) or field.startswith(block)

    def _join_field(self) -> str:
        return "".join([one.text for one in self._field_events if type(one) is ReasoningDelta]).strip()

    def _drop_repeated(self, block: str, out: list[Event]) -> bool:
        """Leave out a block that says what the field says (MiniMax: can1357/oh-my-pi#2434), but for what it has beyond
        that. Returns False for another text, which is content."""
        text, field = block[len(self._open) :].strip(), self._join_field()
        if not field.startswith(text) and not text.startswith(field):
            return False
        if len(text) > len(field):
            out.append(ReasoningDelta(text[len(field) :]))
        return True

    def _end_repeated(self, block: str, out: list[Event]) -> None:
        """End a block that the server did not close."""
        if not self._drop_repeated(block, out):
            out.append(TextDelta(block))
        self._held = ""
        self._start_passing()

    def _remove_stray_tag(self, text: str) -> bool:
        """Remove a closing tag with which the content begins. `text` is all of `_held`."""
        if not text.startswith(self._stray_tags):
            return False
        self._end(next(len(tag) for tag in self._stray_tags if text.startswith(tag)))
        return True

    def _may_be_stray(self, text: str) -> bool:
        return self._close.startswith(text) or (len(self._stray_tags) > 1 and text in _STRAY_PARTS)

    def _seek(self, out: list[Event]) -> bool:
        place = self._held.find(self._close)
        if place < 0:
            self._keep(len(self._held) - partial_tag_length(self._held, (self._close,)))
            return False
        self._add_block_text(self._take_kept(self._held[:place]).strip(_BREAKS), out)
        self._end(place + len(self._close))
        return True

    def _drop_read(self) -> None:
        if self._at:
            self._held, self._at = self._held[self._at :], 0

    def _keep(self, size: int) -> None:
        """Move the first `size` characters of `_held` to `_kept`, because they can no longer become a tag. Nothing of
        `_held` may be read."""
        if size:
            self._kept.append(self._held[:size])
            self._held = self._held[size:]

    def _take_kept(self, text: str) -> str:
        """Return the kept text followed by `text`."""
        if self._kept:
            text = "".join((*self._kept, text))
            self._kept.clear()
        return text

    def _begin(self, place: int) -> None:
        """Begin a block at this place of `_held`."""
        self._at = place
        self._has_block_text = False
        self._state = ReasoningStage._block

    def _begin_answer(self, place: int, end_tag: str) -> None:
        self._in_answer, self._answer_tags, self._end_tags = True, (), (end_tag,)
        self._find_block_end = _block_ends("", end_tag).search
        self._begin(place)

    def _end(self, place: int) -> None:
        """End a block; the text after it begins at this place of `_held`."""
        self._kept.clear()
        self._is_behind_thought = not self._in_answer and not self._has_field and self._mode != "interleaved"
        if self._in_answer:
            self._in_answer, self._end_tags, self._find_block_end = False, self._thought_ends, self._find_thought_end
        self._at = place
        self._state = ReasoningStage._after

    def _block(self, out: list[Event]) -> bool:
        if not self._has_block_text:
            self._skip_breaks()
            if not self._in_answer and self._skip_second_opening():
                return False
        place, after = self._block_end()
        if place >= 0:
            self._add_block_text(self._held[self._at : place].rstrip(_BREAKS), out)
            self._end(after)
            return True
        self._drop_read()
        keep = max(partial_tag_length(self._held, self._end_tags), self._held_interrupt())
        passable = len(self._held) - keep
        ready = self._held[:passable].rstrip(_BREAKS)
        self._add_block_text(ready, out)
        self._held = self._held[len(ready) :]
        self._keep(passable - len(ready))
        return False

    def _skip_breaks(self) -> None:
        found = _find_no_break(self._held, self._at)
        assert found is not None
        self._at = found.start()

    def _skip_second_opening(self) -> bool:
        """Skip an opening tag directly behind another one. Returns whether the rest may become one."""
        while self._held.startswith(self._open, self._at):
            self._at += len(self._open)
            self._skip_breaks()
        rest = self._held[self._at : self._at + len(self._open)]
        return bool(rest) and self._open.startswith(rest)

    def _block_end(self) -> tuple[int, int]:
        """Return the end of the block and the start of the text after it, or (-1, -1) if it has not ended."""
        leads = not self._has_block_text and not self._in_answer
        if leads and self._interrupt and self._held.startswith(self._interrupt, self._at):
            return self._at, self._at
        found = self._find_block_end(self._held, self._at)
        if found is None:
            return -1, -1
        end = found.end()
        return (end, end) if found.group() == "\n" else (found.start(), end)

    def _held_interrupt(self) -> int:
        if not self._interrupt or self._in_answer:
            return 0
        if not self._has_block_text and self._interrupt.startswith(self._held):
            return len(self._held)
        return partial_tag_length(self._held, ("\n" + self._interrupt,))

    def _add_block_text(self, text: str, out: list[Event]) -> None:
        if not text:
            return
        self._has_block_text = True
        text = self._take_kept(text)
        if self._in_answer:
            out.append(TextDelta(text))
            return
        if self._is_compared:
            size = self._field_ahead.take(text) if self._field_ahead else 0
            if size < 0:  # what follows the reasoning of the field is none: the closing tag is missing
                self._is_compared = False
                self._state = ReasoningStage._text
                out.append(TextDelta(text))
                return
            text = text[size:]
            self._block_ahead.add(text)
        if text:
            out.append(ReasoningDelta(text))

    def _after(self, out: list[Event]) -> bool:
        self._skip_breaks()
        for opening, closing in self._answer_tags:
            start = self._held[self._at : self._at + len(opening)]
            if start == opening:
                self._begin_answer(self._at + len(start), closing)
                return True
            if opening.startswith(start):
                return False
        size = self._find_second_closing()
        if size:
            self._at += max(size, 0)
            return size > 0
        if self._is_behind_thought and not self._is_repeating:
            found = _find_no_blank(self._held, self._at)
            assert found is not None
            start = self._held[found.start() : found.start() + len(self._open)]
            if start == self._open:
                self._at, self._state = found.start(), ReasoningStage._again
                return True
            if self._open.startswith(start):
                return False
        if self._at < len(self._held):
            self._state = ReasoningStage._text
            self._is_compared = False
            self._block_ahead.clear()
            return True
        return False

    def _find_second_closing(self) -> int:
        """Return the size of a closing tag directly behind another one; -1 while there may be one."""
        if not self._is_behind_thought or self._at == len(self._held):
            return 0
        for tag in self._thought_ends:
            start = self._held[self._at : self._at + len(tag)]
            if start == tag:
                return len(tag)
            if tag.startswith(start):
                return -1
        return 0

    def _again(self, out: list[Event]) -> bool:
        """Hold a block until it is known whether it ends."""
        found = self._find_thought_end(self._held, self._at)
        if found is None:
            self._drop_read()
            tags = (*self._thought_ends, "\n" + self._interrupt) if self._interrupt else self._thought_ends
            self._keep(len(self._held) - partial_tag_length(self._held, tags))
            return False
        text = self._take_kept(self._held[self._at : found.start()])[len(self._open) :].strip(_BREAKS)
        if text:
            separator = _BETWEEN_BLOCKS if self._has_block_text else ""
            self._add_block_text(separator + text, out)
        self._end(found.end())
        return True

    def _text(self, out: list[Event]) -> bool:
        if self._kept:
            self._held, self._at = self._take_kept(self._held[self._at :]), 0
        if self._mode != "interleaved" or self._has_field:
            out += self._begin_passing([TextDelta(self._held[self._at :])])
            self._at = len(self._held)
            return False
        place = self._held.find(self._open, self._at)
        if place >= 0:
            if place > self._at:
                out.append(TextDelta(self._held[self._at : place]))
            self._begin(place + len(self._open))
            return True
        self._drop_read()
        keep = partial_tag_length(self._held, (self._open,))
        ready = self._held[: len(self._held) - keep]
        if ready:
            out.append(TextDelta(ready))
        self._at = len(ready)
        return False


def _has_no_text(events: list[Event]) -> bool:
    return all(type(event) is not TextDelta for event in events)
