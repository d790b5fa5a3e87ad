"""Leaves out the tokens of a template with which a text begins or ends, because a server did not.

A token in the middle of a text is text, and one behind a space too: a text can be about tokens.
"""

import re

from app.chat.events import Event, TextDelta
from app.chat.template_tokens import ANSWER_TAGS, CALL_CLOSERS, STRAY_CLOSERS, TEXT_ENDS, TEXT_STARTS, THINK_TAGS
from app.steps.tool_parsers.warnings import Warnings

_ENDS = "|".join(map(re.escape, sorted(TEXT_ENDS, key=len, reverse=True)))
_NONCE = "</[a-z_]{1,20}:[0-9a-f]{8}>"
"""Hunyuan 4 has a number in its tags that is another one in each reply (duolahypercho/codex-router#654)."""
_THOUGHT_ENDS = ("</think>", *(closer for closer in STRAY_CLOSERS if closer[0] == "<"))
_find_ends = re.compile(rf"(?:(?:{_ENDS})\s*)+").finditer
_ends_with_closer = re.compile(rf"(?:{'|'.join(map(re.escape, CALL_CLOSERS))}|{_NONCE})\s*\Z").search
_CLOSERS = "|".join(map(re.escape, _THOUGHT_ENDS))
_ends_thought = re.compile(rf"(?:\A|\n)(?:{_CLOSERS})").search
_ends_thought_in_line = re.compile(rf"[^\s`\"'*(>|](?:{_CLOSERS})").search
_opens_thought = re.compile("|".join(map(re.escape, ("<think>", *(tags[0].strip() for tags in THINK_TAGS))))).search
_may_open_answer = re.compile(rf"{ANSWER_TAGS[0]}|<a(?:n(?:s(?:w(?:er?)?)?)?)?\Z").search
_ends_with_special = re.compile(r"(?:<\|[^<>|\s]{1,40}\|>|｜[^<>\n]{0,40}>)\s*\Z").search
"""Such a closer ends no prose, even of a reply that may have no calls (sgl-project/sglang#39583)."""
_PARTS = frozenset(
    token[:size] for token in (*TEXT_ENDS, *CALL_CLOSERS, *_THOUGHT_ENDS) for size in range(1, len(token))
)
_START_PARTS = frozenset(token[:size] for token in TEXT_STARTS for size in range(1, len(token)))
_MOST_OPENINGS = 3
"""So many `<` and `[` has a token at most, with which it or a part of it begins."""
LONGEST_END = 60
"""A closing marker and some white space are shorter."""
_OPEN_THOUGHT = (
    "the text has a closing tag of reasoning that nothing has opened; "
    'inline_think = "auto_close" in the profile of the model reads what stands before it as reasoning'
)
LEFT_OUT = "a token of the model's chat template at the end of a text is left out"


class TextEnd:
    """Takes the text deltas of a reply."""

    def __init__(self, warnings: Warnings, *, may_have_calls: bool) -> None:
        self._may_have_calls = may_have_calls
        self.is_idle = False
        """The text has begun, and nothing is held."""
        self._passed = ""
        """The end of the texts that were passed on without `feed` since then."""
        self._warnings = warnings
        self._held = ""
        self._begun = False
        self._last = ""
        """The last characters that were passed on."""
        self._has_answer_tag = False
        """The text has the opening tag of an answer, and so may end with the closing one."""
        self._ends_with_closer = False
        """What was passed on ends with a marker that closes calls."""
        self._opens_thought = False
        """The text has an opening tag of reasoning."""

    @property
    def has_text(self) -> bool:
        """Whether a text has begun or is held."""
        return self._begun or bool(self._held)

    def feed(self, text: str, out: list[Event]) -> None:
        self._take_passed()
        text, self._held = self._held + text, ""
        if not self._begun:
            text = self._skip_starts(text)
        if not self._begun:
            return
        keep = find_held(text)
        self._pass(text[: len(text) - keep], out)
        self._held = text[len(text) - keep :]
        self.is_idle = not self._held and not self._ends_with_closer

    def add_passed(self, text: str) -> None:
        """This text was passed on without `feed`."""
        self._passed = (self._passed + text)[-LONGEST_END:]

    def _take_passed(self) -> None:
        if self._passed:
            self._last, self._passed = (self._last + self._passed)[-LONGEST_END:], ""
            self._ends_with_closer = _ends_with_closer(self._last) is not None

    def flush(self, out: list[Event]) -> None:
        """End the text, or interrupt it: what is held is left out if it consists of tokens."""
        self._take_passed()
        if self._ends_with_closer and (self._may_have_calls or _ends_with_special(self._last)):
            self._warnings.add("a text ends with a marker that closes tool calls")
        text, self._held = self._held, ""
        if not text:
            return
        self._begun = True
        if are_ends(text) and self._last[-1:] != " " and not (self._has_answer_tag and ANSWER_TAGS[1] in text):
            self._warnings.add(LEFT_OUT)
        else:
            self._pass(text, out)
        self.is_idle = not self._ends_with_closer

    def _pass(self, text: str, out: list[Event]) -> None:
        if text:
            whole = self._last + text
            self._has_answer_tag = self._has_answer_tag or _may_open_answer(whole) is not None
            self._last = whole[-LONGEST_END:]
            self._ends_with_closer = _ends_with_closer(self._last) is not None
            if "<" in whole:
                self._look_for_thoughts(whole)
            out.append(TextDelta(text))

    def _look_for_thoughts(self, text: str) -> None:
        """Add a warning if a text has a closing tag of reasoning at the start of a line, or one in a line that it has
        not opened and does not quote (BerriAI/litellm#27483)."""
        self._opens_thought = self._opens_thought or _opens_thought(text) is not None
        ends = _ends_thought(text) is not None
        if ends or (not self._opens_thought and _ends_thought_in_line(text) is not None):
            self._warnings.add(_OPEN_THOUGHT)

    def _skip_starts(self, text: str) -> str:
        """Skip what stands before the text; hold what may become that."""
        while True:
            bare = text.lstrip()
            if not bare.startswith(TEXT_STARTS):
                break
            start = next(token for token in TEXT_STARTS if bare.startswith(token))
            text = bare[len(start) :]
        self._begun = bool(text) and bare not in _START_PARTS
        if not self._begun:
            self._held = text
        return text


def find_held(text: str) -> int:
    """Return how many characters at the end may be tokens behind which nothing comes."""
    part = _find_part(text)
    end = len(text) - part
    for found in _find_ends(text):
        if found.end() >= end:
            return len(text) - found.start()
    return part


def are_ends(text: str) -> bool:
    """Whether a text consists of tokens with which a text cannot end."""
    found = next(_find_ends(text), None)
    return found is not None and found.start() == 0 and found.end() == len(text)


def _find_part(text: str) -> int:
    """Return how many characters at the end may be the beginning of a token."""
    place, longest = len(text), 0
    for _ in range(_MOST_OPENINGS):
        place = max(text.rfind("<", 0, place), text.rfind("[", 0, place))
        if place < 0:
            break
        if text[place:] in _PARTS:
            longest = len(text) - place
    return longest
