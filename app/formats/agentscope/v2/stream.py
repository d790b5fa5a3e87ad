"""Encodes a reply in AgentScope 2.x: the events of one model call, from which `Msg.append_event` builds the message."""

from typing import Any

from typing_extensions import override

from app.chat.accumulator import MessageAccumulator, ReplyMessage
from app.chat.events import Finish, MediaOutput
from app.errors import find_code
from app.formats.agentscope.common_stream import (
    collect_metadata,
    iso_time,
    read_token_count,
    reply_head,
    to_piece,
    write_finish_fields,
)
from app.formats.agentscope.media import choose_media_type, parse_inline
from app.formats.agentscope.notes import Json, collect_notes
from app.formats.agentscope.v2.parse import SYNTAX
from app.formats.agentscope.v2.write import write_msg
from app.formats.base import ReplyInfo
from app.formats.encoders import DeltaEncoder, WholeEncoder
from app.formats.sidecar import with_notes
from app.formats.sse import encode_json, escape_line_separators, write_frame

_BLOCK = {
    "reasoning_content": "THINKING_BLOCK",
    "content": "TEXT_BLOCK",
    "function_call": "TOOL_CALL",
    "media": "DATA_BLOCK",
}
_COMPLETE = ("stop", "tool_calls")
"""The finish reasons of a reply that is whole. AgentScope has only `completed` for every ending, so the last event of a
stream has any other reason in its metadata."""


def choose_error_type(error: dict[str, Any]) -> str:
    """Return one of the error types of 2.x."""
    known = find_code(error["code"]).agentscope_type
    return known or ("invalid_request" if error["status"] < 500 else "upstream")


def error_body(error: dict[str, Any]) -> dict[str, Any]:
    """Make the body of an HTTP error."""
    return {"error": {"type": choose_error_type(error), **error}}


def _usage(finish: Finish) -> Json:
    usage = finish.usage or finish.estimated_usage
    details = (usage or {}).get("prompt_tokens_details")
    details = details if isinstance(details, dict) else None
    return {
        "input_tokens": read_token_count(usage, "prompt_tokens"),
        "output_tokens": read_token_count(usage, "completion_tokens"),
        "cache_input_tokens": read_token_count(details, "cached_tokens"),
        "cache_creation_input_tokens": read_token_count(details, "cache_write_tokens"),
    }


def _metadata(info: ReplyInfo, accumulator: MessageAccumulator, finish: Finish) -> Json:
    """Return the metadata for which there is no field, with the cost: usage has only its four numbers."""
    cost = (finish.usage or {}).get("cost")
    return collect_metadata(info, accumulator, finish) | ({} if cost is None else {"cost": cost})


class AgentScope2EventEncoder(DeltaEncoder):
    """Writes events. Their ids number the events and blocks of the reply, so that identical replies have identical
    ids."""

    def __init__(self, info: ReplyInfo) -> None:
        super().__init__(info)
        self._created = iso_time(info.created)
        self._open: list[ReplyMessage] = []
        self._count = 0
        self._id_head = escape_line_separators(encode_json(f"{info.response_id}-e"))[:-1]
        self._deltas: dict[int, bytes] = {}
        """The fields between `id` and `delta` of each message's deltas."""

    def open(self) -> bytes:
        session = {"session_id": self._info.request_id, "name": self._info.options.agent_name, "role": "assistant"}
        return self._event("REPLY_START", session) + self._event("MODEL_CALL_START", {"model_name": self._info.model})

    @override
    def fail(self, error: dict[str, Any]) -> bytes:
        """End the open blocks and the reply. There is no MODEL_CALL_END."""
        ended = b"".join([self._end(message) for message in self._open])
        return ended + self._last("error", {"type": choose_error_type(error), "message": error["message"]}, {})

    def _write_sidecar(self) -> Json:
        """Return the notes for fields that blocks do not have; a client keeps them in the metadata of its message."""
        top = reply_head(self._info, self._created)
        pieces = [to_piece(message, top) for message in self._accumulator.messages]
        notes = collect_notes(pieces, pieces, top, SYNTAX) if pieces else None
        return {} if notes is None else with_notes(None, notes)

    @override
    def _write_text(self, message: ReplyMessage, text: str) -> bytes:
        self._count += 1
        data = encode_json(text)
        if not data.isascii():
            data = escape_line_separators(data)
        return b'data: {"id":%b%d",%b,"delta":%b}\n\n' % (
            self._id_head,
            self._count,
            self._deltas[message.index],
            data,
        )

    @override
    def _write_completed(self, message: ReplyMessage) -> bytes:
        self._open.remove(message)
        return self._end(message)

    @override
    def _write_finish(self, finish: Finish) -> bytes:
        usage = self._event("MODEL_CALL_END", {**_usage(finish), "finished_reason": "completed"})
        ending = {} if finish.reason in _COMPLETE else write_finish_fields(finish)
        metadata = {**ending, **_metadata(self._info, self._accumulator, finish)}
        return usage + self._last("completed", None, {**metadata, **self._write_sidecar()})

    @override
    def _write_started(self, message: ReplyMessage) -> bytes:
        self._open.append(message)
        fields = self._fields(_BLOCK[message.kind] + "_DELTA", self._block(message))
        self._deltas[message.index] = escape_line_separators(encode_json(fields))[1:-1]
        if message.media is not None:
            return self._data(message, message.media)
        name = {"tool_call_name": message.name} if message.kind == "function_call" else {}
        return self._event(_BLOCK[message.kind] + "_START", {**self._block(message), **name})

    def _data(self, message: ReplyMessage, media: MediaOutput) -> bytes:
        """Write the start of a data block, and its data in one delta."""
        found = parse_inline(media.url)
        head = {
            **self._block(message),
            "media_type": found.media_type if found else choose_media_type(media.media, media.url),
        }
        data = {"data": found.data} if found else {"url": media.url}
        return self._event("DATA_BLOCK_START", head) + self._event("DATA_BLOCK_DELTA", {**head, **data})

    def _end(self, message: ReplyMessage) -> bytes:
        return self._event(_BLOCK[message.kind] + "_END", self._block(message))

    def _block(self, message: ReplyMessage) -> Json:
        if message.kind == "function_call":
            return {"tool_call_id": message.id}
        return {"block_id": f"{self._info.response_id}-b{message.index + 1}"}

    def _last(self, reason: str, error: Json | None, metadata: Json) -> bytes:
        fields = {"session_id": self._info.request_id, "finished_reason": reason, "error": error}
        return self._event("REPLY_END", fields, metadata)

    def _event(self, type_: str, fields: Json, metadata: Json | None = None) -> bytes:
        self._count += 1
        id_ = f"{self._info.response_id}-e{self._count}"
        return write_frame({"id": id_} | self._fields(type_, fields, metadata))

    def _fields(self, type_: str, fields: Json, metadata: Json | None = None) -> Json:
        """Return all fields of an event but its id."""
        reply = {"metadata": metadata or {}, "type": type_, "reply_id": self._info.response_id}
        return {"created_at": self._created} | reply | fields


class AgentScope2WholeEncoder(WholeEncoder):
    """`stream: false`: one JSON body with the message that the events build."""

    def __init__(self, info: ReplyInfo) -> None:
        super().__init__(info)
        self._head = reply_head(info, iso_time(info.created))

    @override
    def _write_reply(self, finish: Finish) -> Json:
        metadata = {**write_finish_fields(finish), **_metadata(self._info, self._accumulator, finish)}
        usage = None if finish.usage is None else _usage(finish)
        return {"msg": self._msg("completed", metadata, usage, None)}

    @override
    def _write_failure(self, error: dict[str, Any]) -> Json:
        """Return the error, and the message so far."""
        body = error_body(error)
        if self._accumulator.messages:
            failure = {"type": choose_error_type(error), "message": error["message"]}
            body["msg"] = self._msg("error", {}, None, failure)
        return body

    def _msg(self, reason: str, metadata: Json, usage: Json | None, error: Json | None) -> Json:
        pieces = [to_piece(message, self._head) for message in self._accumulator.messages]
        blocks = [block for one in pieces for block in SYNTAX.write_blocks(one)]
        notes = collect_notes(pieces, pieces, self._head, SYNTAX) if pieces else None
        finished = iso_time(self._info.created)
        ending: Json = {"usage": usage, "finished_at": finished, "finished_reason": reason}
        metadata = metadata if notes is None else with_notes(metadata, notes)
        return {**write_msg(self._head, blocks, metadata), **ending, "structured_output": None, "error": error}
