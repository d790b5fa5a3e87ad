"""`RestoringStage`: puts masked values back into a reply, while it streams.

A placeholder is recognized as `[EMAIL_YGDF6NR7]`, and its word alone in any case, because models quote placeholders,
put them into code, or leave the brackets out; the brackets may be written as `\\[`, `%5B` or `&#91;`. The longest end
of a text that could begin one is held back until it is known, at most `MAX_HELD` characters: so the restored text does
not depend on where the model server cuts it.
"""

import json
import re
from bisect import bisect_left
from collections.abc import Callable, Collection
from typing import Any, Protocol

from msgspec.structs import replace

from app.chat.context_edits import COMPACTION
from app.chat.events import (
    NEXT_MESSAGE,
    Event,
    Extra,
    Finish,
    MediaOutput,
    ReasoningDelta,
    TextDelta,
    TokenLogprobs,
    ToolCallDelta,
)
from app.guards.placeholders import Placeholders

MAX_HELD = 40
MAX_UNKNOWN = 8
"""So many placeholders of no value are named."""
_OPEN, _CLOSE = r"(?:\[|\\{1,2}\[|%5[Bb]|&#91;)", r"(?:\]|\\{1,2}\]|%5[Dd]|&#93;)"
_PLACEHOLDER = re.compile(
    rf"(?:({_OPEN})|(?<![A-Za-z0-9_]))([A-Za-z_]{{2,16}}_[A-Za-z2-7]{{8}})(?![A-Za-z0-9_])({_CLOSE})?"
)
_ESCAPE = r'\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4})'
_IN_JSON = re.compile(
    rf"(?:({_OPEN})|({_ESCAPE})|(?<![A-Za-z0-9_]))([A-Za-z_]{{2,16}}_[A-Za-z2-7]{{8}})(?![A-Za-z0-9_])({_CLOSE})?|{_ESCAPE}"
)
"""Escapes are read from left to right, so that it is known which letters belong to one: `\\nEMAIL_YGDF6NR7`."""
_LAST_ESCAPE = re.compile(rf"{_ESCAPE}\Z")
_BEGUN_ESCAPE = re.compile(r"\\(?:u[0-9A-Fa-f]{0,3})?\Z")
_LAST_WORD = re.compile(rf"({_OPEN}|(?<![A-Za-z0-9_]))([A-Za-z0-9_]*)\Z")
_BEGUN_OPEN = re.compile(r"(?:\[|\\{1,2}\[?|%(?:5[Bb]?)?|&(?:#(?:9(?:1;?)?)?)?)\Z")
_BEGUN_CLOSE = re.compile(r"(?:\\{1,2}|%5?|&(?:#(?:93?)?)?)\Z")
_ANY_BEGUN = re.compile(r"[A-Z_]{0,16}(?:_[A-Z2-7]{0,8})?")
_QUOTING = ("annotations", COMPACTION)
_MAY_BE_HELD = re.compile(r"[A-Za-z0-9_\[\\%&#;]\Z")


class Report(Protocol):
    def __call__(self, word: str, *, known: bool) -> None: ...


def write_plain(value: str) -> str:
    return value


def write_in_json(value: str) -> str:
    """Write a value into a JSON string that exists."""
    return json.dumps(value, ensure_ascii=False)[1:-1]


class Restorer:
    """Restores one text, which comes in pieces."""

    def __init__(self, placeholders: Placeholders, report: Report, *, in_json: bool = False) -> None:
        """`report` is called with each placeholder, and whether it stands for a value of the request. `in_json`: the
        text is JSON, such as the arguments of a call."""
        self._values = placeholders.values
        self._in_json = in_json
        self._write = write_in_json if in_json else write_plain
        self._report = report
        self._words: list[str] = []
        """Those of `_values`, sorted."""
        self._held = ""
        self._before = ""
        """The last character that was passed on, behind which a word goes on; none behind an escape of JSON."""

    def feed(self, text: str) -> str:
        text = self._held + text
        cut = self._find_cut(text)
        if self._in_json:
            cut = _find_begun_escape(text, cut)
        self._held = text[cut:]
        return self._restore(text[:cut])

    def close(self) -> str:
        text, self._held = self._held, ""
        restored = self._restore(text)
        self._before = ""
        return restored

    def _find_cut(self, text: str) -> int:
        """Return from where on the text is held back."""
        if not _MAY_BE_HELD.search(text, len(text) - 1 if text else 0):
            return len(text)
        first = max(0, len(text) - MAX_HELD)
        close = _BEGUN_CLOSE.search(text, first)
        if close is not None:
            start = self._find_word(text, first, close.start(), whole=True)
            if start < close.start():
                return start
        opened = _BEGUN_OPEN.search(text, first)
        return opened.start() if opened is not None else self._find_word(text, first, len(text), whole=False)

    def _find_word(self, text: str, first: int, end: int, *, whole: bool) -> int:
        """Return where a placeholder begins that ends here, or may go on from here; `end` if none does."""
        found = _LAST_WORD.search(text, first, end)
        if found is None:
            return end
        opening, word = found.groups()
        place = found.start()
        if self._in_json and not opening:
            escaped = _count_escaped(text, place, end)
            place, word = place + escaped, word[escaped:]
        known = word.upper() in self._values if whole else self._is_begun(word.upper())
        if known or (opening and not whole and _ANY_BEGUN.fullmatch(word)):
            return place
        return end

    def _is_begun(self, word: str) -> bool:
        """Whether a word of the request begins with this."""
        if len(self._words) != len(self._values):
            self._words = sorted(self._values)
        place = bisect_left(self._words, word)
        return bool(word) and place < len(self._words) and self._words[place].startswith(word)

    def _restore(self, text: str) -> str:
        if not text:
            return ""
        whole, place = self._before + text, len(self._before)
        self._before = "" if self._in_json and _ends_with_escape(text) else text[-1]
        if "_" not in text:
            return text
        out: list[str] = []
        for found in (_IN_JSON if self._in_json else _PLACEHOLDER).finditer(whole, place):
            out += (whole[place : found.start()], self._replace(found))
            place = found.end()
        return "".join((*out, whole[place:])) if out else text

    def _replace(self, found: "re.Match[str]") -> str:
        opening, *escape, word, closing = found.groups()
        value = None if word is None else self._values.get(word.upper())
        if value is None:
            if word is not None and opening and closing and word.isupper():
                self._report(word, known=False)
            return found.group()
        self._report(word, known=True)
        written = self._write(value)
        if escape and escape[0]:
            return f"{escape[0]}{written}{closing or ''}"
        return written if opening and closing else f"{opening or ''}{written}{closing or ''}"


def _count_backslashes(text: str, end: int) -> int:
    """Return how many of them stand directly before a place."""
    start = end
    while start and text[start - 1] == "\\":
        start -= 1
    return end - start


def _count_escaped(text: str, place: int, end: int) -> int:
    """Return how many of the characters from this place on belong to an escape of JSON that begins before it."""
    if not _count_backslashes(text, place) % 2 or place == end:
        return 0
    return min(end - place, 5 if text[place] == "u" else 1)


def _find_begun_escape(text: str, end: int) -> int:
    """Return where an escape of JSON begins that goes on behind this place; the place itself if none does."""
    found = _BEGUN_ESCAPE.search(text, max(0, end - 5), end)
    return end if found is None or _count_backslashes(text, found.start()) % 2 else found.start()


def _ends_with_escape(text: str) -> bool:
    found = _LAST_ESCAPE.search(text, max(0, len(text) - 6))
    return found is not None and not _count_backslashes(text, found.start()) % 2


def restore_text(text: str, placeholders: Placeholders, *, in_json: bool = False) -> str:
    """Restore a whole text."""
    if not placeholders.values:
        return text
    restorer = Restorer(placeholders, _ignore, in_json=in_json)
    return restorer.feed(text) + restorer.close()


def _ignore(word: str, *, known: bool) -> None: ...


class RestoringStage:
    """Restores the texts, the reasoning and the arguments of one reply for one reader."""

    def __init__(
        self, placeholders: Placeholders, what: Collection[str], count: Callable[[str, int], None] | None = None
    ) -> None:
        """`what` are those of `text`, `reasoning` and `arguments` that are restored. `count` is called at the end with
        `restored` and `unknown`, and their numbers."""
        self._count = count
        self._restored = 0
        self._placeholders = placeholders
        self._what = what
        self._open: tuple[type[TextDelta | ReasoningDelta], bool, Restorer] | None = None
        """The kind of the text that is restored now, whether it is a refusal, and its restorer."""
        self._calls: dict[int, Restorer] = {}
        self._unknown: dict[str, None] = {}

    def feed(self, events: list[Event]) -> list[Event]:
        out: list[Event] = []
        for event in events:
            self._add(event, out)
        return out

    def _add(self, event: Event, out: list[Event]) -> None:
        kind = type(event)
        if kind is TextDelta or kind is ReasoningDelta:
            self._add_text(event, out)  # type: ignore[arg-type]  # of one of the two
        elif type(event) is ToolCallDelta:
            self._flush_text(out)
            self._add_arguments(event, out)
        elif kind is TokenLogprobs or (type(event) is Extra and event.index != NEXT_MESSAGE):
            out.append(self._restore_extra(event) if type(event) is Extra else event)
        else:
            self._flush(out)
            out.append(self._restore_other(event))

    def _add_text(self, event: TextDelta | ReasoningDelta, out: list[Event]) -> None:
        kind, refusal = type(event), type(event) is TextDelta and event.refusal
        if self._open is not None and self._open[:2] != (kind, refusal):
            self._flush_text(out)
        if ("text" if kind is TextDelta else "reasoning") not in self._what:
            out.append(event)
            return
        if self._open is None:
            self._flush_calls(out)
            self._open = (kind, refusal, Restorer(self._placeholders, self._report))
        text = self._open[2].feed(event.text)
        if text:
            out.append(event if text == event.text else replace(event, text=text))

    def _add_arguments(self, event: ToolCallDelta, out: list[Event]) -> None:
        if "arguments" not in self._what:
            out.append(event)
            return
        restorer = self._calls.get(event.index)
        if restorer is None:
            restorer = self._calls[event.index] = Restorer(self._placeholders, self._report, in_json=True)
        text = restorer.feed(event.arguments)
        if text or event.name or event.id:
            out.append(event if text == event.arguments else replace(event, arguments=text))

    def _flush(self, out: list[Event]) -> None:
        self._flush_text(out)
        self._flush_calls(out)

    def _flush_text(self, out: list[Event]) -> None:
        if self._open is not None:
            kind, refusal, restorer = self._open
            self._open = None
            text = restorer.close()
            if text:
                out.append(TextDelta(text, refusal) if kind is TextDelta else ReasoningDelta(text))

    def _flush_calls(self, out: list[Event]) -> None:
        for index, restorer in self._calls.items():
            text = restorer.close()
            if text:
                out.append(ToolCallDelta(index, text))
        self._calls.clear()

    def _restore_extra(self, event: Extra) -> Extra:
        """Restore what annotations quote of a text, and a summary of the conversation. All else is opaque: the server
        wants it back as it was."""
        quoting = [name for name in _QUOTING if name in event.fields] if "text" in self._what else []
        if not quoting:
            return event
        return replace(event, fields={**event.fields, **{n: self._restore_leaves(event.fields[n]) for n in quoting}})

    def _restore_other(self, event: Event) -> Event:
        if type(event) is Extra:
            return self._restore_extra(event)
        if type(event) is MediaOutput and "text" in self._what:
            return replace(event, fields=self._restore_leaves(event.fields))
        if type(event) is Finish and self._count is not None:
            for outcome, count in (("restored", self._restored), ("unknown", len(self._unknown))):
                if count:
                    self._count(outcome, count)
        if type(event) is Finish and self._unknown:
            words = ", ".join(f"[{word}]" for word in self._unknown)
            text = f"unknown_placeholder: the model wrote {words}, which stands for no value of this request"
            return replace(event, warnings=(*event.warnings, text))
        return event

    def _restore_leaves(self, value: Any) -> Any:
        if isinstance(value, str):
            return restore_text(value, self._placeholders)
        if isinstance(value, list):
            return [self._restore_leaves(item) for item in value]
        if isinstance(value, dict):
            return {name: self._restore_leaves(item) for name, item in value.items()}
        return value

    def _report(self, word: str, *, known: bool) -> None:
        if known:
            self._restored += 1
        elif len(self._unknown) < MAX_UNKNOWN:
            self._unknown[word] = None
