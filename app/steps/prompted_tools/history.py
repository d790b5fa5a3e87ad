"""Builds the messages of a rewritten history: what is added to a message is joined once, however many parts it gets."""

from collections.abc import Iterable
from itertools import chain
from typing import TypeAlias

from msgspec.structs import replace

from app.chat.messages import Media, Message, Part, Reasoning, Role, Text

ContentParts: TypeAlias = tuple[Text | Media, ...]


def join_content(parts: Iterable[Part], joiner: str) -> ContentParts:
    """Return the text and media parts. If there are only texts, they become one text with `joiner` between them."""
    content = tuple(part for part in parts if isinstance(part, (Text, Media)))
    if len(content) > 1 and all(isinstance(part, Text) for part in content):
        return (Text(joiner.join(part.text for part in content if isinstance(part, Text))),)
    return content


def append_parts(parts: Iterable[Part], added: Iterable[Part | str]) -> tuple[Part, ...]:
    """Append parts, as `PartsBuilder` does."""
    builder = PartsBuilder(parts)
    builder.add(*added)
    return builder.build()


class PartsBuilder:
    """The parts of a message. Text is appended to a last text part; if there are media, every text stays a separate
    part, as Qwen-Agent sends it."""

    def __init__(self, parts: Iterable[Part] = ()) -> None:
        self._parts = list(parts)
        self._has_media = any(isinstance(part, Media) for part in self._parts)
        self._tail: list[str] = []
        """The texts to append to the last part, which is a text; none is empty."""

    def add(self, *added: Part | str) -> None:
        more = [Text(item) if isinstance(item, str) else item for item in added]
        self._has_media = self._has_media or any(isinstance(part, Media) for part in more)
        for part in more:
            if isinstance(part, Text) and not part.text:
                continue
            if isinstance(part, Text) and not self._has_media and self._parts and isinstance(self._parts[-1], Text):
                self._tail.append(part.text)
            else:
                self._join_tail()
                self._parts.append(part)

    def end_of_text(self, size: int) -> str:
        """Return the last `size` characters of the last part, or fewer if it is shorter; "" if it is not a text."""
        last = self._parts[-1] if self._parts else None
        end = ""
        for text in chain(reversed(self._tail), (last.text,)) if isinstance(last, Text) else ():
            end = text[-size:] + end
            if len(end) >= size:
                break
        return end[-size:]

    def remove_end(self, size: int) -> None:
        """Remove the last `size` characters of the last part, which is a text of at least as many."""
        while self._tail and size >= len(self._tail[-1]):
            size -= len(self._tail.pop())
        last = self._parts[-1]
        if self._tail:
            self._tail[-1] = self._tail[-1][: len(self._tail[-1]) - size]
        else:
            assert isinstance(last, Text)
            self._parts[-1] = Text(last.text[: len(last.text) - size])

    def build(self) -> tuple[Part, ...]:
        self._join_tail()
        return tuple(self._parts)

    def _join_tail(self) -> None:
        last = self._parts[-1] if self._tail else None
        if isinstance(last, Text):
            self._parts[-1] = Text("".join((last.text, *self._tail)))
            self._tail = []


class HistoryBuilder:
    """A list of messages, of which the last one can be added to."""

    def __init__(self, joiner: str) -> None:
        self._joiner = joiner
        self._messages: list[Message] = []
        self._open: Message | None = None
        """The last message without its parts, if something was added to it."""
        self._reasonings: list[Reasoning] = []
        """The reasoning of the open message, which precedes its other parts."""
        self._parts = PartsBuilder()

    @property
    def last_role(self) -> Role | None:
        if self._open is not None:
            return self._open.role
        return self._messages[-1].role if self._messages else None

    def append(self, message: Message) -> None:
        """Append a message that is complete, unless something is added to it."""
        self._close()
        self._messages.append(message)

    def begin(self, head: Message) -> None:
        """Begin a message; only its parts are missing."""
        self._close()
        self._open, self._reasonings, self._parts = head, [], PartsBuilder()

    def open_last(self) -> PartsBuilder:
        """Return the parts of the last message, to add to them. There must be one.

        The texts of a message that was complete are joined, and it no longer belongs to a turn.
        """
        if self._open is None:
            last = self._messages.pop()
            self._open, self._reasonings = replace(last, parts=(), turn=None), []
            self._parts = PartsBuilder(join_content(last.parts, self._joiner))
        return self._parts

    def add_reasoning(self, reasonings: Iterable[Reasoning]) -> None:
        """Add to the reasoning of the message that was begun last."""
        self._reasonings += reasonings

    def build(self) -> list[Message]:
        self._close()
        return self._messages

    def _close(self) -> None:
        if self._open is not None:
            self._messages.append(replace(self._open, parts=(*self._reasonings, *self._parts.build())))
            self._open = None
