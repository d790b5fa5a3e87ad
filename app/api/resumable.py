"""Keeps replies for clients that resume or cancel them by id, until `cache.resume_seconds` after their end.

Gateways that share a Redis also write a record of each reply there, with which another gateway can resume it.
"""

import asyncio
import heapq
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from app.cache import InFlightCall, ReplaySource, ReplyLocation
from app.calls.entry import load
from app.calls.stored_log import StoredLog
from app.chat.guarding import GuardedReply
from app.chat.stream import Label, Origin, Reply
from app.formats import FORMATS
from app.formats.base import Format, Options, ReplyInfo, ReplyMode
from app.runtime.bounded_map import BoundedMap
from app.runtime.turn_queue import TurnBudget

SWEEP_SECONDS = 1.0
"""How often ended replies are searched and old ones dropped."""
MAX_REPLIES = 100_000
_NOWHERE: ReplyLocation = ("flight", "")
_OBJECT_BYTES = 400
"""The approximate size of a packed reply besides its bytes."""


@dataclass(slots=True, eq=False)
class ResumableReply:
    """Everything that is needed to send a reply again, byte for byte."""

    info: ReplyInfo
    format: Format
    mode: ReplyMode
    owner: str
    """The caller to whom the reply belongs, as `AppContext.owner` names it."""
    source: ReplaySource
    unread_seconds: float = 0.0
    """How long the upstream call goes on after its last client has disconnected, up to infinity."""

    def release(self) -> None:
        """End the call if only this reply keeps it running: the reply can no longer be resumed."""
        if self.unread_seconds and isinstance(self.source, InFlightCall):
            self.source.release(self.unread_seconds)


class ResumableReplies:
    """The replies of this process. Ended ones are dropped after `keep_seconds`, or when they exceed `max_bytes` or
    MAX_REPLIES; running ones are never dropped."""

    def __init__(
        self,
        keep_seconds: float,
        max_bytes: int,
        sweep_seconds: float = SWEEP_SECONDS,
        budget: TurnBudget | None = None,
    ) -> None:
        self._budget = budget or TurnBudget()
        self.keep_seconds = keep_seconds
        self.sweep_seconds = sweep_seconds
        self._running: dict[str, ResumableReply] = {}
        """Those that have not ended, and those of which it is not known yet."""
        self._ended: BoundedMap[str, ResumableReply | PackedReply] = BoundedMap(max_bytes, MAX_REPLIES)
        self._due: list[tuple[float, str]] = []
        self._timer: asyncio.Handle | None = None

    def __len__(self) -> int:
        return len(self._running) + len(self._ended)

    def put(self, reply: ResumableReply) -> None:
        """Add a reply. It replaces an earlier one with the same id."""
        loop = asyncio.get_running_loop()
        id_ = reply.info.response_id
        if id_ not in self._running:
            heapq.heappush(self._due, (loop.time() + self.sweep_seconds, id_))
        self._running[id_] = reply
        self._ended.pop(id_)
        if isinstance(reply.source, InFlightCall):
            reply.source.keep_for_resume()
        if self._timer is None:
            self._timer = loop.call_later(self.sweep_seconds, self._sweep)

    def find(self, id_: str) -> ResumableReply | None:
        reply = self._running.get(id_) or self._ended.get(id_)
        return reply.unpack(id_) if isinstance(reply, PackedReply) else reply

    def drop(self, id_: str) -> None:
        self._running.pop(id_, None)
        self._ended.pop(id_)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._running.clear()
        self._ended.clear()

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        is_due = True  # if this fails, too: a defect of one reply must not keep the others forever
        try:
            is_due = self._drop_old(loop.time())
        finally:
            if is_due:
                self._timer = loop.call_soon(self._sweep)
            else:
                self._budget.end()
                self._timer = loop.call_later(self.sweep_seconds, self._sweep) if len(self) else None

    def _drop_old(self, now: float) -> bool:
        """Pack the replies that have ended, and drop old ones. Return whether some must wait for the next turn."""
        self._budget.begin_turn()
        while (is_due := bool(self._due) and self._due[0][0] <= now) and not self._budget.is_spent():
            _, id_ = heapq.heappop(self._due)
            reply = self._running.get(id_)
            if reply is None:
                self._ended.pop(id_)
            elif reply.source.ended:
                self._start_retention(id_, reply)
                heapq.heappush(self._due, (now + self.keep_seconds, id_))
            else:
                heapq.heappush(self._due, (now + self.sweep_seconds, id_))
        return is_due

    def _start_retention(self, id_: str, reply: ResumableReply) -> None:
        """Start the `keep_seconds` of a reply that has ended, and pack it. A log that several replies share is counted
        for each."""
        packed = _pack(reply)
        del self._running[id_]
        self._ended.put(id_, packed or reply, reply.source.size if packed is None else packed.size)


class ResumeRecord(msgspec.Struct, frozen=True):
    location: ReplyLocation
    format: str
    mode: ReplyMode
    scope: str
    """`owner` of the reply."""
    request_id: str
    model: str
    created: int
    warnings: list[str]
    completed_bodies: bool
    include_usage: bool
    options: Options
    label: Label
    age_seconds: int | None
    keepalives: list[int] = []
    guarded: str | None = None
    """What `GuardedReply.seal` returns; None for a reply without guards."""


class PackedReply(msgspec.Struct, frozen=True, gc=False):
    """A reply that has ended, as bytes, which are decoded for each reader. Tens of thousands are kept: they take a
    tenth of the memory of logs, and the garbage collector visits none of them."""

    record: bytes
    entry: bytes

    @property
    def size(self) -> int:
        return len(self.record) + len(self.entry) + _OBJECT_BYTES

    @property
    def ended(self) -> bool:
        return True

    @property
    def complete(self) -> bool:
        return True

    @property
    def location(self) -> ReplyLocation | None:
        location = self._read_record().location
        return None if location == _NOWHERE else location

    async def open(self) -> Reply:
        return StoredLog(load(self.entry), cached=self._read_record().label == "hit").add_reader()

    def pack(self) -> bytes:
        return self.entry

    def unpack(self, id_: str) -> ResumableReply:
        return reply_from_record(self._read_record(), id_, self)

    def _read_record(self) -> ResumeRecord:
        return msgspec.json.decode(self.record, type=ResumeRecord)


def _pack(reply: ResumableReply) -> PackedReply | None:
    """Pack a reply that has ended; None if it cannot be encoded, or has masked values, which bytes must not hold."""
    if reply.info.guarded is not None:
        return None
    entry = reply.source.pack()
    if entry is None:
        return None
    try:
        return PackedReply(write_record(reply, reply.source.location or _NOWHERE), entry)
    except UnicodeEncodeError:
        return None


def write_record(reply: ResumableReply, location: ReplyLocation) -> bytes:
    info = reply.info
    record = ResumeRecord(
        location=location,
        format=reply.format.name,
        mode=reply.mode,
        scope=reply.owner,
        request_id=info.request_id,
        model=info.model,
        created=info.created,
        warnings=list(info.warnings),
        completed_bodies=info.completed_bodies,
        include_usage=info.include_usage,
        options=info.options,
        label=info.origin.label,
        age_seconds=info.origin.age_seconds,
        keepalives=info.keepalives,
        guarded=None if info.guarded is None else info.guarded.seal(name_reply(info.response_id, reply.owner)),
    )
    return msgspec.json.encode(record)


def name_reply(response_id: str, owner: str) -> str:
    """Return what the seal of a guarded reply is bound to."""
    return f"{response_id} {owner}"


def parse_record(data: bytes) -> ResumeRecord | None:
    """Parse a record; None if another version of the gateway wrote it in another form."""
    try:
        record = msgspec.json.decode(data, type=ResumeRecord)
    except msgspec.MsgspecError:
        return None
    return record if record.format in FORMATS else None


def reply_from_record(
    record: ResumeRecord, response_id: str, source: ReplaySource, guarded: GuardedReply | None = None
) -> ResumableReply:
    info = replace(info_from_record(record, response_id), guarded=guarded)
    return ResumableReply(info, FORMATS[record.format], record.mode, record.scope, source)


def info_from_record(record: ResumeRecord, response_id: str) -> ReplyInfo:
    return ReplyInfo(
        response_id=response_id,
        request_id=record.request_id,
        model=record.model,
        created=record.created,
        origin=Origin(record.label, record.age_seconds),
        warnings=record.warnings,
        completed_bodies=record.completed_bodies,
        include_usage=record.include_usage,
        options=record.options,
        keepalives=record.keepalives,
    )
