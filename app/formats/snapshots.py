"""The common part of streams that have a frame with the whole reply so far for each read.

A read costs only what it brings: text is encoded once, and its JSON is copied into every later frame.
"""

from abc import ABC, abstractmethod

from app.chat.accumulator import MessageAccumulator, MessageDelta, MessageStarted, ReplyMessage
from app.chat.events import End, Event, ToolsListed, TurnEnd
from app.formats.base import HEARTBEAT, ReplyInfo
from app.formats.sse import encode_json, escape_line_separators


class JsonText:
    """A JSON string to which text is added. Earlier text is not encoded again."""

    __slots__ = ("json",)

    def __init__(self, json: bytes = b'""') -> None:
        self.json = bytearray(json)

    def add(self, text: str) -> None:
        self.json[-1:] = escape_line_separators(encode_json(text))[1:]


class SnapshotEncoder(ABC):
    def __init__(self, info: ReplyInfo) -> None:
        self._info = info
        self._accumulator = MessageAccumulator()
        self._texts: list[JsonText] = []
        """The text of each message."""
        self._has_new_fields = False
        """Whether anything but text came since the stream last set this to False."""

    def heartbeat(self) -> bytes:
        return HEARTBEAT

    def _accumulate(self, events: list[Event]) -> tuple[bool, End | None]:
        """Add the events of a read. Return whether the reply changed, and its end if it ended."""
        changed = False
        end: End | None = None
        for event in events:
            delta = self._accumulator.extend(event)
            if delta is not None:
                message, text = delta
                self._add_text(message, text)
                changed = True
                continue
            self._has_new_fields = True
            for step in self._accumulator.feed([event]):
                if isinstance(step, End):
                    end = step
                    continue
                if type(step) is TurnEnd:
                    self._end_turn()
                    continue
                if type(step) is ToolsListed:
                    continue
                changed = True
                if type(step) is MessageStarted:
                    self._texts.append(self._make_text(step.message))
                elif type(step) is MessageDelta:
                    self._add_text(step.message, step.text)
        return changed, end

    def _end_turn(self) -> None:  # noqa: B027  # most streams do nothing here
        """A turn has ended that is not the last of the reply."""

    @abstractmethod
    def _make_text(self, message: ReplyMessage) -> JsonText:
        """Return what takes the text of a new message."""

    def _add_text(self, message: ReplyMessage, text: str) -> None:
        self._texts[message.index].add(text)
