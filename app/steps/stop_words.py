"""Cuts the reply before a stop word that the server did not apply.

Only content is searched, not reasoning, as in Qwen-Agent. The result does not depend on how the text is split into
deltas. The stop word that starts first wins. Only a suffix of the text that can still become a stop word is buffered,
so that nothing but a complete word is removed. A stop word does not span reasoning or a tool call: any event that is
not text flushes the buffer.
"""

import re
from collections import deque
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from msgspec.structs import replace

from app.chat.events import Event, Extra, Finish, FinishReason, TextDelta, ToolCallDelta
from app.chat.messages import CHAT_PATHS, RequestPaths
from app.errors import Violation
from app.profiles import Profile

MAX_STOP_CHARACTERS = 512
"""The longest stop word, because as much text may have to be buffered for it."""


def stop_violations(params: Mapping[str, Any], profile: Profile, paths: RequestPaths = CHAT_PATHS) -> list[Violation]:
    """Return the violations of the stop words of a request, which include the model's default ones."""
    extra = params.get("extra_body") or {}
    fields = ((paths.param("stop"), params.get("stop")), (paths.extra("stop"), extra.get("stop")))
    return [found for path, stop in fields for found in _check_words(path, stop, profile)]


def _check_words(path: str, stop: Any, profile: Profile) -> list[Violation]:
    if stop is None:
        return []
    words = stop if isinstance(stop, list) else [stop]
    if len(words) > profile.max_stop_words:
        text = f"has {len(words)} stop words; this model accepts at most {profile.max_stop_words}"
        return [Violation(path, text)]
    problems = [
        (f"{path}[{index}]" if words is stop else path, _find_problem(word)) for index, word in enumerate(words)
    ]
    return [Violation(place, problem) for place, problem in problems if problem is not None]


def _find_problem(word: Any) -> str | None:
    if not isinstance(word, str):
        return "must be a string"
    if not word:
        return "must not be empty: an empty stop word is at the start of every reply"
    if len(word) > MAX_STOP_CHARACTERS:
        return f"has {len(word)} characters; a stop word may have at most {MAX_STOP_CHARACTERS}"
    return None


def stop_words(params: Mapping[str, Any], own: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the words to search for; `own` are the gateway's. None if the caller wants them left in the reply."""
    body = params.get("extra_body") or {}
    if params.get("skip_stopword_postproc") or body.get("include_stop_str_in_output"):
        return ()
    stop = params.get("stop") or ()
    words = [stop] if isinstance(stop, str) else list(stop)
    return tuple(word for word in dict.fromkeys([*words, *own]) if word)


class WordSearch:
    """Finds the first of several words in a streamed text (Aho and Corasick, 1975).

    Each character is read once, however many words there are. Outside of a partial match, a regular expression skips to
    the next two characters that can start a word. A node is a prefix of a word; node 0 is the empty prefix.
    """

    __slots__ = ("_depths", "_fallbacks", "_find_start", "_longest", "_steps")

    def __init__(self, words: Sequence[str]) -> None:
        """`words` has at least one word; none is empty."""
        self._steps: list[dict[str, int]] = [{}]
        """For each node, the next node by character."""
        self._depths = [0]
        """The length of each prefix."""
        self._longest = [0]
        """The length of the longest word that is a suffix of each prefix; 0 if there is none."""
        for word in words:
            self._add(word)
        self._fallbacks = [0] * len(self._steps)
        """For each prefix, the node of its longest proper suffix that is also a prefix of a word."""
        self._link()
        starts = {re.escape(word[:2]) for word in words} | {rf"{re.escape(word[0])}\Z" for word in words}
        self._find_start = re.compile("|".join(sorted(starts))).search

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
        """Compute the fallbacks breadth first, because the fallback of a node is shorter than the node."""
        queue = deque(self._steps[0].values())
        while queue:
            node = queue.popleft()
            for char, following in self._steps[node].items():
                self._fallbacks[following] = self.step(self._fallbacks[node], char)
                queue.append(following)
            self._longest[node] = self._longest[node] or self._longest[self._fallbacks[node]]

    def step(self, node: int, char: str) -> int:
        """Return the node of the longest word prefix that ends with this character."""
        while True:
            following = self._steps[node].get(char)
            if following is not None:
                return following
            if not node:
                return 0
            node = self._fallbacks[node]

    def next_begin(self, text: str, place: int) -> int:
        """Return the position of the next characters that can start a word, or the length of the text."""
        found = self._find_start(text, place)
        return len(text) if found is None else found.start()

    def depth(self, node: int) -> int:
        return self._depths[node]

    def longest(self, node: int) -> int:
        return self._longest[node]


_search = lru_cache(maxsize=32)(WordSearch)


class StopWordStage:
    """Emits `Finish` directly after a cut and nothing more, so that the rest of the reply need not be read."""

    def __init__(self, words: Sequence[str]) -> None:
        """`words` has at least one word; none is empty."""
        self._search = _search(tuple(words))
        self._node = 0
        """The longest word prefix that is a suffix of the text so far."""
        self._held: list[str] = []
        """The buffered text, which starts where the earliest complete or possible stop word starts."""
        self._held_size = 0
        self._found = -1
        """The start of a complete word in the buffer, while an earlier, longer word is still possible; else -1."""
        self._found_size = 0
        """The length of that word."""
        self._word: str | None = None
        """The word at which the reply was cut."""
        self._calls = False
        """Whether the reply has a call."""
        self._ended = False

    def feed(self, events: list[Event]) -> list[Event]:
        out: list[Event] = []
        if self._ended:
            return out
        next_begin = self._search.next_begin
        for place, event in enumerate(events):
            if type(event) is TextDelta and not event.refusal:
                if not self._held_size and next_begin(event.text, 0) == len(event.text):
                    out.append(event)
                    continue
                self._ended = self._search_text(event, out)
            elif type(event) is Extra:
                out.append(event)
            else:
                self._ended = self._flush(out)
                if not self._ended:
                    out.append(event)
                    self._calls = self._calls or type(event) is ToolCallDelta
            if self._ended:
                out.append(_finish(events[place:], self._word, "tool_calls" if self._calls else "stop"))
                break
        return out

    def _search_text(self, event: TextDelta, out: list[Event]) -> bool:
        """Return True if a stop word was found."""
        text, search, node, found = event.text, self._search, self._node, self._found
        before = self._held_size
        place = 0 if node else search.next_begin(text, 0)
        while place < len(text):
            node = search.step(node, text[place])
            place += 1
            size = search.longest(node)
            if size and (found < 0 or before + place - size < found):
                found, self._found_size = before + place - size, size
            # A word that started earlier wins over a complete one, if it is completed.
            if found >= 0 and found <= before + place - search.depth(node):
                joined = self._join_held(text)
                _emit_text(joined[:found], out)
                self._word = joined[found : found + self._found_size]
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
        """Emit the first `free` characters of the buffer and this text, and buffer the others."""
        if not free:
            self._held.append(text)
            self._held_size += len(text)
            return
        joined = self._join_held(text)
        _emit_text(joined[:free], out)
        self._held = [joined[free:]] if free < len(joined) else []
        self._held_size = len(joined) - free

    def _flush(self, out: list[Event]) -> bool:
        """Emit the buffer. Return True if it has a complete word, now that the earlier, longer one is not completed."""
        text, found = "".join(self._held), self._found
        self._held, self._held_size, self._node, self._found = [], 0, 0, -1
        _emit_text(text if found < 0 else text[:found], out)
        self._word = text[found : found + self._found_size] if found >= 0 else None
        return found >= 0


def _emit_text(text: str, out: list[Event]) -> None:
    if text:
        out.append(TextDelta(text))


def _finish(events: list[Event], word: str | None, reason: FinishReason) -> Finish:
    """Make the `Finish`, from the reply's own one if it is already there: an unstreamed reply arrives at once."""
    last = events[-1]
    finish = last if isinstance(last, Finish) else Finish(reason)
    return replace(finish, reason=reason, native_reason=None, stopped_by=word if reason == "stop" else None)
