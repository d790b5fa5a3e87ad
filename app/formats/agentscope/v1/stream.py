"""Encodes a reply in AgentScope 1.x: every frame has the whole message so far, with one id, as an agent prints it.

If the gateway runs tools, each turn is a message, and each result one of role system, as `stream_printing_messages`
yields them. The metadata of the last message have the finish reason.
"""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace
from typing_extensions import override

from app.chat.accumulator import MessageAccumulator, ReplyMessage
from app.chat.events import Event, Finish, ServerResult
from app.chat.messages import Message, Text
from app.errors import UpstreamFailed
from app.formats.agentscope.common_stream import (
    awaits_approval,
    collect_metadata,
    local_time,
    merge_pieces,
    reply_head,
    to_piece,
    usage_of,
    write_finish_fields,
)
from app.formats.agentscope.common_write import make_head
from app.formats.agentscope.notes import Json, collect_notes
from app.formats.agentscope.v1.parse import INPUT_ENDS, SYNTAX, input_of
from app.formats.agentscope.v1.write import write_msg
from app.formats.base import ReplyInfo
from app.formats.encoders import WholeEncoder
from app.formats.sidecar import with_notes
from app.formats.snapshots import JsonText, SnapshotEncoder
from app.formats.sse import encode_json, escape_line_separators, write_frame


def error_body(error: dict[str, Any]) -> dict[str, Any]:
    """Make the body of an HTTP error, which is also the last frame of a failed stream."""
    return {"error": {"type": error["code"], **error}, "last": True}


class ReplyWriter:
    """Writes the messages of a reply: one for each turn, and one for each result of a call that the gateway ran."""

    def __init__(self, info: ReplyInfo) -> None:
        self._info = info
        self.head = reply_head(info, local_time(info.created))

    def make_head(self, number: int, *, is_result: bool) -> Message:
        """Return the head of the message with this number in the reply, from 0."""
        if not number:
            return self.head if not is_result else self._make_result_head("")
        if is_result:
            return self._make_result_head(f"-{number}")
        id_ = f"{self._info.response_id}-{number}"
        return replace(self.head, turn=id_, extra={**self.head.extra, "message_id": id_})

    def _make_result_head(self, ending: str) -> Message:
        extra = {**self.head.extra, "message_id": self._info.response_id + ending}
        return make_head("system", "system", self._info.response_id + ending, "", extra)

    def write_msg(self, head: Message, messages: Sequence[ReplyMessage], metadata: Json | None = None) -> Json:
        """Write one message. Only with metadata it has the notes for the fields that its blocks do not have."""
        pieces = [to_piece(message, head) for message in messages]
        results = [message.result for message in messages if message.result is not None]
        if results:
            blocks = list(map(_write_result, results))
        else:
            pieces = merge_pieces(pieces)
            blocks = [block for one in pieces for block in SYNTAX.write_blocks(one)]
        metadata = None if metadata is None else {**_write_marks(messages), **metadata}
        notes = None if metadata is None else collect_notes(pieces, pieces, head, SYNTAX) if pieces else None
        return write_msg(head, blocks, (metadata or {}) if notes is None else with_notes(metadata, notes))

    def write_ending(self, finish: Finish, accumulator: MessageAccumulator) -> Json:
        """Return the metadata of the last message."""
        return {
            **write_finish_fields(finish),
            "usage": usage_of(finish.usage),
            **collect_metadata(self._info, accumulator, finish),
        }


def _write_marks(messages: Sequence[ReplyMessage]) -> Json:
    """Return the metadata that say which calls wait for approval, and that a result is an error."""
    waiting = [message.id for message in messages if awaits_approval(message)]
    failed = any(message.result is not None and message.result.is_error for message in messages)
    return ({"approval": waiting} if waiting else {}) | ({"is_error": True} if failed else {})


def _write_result(result: ServerResult) -> Json:
    text = result.plain_text
    parts = (Text(text),) if text is not None else result.content
    output = [block for part in parts for block in SYNTAX.write_part(part, "tool")]
    return {"type": "tool_result", "id": result.id, "name": result.name, "output": output}


class AgentScopeStreamEncoder(SnapshotEncoder):
    """Writes one frame for each read, and a last one with the finish reason, usage and warnings.

    With tools of the gateway there are several messages, each with a last frame of its own. That of a message is
    written when the next one begins, because only then is it known that it is not the last of the reply.
    """

    def __init__(self, info: ReplyInfo) -> None:
        super().__init__(info)
        self._writer = ReplyWriter(info)
        self._number = 0
        """The number of the message that is written."""
        self._first = 0
        """Its first message of the accumulator."""
        self._is_closed = False
        """What comes next is of another message."""
        self._ended = b""
        """The last frames of messages that ended in this read."""
        self._blocks: dict[int, bytes] = {}
        """The JSON of each block of media, and of each call up to its input, by the index of its message."""
        self._inputs: dict[int, bytes] = {}
        """The JSON of each call's input."""
        self._begin(is_result=False)

    def _begin(self, *, is_result: bool) -> None:
        """Begin a message."""
        self._head = self._writer.make_head(self._number, is_result=is_result)
        self._is_closed = is_result
        frame = write_frame({"msg": write_msg(self._head, [], {}), "last": False})
        blocks_at = frame.index(b'"content":[]') + len(b'"content":[') if not is_result else 0
        self._frame_head, self._frame_tail = frame[:blocks_at], frame[blocks_at:]
        self._merged = {"reasoning_content": JsonText(), "content": JsonText()}
        """The texts of the two blocks into which reasonings and texts are merged."""

    @property
    def _messages(self) -> list[ReplyMessage]:
        """The parts of the message that is written."""
        messages = self._accumulator.messages
        return messages[self._first :] if self._first else messages

    def open(self) -> bytes:
        return b""

    def feed(self, events: list[Event]) -> bytes:
        changed, end = self._accumulate(events)
        ended, self._ended = self._ended, b""
        if isinstance(end, Finish):
            ending = self._writer.write_ending(end, self._accumulator)
            msg = self._writer.write_msg(self._head, self._messages, ending)
            return ended + write_frame({"msg": msg, "last": True})
        out = ended + (self._write_snapshot() if changed and self._messages else b"")
        return out if end is None else out + self.fail(UpstreamFailed(end.fault).to_dict(self._info.request_id))

    def fail(self, error: dict[str, Any]) -> bytes:
        ended = self._write_last() if self._number and self._is_closed else b""
        return ended + write_frame(error_body(error))

    def _write_last(self) -> bytes:
        """Write the last frame of a message that is not the last of the reply."""
        return write_frame({"msg": self._writer.write_msg(self._head, self._messages, {}), "last": True})

    @override
    def _end_turn(self) -> None:
        self._is_closed = True

    @override
    def _make_text(self, message: ReplyMessage) -> JsonText:
        if self._is_closed or message.result is not None:
            self._begin_next(message)
        if message.kind == "function_call":
            call = {"type": "tool_use", "id": message.id, "name": message.name}
            self._blocks[message.index] = _write_json(call)[:-1]
            self._inputs[message.index] = b"{}"
        elif message.media is not None:
            blocks = SYNTAX.write_blocks(to_piece(message, self._head))
            self._blocks[message.index] = b",".join(map(_write_json, blocks))
        return self._merged.get(message.kind) or JsonText()

    def _begin_next(self, message: ReplyMessage) -> None:
        if message.index > self._first:
            # The accumulator has the new message already.
            ended = self._accumulator.messages[self._first : message.index]
            msg = self._writer.write_msg(self._head, ended, {})
            self._ended += write_frame({"msg": msg, "last": True})
            self._number += 1
        self._first = message.index
        self._begin(is_result=message.result is not None)

    @override
    def _add_text(self, message: ReplyMessage, text: str) -> None:
        super()._add_text(message, text)
        if message.kind == "function_call":
            complete = text.endswith(INPUT_ENDS)
            self._inputs[message.index] = _write_json(input_of(message.text)) if complete else b"{}"

    def _write_snapshot(self) -> bytes:
        messages = self._messages
        if messages[0].result is not None:
            return write_frame({"msg": self._writer.write_msg(self._head, messages, {}), "last": False})
        kinds = {message.kind for message in messages}
        parts: list[bytes | bytearray] = []
        if "reasoning_content" in kinds:
            parts += (b',{"type":"thinking","thinking":', self._merged["reasoning_content"].json, b"}")
        if "content" in kinds:
            parts += (b',{"type":"text","text":', self._merged["content"].json, b"}")
        for message in messages:
            if message.kind == "media":
                parts += (b",", self._blocks[message.index])
        for message in messages:
            if message.kind == "function_call":
                place = message.index
                parts += (b",", self._blocks[place], b',"input":', self._inputs[place])
                parts += (b',"raw_input":', self._texts[place].json, b"}")
        parts[0] = parts[0][1:]
        return b"".join((self._frame_head, *parts, self._frame_tail))


class AgentScopeWholeEncoder(WholeEncoder):
    """`stream: false`: one JSON body, equal to the last frame of a stream; with tools of the gateway, it also has all
    messages."""

    def __init__(self, info: ReplyInfo) -> None:
        super().__init__(info)
        self._writer = ReplyWriter(info)

    @override
    def _write_reply(self, finish: Finish) -> Json:
        ending = self._writer.write_ending(finish, self._accumulator)
        msgs = self._write_msgs(ending)
        last = msgs[-1]
        return {"msg": last, "last": True} if finish.server_tools is None else {"msgs": msgs, "msg": last, "last": True}

    def _write_msgs(self, ending: Json | None) -> list[Json]:
        """Return the messages of the reply, the last of them with these metadata."""
        runs = _split_turns(self._accumulator) or [[]]
        msgs = []
        for number, run in enumerate(runs):
            head = self._writer.make_head(number, is_result=bool(run) and run[0].result is not None)
            msgs.append(self._writer.write_msg(head, run, ending if number == len(runs) - 1 else {}))
        return msgs

    @override
    def _write_failure(self, error: dict[str, Any]) -> Json:
        """Return the error, and the message so far."""
        body = error_body(error)
        messages = self._accumulator.messages
        if not messages:
            return body
        msgs = self._write_msgs(None)
        if any(message.result is not None for message in messages):
            body["error"]["partial"] = msgs
        return body | {"msg": msgs[-1]}


def _split_turns(accumulator: MessageAccumulator) -> list[list[ReplyMessage]]:
    """Return the messages of each turn, and each result by itself."""
    runs: list[list[ReplyMessage]] = []
    ends = set(accumulator.turn_ends)
    for place, message in enumerate(accumulator.messages):
        before = accumulator.messages[place - 1] if place else None
        follows = before is not None and before.result is None and message.result is None and place not in ends
        if follows:
            runs[-1].append(message)
        else:
            runs.append([message])
    return runs


def _write_json(value: Json) -> bytes:
    return escape_line_separators(encode_json(value))
