"""Encodes a reply in AgentScope 1.x: every frame has the whole message so far, with one id, as an agent prints it."""

from typing import Any

from typing_extensions import override

from app.chat.accumulator import MessageAccumulator, ReplyMessage
from app.chat.events import Event, Finish
from app.errors import UpstreamFailed
from app.formats.agentscope.common_stream import (
    collect_metadata,
    local_time,
    merge_pieces,
    reply_head,
    to_piece,
    usage_of,
    write_finish_fields,
)
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
    """Writes the message of the reply as far as it was accumulated."""

    def __init__(self, info: ReplyInfo, accumulator: MessageAccumulator) -> None:
        self._info = info
        self.head = reply_head(info, local_time(info.created))
        self._accumulator = accumulator

    def write_msg(self, metadata: Json | None = None) -> Json:
        pieces = merge_pieces([to_piece(message, self.head) for message in self._accumulator.messages])
        blocks = [block for one in pieces for block in SYNTAX.write_blocks(one)]
        notes = None if metadata is None else collect_notes(pieces, pieces, self.head, SYNTAX) if pieces else None
        return write_msg(self.head, blocks, (metadata or {}) if notes is None else with_notes(metadata, notes))

    def write_finished(self, finish: Finish) -> Json:
        metadata: Json = {
            **write_finish_fields(finish),
            "usage": usage_of(finish.usage),
            **collect_metadata(self._info, self._accumulator, finish),
        }
        return {"msg": self.write_msg(metadata), "last": True}


class AgentScopeStreamEncoder(SnapshotEncoder):
    """Writes one frame for each read, and a last one with the finish reason, usage and warnings."""

    def __init__(self, info: ReplyInfo) -> None:
        super().__init__(info)
        self._writer = ReplyWriter(info, self._accumulator)
        frame = write_frame({"msg": self._writer.write_msg(), "last": False})
        blocks_at = frame.index(b'"content":[]') + len(b'"content":[')
        self._frame_head, self._frame_tail = frame[:blocks_at], frame[blocks_at:]
        self._merged = {"reasoning_content": JsonText(), "content": JsonText()}
        """The texts of the two blocks into which reasonings and texts are merged."""
        self._blocks: dict[int, bytes] = {}
        """The JSON of each block of media, and of each call up to its input, by the index of its message."""
        self._inputs: dict[int, bytes] = {}
        """The JSON of each call's input."""

    def open(self) -> bytes:
        return b""

    def feed(self, events: list[Event]) -> bytes:
        changed, end = self._accumulate(events)
        if isinstance(end, Finish):
            return write_frame(self._writer.write_finished(end))
        out = self._write_snapshot() if changed else b""
        return out if end is None else out + self.fail(UpstreamFailed(end.fault).to_dict(self._info.request_id))

    def fail(self, error: dict[str, Any]) -> bytes:
        return write_frame(error_body(error))

    @override
    def _make_text(self, message: ReplyMessage) -> JsonText:
        if message.kind == "function_call":
            call = {"type": "tool_use", "id": message.id, "name": message.name}
            self._blocks[message.index] = _write_json(call)[:-1]
            self._inputs[message.index] = b"{}"
        elif message.media is not None:
            blocks = SYNTAX.write_blocks(to_piece(message, self._writer.head))
            self._blocks[message.index] = b",".join(map(_write_json, blocks))
        return self._merged.get(message.kind) or JsonText()

    @override
    def _add_text(self, message: ReplyMessage, text: str) -> None:
        super()._add_text(message, text)
        if message.kind == "function_call":
            complete = text.endswith(INPUT_ENDS)
            self._inputs[message.index] = _write_json(input_of(message.text)) if complete else b"{}"

    def _write_snapshot(self) -> bytes:
        messages = self._accumulator.messages
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
    """`stream: false`: one JSON body, equal to the last frame of a stream."""

    def __init__(self, info: ReplyInfo) -> None:
        super().__init__(info)
        self._writer = ReplyWriter(info, self._accumulator)

    @override
    def _write_reply(self, finish: Finish) -> Json:
        return self._writer.write_finished(finish)

    @override
    def _write_failure(self, error: dict[str, Any]) -> Json:
        """Return the error, and the message so far."""
        partial: Json = {"msg": self._writer.write_msg()} if self._accumulator.messages else {}
        return error_body(error) | partial


def _write_json(value: Json) -> bytes:
    return escape_line_separators(encode_json(value))
