"""`Turn`: one call to the model, as events of the reply and as messages of the next call to the model."""

from collections.abc import Collection, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from app.chat.accumulator import MessageAccumulator, ReplyMessage, normalize_object
from app.chat.events import (
    END_TYPES,
    CallEnd,
    End,
    Event,
    Extra,
    Failed,
    Finish,
    Passed,
    PassedEnd,
    ServerCall,
    TextDelta,
    TokenLogprobs,
    ToolCallDelta,
    TurnEnd,
)
from app.chat.messages import Media, Message, Reasoning, Text, ToolCall
from app.chat.server_tools import OfferedTool
from app.formats.sequential_calls import SequentialCallsStage

_EXTRA_CONTENT = "extra_content"
"""The opaque fields that belong to a call, not to its message."""


class CallIds:
    """Makes the ids of calls unique in a conversation: servers repeat them from one turn to the next, and results and
    approvals are found by them."""

    def __init__(self, taken: Collection[str]) -> None:
        self._taken = set(taken)

    def take(self, id_: str) -> str:
        """Return the id, with a number if it is taken: the one that `grouping` would give it."""
        unique, count = id_, 0
        while unique in self._taken:
            count += 1
            unique = f"{id_}_{count}"
        self._taken.add(unique)
        return unique


class TurnCall(Struct, frozen=True):
    """A call of the turn that is not the caller's own."""

    index: int
    id: str
    name: str
    arguments: str
    tool: OfferedTool | None
    """None: it was not offered."""


class Turn:
    """Takes the events of one reply of the model. Its calls are emitted one after the other, with indexes and ids that
    are unique in the whole reply."""

    def __init__(
        self,
        offered: Mapping[str, OfferedTool],
        own: Collection[str],
        first_index: int,
        ids: CallIds,
        *,
        calls_are_text: bool = False,
    ) -> None:
        """`offered` are the gateway's tools by their names for the model, `own` the names of the caller's functions.
        `first_index` is the index of the turn's first call in the whole reply. `calls_are_text`: the model writes calls
        into its text, where white space before them separates the two and is dropped."""
        self._offered = offered
        self._own = own
        self._ids = ids
        self._first_index = first_index
        self._calls_are_text = calls_are_text
        self._blank = ""
        """White space at the end of the text so far, which is emitted if more text follows."""
        self._sequential = SequentialCallsStage()
        self._messages = MessageAccumulator()
        self._indexes: dict[int, int] = {}
        """The indexes in the reply, by those in the turn."""
        self._open = -1
        """The call that gets arguments, by its index in the reply; -1 if there is none."""
        self._served: dict[str, OfferedTool | None] = {}
        """The calls that are not the caller's, by id."""
        self.has_own_calls = False
        self.end: End | None = None

    @property
    def next_index(self) -> int:
        return self._first_index + len(self._indexes)

    def feed(self, events: list[Event]) -> list[Event]:
        """Return the events as the reply has them, without the end, which is kept in `end`. The server's own events are
        left out: they are of one turn, and the reply has several."""
        out: list[Event] = []
        own = [event for event in events if type(event) is not Passed and type(event) is not PassedEnd]
        for event in self._sequential.feed(own):
            if type(event) is ToolCallDelta:
                self._add_call(event, out)
            elif type(event) is TextDelta and self._calls_are_text and not event.refusal:
                self._close_call(out)
                self._add_text(event.text, out)
            elif type(event) is TokenLogprobs:
                out.append(event)  # the text that follows ends what is open
            elif type(event) is Extra:
                index = self._indexes.get(event.index, event.index)
                out.append(event if index == event.index else replace(event, index=index))
            elif type(event) in END_TYPES:
                assert type(event) is Finish or type(event) is Failed
                self._add_blank(out)
                self.end = event
            else:
                self._close_call(out)
                self._add_blank(out)
                out.append(event)
        self._messages.feed(out)
        return out

    def _add_text(self, text: str, out: list[Event]) -> None:
        text = self._blank + text
        shown = text.rstrip()
        self._blank = text[len(shown) :]
        if shown:
            out.append(TextDelta(shown))

    def _add_blank(self, out: list[Event]) -> None:
        if self._blank:
            out.append(TextDelta(self._blank))
            self._blank = ""

    def _add_call(self, event: ToolCallDelta, out: list[Event]) -> None:
        index = self._indexes.get(event.index)
        if index is not None:
            out.append(replace(event, index=index))
            return
        self._close_call(out)
        self._blank = ""
        index = self._indexes[event.index] = self._open = self.next_index
        id_ = self._ids.take(event.id)
        if event.name in self._own:
            self.has_own_calls = True
        else:
            tool = self._served[id_] = self._offered.get(event.name)
            out.append(
                ServerCall(index, "", event.name)
                if tool is None
                else ServerCall(index, tool.server, tool.tool, tool.approval, tool.hosted)
            )
        out.append(replace(event, index=index, id=id_))

    def _close_call(self, out: list[Event]) -> None:
        if self._open >= 0:
            out.append(CallEnd(self._open))
            self._open = -1

    def finish(self) -> tuple[list[Message], list[TurnCall]]:
        """Return the turn as messages of the conversation, and its calls that are not the caller's, in their order."""
        self._messages.feed([TurnEnd("tool_calls")])
        messages = self._messages.messages
        index = self._first_index
        calls = []
        for message in messages:
            if message.kind != "function_call":
                continue
            if message.id in self._served:
                tool = self._served[message.id]
                calls.append(TurnCall(index, message.id, message.name, message.text, tool))
            index += 1
        return [_to_message(message, self._normalizes(message)) for message in messages], calls

    def _normalizes(self, message: ReplyMessage) -> bool:
        tool = self._served.get(message.id) if message.kind == "function_call" else None
        return tool is not None and tool.hosted is not None


def _to_message(message: ReplyMessage, normalizes: bool = False) -> Message:
    """Return a message of the reply as one of the conversation: what a client gets if it sends it back. `normalizes`:
    the arguments of its call come back as an object, without the spelling of the model."""
    extra: dict[str, Any] = dict(message.extra)
    if message.kind == "reasoning_content":
        return Message("assistant", (Reasoning(message.text),), extra=extra)
    if message.kind == "content":
        return Message("assistant", (Text(message.text),), extra=extra)
    if message.kind == "function_call":
        opaque = {_EXTRA_CONTENT: extra.pop(_EXTRA_CONTENT)} if _EXTRA_CONTENT in extra else {}
        arguments = normalize_object(message.text) if normalizes else message.text
        return Message("assistant", (ToolCall(message.name, arguments, message.id, opaque),), extra=extra)
    assert message.media is not None
    return Message("assistant", (Media(message.media.media, (message.media.url,)),), extra=message.media.fields | extra)
