"""Encodes a reply in AgentScope 2.x: the events of its model calls, from which `Msg.append_event` builds the message.

A reply has several model calls if the gateway runs its tools: their results follow the call in which they were asked
for. A reply with a call that waits for approval ends with `REQUIRE_USER_CONFIRM`, without `REPLY_END`.
"""

from typing import Any

from typing_extensions import override

from app.chat.accumulator import MessageAccumulator, ReplyMessage
from app.chat.events import Finish, MediaOutput, ServerResult, TurnEnd
from app.chat.messages import Text
from app.chat.server_tools import ServerToolsSummary
from app.errors import find_code
from app.formats.agentscope.common_stream import (
    awaits_approval,
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
_REASONS = {"tool_limit": "exceed_max_iters"}
"""The words of AgentScope for how a reply ends, by finish reason; `completed` for all others."""
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
    return _write_usage(finish.usage or finish.estimated_usage)


def _last_usage(summary: ServerToolsSummary) -> Json:
    """Return the usage of the last model call of a reply."""
    return _write_usage(summary.model_calls[-1].usage if summary.model_calls else None)


def _write_waiting(message: ReplyMessage) -> Json:
    """Write a call that waits for approval, as AgentScope's own agent asks for it."""
    call = {"type": "tool_call", "id": message.id, "name": message.name, "input": message.text}
    return {**call, "state": "asking", "suggested_rules": []}


def _write_usage(usage: Json | None) -> Json:
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
        self._model_calls = 0
        """The number of model calls that were started."""
        self._in_model_call = False
        self._count = 0
        self._id_head = escape_line_separators(encode_json(f"{info.response_id}-e"))[:-1]
        self._deltas: dict[int, bytes] = {}
        """The fields between `id` and `delta` of each message's deltas."""

    def open(self) -> bytes:
        session = {"session_id": self._info.request_id, "name": self._info.options.agent_name, "role": "assistant"}
        start = self._event("REPLY_START", session)
        return start if self._info.options.answers_calls else start + self._start_model_call()

    def _start_model_call(self) -> bytes:
        self._in_model_call = True
        self._model_calls += 1
        return self._event("MODEL_CALL_START", {"model_name": self._info.model})

    def _end_model_call(self, usage: Json) -> bytes:
        self._in_model_call = False
        return self._event("MODEL_CALL_END", {**usage, "finished_reason": "completed"})

    @override
    def _write_turn_end(self, turn: TurnEnd) -> bytes:
        return self._end_model_call(_write_usage(turn.usage))

    @override
    def fail(self, error: dict[str, Any]) -> bytes:
        """End the open blocks and the reply. There is no MODEL_CALL_END."""
        ended = b"".join([self._end(message) for message in self._open])
        tools = error.get("server_tools")
        metadata = {} if tools is None else {"finish_reason": "failed", "server_tools": tools}
        return ended + self._last("error", {"type": choose_error_type(error), "message": error["message"]}, metadata)

    def _write_sidecar(self) -> Json:
        """Return the notes for fields that blocks do not have; a client keeps them in the metadata of its message."""
        top = reply_head(self._info, self._created)
        pieces = [to_piece(message, top) for message in self._accumulator.messages]
        notes = collect_notes(pieces, pieces, top, SYNTAX) if pieces else None
        return {} if notes is None else with_notes(None, notes)

    @override
    def _write_text(self, message: ReplyMessage, text: str) -> bytes:
        if message.result is not None:
            return b""
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
        if message.result is not None:
            return b""
        self._open.remove(message)
        return self._end(message)

    @override
    def _write_finish(self, finish: Finish) -> bytes:
        summary = finish.server_tools
        out = b""
        if not self._in_model_call and summary is not None and len(summary.model_calls) > self._model_calls:
            out += self._start_model_call()  # the model said nothing in it
        if self._in_model_call:
            out += self._end_model_call(_usage(finish) if summary is None else _last_usage(summary))
        is_plain = summary is None and finish.reason in _COMPLETE
        metadata = {
            **({} if is_plain or finish.reason == "tool_approval" else write_finish_fields(finish)),
            **_metadata(self._info, self._accumulator, finish),
            **self._write_sidecar(),
        }
        if finish.reason == "tool_approval":
            waiting = [_write_waiting(one) for one in self._accumulator.messages if awaits_approval(one)]
            return out + self._event("REQUIRE_USER_CONFIRM", {"tool_calls": waiting}, metadata)
        return out + self._last(_REASONS.get(finish.reason, "completed"), None, metadata)

    @override
    def _write_started(self, message: ReplyMessage) -> bytes:
        if message.result is not None:
            return self._write_result_start(message.result)
        start = b"" if self._in_model_call else self._start_model_call()
        return start + self._start_block(message)

    def _write_result_start(self, result: ServerResult) -> bytes:
        """Write a result up to its end. All of it is there when it starts."""
        call = {"tool_call_id": result.id}
        out = self._event("TOOL_RESULT_START", {**call, "tool_call_name": result.name})
        text = result.plain_text
        parts = [Text(text)] if text is not None else result.content
        for place, part in enumerate(parts):
            if isinstance(part, Text):
                out += self._event("TOOL_RESULT_TEXT_DELTA", {**call, "delta": part.text}) if part.text else b""
                continue
            found = parse_inline(part.urls[0])
            type_ = found.media_type if found else choose_media_type(part.media, part.urls[0])
            data = {"data": found.data, "url": None} if found else {"data": None, "url": part.urls[0]}
            block = {"block_id": f"{self._info.response_id}-{result.id}-{place + 1}", "media_type": type_}
            out += self._event("TOOL_RESULT_DATA_DELTA", {**call, **block, **data})
        return out + self._event("TOOL_RESULT_END", {**call, "state": "error" if result.is_error else "success"})

    def _start_block(self, message: ReplyMessage) -> bytes:
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
        return {"msg": self._msg(_REASONS.get(finish.reason, "completed"), metadata, usage, None)}

    @override
    def _write_failure(self, error: dict[str, Any]) -> Json:
        """Return the error, and the message so far."""
        body = error_body(error)
        if self._accumulator.messages:
            failure = {"type": choose_error_type(error), "message": error["message"]}
            body["msg"] = self._msg("error", {}, None, failure)
            if any(message.result is not None for message in self._accumulator.messages):
                body["error"]["partial"] = body["msg"]
        return body

    def _msg(self, reason: str, metadata: Json, usage: Json | None, error: Json | None) -> Json:
        pieces = [to_piece(message, self._head) for message in self._accumulator.messages]
        blocks = [block for one in pieces for block in SYNTAX.write_blocks(one)]
        notes = collect_notes(pieces, pieces, self._head, SYNTAX) if pieces else None
        finished = iso_time(self._info.created)
        ending: Json = {"usage": usage, "finished_at": finished, "finished_reason": reason}
        metadata = metadata if notes is None else with_notes(metadata, notes)
        return {**write_msg(self._head, blocks, metadata), **ending, "structured_output": None, "error": error}
