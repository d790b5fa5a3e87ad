"""A reply in AgentScope 1.x: the whole message so far in every frame, under one id, as an agent there prints it."""

from typing import Any

from app.chat.events import Event, Failed, Finish
from app.chat.segments import Segmenter
from app.errors import UpstreamFailed
from app.formats.agentscope.blocks import TONGUE
from app.formats.agentscope.history import msg
from app.formats.agentscope_notes import BAG, Json, notes
from app.formats.agentscope_replies import asides, ending, frame, joined, json, local_time, piece, reply_head, usage_of
from app.formats.base import ReplyInfo


def refusal(error: dict[str, Any]) -> dict[str, Any]:
    """The body of an HTTP error and the last frame of a stream."""
    return {"error": {"type": error["code"], **error}, "last": True}


class _Reply:
    """The message while it grows."""

    def __init__(self, info: ReplyInfo) -> None:
        self._info = info
        self._head = reply_head(info, local_time(info.created))
        self._segmenter = Segmenter()

    def _msg(self, metadata: Json | None = None) -> Json:
        pieces = joined([piece(segment, self._head) for segment in self._segmenter.segments])
        blocks = [block for one in pieces for block in TONGUE.blocks(one)]
        bag = None if metadata is None else notes(pieces, pieces, self._head, TONGUE) if pieces else None
        return msg(self._head, blocks, (metadata or {}) | ({} if bag is None else {BAG: bag}))

    def _whole(self, finish: Finish) -> Json:
        metadata: Json = {
            **ending(finish),
            "usage": usage_of(finish.usage),
            **asides(self._info, self._segmenter, finish),
        }
        return {"msg": self._msg(metadata), "last": True}

    def _error(self, event: Failed) -> dict[str, Any]:
        return UpstreamFailed(event.fault).to_dict(self._info.request_id)


class StreamEncoder(_Reply):
    """One frame for each read, and the last with what is known at the end."""

    def open(self) -> bytes:
        return b""

    def feed(self, events: list[Event]) -> bytes:
        steps = self._segmenter.feed(events)
        end = steps[-1] if steps else None
        if isinstance(end, Finish):
            return frame(self._whole(end))
        out = b""
        if len(steps) > isinstance(end, Failed):
            out = frame({"msg": self._msg(), "last": False})
        return out + self.fail(self._error(end)) if isinstance(end, Failed) else out

    def fail(self, error: dict[str, Any]) -> bytes:
        return frame(refusal(error))


class WholeEncoder(_Reply):
    """`stream: false`: the last frame alone."""

    def open(self) -> bytes:
        return b""

    def feed(self, events: list[Event]) -> bytes:
        for step in self._segmenter.feed(events):
            if isinstance(step, Finish):
                return json(self._whole(step))
        return b""

    def fail(self, error: dict[str, Any]) -> bytes:
        """The error, and beside it what the model had said until then."""
        said: Json = {"msg": self._msg()} if self._segmenter.segments else {}
        return json(refusal(error) | said)
