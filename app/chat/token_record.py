"""`TokenRecord`: the text of a reply as the model server sent it, with the log probabilities of its tokens.

The reader of the reply fills it. What the steps of the reply pass on is compared with it, so that log probabilities go
on only with the text that they are of.
"""

from collections import deque
from collections.abc import Sequence
from typing import Any, TypeAlias

from app.chat.events import Event, ReasoningDelta, TextDelta, ToolCallDelta

Token: TypeAlias = dict[str, Any]
"""OpenAI's object for a token: `token`, `logprob`, `bytes` and `top_logprobs`."""


class TokenRecord:
    def __init__(self) -> None:
        self._parts: deque[tuple[str, list[Token]]] = deque()
        """Texts that have not been passed on, with their tokens: none where the server sent none."""
        self._offset = 0
        """How much of the first of them has been passed on."""
        self._held: list[Token] = []
        """Tokens that have no text yet: the first bytes of a character."""
        self.has_changed = False
        """Whether the steps passed on another text than the server's."""
        self.has_gaps = False
        """Whether a text that was passed on had no log probabilities."""

    @property
    def has_rest(self) -> bool:
        """Whether some of the server's text was not passed on."""
        return bool(self._parts)

    def add(self, events: Sequence[Event], tokens: list[Token] | None) -> None:
        """Add the events that a part of the reply brought, and its tokens."""
        text = "".join([event.text for event in events if type(event) is TextDelta and not event.refusal])
        is_mixed = any(_is_other(event) for event in events)
        if not text:
            self._held = [] if is_mixed else [*self._held, *(tokens or ())]
            return
        held, self._held = self._held, []
        if not tokens or self.has_changed:
            self._parts.append((text, []))
        elif is_mixed:
            self._add_fitting(text, tokens)
        else:
            self._parts += _divide(text, [*held, *tokens])

    def _add_fitting(self, text: str, tokens: list[Token]) -> None:
        """Add a text whose tokens are among those of reasoning and calls."""
        places = [0]
        for token in tokens:
            places.append(places[-1] + len(token["token"]))
        start = "".join([token["token"] for token in tokens]).rfind(text)
        if start in places and start + len(text) in places:
            first, last = places.index(start), places.index(start + len(text))
            self._parts += _divide(text, tokens[first:last])
        else:
            self._parts.append((text, []))

    def take(self, text: str) -> list[Token]:
        """Return the tokens whose last character is in this text, which follows what was taken before."""
        tokens: list[Token] = []
        while text and not self.has_changed:
            part, own = self._parts[0] if self._parts else ("", [])
            size = min(len(part) - self._offset, len(text))
            if not size or part[self._offset : self._offset + size] != text[:size]:
                self.has_changed = True
                self._parts.clear()
                break
            text = text[size:]
            self._offset += size
            if self._offset == len(part):
                self._parts.popleft()
                self._offset = 0
                tokens += own
                self.has_gaps = self.has_gaps or not own
        return tokens


def _is_other(event: Event) -> bool:
    return type(event) is ReasoningDelta or type(event) is ToolCallDelta or (type(event) is TextDelta and event.refusal)


def _divide(text: str, tokens: list[Token]) -> list[tuple[str, list[Token]]]:
    """Return the text of each token with it, if they make up the text; else the whole text with all of them: a token
    that is a part of a character has no text of its own, and a server may count the end of the text as one."""
    if len(tokens) < 2 or "".join([token["token"] for token in tokens]) != text:
        return [(text, tokens)]
    parts: list[tuple[str, list[Token]]] = []
    empty: list[Token] = []
    for token in tokens:
        empty.append(token)
        if token["token"]:
            parts.append((token["token"], empty))
            empty = []
    parts[-1][1].extend(empty)
    return parts
