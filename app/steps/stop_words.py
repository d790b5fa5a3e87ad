"""Stop words that a server let through end the reply where they begin.

Only what the model says is searched: a thought may name a stop word, and Qwen-Agent never looks there. Any cut of the
text gives the same reply. The earliest word wins; held back is only an end of the text that can still become one, so
that nothing but a whole word is ever taken away. Anything but text ends the search for a word that has begun: a word
does not reach over a thought or a call.
"""

import re
from collections import deque
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from msgspec.structs import replace

from app.chat.events import Event, Extra, Finish, TextDelta
from app.errors import Violation
from app.profiles import Profile

MAX_STOP_CHARACTERS = 512
"""Of one stop word: so much text may have to be held back for it."""


def stop_violations(params: Mapping[str, Any], profile: Profile) -> list[Violation]:
    """What is wrong with the stop words of a request, the model's own among them."""
    stop = params.get("stop") or ()
    words = [stop] if isinstance(stop, str) else stop
    if len(words) > profile.max_stop_words:
        text = f"has {len(words)} stop words; this model takes at most {profile.max_stop_words}"
        return [Violation("generate_cfg.stop", text)]
    return [
        Violation(
            "generate_cfg.stop" if isinstance(stop, str) else f"generate_cfg.stop[{at}]",
            f"has {len(word)} characters; a stop word may have at most {MAX_STOP_CHARACTERS}",
        )
        for at, word in enumerate(words)
        if len(word) > MAX_STOP_CHARACTERS
    ]


def stop_words(params: Mapping[str, Any], own: Sequence[str] = ()) -> tuple[str, ...]:
    """The words to look for, `own` are the gateway's; none where the caller wants them left in the reply."""
    body = params.get("extra_body") or {}
    if params.get("skip_stopword_postproc") or body.get("include_stop_str_in_output"):
        return ()
    stop = params.get("stop") or ()
    words = [stop] if isinstance(stop, str) else list(stop)
    return tuple(word for word in dict.fromkeys([*words, *own]) if word)


class WordSearch:
    """Finds the first of several words in a text that comes in pieces (Aho and Corasick, 1975).

    Each character is looked at once, however many words there are; where no word has begun, a regular expression
    skips to the next character that can begin one.
    """

    __slots__ = ("_depths", "_fallbacks", "_firsts", "_longest", "_steps")

    def __init__(self, words: Sequence[str]) -> None:
        """`words`: at least one, none of them empty."""
        self._steps: list[dict[str, int]] = [{}]
        """For each beginning of a word, by the next character the longer beginning. 0 is the empty one."""
        self._depths = [0]
        """The length of each beginning."""
        self._longest = [0]
        """The length of the longest word that each beginning ends with; 0 where there is none."""
        for word in words:
            self._add(word)
        self._fallbacks = [0] * len(self._steps)
        """For each beginning, the longest shorter one that it ends with."""
        self._link()
        self._firsts = re.compile(f"[{re.escape(''.join(sorted(self._steps[0])))}]")

    def _add(self, word: str) -> None:
        node = 0
        for char in word:
            following = self._steps[node].get(char)
            if following is None:
                following = len(self._steps)
                self._steps[node][char] = following
                self._steps.append({})
                self._depths.append(self._depths[node] + 1)
                self._longest.append(0)
            node = following
        self._longest[node] = len(word)

    def _link(self) -> None:
        """Breadth first: what a beginning falls back to is shorter, and so complete before it."""
        queue = deque(self._steps[0].values())
        while queue:
            node = queue.popleft()
            for char, following in self._steps[node].items():
                self._fallbacks[following] = self.step(self._fallbacks[node], char)
                queue.append(following)
            self._longest[node] = self._longest[node] or self._longest[self._fallbacks[node]]

    def step(self, node: int, char: str) -> int:
        """The longest beginning of a word that `node` and this character end with."""
        while True:
            following = self._steps[node].get(char)
            if following is not None:
                return following
            if not node:
                return 0
            node = self._fallbacks[node]

    def next_begin(self, text: str, place: int) -> int:
        """The place of the next character that can begin a word; the text's length where there is none."""
        found = self._firsts.search(text, place)
        return len(text) if found is None else found.start()

    def depth(self, node: int) -> int:
        return self._depths[node]

    def longest(self, node: int) -> int:
        return self._longest[node]


_search = lru_cache(maxsize=32)(WordSearch)


class StopWordStage:
    """After a cut it yields `Finish` at once and then nothing more: the rest of the reply need not be read."""

    def __init__(self, words: Sequence[str]) -> None:
        """`words`: at least one, none of them empty."""
        self._search = _search(tuple(words))
        self._node = 0
        """The longest beginning of a word that the text so far ends with."""
        self._held: list[str] = []
        self._held_size = 0
        """Of the text that is held: it begins where the earliest word does that can still come, or has come."""
        self._found = -1
        """Where in the held text a whole word begins, while one that began earlier is still open; else -1."""
        self._ended = False

    def feed(self, events: list[Event]) -> list[Event]:
        out: list[Event] = []
        if self._ended:
            return out
        for place, event in enumerate(events):
            if type(event) is TextDelta and not event.refusal:
                self._ended = self._search_text(event, out)
            elif type(event) is Extra:
                out.append(event)
            else:
                self._ended = self._flush(out)
                if not self._ended:
                    out.append(event)
            if self._ended:
                out.append(_finish(events[place:]))
                break
        return out

    def _search_text(self, event: TextDelta, out: list[Event]) -> bool:
        """True when a word was found."""
        text, search, node, found = event.text, self._search, self._node, self._found
        before = self._held_size
        place = 0 if node else search.next_begin(text, 0)
        while place < len(text):
            node = search.step(node, text[place])
            place += 1
            size = search.longest(node)
            if size and (found < 0 or before + place - size < found):
                found = before + place - size
            # A word that began earlier and is still open wins over a whole one, if it comes to its end.
            if found >= 0 and found <= before + place - search.depth(node):
                _emit_text(self._join_held(text)[:found], out)
                return True
            if not node:
                place = search.next_begin(text, place)
        keep = search.depth(node)
        if not keep and not before:
            out.append(event)
            return False
        self._hold(text, before + len(text) - keep, out)
        self._node = node
        self._found = found - (before + len(text) - keep) if found >= 0 else -1
        return False

    def _join_held(self, text: str) -> str:
        self._held.append(text)
        return "".join(self._held)

    def _hold(self, text: str, free: int, out: list[Event]) -> None:
        """Yield the first `free` characters of what is held and this text, and hold the others."""
        if not free:
            self._held.append(text)
            self._held_size += len(text)
            return
        joined = self._join_held(text)
        _emit_text(joined[:free], out)
        self._held = [joined[free:]] if free < len(joined) else []
        self._held_size = len(joined) - free

    def _flush(self, out: list[Event]) -> bool:
        """True when what was held has a word: a longer one, that began earlier, did not come to its end."""
        text, found = "".join(self._held), self._found
        self._held, self._held_size, self._node, self._found = [], 0, 0, -1
        _emit_text(text if found < 0 else text[:found], out)
        return found >= 0


def _emit_text(text: str, out: list[Event]) -> None:
    if text:
        out.append(TextDelta(text))


def _finish(events: list[Event]) -> Finish:
    """With what the end of the reply says, where it is known already: a whole reply comes in one piece."""
    last = events[-1]
    return replace(last, reason="stop", native_reason=None) if isinstance(last, Finish) else Finish("stop")
