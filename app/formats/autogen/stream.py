"""Encodes a reply in AutoGen's format: as a stream of chunks and messages, or as one JSON body.

In the default stream, `interleaved`, every chunk has the id of its message, a message follows its chunks, and the
chunks of an id add up to the text of that message, which is a TextMessage, or a ThoughtEvent if calls follow. Arguments
are not streamed. `stream_compat` has the other two kinds of stream.
"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from typing_extensions import override

from app.chat.accumulator import ReplyMessage
from app.chat.events import Event, Finish, ServerResult, TurnEnd
from app.chat.server_tools import describe_part
from app.formats.autogen.reply_items import ItemFactory, PartialItem, error_item
from app.formats.autogen.value_types import dump_json
from app.formats.base import ReplyInfo
from app.formats.encoders import DeltaEncoder
from app.formats.sse import encode_json, write_frame


def calls_of(messages: Sequence[ReplyMessage]) -> list[dict[str, Any]]:
    """Write the calls. Blank arguments become `{}`, because AutoGen parses them as JSON."""
    calls = [one for one in messages if one.kind == "function_call"]
    return [{"id": one.id, "arguments": one.text if one.text.strip() else "{}", "name": one.name} for one in calls]


def mark_waiting(calls: Sequence[ReplyMessage]) -> dict[str, str]:
    """Return the metadata that say which calls wait for approval; AutoGen's metadata are texts."""
    waiting = [one.id for one in calls if one.server is not None and one.server.approval]
    return {"approval": dump_json(waiting)} if waiting else {}


def write_result(result: ServerResult) -> dict[str, Any]:
    text = result.plain_text
    content = "\n".join(map(describe_part, result.content)) if text is None else text
    return {"content": content, "name": result.name, "call_id": result.id, "is_error": result.is_error}


def write_media(messages: list[ReplyMessage]) -> dict[str, Any]:
    """Write audio and images as fields of the text message, because AutoGen's assistant messages have no media."""
    outputs = [(one.media, one.extra) for one in messages if one.media]
    media = [{"type": output.media, "url": output.url, **output.fields, **extra} for output, extra in outputs]
    return {"media": media} if media else {}


def joined(extras: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge the extras of several messages: lists are concatenated, for other values the last one counts."""
    out: dict[str, Any] = {}
    for extra in extras:
        for key, value in extra.items():
            known = out.get(key)
            out[key] = [*known, *value] if isinstance(known, list) and isinstance(value, list) else value
    return out


_NOT_STREAMED = ("function_call", "function_result")


class AgentEventEncoder(DeltaEncoder):
    """The common part of the three kinds of stream. A failure is the last frame."""

    def __init__(self, info: ReplyInfo) -> None:
        super().__init__(info)
        self._factory = ItemFactory(info)
        self._first = 0
        """The first message of the turn that is being sent."""
        self._results: list[ServerResult] = []
        """Those of the last turn, as long as not all are there."""
        self._missing = 0
        """How many results of the last turn have not come."""

    def open(self) -> bytes:
        return b""

    @override
    def fail(self, error: dict[str, Any]) -> bytes:
        return write_frame(error_item(error))

    @override
    def _write_started(self, message: ReplyMessage) -> bytes:
        if message.media:
            return b""
        if message.result is not None:
            return self._add_result(message.result)
        return self._write_results() + self._on_started(message)

    @override
    def _write_text(self, message: ReplyMessage, text: str) -> bytes:
        return b"" if message.kind in _NOT_STREAMED else self._on_delta(message, text)

    @override
    def _write_completed(self, message: ReplyMessage) -> bytes:
        return b"" if message.media or message.result is not None else self._on_completed(message)

    # Turns of a reply whose tools the gateway runs.

    @override
    def _write_turn_end(self, turn: TurnEnd) -> bytes:
        """Write the calls of a turn, all in one event, as AutoGen's agent does."""
        messages = self._turn
        out = self._on_turn_end()
        calls = [one for one in messages if one.kind == "function_call"]
        self._missing = sum(one.server is not None and not one.server.approval for one in calls)
        factory = self._factory
        extras = [one.extra for one in calls]
        id_ = factory.new_id()
        item = factory.add_message("ToolCallRequestEvent", id_, calls_of(calls), mark_waiting(calls), *extras)
        factory.add_usage(turn.usage)
        self._first = len(self._accumulator.messages)
        return out + self._show(item)

    @abstractmethod
    def _on_turn_end(self) -> bytes:
        """Complete what is before the calls of a turn."""

    def _show(self, item: dict[str, Any]) -> bytes:
        """Return the frame of a complete message, if this kind of stream has it before the end."""
        return write_frame(item)

    @property
    def _turn(self) -> list[ReplyMessage]:
        """The messages of the turn that is being sent."""
        return self._accumulator.messages[self._first :] if self._first else self._accumulator.messages

    def _add_result(self, result: ServerResult) -> bytes:
        self._results.append(result)
        self._first = len(self._accumulator.messages)
        self._missing -= 1
        return b"" if self._missing else self._write_results()

    def _write_results(self) -> bytes:
        """Write the results of a turn, all in one event."""
        if not self._results:
            return b""
        results, self._results = self._results, []
        factory = self._factory
        rows = list(map(write_result, results))
        extras: list[dict[str, Any]] = [{} for _ in rows]
        return self._show(factory.add_message("ToolCallExecutionEvent", factory.new_id(), rows, {}, *extras))

    def _is_said(self, finish: Finish) -> bool:
        """Whether all of the reply is in events: it ends without a turn of its own behind the last calls."""
        summary = finish.server_tools
        return summary is not None and not self._turn and len(self._accumulator.turn_ends) == len(summary.model_calls)

    def _get_last_usage(self, finish: Finish) -> Mapping[str, Any] | None:
        """Return the usage of the last model call."""
        summary = finish.server_tools
        return finish.usage if summary is None or not summary.model_calls else summary.model_calls[-1].usage

    @abstractmethod
    def _on_started(self, message: ReplyMessage) -> bytes: ...

    @abstractmethod
    def _on_delta(self, message: ReplyMessage, text: str) -> bytes: ...

    @abstractmethod
    def _on_completed(self, message: ReplyMessage) -> bytes: ...

    def body(self, finish: Finish) -> dict[str, Any]:
        """Return the finished reply as one object."""
        return self._factory.result(finish)

    @property
    def complete_items(self) -> list[dict[str, Any]]:
        """The messages that are complete."""
        return self._factory.messages

    def _extra(self, *kinds: str) -> dict[str, Any]:
        """Return the merged extras of the turn's messages of these kinds."""
        return joined(one.extra for one in self._turn if one.kind in kinds and not one.media)

    def _beside(self) -> dict[str, Any]:
        """Return the extras and media for which AutoGen has no message."""
        return joined((self._accumulator.loose_extra, write_media(self._turn)))

    def _join_text(self, kind: str) -> str:
        return "".join([one.text for one in self._turn if one.kind == kind])


class InterleavedEncoder(AgentEventEncoder):
    def __init__(self, info: ReplyInfo) -> None:
        super().__init__(info)
        self._thought: PartialItem | None = None
        self._text: PartialItem | None = None

    @override
    def _on_started(self, message: ReplyMessage) -> bytes:
        if message.kind == "reasoning_content":
            self._thought = self._factory.begin("reasoning")
        elif message.kind == "content":
            self._text = self._text or self._factory.begin("content")
        elif self._text is not None:
            return write_frame(self._preamble(self._text))
        return b""

    @override
    def _on_delta(self, message: ReplyMessage, text: str) -> bytes:
        item = self._thought if message.kind == "reasoning_content" else self._text
        assert item is not None
        item.texts.append(text)
        return self._factory.write_chunk(item, text)

    @override
    def _on_completed(self, message: ReplyMessage) -> bytes:
        if message.kind == "reasoning_content" and self._thought is not None:
            thought, self._thought = self._thought, None
            kind = {"kind": "reasoning"}
            return write_frame(self._factory.add_message("ThoughtEvent", thought.id, thought.text, kind, message.extra))
        if message.kind == "content" and self._text is not None:
            self._text.extra |= message.extra
        return b""

    def _preamble(self, text: PartialItem) -> dict[str, Any]:
        """Complete the text before calls as a ThoughtEvent."""
        self._text = None
        return self._factory.add_message("ThoughtEvent", text.id, text.text, {"kind": "content"}, text.extra)

    @override
    def _on_turn_end(self) -> bytes:
        return b"" if self._text is None else write_frame(self._preamble(self._text))

    @override
    def _write_finish(self, finish: Finish) -> bytes:
        factory, messages, loose = self._factory, self._turn, self._accumulator.loose_extra
        out = self._write_results()
        if self._is_said(finish):
            return out + write_frame({"type": "TaskResult", **factory.result(finish)})
        loose = loose | write_media(messages)
        calls = calls_of(messages)
        if calls:
            if self._text is not None:
                out += write_frame(self._preamble(self._text))
            extras = [one.extra for one in messages if one.kind == "function_call"]
            extras[-1] = extras[-1] | loose
            factory.add_message("ToolCallRequestEvent", factory.new_id(), calls, {}, *extras)
        else:
            text = self._text or factory.begin()
            factory.add_message("TextMessage", text.id, text.text, {}, text.extra | loose)
        factory.add_usage(self._get_last_usage(finish))
        return out + write_frame(factory.messages[-1]) + write_frame({"type": "TaskResult", **factory.result(finish)})


class AutogenWholeEncoder:
    """`stream: false`: one JSON body, from the encoder of the stream."""

    def __init__(self, stream: AgentEventEncoder) -> None:
        self._stream = stream

    def open(self) -> bytes:
        return b""

    def heartbeat(self) -> bytes:
        return b""

    def feed(self, events: list[Event]) -> bytes:
        self._stream.feed(events)
        last = events[-1] if events else None
        return encode_json(self._stream.body(last)) if isinstance(last, Finish) else b""

    def fail(self, error: dict[str, Any]) -> bytes:
        """Return the error, and the messages that are complete."""
        body = error_item(error)
        items = self._stream.complete_items
        if any(item.get("type") == "ToolCallExecutionEvent" for item in items):
            body["partial"] = items
        return encode_json(body | {"messages": items} if items else body)
