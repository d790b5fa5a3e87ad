"""A reply in AutoGen's messages: a stream of chunks and whole messages, or the whole at once.

`interleaved`, the recommended form: every chunk carries the id of the message that it builds, a thought follows its own
chunks, and the chunks of an id add up to that message. A text is M whether it ends as TextMessage or, since calls
follow, as ThoughtEvent. Arguments are not streamed. The other two forms: `compat`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

from typing_extensions import override

from app.chat.accumulator import MessageAccumulator, MessageCompleted, MessageDelta, MessageStarted, ReplyMessage, Step
from app.chat.events import Event, Failed, Finish
from app.errors import UpstreamFailed
from app.formats.autogen.reply_items import ItemFactory, PartialItem, error_item
from app.formats.base import ReplyInfo
from app.formats.sse import encode_json, write_frame


def calls_of(segments: list[ReplyMessage]) -> list[dict[str, Any]]:
    """AutoGen parses arguments, and nothing is no JSON."""
    calls = [one for one in segments if one.kind == "function_call"]
    return [{"id": one.id, "arguments": one.text if one.text.strip() else "{}", "name": one.name} for one in calls]


def write_media(segments: list[ReplyMessage]) -> dict[str, Any]:
    """Sound and pictures, for which AutoGen's messages of an assistant have no place: fields of the text's message."""
    shown = [(one.media, one.extra) for one in segments if one.media]
    media = [{"type": made.media, "url": made.url, **made.fields, **extra} for made, extra in shown]
    return {"media": media} if media else {}


def joined(extras: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Opaque fields of several messages as those of one: lists one behind the other, of anything else the last."""
    out: dict[str, Any] = {}
    for extra in extras:
        for key, value in extra.items():
            known = out.get(key)
            out[key] = [*known, *value] if isinstance(known, list) and isinstance(value, list) else value
    return out


class AgentEventEncoder(ABC):
    """What the three forms share: events become steps, and a failure is the last frame."""

    def __init__(self, info: ReplyInfo) -> None:
        self._info = info
        self._accumulator = MessageAccumulator()
        self._factory = ItemFactory(info)

    def open(self) -> bytes:
        return b""

    def feed(self, events: list[Event]) -> bytes:
        return b"".join([self._step(step) for step in self._accumulator.feed(events)])

    def fail(self, error: dict[str, Any]) -> bytes:
        return write_frame(error_item(error))

    def _step(self, step: Step) -> bytes:
        if type(step) is MessageDelta:
            return self._on_delta(step.message, step.text) if step.message.kind != "function_call" else b""
        if isinstance(step, MessageStarted):
            return b"" if step.message.media else self._on_started(step.message)
        if isinstance(step, MessageCompleted):
            return b"" if step.message.media else self._on_completed(step.message)
        if isinstance(step, Finish):
            return self._on_finish(step)
        assert isinstance(step, Failed)
        return self.fail(UpstreamFailed(step.fault).to_dict(self._info.request_id))

    @abstractmethod
    def _on_started(self, segment: ReplyMessage) -> bytes: ...

    @abstractmethod
    def _on_delta(self, segment: ReplyMessage, text: str) -> bytes: ...

    @abstractmethod
    def _on_completed(self, segment: ReplyMessage) -> bytes: ...

    @abstractmethod
    def _on_finish(self, finish: Finish) -> bytes: ...

    def body(self, finish: Finish) -> dict[str, Any]:
        """The reply as one object, once it is finished."""
        return self._factory.result(finish)

    @property
    def complete_items(self) -> list[dict[str, Any]]:
        """The messages that will not change."""
        return self._factory.messages

    def _extra(self, *kinds: str) -> dict[str, Any]:
        """The opaque fields of all messages of these kinds."""
        return joined(one.extra for one in self._accumulator.messages if one.kind in kinds and not one.media)

    def _beside(self) -> dict[str, Any]:
        """What belongs to no message that AutoGen has."""
        return joined((self._accumulator.loose_extra, write_media(self._accumulator.messages)))

    def _join_text(self, kind: str) -> str:
        return "".join([one.text for one in self._accumulator.messages if one.kind == kind])


class InterleavedEncoder(AgentEventEncoder):
    def __init__(self, info: ReplyInfo) -> None:
        super().__init__(info)
        self._thought: PartialItem | None = None
        self._text: PartialItem | None = None

    @override
    def _on_started(self, segment: ReplyMessage) -> bytes:
        if segment.kind == "reasoning_content":
            self._thought = self._factory.begin("reasoning")
        elif segment.kind == "content":
            self._text = self._text or self._factory.begin("content")
        elif self._text is not None:
            return write_frame(self._preamble(self._text))
        return b""

    @override
    def _on_delta(self, segment: ReplyMessage, text: str) -> bytes:
        growing = self._thought if segment.kind == "reasoning_content" else self._text
        assert growing is not None
        growing.texts.append(text)
        return self._factory.write_chunk(growing, text)

    @override
    def _on_completed(self, segment: ReplyMessage) -> bytes:
        if segment.kind == "reasoning_content" and self._thought is not None:
            thought, self._thought = self._thought, None
            kind = {"kind": "reasoning"}
            return write_frame(self._factory.add_message("ThoughtEvent", thought.id, thought.text, kind, segment.extra))
        if segment.kind == "content" and self._text is not None:
            self._text.extra |= segment.extra
        return b""

    def _preamble(self, text: PartialItem) -> dict[str, Any]:
        """Text beside calls."""
        self._text = None
        return self._factory.add_message("ThoughtEvent", text.id, text.text, {"kind": "content"}, text.extra)

    @override
    def _on_finish(self, finish: Finish) -> bytes:
        author, segments, loose = self._factory, self._accumulator.messages, self._accumulator.loose_extra
        loose = loose | write_media(segments)
        calls = calls_of(segments)
        out = b""
        if calls:
            if self._text is not None:
                out = write_frame(self._preamble(self._text))
            extras = [one.extra for one in segments if one.kind == "function_call"]
            extras[-1] = extras[-1] | loose
            author.add_message("ToolCallRequestEvent", author.new_id(), calls, {}, *extras)
        else:
            text = self._text or author.begin()
            author.add_message("TextMessage", text.id, text.text, {}, text.extra | loose)
        author.add_usage(finish.usage)
        return out + write_frame(author.messages[-1]) + write_frame({"type": "TaskResult", **author.result(finish)})


class AutogenWholeEncoder:
    """`stream: false`: the same machine, and one object at its end."""

    def __init__(self, stream: AgentEventEncoder) -> None:
        self._stream = stream

    def open(self) -> bytes:
        return b""

    def feed(self, events: list[Event]) -> bytes:
        self._stream.feed(events)
        last = events[-1] if events else None
        return encode_json(self._stream.body(last)) if isinstance(last, Finish) else b""

    def fail(self, error: dict[str, Any]) -> bytes:
        """The error, and beside it what was complete until then."""
        body = error_item(error)
        return encode_json(body | {"messages": self._stream.complete_items} if self._stream.complete_items else body)
