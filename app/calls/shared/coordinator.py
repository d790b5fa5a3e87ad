"""`Coordinator`: decides with the other gateways of the same Redis which one makes a call, and shares what they need to
know about replies."""

import asyncio
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from app.calls.call import LOST, InFlightCall, OpenUpstream
from app.calls.shared.batch_writer import BatchWriter
from app.calls.shared.call_store import JOINED, KEEP_SECONDS, LEASE_SECONDS, PREFIX, CallKeys, CallStore, to_text
from app.calls.shared.follower import Follower
from app.calls.shared.lease import JOINABLE_AFTER_END_MS, CallLease, Publisher
from app.calls.shared.tailer import StreamTailer
from app.chat.stream import Reply
from app.errors import StoreDown, UpstreamFailed
from app.redis.connection import RedisConnection, RedisUnanswered, RedisUnavailable

log = logging.getLogger("parley.cache")

NOTICES = f"{PREFIX}:notices"
MAX_NOTICES = 1000
"""Older notices are dropped: the gateways have read them."""
BLOCK_MS = 2000
RETRY_SECONDS = 1.0


async def publish(calls: CallStore, id_: str) -> None:
    """Notify all gateways that this reply is cancelled. Raises RedisUnavailable."""
    await calls.call(lambda redis: redis.xadd(NOTICES, {"id": id_}, maxlen=MAX_NOTICES))


class NoticeReader:
    """Calls `on_cancelled` with the id of each reply that a gateway cancels, including this one, and `on_joined` with
    the id of each call that a gateway begins to follow; also with recent earlier ones."""

    def __init__(
        self,
        calls: CallStore,
        on_cancelled: Callable[[str], None],
        on_joined: Callable[[str], None],
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        self._calls = calls
        self._retry_seconds = retry_seconds
        self._handlers = {NOTICES: on_cancelled, JOINED: on_joined}
        self._last = dict.fromkeys(self._handlers, "0-0")
        """The id of the last notice that was read of each stream. Earlier ones are about replies that this process
        never had."""
        self._task = asyncio.get_running_loop().create_task(self._read_on())

    async def _read_on(self) -> None:
        while True:
            try:
                await self._read()
            except RedisUnavailable:
                await asyncio.sleep(self._retry_seconds)
            except Exception:
                log.exception("defect while reading notices of other gateways")
                await asyncio.sleep(self._retry_seconds)

    async def _read(self) -> None:
        """Handle the new notices. If there are none, wait at most BLOCK_MS for the first."""
        last: dict[Any, Any] = dict(self._last)
        found: Any = await self._calls.call_blocking(lambda redis: redis.xread(last, block=BLOCK_MS), BLOCK_MS)
        for stream, entries in found.items() if isinstance(found, dict) else found or []:
            name = to_text(stream)
            for id_, fields in entries:
                self._last[name] = to_text(id_)
                self._handlers[name](to_text(fields[b"id"]))

    async def aclose(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])


PUBLISH_SECONDS = 0.05
"""How long it may take until a call is in Redis that its first callers did not want to resume, and a later one does."""


class Coordinator:
    """Shares calls through Redis. It belongs to one event loop. Its owner closes the connection."""

    def __init__(
        self,
        redis: RedisConnection,
        *,
        lease_seconds: float = LEASE_SECONDS,
        keep_seconds: float = KEEP_SECONDS,
        joinable_ms: int = JOINABLE_AFTER_END_MS,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        """A leader that does not renew its lease within `lease_seconds` has lost it. A call can be followed until
        `keep_seconds` after its end, and joined until `joinable_ms` after it. Notices are read again
        `retry_seconds` after Redis failed."""
        self._redis = redis
        self._joinable_ms, self._retry_seconds = joinable_ms, retry_seconds
        self._calls = CallStore(redis, lease_seconds=lease_seconds, keep_seconds=keep_seconds)
        self.writer = BatchWriter(self._calls)
        self.tailer = StreamTailer(self._calls)
        self._notices: NoticeReader | None = None
        self._cancel: Callable[[str], None] | None = None

    @property
    def is_connected(self) -> bool:
        return not self._redis.is_open

    async def open_call(self, call: InFlightCall, key: str | None, open_upstream: OpenUpstream) -> Reply:
        """Return the source of the call once the reply has begun: the identical call of another gateway, or a new call
        of this process, which other gateways can follow. Without `key` they follow it only by its id. If Redis is down,
        the call is not shared.

        Raises UpstreamFailed, even when the call of the other gateway fails."""
        key = key or f"private-{os.urandom(16).hex()}"
        for is_last in (False, True):
            keys = CallKeys.new(key)
            try:
                number = await self._calls.claim(keys, resumable=call.resumable)
            except asyncio.CancelledError:
                self._release_claim(keys)
                raise
            except RedisUnavailable as error:
                if isinstance(error, RedisUnanswered):
                    self._release_claim(keys)
                break
            if number is None:
                self._read_notices()
                return await self._lead(call, self.writer.begin(keys), open_upstream)
            try:
                return await self._join(call, CallKeys(key, number))
            except UpstreamFailed as error:
                if not error.retryable or (is_last and error.fault != LOST):
                    raise
        return await open_upstream()

    def _release_claim(self, keys: CallKeys) -> None:
        """Release a claim that Redis may have executed, so that identical requests need not wait until it expires."""
        self.writer.begin(keys).release_claim()

    async def is_known(self, call_id: str) -> bool:
        """Whether the call can be followed. Raises StoreDown."""
        for delay in (0.0, PUBLISH_SECONDS):
            await asyncio.sleep(delay)
            with _redis_needed():
                (state,) = await self._calls.watch([CallKeys.from_id(call_id)])
            if state != "missing":
                return True
        return False

    async def follow(self, call: InFlightCall, call_id: str) -> Reply:
        """Return a source that follows the call of another gateway from its first event."""
        follower = self._begin_to_follow(call, CallKeys.from_id(call_id))
        follower.mark_started()
        await self._catch_up(follower)
        return follower

    async def put_record(self, reply_id: str, data: bytes, ttl_seconds: float) -> None:
        """Store the record with which any gateway can resume a reply. Does nothing if Redis is down."""
        with suppress(RedisUnavailable):
            await self._calls.put(_record_key(reply_id), data, ttl_seconds)

    async def get_record(self, reply_id: str) -> bytes | None:
        """Return the record of a reply; None if there is none. Raises StoreDown."""
        with _redis_needed():
            return await self._calls.get(_record_key(reply_id))

    async def is_running(self, call_id: str) -> bool:
        """Whether the call has not ended. Raises StoreDown."""
        with _redis_needed():
            return await self._calls.is_running(CallKeys.from_id(call_id))

    async def publish_cancel(self, reply_id: str) -> bool:
        """Delete the record of a reply and notify all gateways that it is cancelled. False if Redis is down."""
        try:
            await self._calls.delete(_record_key(reply_id))
            await publish(self._calls, reply_id)
        except RedisUnavailable:
            return False
        return True

    def on_cancel(self, cancel: Callable[[str], None]) -> None:
        """Call `cancel` with the id of each reply that any gateway cancels."""
        self._cancel = cancel
        self._read_notices()

    def _read_notices(self) -> None:
        if self._notices is None:
            self._notices = NoticeReader(self._calls, self._on_cancelled, self.writer.on_joined, self._retry_seconds)

    def _on_cancelled(self, reply_id: str) -> None:
        if self._cancel is not None:
            self._cancel(reply_id)

    async def aclose(self) -> None:
        """Release the leases. It aborts no call."""
        if self._notices is not None:
            await self._notices.aclose()
        await self.tailer.aclose()
        await self.writer.aclose()

    # Leading a call.

    async def _lead(self, call: InFlightCall, lease: CallLease, open_upstream: OpenUpstream) -> Reply:
        """Publish the call and open it. It then goes on for other gateways even if its own callers leave before it has
        begun."""
        Publisher(call, lease, self._joinable_ms)
        source = await open_upstream()
        lease.write_started(source.fallback_model)
        return source

    # Following a call.

    def _begin_to_follow(self, call: InFlightCall, keys: CallKeys) -> Follower:
        call.follow(keys.id)
        return Follower(keys, self.tailer, self._calls.lease_seconds)

    async def _join(self, call: InFlightCall, keys: CallKeys) -> Follower:
        """Follow the call of another gateway for an identical request. Raises UpstreamFailed if its reply fails, or its
        leader is gone, before it has begun."""
        follower = self._begin_to_follow(call, keys)
        try:
            await self._catch_up(follower)
            await follower.started
            if follower.is_lost:
                raise UpstreamFailed(LOST)
        except BaseException:
            follower.close()
            call.unfollow()
            raise
        return follower

    async def _catch_up(self, follower: Follower) -> None:
        with suppress(RedisUnavailable):
            follower.on_records(await self._calls.read_history(follower.keys, follower.last_record))


@contextmanager
def _redis_needed() -> Iterator[None]:
    """Raise StoreDown where Redis fails: what it has is not missing, it cannot be read."""
    try:
        yield
    except RedisUnavailable as error:
        raise StoreDown(
            "the state of the reply cannot be read, because Redis does not answer: try again later"
        ) from error


def _record_key(reply_id: str) -> str:
    return f"parley:note:{reply_id}"
