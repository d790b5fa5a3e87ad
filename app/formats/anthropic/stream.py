"""Encodes a reply as the events of Anthropic's Messages, or as one message.

Blocks follow one another: `SequentialCallsStage` has put parallel calls in order. A reasoning message ends with a seal
as its signature. What a model server wants back with reasoning that has no text is a `redacted_thinking` block.
Warnings, and parts for which there are no blocks, are in `parley`, beside `usage`: clients ignore unknown fields, but
some fail on unknown events.

The block of a call that the gateway runs starts when its arguments are whole. They are in the start of the block and
once more as one delta: the SDKs that are not beta read no deltas of this block.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from typing_extensions import override

from app.chat.accumulator import ReplyMessage
from app.chat.context_edits import COMPACTION
from app.chat.events import (
    COVERED_BY_PASSED,
    Event,
    Failed,
    Finish,
    Passed,
    PassedEnd,
    TurnEnd,
)
from app.chat.known_conversation import is_same
from app.errors import UpstreamFailed
from app.formats.anthropic.blocks import (
    get_call_fields,
    get_text_fields,
    get_thought_fields,
    write_blocks,
    write_result,
    write_server_call,
)
from app.formats.anthropic.errors import WRITE_ERROR
from app.formats.anthropic.message import (
    choose_stop_reason,
    describe_refusal,
    list_warnings,
    rename_model,
    write_beside,
    write_edits,
    write_message,
    write_usage,
    write_warnings,
)
from app.formats.anthropic.native import (
    OwnBlock,
    count_leading,
    find_signature,
    get_caller,
    list_citations,
    read_place,
    split_details,
)
from app.formats.base import ReplyInfo
from app.formats.encoders import DeltaEncoder, WholeEncoder
from app.formats.own_details import count_details, drop_details
from app.formats.seal import Seal, write_seal
from app.formats.sse import encode_json, escape_line_separators, write_named

Json = dict[str, Any]
_PING = b'event: ping\ndata: {"type":"ping"}\n\n'
_DELTA = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":%b}\n\n'
_DELTAS = {
    "reasoning_content": b'{"type":"thinking_delta","thinking":%b}',
    "content": b'{"type":"text_delta","text":%b}',
    "function_call": b'{"type":"input_json_delta","partial_json":%b}',
}
_SIGNATURE = b'{"type":"signature_delta","signature":%b}'
_STOP = b'event: content_block_stop\ndata: {"type":"content_block_stop","index":%d}\n\n'
_MOST_HELD = 256


class AnthropicStreamEncoder(DeltaEncoder):
    """Events of a server of the same API (`Passed`) are sent as they are. Where those end, the blocks go on from them:
    what the events have brought so far is in the accumulator."""

    def __init__(self, info: ReplyInfo) -> None:
        super().__init__(info)
        self._count = 0
        """The number of blocks that were started."""
        self._index = -1
        """The index of the block that was started last."""
        self._call: ReplyMessage | None = None
        """The call whose block is open."""
        self._thought: ReplyMessage | None = None
        """A reasoning message that is complete, but whose block is open: its seal takes fields of the call after it."""
        self._delta = b""
        """The frame of a text of the open block, up to the text."""
        self._written_details: dict[int, int] = {}
        """How many items of `reasoning_details` of each message were written before its block."""
        self._sealed_fields: dict[int, Any] = {}
        """`extra_content` of each text and call, as a seal has it, or the server's own block."""
        self._is_native = info.options.passed
        """Whether opaque parts have the fields of this API, and no seal."""
        self._passes: bool | None = None if info.options.passed else False
        """Whether the server's own events are sent; None before the first one, if they may be."""
        self._last = '{"type":"message_stop"}'
        self._has_start = False
        """Whether the server's own events began the message."""
        self._own_blocks: dict[int, OwnBlock] = {}
        """The blocks that these have opened and not closed, by index."""
        self._unfilled: tuple[int, OwnBlock] | None = None
        """The block that they have left open without anything that is known of it, and its index."""
        self._pending: list[Event] = []
        """What they have brought and the accumulator does not have."""
        self._own_details = 0
        """How many items of `reasoning_details` they had that have not come in an `Extra`."""
        self._written_citations: dict[int, int] = {}
        """How many citations of each text were written."""

    def open(self) -> bytes:
        # The server's own events may follow, of which one begins the message.
        return b"" if self._info.options.passed else self._write_start()

    def _write_start(self) -> bytes:
        usage = {"input_tokens": self._info.options.input_tokens, "output_tokens": 0}
        return _write_event("message_start", {"message": write_message(self._info, [], None, None, usage)})

    @override
    def feed(self, events: list[Event]) -> bytes:
        if not self._passes:
            return self._feed_first(events) if self._passes is None and events else super().feed(self._strip(events))
        if len(self._pending) >= _MOST_HELD:
            self._accumulate_pending()
        if len(events) == 2 and type(events[0]) is Passed and type(events[1]) in COVERED_BY_PASSED:
            self._pending.append(events[1])
            return self._write_passed(events[0])
        out: list[bytes] = []
        for place, event in enumerate(events):
            if type(event) is Passed:
                out.append(self._write_passed(event))
            elif type(event) in COVERED_BY_PASSED:
                self._pending.append(event)
            elif type(event) is Finish:
                out.append(self._write_last(self._info.warnings_with(event)))
            elif type(event) is Failed:
                out.append(self.fail(UpstreamFailed(event.fault).to_dict(self._info.request_id)))
            elif type(event) is PassedEnd:
                return b"".join([*out, self._end_passing(), self.feed(events[place + 1 :])])
            else:
                self._pending.append(event)
                self._own_details -= count_details(event)
        return b"".join(out)

    def _feed_first(self, events: list[Event]) -> bytes:
        """Take the events with which the reply begins. A whole message is none of a stream."""
        first = events[0]
        self._passes = type(first) is Passed and first.name != "message"
        return self.feed(events) if self._passes else self._write_start() + self.feed(events)

    @override
    def feed_each(self, batches: Sequence[list[Event]]) -> bytes:
        if not self._info.options.passed:
            return super().feed_each(batches)
        return b"".join(map(self.feed, batches))

    def _accumulate_pending(self) -> None:
        pending, self._pending = self._pending, []
        self._accumulator.feed(pending)

    def _strip(self, events: list[Event]) -> list[Event]:
        """Return the events without what the server's own had."""
        events, self._own_details = drop_details(events, self._own_details)
        return events

    def _write_last(self, warnings: list[str]) -> bytes:
        """Write the end of the message, which is the server's own if it has sent one."""
        data = self._last.encode()
        if warnings:
            data = encode_json({**msgspec.json.decode(data), **write_warnings(warnings)})
        return b"event: message_stop\ndata: %b\n\n" % escape_line_separators(data)

    def _write_passed(self, event: Passed) -> bytes:
        """Write an event of the server as it is. What the gateway has to say of the reply is in the last one."""
        name, text = event.name, event.data
        match name:
            case "content_block_delta":
                pass
            case "content_block_start":
                self._open_own_block(text)
            case "content_block_stop":
                self._own_details += event.details
                self._own_blocks.pop(read_place(text).index, None)
            case "message_start":
                self._has_start = True
                text = rename_model(text, self._info.model)
            case "message_delta" if self._info.options.applied_edits is not None:
                text = encode_json({**msgspec.json.decode(text), **write_edits(self._info)}).decode()
            case "message_stop":
                self._last = text
                return b""
            case _:
                pass
        return write_named(name, text)

    def _open_own_block(self, text: str) -> None:
        place = read_place(text)
        self._own_blocks[place.index] = place.content_block
        self._count = max(self._count, place.index + 1)

    def _end_passing(self) -> bytes:
        """End the server's own events. The block that is open goes on, if its message does; others end."""
        self._passes = False
        self._accumulate_pending()
        self._accumulator.drop_loose_extra()
        messages, message = self._accumulator.messages, self._accumulator.open_message
        for known in messages:
            self._written_details[known.index] = len(known.extra.get("reasoning_details", ()))
            self._sealed_fields[known.index] = known.extra.get("extra_content")
            self._written_citations[known.index] = len(list_citations(known))
        out = b"" if self._has_start else self._write_start()
        same = [index for index, block in self._own_blocks.items() if message is not None and block.is_of(message)]
        last, newest = list(self._own_blocks)[-1:], next(reversed(self._own_blocks.values()), None)
        if newest is not None and newest.type == "tool_use" and not any(map(newest.is_of, messages)):
            same = []  # the call goes on, of which no input has come
        left = same[-1:] or last
        out += b"".join([_STOP % index for index in self._own_blocks if index not in left])
        if message is not None and same:
            self._adopt(same[-1], message)
            return out
        self._accumulator.end_text()
        self._unfilled = (left[0], self._own_blocks[left[0]]) if left else None
        return out

    def _adopt(self, index: int, message: ReplyMessage) -> None:
        """Let the message go on in a block that the server has opened."""
        self._index = index
        self._delta = _DELTA % (index, _DELTAS[message.kind])
        self._call = message if message.kind == "function_call" else None

    def _write_summary(self, extra: Mapping[str, Any]) -> bytes:
        """Write the block of a summary, of which the content is one delta: the SDKs' accumulators read it there."""
        if COMPACTION not in extra:
            return b""
        index = self._count
        self._count += 1
        empty = {"type": "compaction", "content": None}
        start = _write_event("content_block_start", {"index": index, "content_block": empty})
        delta = encode_json({"type": "compaction_delta", "content": extra[COMPACTION]})
        return start + _DELTA % (index, escape_line_separators(delta)) + _STOP % index

    def _end_unfilled(self) -> bytes:
        unfilled, self._unfilled = self._unfilled, None
        return b"" if unfilled is None else _STOP % unfilled[0]

    @override
    def heartbeat(self) -> bytes:
        return _PING

    @override
    def _write_started(self, message: ReplyMessage) -> bytes:
        details = message.extra.get("reasoning_details", [])
        if message.kind == "media" and not details:
            return b""
        if self._unfilled is not None:
            if self._unfilled[1].is_of(message):
                self._adopt(self._unfilled[0], message)
                self._unfilled = None
                return b""
            if not details:
                return self._end_unfilled() + self._write_started(message)
        out = self._end_open(message) + self._write_summary(message.extra)
        if message.result is not None:
            self._delta = b""
            return out + self._write_whole_block(write_result(message.result), b"")
        if message.kind == "reasoning_content":
            if self._is_native and details:
                leading = count_leading(details)
                self._written_details[message.index] = leading
                out += self._write_opaque(details[:leading], [])
            return out + self._start({"type": "thinking", "thinking": "", "signature": ""}, message)
        texts = self._take_text_fields(message)
        if details or texts:
            self._written_details[message.index] = len(details)
            out += self._write_opaque(details, texts)
        if message.kind == "media":
            return out
        if message.kind == "content":
            return out + self._start({"type": "text", "text": ""}, message)
        own_fields: Json = get_caller(message) if self._is_native else {}
        out += self._write_call_fields([message])
        if message.server is not None:
            self._delta = b""
            return out
        self._call = message
        block = {"type": "tool_use", "id": message.id, "name": message.name, "input": {}, **own_fields}
        return out + self._start(block, message)

    def _take_text_fields(self, message: ReplyMessage) -> list[Any]:
        """Return the opaque fields of a text that are in no seal yet."""
        return self._take_new(message, get_text_fields(message))

    def _take_call_fields(self, message: ReplyMessage) -> Json:
        """Return the opaque fields of a call that are in no seal yet, and for which its block has no place."""
        if self._is_native and get_caller(message):
            return {}
        fields = get_call_fields(message)
        return fields if self._take_new(message, list(fields.values())) else {}

    def _take_new(self, message: ReplyMessage, fields: list[Any]) -> list[Any]:
        if not fields or is_same(fields[0], self._sealed_fields.get(message.index)):
            return []
        self._sealed_fields[message.index] = fields[0]
        return fields

    def _write_call_fields(self, calls: Sequence[ReplyMessage]) -> bytes:
        fields: Json = {}
        for call in calls:
            fields |= self._take_call_fields(call)
        return self._write_redacted(Seal(calls=fields)) if fields else b""

    def _start(self, block: Json, message: ReplyMessage) -> bytes:
        index = self._index = self._count
        self._count += 1
        self._delta = _DELTA % (index, _DELTAS[message.kind])
        return _write_event("content_block_start", {"index": index, "content_block": block})

    def _write_opaque(self, details: Sequence[Any], texts: list[Any], before: Any = None) -> bytes:
        """Write what the server wants back, and what has no block of this API in a seal."""
        blocks, others = split_details(details) if self._is_native else ([], list(details))
        out = b"".join(map(self._write_native, blocks)) + self._end_unfilled()
        if not others and not texts and before is None:
            return out
        return out + self._write_redacted(Seal(details=others, texts=texts, before=before))

    def _take_late_details(self, message: ReplyMessage) -> list[Any]:
        """Return the details of a message that came after its block began."""
        details: list[Any] = message.extra.get("reasoning_details", [])
        late = details[self._written_details.get(message.index, 0) :]
        self._written_details[message.index] = len(details)
        return late

    def _write_native(self, block: Json) -> bytes:
        unfilled, kind = self._unfilled, block.get("type")
        before = b""
        if unfilled is not None and unfilled[1].type == kind:  # it is the block that is open
            self._unfilled = None
            index = unfilled[0]
            if kind != "thinking":
                return _STOP % index
        else:
            before = self._end_unfilled()
            if kind != "thinking":
                return before + self._write_whole_block(block, b"")
            index = self._index = self._count
            self._count += 1
            empty = {"type": "thinking", "thinking": "", "signature": ""}
            before += _write_event("content_block_start", {"index": index, "content_block": empty})
        deltas = [_DELTAS["reasoning_content"] % encode_json(block["thinking"])] if block["thinking"] else []
        deltas.append(_SIGNATURE % encode_json(block["signature"]))
        return before + b"".join([_DELTA % (index, escape_line_separators(delta)) for delta in deltas]) + _STOP % index

    def _write_redacted(self, contents: Seal) -> bytes:
        return self._write_whole_block({"type": "redacted_thinking", "data": write_seal(contents)}, b"")

    def _write_whole_block(self, block: Json, delta: bytes) -> bytes:
        """Write a block that has its contents when it starts, with one delta if it is not empty."""
        index = self._index = self._count
        self._count += 1
        start = _write_event("content_block_start", {"index": index, "content_block": block})
        return start + (_DELTA % (index, delta) if delta else b"") + _STOP % index

    @override
    def _write_text(self, message: ReplyMessage, text: str) -> bytes:
        if not self._delta or (message.kind == "reasoning_content" and self._info.options.hide_thinking):
            return b""
        data = encode_json(text)
        if not data.isascii():
            data = escape_line_separators(data)
        return self._delta % data

    @override
    def _write_completed(self, message: ReplyMessage) -> bytes:
        if message.kind == "reasoning_content":
            self._thought = message
        elif message.kind == "content":
            out = self._write_citations(message) + _STOP % self._index
            late = self._take_text_fields(message)
            return out + self._write_opaque(self._take_late_details(message), [], late[0] if late else None)
        elif message is self._call:
            return self._end_open(None)
        elif message.server is not None:
            block = write_server_call(message, message.server)
            if message.server.hosted is not None:
                return self._write_hosted_call(message, block)
            given = json.dumps(block["input"]) if isinstance(block["input"], dict) else message.text
            delta = _DELTAS["function_call"] % escape_line_separators(encode_json(given))
            return self._write_whole_block(block, delta)
        return b""

    @override
    def _write_turn_end(self, turn: TurnEnd) -> bytes:
        last = self._accumulator.messages[-1] if self._accumulator.messages else None
        if last is None or last.kind == "reasoning_content":
            return b""
        return self._write_opaque(self._take_late_details(last), [])

    def _write_hosted_call(self, message: ReplyMessage, block: Json) -> bytes:
        """Write the call of a search as Anthropic does: all SDKs read the deltas of this block."""
        given = message.text if isinstance(block["input"], msgspec.Raw) else json.dumps(block["input"])
        delta = _DELTAS["function_call"] % escape_line_separators(encode_json(given))
        return self._write_whole_block({**block, "input": {}}, delta)

    def _write_citations(self, message: ReplyMessage) -> bytes:
        """Write the citations of a text of the server as it does."""
        found = list_citations(message)[self._written_citations.get(message.index, 0) :] if self._is_native else []
        deltas = [b'{"type":"citations_delta","citation":%b}' % encode_json(one) for one in found]
        return b"".join([_DELTA % (self._index, escape_line_separators(delta)) for delta in deltas])

    def _end_open(self, following: ReplyMessage | None) -> bytes:
        """End the block that is still open before the block of this message."""
        if self._call is not None:
            self._call = None
            return _STOP % self._index
        thought, self._thought = self._thought, None
        if thought is None:
            return b""
        fields = self._take_call_fields(following) if following is not None else {}
        texts = (self._take_text_fields(following) if following is not None else []) or get_thought_fields(thought)
        details = self._take_late_details(thought)
        signature = find_signature(details) if self._is_native else None
        if signature is None:
            text = thought.text if self._info.options.hide_thinking else None
            signature = write_seal(Seal(text, details, fields, texts))
        delta = _SIGNATURE % encode_json(signature)
        return _DELTA % (self._index, delta) + _STOP % self._index

    @override
    def _write_finish(self, finish: Finish) -> bytes:
        out = self._end_open(None) + self._write_summary(self._accumulator.loose_extra)
        out += self._write_opaque(self._accumulator.loose_extra.get("reasoning_details", []), [])
        messages = self._accumulator.messages
        out += self._write_call_fields(messages)
        reason, word = choose_stop_reason(finish, messages, self._info)
        delta: Json = {"stop_reason": reason, "stop_sequence": word}
        if reason == "refusal":
            delta["stop_details"] = describe_refusal(finish)
        warnings = list_warnings(finish, self._info)
        usage = write_usage(finish)
        body = {
            "delta": delta,
            "usage": usage,
            **write_edits(self._info),
            **write_beside(self._info, warnings, self._accumulator, finish, native=self._is_native),
        }
        return out + _write_event("message_delta", body) + _write_event("message_stop", {})

    @override
    def fail(self, error: Json) -> bytes:
        return b"event: error\ndata: %b\n\n" % escape_line_separators(encode_json(WRITE_ERROR(error)))


class AnthropicWholeEncoder(WholeEncoder):
    """`stream: false`: one message."""

    def __init__(self, info: ReplyInfo) -> None:
        super().__init__(info)
        self._passed: Passed | None = None
        """The server's own message."""

    @override
    def feed(self, events: list[Event]) -> bytes:
        if self._info.options.passed:
            for event in events:
                if type(event) is Passed and event.name == "message":
                    self._passed = event
                elif type(event) is PassedEnd:
                    self._passed = None
        return super().feed(events)

    @override
    def _write_failure(self, error: Json) -> Json:
        """Return the error; with results of calls that the gateway ran, what came before it, too."""
        body = WRITE_ERROR(error)
        if any(message.result is not None for message in self._accumulator.messages):
            blocks = write_blocks(self._accumulator, hidden=self._info.options.hide_thinking, native=False)
            body["error"]["partial"] = blocks
        return body

    @override
    def _write_reply(self, finish: Finish) -> Json:
        info, messages = self._info, self._accumulator.messages
        if self._passed is not None:
            found: Json = msgspec.json.decode(self._passed.data)
            return {**found, "model": info.model, **write_edits(info), **write_warnings(info.warnings_with(finish))}
        reason, word = choose_stop_reason(finish, messages, info)
        native = info.options.passed
        blocks = write_blocks(self._accumulator, hidden=info.options.hide_thinking, native=native)
        message = write_message(info, blocks, reason, word, write_usage(finish), describe_refusal(finish))
        return (
            message
            | write_edits(info)
            | write_beside(info, list_warnings(finish, info), self._accumulator, finish, native=native)
        )


def _write_event(kind: str, fields: Json) -> bytes:
    data = escape_line_separators(encode_json({"type": kind, **fields}))
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), data)
