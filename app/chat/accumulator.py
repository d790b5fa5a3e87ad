"""Events into messages: where one begins, grows and ends (rules 1, 2 and 4 of the assembly).

A change of kind opens a new message; adjacent text of one kind is one message. Calls stay open until the reply ends,
since servers send late fragments, so that several may be open at once. Content that is nothing but white space is held
back and dropped as soon as any other message exists.
"""

from typing import Any, Literal, TypeAlias

import msgspec

from app.chat.events import Event, Extra, Failed, Finish, MediaOutput, ReasoningDelta, TextDelta, ToolCallDelta

MessageKind: TypeAlias = Literal["reasoning_content", "content", "function_call", "media"]


class ReplyMessage:
    """One message of a reply while it grows."""

    __slots__ = ("_texts", "extra", "id", "index", "kind", "media", "name", "refusal")

    def __init__(self, index: int, kind: MessageKind, id: str = "", name: str = "", refusal: bool = False) -> None:
        self.index = index
        self.kind: MessageKind = kind
        self.id = id
        self.name = name
        self.refusal = refusal
        self.media: MediaOutput | None = None
        """What a segment of this kind is; it has no text."""
        self.extra: dict[str, Any] = {"refusal": True} if refusal else {}
        self._texts: list[str] = []

    def add(self, text: str) -> None:
        self._texts.append(text)

    @property
    def text(self) -> str:
        """The whole text so far; for a call, its arguments."""
        if len(self._texts) > 1:
            self._texts = ["".join(self._texts)]
        return self._texts[0] if self._texts else ""


class MessageStarted(msgspec.Struct, frozen=True, gc=False):
    message: ReplyMessage


class MessageDelta(msgspec.Struct, frozen=True, gc=False):
    message: ReplyMessage
    text: str


class MessageCompleted(msgspec.Struct, frozen=True, gc=False):
    message: ReplyMessage


Step: TypeAlias = MessageStarted | MessageDelta | MessageCompleted | Finish | Failed


class MessageAccumulator:
    """Feeds on events; `segments` is the reply so far."""

    def __init__(self) -> None:
        self.messages: list[ReplyMessage] = []
        self._open: ReplyMessage | None = None
        self._calls: dict[int, ReplyMessage] = {}
        self._held_blanks: list[str] = []
        self._extra: dict[str, Any] = {}

    def feed(self, events: list[Event]) -> list[Step]:
        steps: list[Step] = []
        for event in events:
            if type(event) is TextDelta:
                self._add_text(event, steps)
            elif type(event) is ReasoningDelta:
                self._add_reasoning(event, steps)
            elif type(event) is ToolCallDelta:
                self._add_call(event, steps)
            elif type(event) is Extra:
                self._add_extra(event)
            elif type(event) is MediaOutput:
                self._add_media(event, steps)
            elif type(event) is Finish:
                self._finish(event, steps)
            elif type(event) is Failed:
                self._mark_invalid_arguments()
                steps.append(event)
        return steps

    def _add_text(self, event: TextDelta, steps: list[Step]) -> None:
        segment = self._open
        text = event.text
        if segment is None or segment.kind != "content" or segment.refusal is not event.refusal:
            if text.isspace():
                self._held_blanks.append(text)
                return
            if self._held_blanks:
                text = "".join((*self._held_blanks, text))
            segment = self._start(ReplyMessage(len(self.messages), "content", refusal=event.refusal), steps)
        segment.add(text)
        steps.append(MessageDelta(segment, text))

    def _add_reasoning(self, event: ReasoningDelta, steps: list[Step]) -> None:
        segment = self._open
        if segment is None or segment.kind != "reasoning_content":
            segment = self._start(ReplyMessage(len(self.messages), "reasoning_content"), steps)
        segment.add(event.text)
        steps.append(MessageDelta(segment, event.text))

    def _add_call(self, event: ToolCallDelta, steps: list[Step]) -> None:
        segment = self._calls.get(event.index)
        if segment is None:
            segment = ReplyMessage(len(self.messages), "function_call", event.id, event.name)
            self._calls[event.index] = self._start(segment, steps)
            self._open = None
        if event.arguments:
            segment.add(event.arguments)
            steps.append(MessageDelta(segment, event.arguments))

    def _add_media(self, event: MediaOutput, steps: list[Step]) -> None:
        segment = ReplyMessage(len(self.messages), "media")
        segment.media = event
        self._start(segment, steps)
        self._complete(steps)

    def _start(self, segment: ReplyMessage, steps: list[Step]) -> ReplyMessage:
        self._complete(steps)
        self._held_blanks.clear()
        segment.extra.update(self._extra)
        self._extra = {}
        self.messages.append(segment)
        self._open = segment
        steps.append(MessageStarted(segment))
        return segment

    def _complete(self, steps: list[Step]) -> None:
        if self._open is not None:
            steps.append(MessageCompleted(self._open))
            self._open = None

    def _add_extra(self, event: Extra) -> None:
        target = self._calls.get(event.index) if event.index >= 0 else self._open
        extra = self._extra if target is None else target.extra
        for key, value in event.fields.items():
            known = extra.get(key)
            extra[key] = known + value if isinstance(known, list) and isinstance(value, list) else value

    def _finish(self, event: Finish, steps: list[Step]) -> None:
        if self._held_blanks and not self.messages:
            blank = "".join(self._held_blanks)
            segment = self._start(ReplyMessage(0, "content"), steps)
            segment.add(blank)
            steps.append(MessageDelta(segment, blank))
        self._complete(steps)
        self._mark_invalid_arguments()
        steps += (MessageCompleted(call) for call in self._calls.values())
        steps.append(event)

    def _mark_invalid_arguments(self) -> None:
        for call in self._calls.values():
            if not is_json(call.text):
                call.extra["arguments_valid"] = False

    @property
    def loose_extra(self) -> dict[str, Any]:
        """Opaque fields for which no message came."""
        return self._extra


def is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return False
    return True
