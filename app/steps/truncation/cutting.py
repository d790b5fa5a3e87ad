"""Single cuts in a conversation, and what is still too much after each.

A conversation as turns, and a turn as steps; neither separates a call from its result.

A turn is a user message and everything up to the next. A step is what one role says in a row, with the results of its
calls. While a call still waits for its result, nothing new begins.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from app.chat.messages import Media, Message, Part, Reasoning, Text, ToolCall, ToolResult
from app.chat.token_counter import TokenCounter
from app.steps.truncation.measure import TokenMeasure


def split_turns(messages: Sequence[Message]) -> list[list[int]]:
    """The places of the messages of each turn. System messages are in none."""
    found: list[list[int]] = []
    waiting = 0
    for place, message in enumerate(messages):
        if message.role == "system":
            continue
        if not found or (message.role == "user" and not waiting):
            found.append([])
        found[-1].append(place)
        waiting = max(0, waiting + _count_open_calls(message))
    return found


def split_steps(messages: Sequence[Message], turn: Sequence[int]) -> list[list[int]]:
    found: list[list[int]] = []
    waiting = 0
    last = ""
    for place in turn:
        message = messages[place]
        if not found or (message.role != "tool" and message.role != last and not waiting):
            found.append([])
        found[-1].append(place)
        waiting = max(0, waiting + _count_open_calls(message))
        last = message.role
    return found


def _count_open_calls(message: Message) -> int:
    calls = sum(isinstance(part, ToolCall) for part in message.parts)
    return calls - sum(isinstance(part, ToolResult) for part in message.parts)


OMITTED = Text("omit")
"""What stands in the place of a text that was taken out whole; Qwen-Agent's own word."""


class ConversationCutter:
    """Works on a list of its own; a message that was left out is None in it."""

    def __init__(self, messages: Sequence[Message], measure: TokenMeasure, counter: TokenCounter, limit: int) -> None:
        """`limit`: what the messages together may have."""
        self.messages: list[Message | None] = list(messages)
        self._measure = measure
        self._counter = counter
        self._tokens = [measure.count_message(message) for message in messages]
        self.excess = sum(self._tokens) - limit

    def tokens(self, places: Iterable[int]) -> int:
        return sum(self._tokens[place] for place in places)

    def drop(self, places: Iterable[int]) -> None:
        for place in places:
            self._replace_message(place, None)

    def shorten_results(self, places: Iterable[int]) -> None:
        """Each result of these messages to its two ends, or away, until it is enough. Names and ids stay."""
        for place in places:
            message = self.messages[place]
            for number, part in enumerate(message.parts if message else ()):
                if self.excess > 0 and isinstance(part, ToolResult):
                    self._shorten_result(place, number, part)

    def drop_reasoning(self, place: int) -> None:
        """A message that was nothing else goes with it."""
        message = self.messages[place]
        if message is not None and any(isinstance(part, Reasoning) for part in message.parts):
            kept = tuple(part for part in message.parts if not isinstance(part, Reasoning))
            self._replace_message(place, replace(message, parts=kept) if kept else None)

    def shorten_text(self, place: int) -> None:
        """The message's text to its two ends; one token of it stays, and media do."""
        message = self.messages[place]
        assert message is not None
        self._replace_message(place, self._with_text(message, max(1, self.text_tokens(place) - self.excess)))

    def shorten_or_omit(self, place: int) -> None:
        """The message's text to its two ends; where that is not enough, its media go, then all of its text."""
        if self.text_tokens(place) <= self.excess:
            self._drop_media(place)
        message = self.messages[place]
        if message is None or self.excess <= 0:
            return
        room = self.text_tokens(place) - self.excess
        shorter = self._with_text(message, room) if room > 0 else _replace_texts(message, OMITTED)
        if self._measure.count_message(shorter) < self._tokens[place]:
            self._replace_message(place, shorter)

    def text_tokens(self, place: int) -> int:
        message = self.messages[place]
        return sum(self._measure.count_part(part) for part in message.parts if isinstance(part, Text)) if message else 0

    def _replace_message(self, place: int, message: Message | None) -> None:
        tokens = self._measure.count_message(message) if message else 0
        self.excess += tokens - self._tokens[place]
        self._tokens[place] = tokens
        self.messages[place] = message

    def _drop_media(self, place: int) -> None:
        message = self.messages[place]
        if message is not None and any(isinstance(part, Media) for part in message.parts):
            kept = tuple(part for part in message.parts if not isinstance(part, Media))
            self._replace_message(place, replace(message, parts=kept or (OMITTED,)))

    def _with_text(self, message: Message, limit: int) -> Message:
        text = _text_of(message.parts)
        return _replace_texts(message, Text(self._counter.truncate(text, limit)))

    def _shorten_result(self, place: int, number: int, result: ToolResult) -> None:
        message = self.messages[place]
        room = self._measure.count_part(result) - self.excess
        text = self._counter.truncate(_text_of(result.content), room) if room > 0 else ""
        shorter = replace(result, content=(Text(text) if text else OMITTED,))
        if message is not None and self._measure.count_part(shorter) < self._measure.count_part(result):
            parts = (*message.parts[:number], shorter, *message.parts[number + 1 :])
            self._replace_message(place, replace(message, parts=parts))


def _text_of(parts: Iterable[Part]) -> str:
    return "\n".join(part.text for part in parts if isinstance(part, Text))


def _replace_texts(message: Message, text: Text) -> Message:
    """The message with this for all its texts, in the place of the first."""
    at = next((at for at, part in enumerate(message.parts) if isinstance(part, Text)), None)
    if at is None:
        return message
    behind = tuple(part for part in message.parts[at + 1 :] if not isinstance(part, Text))
    return replace(message, parts=(*message.parts[:at], text, *behind))
