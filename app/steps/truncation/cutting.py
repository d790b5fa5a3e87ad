"""The single cuts of truncation, and the number of excess tokens after each.

A conversation is split into turns, and a turn into steps; neither separates a call from its result. A turn is a user
message and everything up to the next one. A step is a run of messages of one role, with the results of its calls. No
turn or step starts while a call has no result yet.
"""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from app.chat.messages import Media, Message, Part, Reasoning, Text, TokenCounter, ToolCall, ToolResult
from app.steps.truncation.measure import TokenMeasure


def split_turns(messages: Sequence[Message]) -> list[list[int]]:
    """Return the positions of the messages of each turn. System messages and summaries belong to no turn."""
    found: list[list[int]] = []
    waiting = 0
    for position, message in enumerate(messages):
        if message.role == "system" or message.is_summary:
            continue
        if not found or (message.role == "user" and not waiting):
            found.append([])
        found[-1].append(position)
        waiting = max(0, waiting + _count_open_calls(message))
    return found


def split_steps(messages: Sequence[Message], turn: Sequence[int]) -> list[list[int]]:
    found: list[list[int]] = []
    waiting = 0
    last = ""
    for position in turn:
        message = messages[position]
        if not found or (message.role != "tool" and message.role != last and not waiting):
            found.append([])
        found[-1].append(position)
        waiting = max(0, waiting + _count_open_calls(message))
        last = message.role
    return found


def _count_open_calls(message: Message) -> int:
    calls = sum(isinstance(part, ToolCall) for part in message.parts)
    return calls - sum(isinstance(part, ToolResult) for part in message.parts)


OMITTED = Text("omit")
"""Replaces a text that was removed completely; the word is Qwen-Agent's."""


class ConversationCutter:
    """Cuts a copy of the list of messages, in which a dropped message is None."""

    def __init__(self, messages: Sequence[Message], measure: TokenMeasure, counter: TokenCounter, limit: int) -> None:
        """`limit` is the number of tokens that all messages together may have."""
        self.messages: list[Message | None] = list(messages)
        self._measure = measure
        self._counter = counter
        self._tokens = [measure.count_message(message) for message in messages]
        self.excess = sum(self._tokens) - limit

    def tokens(self, positions: Iterable[int]) -> int:
        return sum(self._tokens[position] for position in positions)

    def drop(self, positions: Iterable[int]) -> None:
        for position in positions:
            self._replace_message(position, None)

    def shorten_results(self, positions: Iterable[int]) -> None:
        """Shorten each result to its two ends, or remove its text, until there is no excess. Names and ids stay."""
        for position in positions:
            message = self.messages[position]
            for number, part in enumerate(message.parts if message else ()):
                if self.excess > 0 and isinstance(part, ToolResult):
                    self._shorten_result(position, number, part)

    def drop_reasoning(self, position: int) -> None:
        """Drop the reasoning of a message, and the message if it has nothing else."""
        message = self.messages[position]
        if message is not None and any(isinstance(part, Reasoning) for part in message.parts):
            kept = tuple(part for part in message.parts if not isinstance(part, Reasoning))
            self._replace_message(position, replace(message, parts=kept) if kept else None)

    def shorten_text(self, position: int) -> None:
        """Shorten the message's text to its two ends, at least one token. Media stay."""
        message = self.messages[position]
        assert message is not None
        self._replace_message(position, self._with_text(message, max(1, self.text_tokens(position) - self.excess)))

    def shorten_or_omit(self, position: int) -> None:
        """Shorten the message's text to its two ends; if that is not enough, drop its media, then all of its text."""
        if self.text_tokens(position) <= self.excess:
            self._drop_media(position)
        message = self.messages[position]
        if message is None or self.excess <= 0:
            return
        allowed = self.text_tokens(position) - self.excess
        shorter = self._with_text(message, allowed) if allowed > 0 else _replace_texts(message, OMITTED)
        if self._measure.count_message(shorter) < self._tokens[position]:
            self._replace_message(position, shorter)

    def text_tokens(self, position: int) -> int:
        message = self.messages[position]
        return sum(self._measure.count_part(part) for part in message.parts if isinstance(part, Text)) if message else 0

    def _replace_message(self, position: int, message: Message | None) -> None:
        tokens = self._measure.count_message(message) if message else 0
        self.excess += tokens - self._tokens[position]
        self._tokens[position] = tokens
        self.messages[position] = message

    def _drop_media(self, position: int) -> None:
        message = self.messages[position]
        if message is not None and any(isinstance(part, Media) for part in message.parts):
            kept = tuple(part for part in message.parts if not isinstance(part, Media))
            self._replace_message(position, replace(message, parts=kept or (OMITTED,)))

    def _with_text(self, message: Message, limit: int) -> Message:
        text = _text_of(message.parts)
        return _replace_texts(message, Text(self._counter.truncate(text, limit)))

    def _shorten_result(self, position: int, number: int, result: ToolResult) -> None:
        message = self.messages[position]
        allowed = self._measure.count_part(result) - self.excess
        text = self._counter.truncate(_text_of(result.content), allowed) if allowed > 0 else ""
        shorter = replace(result, content=(Text(text) if text else OMITTED,))
        if message is not None and self._measure.count_part(shorter) < self._measure.count_part(result):
            parts = (*message.parts[:number], shorter, *message.parts[number + 1 :])
            self._replace_message(position, replace(message, parts=parts))


def _text_of(parts: Iterable[Part]) -> str:
    return "\n".join(part.text for part in parts if isinstance(part, Text))


def _replace_texts(message: Message, text: Text) -> Message:
    """Replace the first text of the message with `text`, and drop its other texts."""
    first = next((index for index, part in enumerate(message.parts) if isinstance(part, Text)), None)
    if first is None:
        return message
    rest = tuple(part for part in message.parts[first + 1 :] if not isinstance(part, Text))
    return replace(message, parts=(*message.parts[:first], text, *rest))
