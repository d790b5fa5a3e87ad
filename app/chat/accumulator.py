"""Accumulates reply events into messages (rules 1, 2 and 4 of docs/reference/assembly.md).

A change of kind starts a new message; consecutive text of one kind is one message. Tool calls stay open until the reply
ends, because servers send late fragments, so several can be open at once. Content or reasoning that is only white space
is buffered, and dropped as soon as another message exists.

Nearly every event only adds text to an open message. `extend` takes those without a step for them; `feed` takes all.
"""

import json
import re
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Literal, TypeAlias

import msgspec

from app.chat.event_runs import TextRun
from app.chat.events import (
    NEXT_MESSAGE,
    CallEnd,
    End,
    Event,
    Extra,
    Failed,
    Finish,
    MediaOutput,
    Passed,
    PassedEnd,
    ReasoningDelta,
    ServerCall,
    ServerResult,
    TextDelta,
    TokenLogprobs,
    ToolCallDelta,
    ToolsListed,
    TurnEnd,
)

_TOKENS = re.compile(r'\\.?|["\[\]{}]', re.DOTALL)


class JsonEnd:
    """Tracks the brackets and quotes of a text that begins with an object, a list or a string. Each fragment is scanned
    once. That the text is valid JSON is not checked."""

    __slots__ = ("_depth", "_escaped", "_quoted")

    def __init__(self) -> None:
        self._depth = 0
        self._quoted = self._escaped = False

    @property
    def is_in_text(self) -> bool:
        """Whether what comes next is inside a JSON string."""
        return self._quoted

    def end_text(self) -> str:
        """Return what ends the object whose text is open; the quote alone, if that is not all."""
        return '"}' if self._depth == 1 else '"'

    def find(self, fragment: str) -> int:
        """Return the offset behind the bracket or quote that ends the value; -1 if it is not in this fragment."""
        start, self._escaped = int(self._escaped), False
        for mark in _TOKENS.finditer(fragment, start):
            token = mark.group()
            if token == '"':
                self._quoted = not self._quoted
            elif token[0] == "\\":
                self._escaped = len(token) == 1
                continue
            elif not self._quoted:
                self._depth += 1 if token in "[{" else -1
            if not self._depth and not self._quoted:
                return mark.end()
        return -1


MessageKind: TypeAlias = Literal["reasoning_content", "content", "function_call", "media", "function_result"]


class ReplyMessage:
    """One message of a reply; its text grows while the reply streams."""

    __slots__ = (
        "_texts",
        "add",
        "add_all",
        "extra",
        "id",
        "index",
        "kind",
        "logprobs",
        "media",
        "name",
        "refusal",
        "result",
        "server",
    )

    def __init__(self, index: int, kind: MessageKind, id: str = "", name: str = "", refusal: bool = False) -> None:
        self.index = index
        self.kind: MessageKind = kind
        self.id = id
        self.name = name
        self.refusal = refusal
        self.media: MediaOutput | None = None
        """Set when `kind` is `media`; such a message has no text."""
        self.server: ServerCall | None = None
        """Set for a call that the gateway runs itself."""
        self.result: ServerResult | None = None
        """Set when `kind` is `function_result`; such a message has no text if the result has media."""
        self.extra: dict[str, Any] = {"refusal": True} if refusal else {}
        self.logprobs: list[dict[str, Any]] = []
        """Of the tokens of a content, if the request asks for them."""
        self._texts: list[str] = []
        self.add = self._texts.append
        """Add a text."""
        self.add_all = self._texts.extend
        """Add several texts."""

    @property
    def text(self) -> str:
        """The whole text so far; for a call, its arguments."""
        if len(self._texts) > 1:
            self._texts[:] = ["".join(self._texts)]
        return self._texts[0] if self._texts else ""


class MessageStarted:
    __slots__ = ("message",)

    def __init__(self, message: ReplyMessage) -> None:
        self.message = message


class MessageDelta:
    __slots__ = ("message", "text")

    def __init__(self, message: ReplyMessage, text: str) -> None:
        self.message = message
        self.text = text


class MessageCompleted:
    __slots__ = ("message",)

    def __init__(self, message: ReplyMessage) -> None:
        self.message = message


Step: TypeAlias = MessageStarted | MessageDelta | MessageCompleted | ToolsListed | TurnEnd | End


class MessageAccumulator:
    """Turns events into steps; `messages` holds all messages of the reply so far."""

    def __init__(self) -> None:
        self.messages: list[ReplyMessage] = []
        self.turn_ends: list[int] = []
        """How many messages there were at the end of each turn but the last one."""
        self._open: ReplyMessage | None = None
        self._calls: dict[int, ReplyMessage] = {}
        self._held_blanks: list[str] = []
        self._held_blank_thoughts: list[str] = []
        self._extra: dict[str, Any] = {}
        self._logprobs: list[dict[str, Any]] = []
        """Of the next content, which has not begun."""
        self._server_calls: dict[int, ServerCall] = {}
        """Calls that the gateway runs, of which no delta has come."""

    def extend(self, event: Event) -> tuple[ReplyMessage, str] | None:
        """Add an event whose only step is a `MessageDelta`, and return its message and text.

        None: the event is of another kind, and was not added.
        """
        message = self._open
        if type(event) is TextDelta:
            if message is None or message.kind != "content" or message.refusal is not event.refusal:
                return None
            text = event.text
        elif type(event) is ReasoningDelta:
            if message is None or message.kind != "reasoning_content":
                return None
            text = event.text
        elif type(event) is ToolCallDelta:
            message, text = self._calls.get(event.index), event.arguments
            if message is None or not text:
                return None
        else:
            return None
        message.add(text)
        return message, text

    def extend_run(self, events: Sequence[Event], start: int) -> tuple[ReplyMessage, list[str]] | None:
        """Add the events from `start` on that add to the same message as the first, and return that message and their
        texts. None: the first has another step than a `MessageDelta`, and was not added."""
        first = events[start]
        delta = self.extend(first)
        if delta is None:
            return None
        message, texts = delta[0], [delta[1]]
        kind, call = type(first), first.index if type(first) is ToolCallDelta else -1
        for event in islice(events, start + 1, None):
            if type(event) is not kind:
                break
            if type(event) is ReasoningDelta or (type(event) is TextDelta and event.refusal is message.refusal):
                texts.append(event.text)
            elif type(event) is ToolCallDelta and event.arguments and event.index == call:
                texts.append(event.arguments)
            else:
                break
        message.add_all(texts[1:])
        return message, texts

    def feed_run(self, run: TextRun) -> tuple[list[Step], ReplyMessage | None, list[str]]:
        """Add the events of a run. Returns the steps of the first ones, then the message of all others and their texts,
        each of which has no other step than a `MessageDelta`."""
        steps: list[Step] = []
        for start, text in enumerate(run.texts):
            event = run.make(text)
            delta = self.extend(event)
            if delta is not None:
                texts = run.texts[start:]
                delta[0].add_all(texts[1:])
                return steps, delta[0], texts
            steps += self.feed([event])
        return steps, None, []

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
                self._add_extra(event, steps)
            elif type(event) is MediaOutput:
                self._add_media(event, steps)
            elif type(event) is Passed or type(event) is PassedEnd:
                continue
            elif type(event) is TokenLogprobs:
                self._add_logprobs(event)
            elif type(event) is Finish:
                self._finish(event, steps)
            elif type(event) is Failed or type(event) is ToolsListed:
                steps.append(event)
            else:
                self._feed_server_tools(event, steps)
        return steps

    def _feed_server_tools(self, event: Event, steps: list[Step]) -> None:
        if type(event) is ServerCall:
            self._server_calls[event.index] = event
        elif type(event) is CallEnd:
            self._end_call(event.index, steps)
        elif type(event) is TurnEnd:
            if self._extra and self.messages:
                _add_fields(self.messages[-1].extra, self._extra)
                self._extra = {}
            self._end_turn(steps)
            self._held_blanks.clear()
            self._held_blank_thoughts.clear()
            self.turn_ends.append(len(self.messages))
            steps.append(event)
        else:
            assert type(event) is ServerResult
            self._add_result(event, steps)

    def _end_call(self, index: int, steps: list[Step]) -> None:
        call = self._calls.pop(index, None)
        if call is not None:
            _mark_invalid_arguments(call)
            steps.append(MessageCompleted(call))

    def _add_result(self, event: ServerResult, steps: list[Step]) -> None:
        message = ReplyMessage(len(self.messages), "function_result", event.id, event.name)
        message.result = event
        self._start(message, steps)
        text = event.plain_text
        if text:
            message.add(text)
            steps.append(MessageDelta(message, text))
        self._complete(steps)

    def _add_text(self, event: TextDelta, steps: list[Step]) -> None:
        message = self._open
        text = event.text
        if message is None or message.kind != "content" or message.refusal is not event.refusal:
            if text.isspace():
                self._held_blanks.append(text)
                return
            if self._held_blanks:
                text = "".join((*self._held_blanks, text))
            message = self._start(ReplyMessage(len(self.messages), "content", refusal=event.refusal), steps)
        message.add(text)
        steps.append(MessageDelta(message, text))

    def _add_logprobs(self, event: TokenLogprobs) -> None:
        message = self._open
        if message is None or message.kind != "content" or message.refusal:
            self._logprobs += event.tokens
        else:
            message.logprobs += event.tokens

    def _add_reasoning(self, event: ReasoningDelta, steps: list[Step]) -> None:
        message = self._open
        text = event.text
        if message is None or message.kind != "reasoning_content":
            if text.isspace():
                self._held_blank_thoughts.append(text)
                return
            if self._held_blank_thoughts:
                text = "".join((*self._held_blank_thoughts, text))
            message = self._start(ReplyMessage(len(self.messages), "reasoning_content"), steps)
        message.add(text)
        steps.append(MessageDelta(message, text))

    def _add_call(self, event: ToolCallDelta, steps: list[Step]) -> None:
        message = self._calls.get(event.index)
        if message is None:
            message = ReplyMessage(len(self.messages), "function_call", event.id, event.name)
            if self._server_calls:
                message.server = self._server_calls.pop(event.index, None)
            self._calls[event.index] = self._start(message, steps)
            self._open = None
        if event.arguments:
            message.add(event.arguments)
            steps.append(MessageDelta(message, event.arguments))

    def _add_media(self, event: MediaOutput, steps: list[Step]) -> None:
        message = ReplyMessage(len(self.messages), "media")
        message.media = event
        self._start(message, steps)
        self._complete(steps)

    def _start(self, message: ReplyMessage, steps: list[Step]) -> ReplyMessage:
        self._complete(steps)
        self._held_blanks.clear()
        self._held_blank_thoughts.clear()
        message.extra.update(self._extra)
        self._extra = {}
        if self._logprobs:
            if message.kind == "content" and not message.refusal:
                message.logprobs = self._logprobs
            self._logprobs = []
        self.messages.append(message)
        self._open = message
        steps.append(MessageStarted(message))
        return message

    def _complete(self, steps: list[Step]) -> None:
        if self._open is not None:
            steps.append(MessageCompleted(self._open))
            self._open = None

    def _add_extra(self, event: Extra, steps: list[Step]) -> None:
        if event.index == NEXT_MESSAGE:
            self._complete(steps)
        target = self._calls.get(event.index) if event.index >= 0 else self._open
        _add_fields(self._extra if target is None else target.extra, event.fields)

    def _finish(self, event: Finish, steps: list[Step]) -> None:
        if not self.messages and (self._held_blanks or self._held_blank_thoughts):
            blank = "".join(self._held_blanks or self._held_blank_thoughts)
            message = self._start(ReplyMessage(0, "content" if self._held_blanks else "reasoning_content"), steps)
            message.add(blank)
            steps.append(MessageDelta(message, blank))
        self._end_turn(steps)
        steps.append(event)

    def _end_turn(self, steps: list[Step]) -> None:
        self._complete(steps)
        for call in self._calls.values():
            _mark_invalid_arguments(call)
        steps += (MessageCompleted(call) for call in self._calls.values())
        self._calls = {}

    @property
    def open_message(self) -> ReplyMessage | None:
        """The message that the next event of its kind adds to: the open one, else the last, if that is a call."""
        if self._open is not None:
            return self._open
        last = self.messages[-1] if self.messages else None
        return last if last is not None and last in self._calls.values() else None

    def get_blank(self, kind: MessageKind) -> str:
        """Return the white space that the next message of this kind begins with, if no other one comes before it."""
        held = self._held_blanks if kind == "content" else self._held_blank_thoughts
        return "".join(held) if kind in ("content", "reasoning_content") else ""

    def end_text(self) -> None:
        """Let the next text begin a message."""
        self._open = None

    def drop_loose_extra(self) -> None:
        """Leave out the fields of `Extra` events that no message has followed yet."""
        self._extra = {}

    @property
    def has_results(self) -> bool:
        """Whether the gateway has run calls of this reply."""
        return any(message.result is not None for message in self.messages)

    @property
    def loose_extra(self) -> dict[str, Any]:
        """Fields of `Extra` events that no message followed."""
        return self._extra


def _add_fields(extra: dict[str, Any], fields: Mapping[str, Any]) -> None:
    """Add fields to those of a message. Lists are joined, other values replace."""
    for key, value in fields.items():
        known = extra.get(key)
        extra[key] = known + value if isinstance(known, list) and isinstance(value, list) else value


def _mark_invalid_arguments(call: ReplyMessage) -> None:
    if not is_json_object(call.text):
        call.extra["arguments_valid"] = False


def is_json_object(text: str) -> bool:
    return text.lstrip()[:1] == "{" and is_json(text)


def normalize_object(arguments: str) -> str:
    """Return the arguments of a call as they are read again from a history in which they are an object; those that are
    none as they are."""
    return json.dumps(msgspec.json.decode(arguments), ensure_ascii=False) if is_json_object(arguments) else arguments


def parse_arguments(arguments: str) -> dict[str, Any] | None:
    """Return the arguments of a call as an object, which has no keys if there are none; None if they are not one."""
    if not arguments.strip():
        return {}
    try:
        value = msgspec.json.decode(arguments)
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
        return None
    return value if isinstance(value, dict) else None


def is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return False
    return True
