"""Encodes a reply in AgentScope 1.x: every frame has the whole message so far, with one id, as an agent prints it."""

from typing import Any

from typing_extensions import override

from app.chat.accumulator import MessageAccumulator
from app.chat.events import Event, Failed, Finish
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
from app.formats.agentscope.v1.blocks import SYNTAX
from app.formats.agentscope.v1.write import write_msg
from app.formats.base import ReplyInfo, WholeEncoder
from app.formats.sidecar import with_notes
from app.formats.sse import encode_json, write_frame


def error_body(error: dict[str, Any]) -> dict[str, Any]:
    """Make the body of an HTTP error, which is also the last frame of a failed stream."""
    return {"error": {"type": error["code"], **error}, "last": True}


class _ReplyWriter:
    """Accumulates the message of the reply."""

    def __init__(self, info: ReplyInfo) -> None:
        self._info = info
        self._head = reply_head(info, local_time(info.created))
        self._accumulator = MessageAccumulator()

    def _msg(self, metadata: Json | None = None) -> Json:
        pieces = merge_pieces([to_piece(message, self._head) for message in self._accumulator.messages])
        blocks = [block for one in pieces for block in SYNTAX.write_blocks(one)]
        notes = None if metadata is None else collect_notes(pieces, pieces, self._head, SYNTAX) if pieces else None
        return write_msg(self._head, blocks, (metadata or {}) if notes is None else with_notes(metadata, notes))

    def _write_reply(self, finish: Finish) -> Json:
        metadata: Json = {
            **write_finish_fields(finish),
            "usage": usage_of(finish.usage),
            **collect_metadata(self._info, self._accumulator, finish),
        }
        return {"msg": self._msg(metadata), "last": True}

    def _error(self, event: Failed) -> dict[str, Any]:
        return UpstreamFailed(event.fault).to_dict(self._info.request_id)


class AgentScopeStreamEncoder(_ReplyWriter):
    """Writes one frame for each read, and a last one with the finish reason, usage and warnings."""

    def open(self) -> bytes:
        return b""

    def feed(self, events: list[Event]) -> bytes:
        steps = self._accumulator.feed(events)
        end = steps[-1] if steps else None
        if isinstance(end, Finish):
            return write_frame(self._write_reply(end))
        out = b""
        if len(steps) > isinstance(end, Failed):
            out = write_frame({"msg": self._msg(), "last": False})
        return out + self.fail(self._error(end)) if isinstance(end, Failed) else out

    def fail(self, error: dict[str, Any]) -> bytes:
        return write_frame(error_body(error))


class AgentScopeWholeEncoder(_ReplyWriter, WholeEncoder):
    """`stream: false`: one JSON body, equal to the last frame of a stream."""

    @override
    def fail(self, error: dict[str, Any]) -> bytes:
        """Return the error, and the message so far."""
        partial: Json = {"msg": self._msg()} if self._accumulator.messages else {}
        return encode_json(error_body(error) | partial)
