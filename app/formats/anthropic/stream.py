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
from pydantic_core import from_json
from typing_extensions import override

from app.chat.accumulator import MessageAccumulator, ReplyMessage, is_json_object
from app.chat.context_edits import COMPACTION
from app.chat.events import (
    SAID_BY_PASSED,
    Event,
    Failed,
    Finish,
    Passed,
    PassedEnd,
    ServerCall,
    ServerResult,
)
from app.chat.server_tools import describe_part
from app.chat.token_usage import add_left_out
from app.errors import UpstreamFailed
from app.formats.anthropic.context_edits import write_applied
from app.formats.anthropic.errors import WRITE_ERROR
from app.formats.anthropic.hosted import HOSTED_ID, write_hosted_result
from app.formats.anthropic.native import (
    OwnBlock,
    choose_own_reason,
    count_leading,
    find_signature,
    get_caller,
    is_own_citation,
    list_citations,
    read_place,
    split_details,
)
from app.formats.anthropic.parse import INVALID_ARGUMENTS
from app.formats.base import USAGE_ESTIMATED, ReplyInfo, is_usage_estimated
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
_STOP_REASONS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
    "tool_limit": "pause_turn",
    "tool_approval": "pause_turn",
}
_MOST_HELD = 256
_REFUSAL = {"type": "refusal", "category": None, "explanation": None}


def make_message_id(response_id: str) -> str:
    return f"msg_{response_id.removeprefix('chat-')}"


class AnthropicStreamEncoder(DeltaEncoder):
    """Events of a server of the same API (`Passed`) are sent as they are. Where those end, the blocks go on from them:
    what the events have said so far is in the accumulator."""

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
        self._sealed_calls: set[int] = set()
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
        self._said: list[Event] = []
        """What they have said and the accumulator does not have."""
        self._own_details = 0
        """How many items of `reasoning_details` they had that have not come in an `Extra`."""
        self._sealed_texts: set[int] = set()
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
        if len(self._said) >= _MOST_HELD:
            self._accumulate_said()
        if len(events) == 2 and type(events[0]) is Passed and type(events[1]) in SAID_BY_PASSED:
            self._said.append(events[1])
            return self._write_passed(events[0])
        out: list[bytes] = []
        for place, event in enumerate(events):
            if type(event) is Passed:
                out.append(self._write_passed(event))
            elif type(event) in SAID_BY_PASSED:
                self._said.append(event)
            elif type(event) is Finish:
                out.append(self._write_last(self._info.warnings_with(event)))
            elif type(event) is Failed:
                out.append(self.fail(UpstreamFailed(event.fault).to_dict(self._info.request_id)))
            elif type(event) is PassedEnd:
                return b"".join([*out, self._end_passing(), self.feed(events[place + 1 :])])
            else:
                self._said.append(event)
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

    def _accumulate_said(self) -> None:
        said, self._said = self._said, []
        self._accumulator.feed(said)

    def _strip(self, events: list[Event]) -> list[Event]:
        """Return the events without what the server's own had."""
        events, self._own_details = drop_details(events, self._own_details)
        return events

    def _write_last(self, warnings: list[str]) -> bytes:
        """Write the end of the message, which is the server's own if it has sent one."""
        data = self._last.encode()
        if warnings:
            data = encode_json({**msgspec.json.decode(data), **write_said(warnings)})
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
                text = encode_json({**msgspec.json.decode(text), **_write_edits(self._info)}).decode()
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
        self._accumulate_said()
        self._accumulator.drop_loose_extra()
        messages, message = self._accumulator.messages, self._accumulator.open_message
        for known in messages:
            self._written_details[known.index] = len(known.extra.get("reasoning_details", ()))
            self._sealed_calls.add(known.index)
            self._sealed_texts.add(known.index)
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
        if message.kind == "media":
            return b""
        if self._unfilled is not None:
            if self._unfilled[1].is_of(message):
                self._adopt(self._unfilled[0], message)
                self._unfilled = None
                return b""
            if not message.extra.get("reasoning_details"):
                return self._end_unfilled() + self._write_started(message)
        out = self._end_open(message) + self._write_summary(message.extra)
        if message.result is not None:
            self._delta = b""
            return out + self._write_whole_block(_write_result(message.result), b"")
        details = message.extra.get("reasoning_details", [])
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
        if message.kind == "content":
            return out + self._start({"type": "text", "text": ""}, message)
        own_fields: Json = get_caller(message) if self._is_native else {}
        if message.index not in self._sealed_calls and not own_fields and (fields := _get_call_fields(message)):
            self._sealed_calls.add(message.index)
            out += self._write_redacted(Seal(calls=fields))
        if message.server is not None:
            self._delta = b""
            return out
        self._call = message
        block = {"type": "tool_use", "id": message.id, "name": message.name, "input": {}, **own_fields}
        return out + self._start(block, message)

    def _has_own_fields(self, call: ReplyMessage) -> bool:
        return self._is_native and bool(get_caller(call))

    def _take_text_fields(self, message: ReplyMessage) -> list[Any]:
        """Return the opaque fields that a text begins with, unless they are in the seal of the reasoning before it."""
        if message.index in self._sealed_texts:
            return []
        self._sealed_texts.add(message.index)
        return _get_text_fields(message)

    def _start(self, block: Json, message: ReplyMessage) -> bytes:
        index = self._index = self._count
        self._count += 1
        self._delta = _DELTA % (index, _DELTAS[message.kind])
        return _write_event("content_block_start", {"index": index, "content_block": block})

    def _write_opaque(self, details: Sequence[Any], texts: list[Any]) -> bytes:
        """Write what the server wants back, and what has no block of this API in a seal."""
        blocks, others = split_details(details) if self._is_native else ([], list(details))
        out = b"".join(map(self._write_native, blocks)) + self._end_unfilled()
        return out + (self._write_redacted(Seal(details=others, texts=texts)) if others or texts else b"")

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
            late = message.extra.get("reasoning_details", [])[self._written_details.get(message.index, 0) :]
            return self._write_citations(message) + _STOP % self._index + self._write_opaque(late, [])
        elif message is self._call:
            return self._end_open(None)
        elif message.server is not None:
            block = _write_server_call(message, message.server)
            if message.server.hosted is not None:
                return self._write_hosted_call(message, block)
            given = json.dumps(block["input"]) if isinstance(block["input"], dict) else message.text
            delta = _DELTAS["function_call"] % escape_line_separators(encode_json(given))
            return self._write_whole_block(block, delta)
        return b""

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
        fields: Json = {}
        if following is not None and following.kind == "function_call" and not self._has_own_fields(following):
            fields = _get_call_fields(following)
            self._sealed_calls.add(following.index)
        texts = self._take_text_fields(following) if following is not None and following.kind == "content" else []
        details = thought.extra.get("reasoning_details", [])[self._written_details.get(thought.index, 0) :]
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
        unsealed = [one for one in messages if self._is_unsealed(one)]
        reason, word = _choose_stop_reason(finish, messages, self._info)
        delta: Json = {"stop_reason": reason, "stop_sequence": word}
        if reason == "refusal":
            delta["stop_details"] = _describe_refusal(finish)
        warnings = _list_warnings(finish, self._info)
        warnings += (f"extra_content of the call {one.id} came too late, and is lost" for one in unsealed)
        usage = write_usage(finish)
        body = {
            "delta": delta,
            "usage": usage,
            **_write_edits(self._info),
            **_write_beside(self._info, warnings, self._accumulator, finish, native=self._is_native),
        }
        return out + _write_event("message_delta", body) + _write_event("message_stop", {})

    def _is_unsealed(self, message: ReplyMessage) -> bool:
        fields = _get_call_fields(message)
        return bool(fields) and message.index not in self._sealed_calls and not self._has_own_fields(message)

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
            blocks = _write_blocks(self._accumulator, hidden=self._info.options.hide_thinking, native=False)
            body["error"]["partial"] = blocks
        return body

    @override
    def _write_reply(self, finish: Finish) -> Json:
        info, messages = self._info, self._accumulator.messages
        if self._passed is not None:
            found: Json = msgspec.json.decode(self._passed.data)
            return {**found, "model": info.model, **_write_edits(info), **write_said(info.warnings_with(finish))}
        reason, word = _choose_stop_reason(finish, messages, info)
        native = info.options.passed
        blocks = _write_blocks(self._accumulator, hidden=info.options.hide_thinking, native=native)
        message = write_message(info, blocks, reason, word, write_usage(finish), _describe_refusal(finish))
        return (
            message
            | _write_edits(info)
            | _write_beside(info, _list_warnings(finish, info), self._accumulator, finish, native=native)
        )


def rename_model(text: str, model: str) -> str:
    """Return the start of a message with the name of the model that the client asked for."""
    event = msgspec.json.decode(text)
    if not isinstance(event.get("message"), dict):
        return text
    return encode_json({**event, "message": {**event["message"], "model": model}}).decode()


def _write_edits(info: ReplyInfo) -> Json:
    """Write what the gateway has cleared of the conversation."""
    applied = info.options.applied_edits
    return {} if applied is None else {"context_management": write_applied(applied)}


def write_said(warnings: Sequence[str]) -> Json:
    """Return what the gateway adds to a reply that is the server's own."""
    return {"parley": {"warnings": list(warnings)}} if warnings else {}


def _describe_refusal(finish: Finish) -> Json:
    return _REFUSAL if finish.policy is None else {**_REFUSAL, "explanation": finish.policy.sentence}


def write_message(
    info: ReplyInfo,
    blocks: list[Json],
    reason: str | None,
    word: str | None,
    usage: Json,
    stop_details: Json | None = None,
) -> Json:
    details = {"stop_details": stop_details} if reason == "refusal" else {}
    return {
        "id": make_message_id(info.response_id),
        "type": "message",
        "role": "assistant",
        "model": info.model,
        "content": blocks,
        "stop_reason": reason,
        "stop_sequence": word,
        **details,
        "usage": usage,
    }


def _write_event(kind: str, fields: Json) -> bytes:
    data = escape_line_separators(encode_json({"type": kind, **fields}))
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), data)


def _write_blocks(accumulator: MessageAccumulator, *, hidden: bool, native: bool) -> list[Json]:
    """Return the blocks of a whole reply. `native`: opaque parts of this API have its fields."""
    blocks: list[Json] = []
    messages = accumulator.messages
    for place, message in enumerate(messages):
        following = messages[place + 1] if place + 1 < len(messages) else None
        before = messages[place - 1] if place else None
        blocks += _write_summary_block(message.extra)
        if message.kind == "reasoning_content":
            blocks += _write_thought(message, following, hidden=hidden, native=native)
            continue
        if message.kind == "media":
            continue
        if message.result is not None:
            blocks.append(_write_result(message.result))
            continue
        details = message.extra.get("reasoning_details", [])
        texts = _get_text_fields(message) if before is None or before.kind != "reasoning_content" else []
        blocks += _write_opaque_blocks(details, texts, native=native)
        if message.kind == "content":
            citations = list_citations(message) if native else []
            cited: Json = {"citations": citations} if citations else {}
            blocks.append({"type": "text", "text": message.text, **cited})
            continue
        own_fields: Json = get_caller(message) if native else {}
        fields = _get_call_fields(message)
        if fields and not own_fields and (before is None or before.kind != "reasoning_content"):
            blocks.append(_redacted(Seal(calls=fields)))
        if message.server is not None:
            blocks.append(_write_server_call(message, message.server))
            continue
        call = {"type": "tool_use", "id": message.id, "name": message.name, "input": _write_input(message.text)}
        blocks.append(call | own_fields)
    blocks += _write_summary_block(accumulator.loose_extra)
    return blocks + _write_opaque_blocks(accumulator.loose_extra.get("reasoning_details", []), [], native=native)


def _write_summary_block(extra: Mapping[str, Any]) -> list[Json]:
    return [{"type": "compaction", "content": extra[COMPACTION]}] if COMPACTION in extra else []


def _write_thought(thought: ReplyMessage, following: ReplyMessage | None, *, hidden: bool, native: bool) -> list[Json]:
    """Return the block of a reasoning message, behind what was to come before it."""
    calls = _get_call_fields(following) if following is not None else {}
    if native and following is not None and get_caller(following):
        calls = {}
    texts = _get_text_fields(following) if following is not None else []
    details = thought.extra.get("reasoning_details", [])
    blocks, rest = split_details(details, thought.text) if native else ([], details)
    signature = find_signature(rest) if native else None
    text = thought.text if hidden else None
    seal = signature or write_seal(Seal(text, rest, calls, texts))
    return [*blocks, {"type": "thinking", "thinking": "" if hidden else thought.text, "signature": seal}]


def _write_opaque_blocks(details: list[Any], texts: list[Any], *, native: bool) -> list[Json]:
    blocks, others = split_details(details) if native else ([], details)
    return [*blocks, _redacted(Seal(details=others, texts=texts))] if others or texts else blocks


def _write_server_call(message: ReplyMessage, call: ServerCall) -> Json:
    """Write a call that the gateway runs, with the tool's own name. Arguments that are no object are a text in one."""
    arguments = message.text
    found = _write_input(arguments) if is_json_object(arguments or "{}") else {INVALID_ARGUMENTS: arguments}
    if call.hosted is not None:
        return {"type": "server_tool_use", "id": HOSTED_ID + message.id, "name": message.name, "input": found}
    block = {"type": "mcp_tool_use", "id": message.id, "name": call.tool}
    return block | {"server_name": call.server, "input": found}


def _write_result(result: ServerResult) -> Json:
    """Write the result of such a call: its texts, and media by their types, because the block has no place for them."""
    text = result.plain_text
    if result.hosted is not None:
        return write_hosted_result(result.id, result.hosted, text or "")
    texts = [text] if text is not None else [describe_part(part) for part in result.content]
    content = [{"type": "text", "text": one} for one in texts if one]  # Anthropic refuses an empty text
    return {"type": "mcp_tool_result", "tool_use_id": result.id, "is_error": result.is_error, "content": content}


def _redacted(contents: Seal) -> Json:
    return {"type": "redacted_thinking", "data": write_seal(contents)}


def _get_text_fields(message: ReplyMessage) -> list[Any]:
    """Return the opaque fields of a text, as a seal has them."""
    fields = message.extra.get("extra_content") if message.kind == "content" else None
    return [] if fields is None else [fields]


def _get_call_fields(message: ReplyMessage) -> Json:
    """Return the opaque fields of a call by its id, as a seal has them."""
    if message.kind != "function_call" or message.extra.get("extra_content") is None:
        return {}
    return {message.id: message.extra["extra_content"]}


def _write_input(arguments: str) -> Any:
    """Return the arguments as the model wrote them; of arguments that were cut off, the keys that are whole, as the
    SDKs read them in a stream."""
    try:
        msgspec.json.decode(arguments)
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
        try:
            return from_json(arguments or "{}", allow_partial=True)
        except (ValueError, TypeError):  # TypeError: half a surrogate pair
            return {}
    return msgspec.Raw(arguments.encode())


def _choose_stop_reason(finish: Finish, messages: Sequence[ReplyMessage], info: ReplyInfo) -> tuple[str, str | None]:
    """Return (stop_reason, stop_sequence)."""
    if finish.reason == "stop":
        if any(message.refusal for message in messages):
            return "refusal", None
        if finish.stopped_by is not None and finish.stopped_by in info.options.stop_words:
            return "stop_sequence", finish.stopped_by
    if finish.native_reason == COMPACTION and not messages:
        return COMPACTION, None
    own = choose_own_reason(finish.native_reason, finish.reason) if info.options.passed else None
    return own or _STOP_REASONS[finish.reason], None


def write_usage(finish: Finish) -> Json:
    """Write the usage; the three counts of input tokens are a sum."""
    usage: Json = finish.usage or finish.estimated_usage or {}
    details = usage.get("prompt_tokens_details")
    details = details if isinstance(details, dict) else {}
    cached, written = _count(details.get("cached_tokens")), _count(details.get("cache_write_tokens"))
    prompt, completion = add_left_out(usage)
    out: Json = {
        "input_tokens": max(prompt - cached - written, 0),
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": cached,
        "output_tokens": completion,
    }
    details = usage.get("completion_tokens_details")
    thinking = _count(details.get("reasoning_tokens")) if isinstance(details, dict) else 0
    if thinking:
        out["output_tokens_details"] = {"thinking_tokens": thinking}
    if usage.get("cost") is not None:
        out["cost"] = usage["cost"]
    if isinstance(usage.get("iterations"), list):
        calls = zip(usage["iterations"], _ITERATIONS, strict=False)  # a summary may be all
        out["iterations"] = [_write_iteration(one, kind) for one, kind in calls]
    done = finish.server_tools
    if done is not None and (done.searches or done.fetches):
        out["server_tool_use"] = {"web_search_requests": done.searches, "web_fetch_requests": done.fetches}
    return out


_ITERATIONS = (COMPACTION, "message")
"""The calls to the model of a reply with a summary."""


def _write_iteration(usage: Json, kind: str) -> Json:
    written = write_usage(Finish("stop", usage))
    return {"type": kind, **{name: count for name, count in written.items() if name.endswith("_tokens")}}


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


_BESIDE = ("annotations", "citations", "search_results")
"""Keys of `extra` that Anthropic's blocks have no place for."""


def _list_warnings(finish: Finish, info: ReplyInfo) -> list[str]:
    warnings = info.warnings_with(finish)
    if is_usage_estimated(finish):
        warnings.append(USAGE_ESTIMATED)
    return warnings


def _write_beside(
    info: ReplyInfo, warnings: Sequence[str], accumulator: MessageAccumulator, finish: Finish, *, native: bool
) -> Json:
    """Write `parley`: warnings, and the parts of the reply that Anthropic's message has no place for. `native`:
    citations of this API have theirs."""
    beside: Json = {"warnings": list(warnings)} if warnings else {}
    beside |= info.write_extensions(finish)
    media: list[Json] = []
    for message in accumulator.messages:
        if message.media is not None:
            media.append({"type": message.media.media, "url": message.media.url, **message.media.fields})
        fields = message.extra if message.kind != "function_call" else {}
        if message.kind == "content" and fields.get("extra_content") is not None:
            beside["extra_content"] = fields["extra_content"]
        for key in _BESIDE:
            value = fields.get(key)
            if native and key == "annotations":
                value = [one for one in value or () if not is_own_citation(one)]
            if value:
                known = beside.get(key)
                both = isinstance(known, list) and isinstance(value, list)
                beside[key] = [*known, *value] if both else value  # type: ignore[misc]  # `both` says that it is a list
    beside |= {key: accumulator.loose_extra[key] for key in _BESIDE if accumulator.loose_extra.get(key)}
    if media:
        beside["media"] = media
    return {"parley": beside} if beside else {}
