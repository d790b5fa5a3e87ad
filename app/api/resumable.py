"""Replies that can be asked for again by their ids, for a while after they ended, and stopped before they have.

What another gateway must know to tell a reply on: a note under the reply's id, where gateways share a Redis.
"""

import asyncio
import heapq
from collections import OrderedDict
from dataclasses import dataclass

import msgspec

from app.cache import ReplaySource, ReplyLocation
from app.chat.stream import Label, Origin
from app.formats import FORMATS
from app.formats.base import Format, Options, ReplyInfo, ReplyMode

SWEEP_SECONDS = 1.0
MAX_REPLIES = 100_000


@dataclass(slots=True, eq=False)
class ResumableReply:
    """What it takes to tell a reply once more, byte for byte."""

    info: ReplyInfo
    format: Format
    mode: ReplyMode
    scope: str
    """Whose it is."""
    source: ReplaySource
    keep_running: bool = False
    """It goes on when its caller leaves."""

    def release(self) -> None:
        """Nobody is to come back for it."""
        if self.keep_running:
            self.source.release()


class ResumableReplies:
    """Bounded in time, in bytes and in number; what still runs is never dropped."""

    def __init__(self, keep_seconds: float, max_bytes: int) -> None:
        self.keep_seconds = keep_seconds
        self._max_bytes = max_bytes
        self._replies: dict[str, ResumableReply] = {}
        self._due: list[tuple[float, str]] = []
        self._ended: OrderedDict[str, int] = OrderedDict()
        self._bytes = 0
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._replies)

    def put(self, kept: ResumableReply) -> None:
        """In place of what was known under the same id."""
        loop = asyncio.get_running_loop()
        id_ = kept.info.response_id
        if id_ not in self._replies:
            heapq.heappush(self._due, (loop.time() + SWEEP_SECONDS, id_))
        self._replies[id_] = kept
        if self._timer is None:
            self._timer = loop.call_later(SWEEP_SECONDS, self._sweep)

    def find(self, id_: str) -> ResumableReply | None:
        return self._replies.get(id_)

    def drop(self, id_: str) -> None:
        if self._replies.pop(id_, None) is not None:
            self._bytes -= self._ended.pop(id_, 0)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._replies.clear()

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        while self._due and self._due[0][0] <= now:
            _, id_ = heapq.heappop(self._due)
            kept = self._replies.get(id_)
            if kept is None:
                continue
            if id_ in self._ended:
                self.drop(id_)
                continue
            if kept.source.ended:
                self._start_retention(id_, kept)
            wait = self.keep_seconds if kept.source.ended else SWEEP_SECONDS
            heapq.heappush(self._due, (now + wait, id_))
        while self._ended and (self._bytes > self._max_bytes or len(self._replies) > MAX_REPLIES):
            self.drop(next(iter(self._ended)))
        self._timer = loop.call_later(SWEEP_SECONDS, self._sweep) if self._replies else None

    def _start_retention(self, id_: str, kept: ResumableReply) -> None:
        """Its keeping time begins. Many callers may share one log; each is counted with all of it."""
        size = kept.source.size
        self._ended[id_] = size
        self._bytes += size


class ResumeRecord(msgspec.Struct, frozen=True):
    location: ReplyLocation
    format: str
    mode: ReplyMode
    scope: str
    request_id: str
    model: str
    created: int
    warnings: list[str]
    completed_bodies: bool
    include_usage: bool
    options: Options
    label: Label
    age_seconds: int | None


def write_record(kept: ResumableReply, place: ReplyLocation) -> bytes:
    info = kept.info
    note = ResumeRecord(
        location=place,
        format=kept.format.name,
        mode=kept.mode,
        scope=kept.scope,
        request_id=info.request_id,
        model=info.model,
        created=info.created,
        warnings=list(info.warnings),
        completed_bodies=info.completed_bodies,
        include_usage=info.include_usage,
        options=info.options,
        label=info.origin.label,
        age_seconds=info.origin.age_seconds,
    )
    return msgspec.json.encode(note)


def parse_record(data: bytes) -> ResumeRecord | None:
    """None: another version of the gateway wrote it."""
    try:
        note = msgspec.json.decode(data, type=ResumeRecord)
    except msgspec.MsgspecError:
        return None
    return note if note.format in FORMATS else None


def reply_from_record(note: ResumeRecord, response_id: str, source: ReplaySource) -> ResumableReply:
    info = ReplyInfo(
        response_id=response_id,
        request_id=note.request_id,
        model=note.model,
        created=note.created,
        origin=Origin(note.label, note.age_seconds),
        warnings=note.warnings,
        completed_bodies=note.completed_bodies,
        include_usage=note.include_usage,
        options=note.options,
    )
    return ResumableReply(info, FORMATS[note.format], note.mode, note.scope, source)
