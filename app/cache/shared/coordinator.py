"""What all gateways of one Redis share: who makes a call, who listens to it, and what they must know of each other."""

import os
from collections.abc import Callable
from contextlib import suppress

from app.cache.inflight import InFlightCall
from app.cache.redis.breaker import RedisCircuitBreaker, RedisUnavailable
from app.cache.shared.batch_writer import BatchWriter
from app.cache.shared.call_store import KEEP_SECONDS, LEASE_SECONDS, CallKeys, CallStore
from app.cache.shared.cancel_bus import RETRY_SECONDS, CancelBus, publish
from app.cache.shared.follower import ORPHANED, Follower
from app.cache.shared.lease import CallLease
from app.cache.shared.publisher import JOINABLE_AFTER_END_MS, Publisher
from app.cache.shared.splice import Splice
from app.cache.shared.tailer import StreamTailer
from app.cache.types import OpenUpstream
from app.chat.stream import Reply
from app.errors import UpstreamFailed


class Coordinator:
    """One for each event loop. It does not close the link."""

    def __init__(
        self,
        link: RedisCircuitBreaker,
        *,
        lease_seconds: float = LEASE_SECONDS,
        keep_seconds: float = KEEP_SECONDS,
        joinable_ms: int = JOINABLE_AFTER_END_MS,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        """A leader that is silent for `lease_seconds` is dead; what a flight told can be followed for `keep_seconds`
        after its end, and joined for `joinable_ms`. When Redis is away, news of cancelled replies are asked for again
        after `retry_seconds`."""
        self._joinable_ms, self._retry_seconds = joinable_ms, retry_seconds
        self._calls = CallStore(link, lease_seconds=lease_seconds, keep_seconds=keep_seconds)
        self.writer = BatchWriter(self._calls)
        self.tailer = StreamTailer(self._calls)
        self._cancel_bus: CancelBus | None = None

    async def open_call(self, call: InFlightCall, key: str, open_upstream: OpenUpstream) -> Reply:
        """The source of the call, once the reply has begun: another gateway's equal call, or one of this process, which
        the others may follow. Only this process knows of it when Redis is away.

        Raises UpstreamFailed; of another gateway's call too."""
        names = CallKeys.new(key)
        try:
            held = await self._calls.claim(names)
        except RedisUnavailable:
            return await open_upstream()
        if held is None:
            return await self._lead(call, self.writer.begin(names, 1), open_upstream)
        follower = self._new_follower(call, CallKeys(key, held), open_upstream)
        try:
            await self._catch_up(follower)
            await follower.begun
        except BaseException:
            follower.close()
            raise
        return follower

    async def open_private_call(self, call: InFlightCall, open_upstream: OpenUpstream) -> Reply:
        """The same for a call that nobody may join, only follow by its id."""
        return await self.open_call(call, f"private-{os.urandom(16).hex()}", open_upstream)

    async def is_known(self, call_id: str) -> bool:
        """The call can be followed."""
        try:
            (state,) = await self._calls.watch([CallKeys.from_id(call_id)])
        except RedisUnavailable:
            return False
        return state != "gone"

    async def follow(self, call: InFlightCall, call_id: str) -> Reply:
        """The source of a call that another gateway makes, from its first event on."""
        follower = self._new_follower(call, CallKeys.from_id(call_id), None)
        follower.mark_begun()
        await self._catch_up(follower)
        return follower

    async def put_record(self, reply_id: str, data: bytes, ttl_seconds: float) -> None:
        """What any gateway may have to know of a reply. Nothing happens where Redis is away."""
        with suppress(RedisUnavailable):
            await self._calls.put(_record_key(reply_id), data, ttl_seconds)

    async def get_record(self, reply_id: str) -> bytes | None:
        try:
            return await self._calls.get(_record_key(reply_id))
        except RedisUnavailable:
            return None

    async def is_running(self, flight_id: str) -> bool:
        """Its end is still to come."""
        with suppress(RedisUnavailable):
            return await self._calls.is_running(CallKeys.from_id(flight_id))
        return False

    async def publish_cancel(self, reply_id: str) -> bool:
        """Every gateway hears that this reply is cancelled, and its note is gone. False: Redis is away."""
        try:
            await self._calls.forget(_record_key(reply_id))
            await publish(self._calls, reply_id)
        except RedisUnavailable:
            return False
        return True

    def on_cancel(self, stopped: Callable[[str], None]) -> None:
        """`stopped` is told what `stop` is called with, at any gateway."""
        self._cancel_bus = CancelBus(self._calls, stopped, self._retry_seconds)

    async def aclose(self) -> None:
        """Others may go on at once with what this process led. Calls that are open are their owners' to abort."""
        if self._cancel_bus is not None:
            await self._cancel_bus.aclose()
        await self.tailer.aclose()
        await self.writer.aclose()

    # -- leading ------------------------------------------------------------------------------------------------------

    async def _lead(self, call: InFlightCall, lease: CallLease, open_upstream: OpenUpstream) -> Reply:
        """Publishes the call, which then goes on for others even when its own callers leave before it has begun."""
        Publisher(call, lease, self._joinable_ms)
        source = await open_upstream()
        lease.write_started()
        return source

    # -- following ----------------------------------------------------------------------------------------------------

    def _new_follower(self, call: InFlightCall, names: CallKeys, open_upstream: OpenUpstream | None) -> Follower:
        return Follower(call, names, self.tailer, self._take_over, open_upstream, self._calls.lease_seconds)

    async def _catch_up(self, follower: Follower) -> None:
        with suppress(RedisUnavailable):
            found = await self._calls.read_history(follower.names, follower.last_record)
            if follower.wants_records:  # By now it may go on by itself.
                follower.on_records(found)

    async def _take_over(self, follower: Follower, open_upstream: OpenUpstream, *, shared: bool) -> bool:
        call, fence = follower.call, -1
        _check_complete(call)
        try:
            if shared:
                fence = await self._calls.take_over(follower.names)
            if fence == 0:
                return False
            whole = shared and await self._read_to_end(follower)
        except RedisUnavailable:
            if fence <= 0:
                return False
            whole = False
        if follower.over:
            return False
        leads = whole and fence > 0
        lease = self.writer.begin(follower.names, fence, follower.last_record) if leads else None
        try:
            _check_complete(call)
        except UpstreamFailed:
            if lease is not None:
                lease.resign()
            raise
        source = await open_upstream() if lease is None else await self._lead(call, lease, open_upstream)
        call.take_over(source, Splice([batch.events for batch in call.log.batches]), shared=leads)
        return True

    async def _read_to_end(self, follower: Follower) -> bool:
        while found := await self._calls.read_history(follower.names, follower.last_record):
            last_record = follower.last_record
            follower.on_records(found)
            if follower.last_record == last_record:
                return False
        return True


def _check_complete(call: InFlightCall) -> None:
    """Raises UpstreamFailed: the new call's reply cannot be compared with a log whose beginning was dropped."""
    if not call.complete:
        raise UpstreamFailed(ORPHANED)


def _record_key(reply_id: str) -> str:
    return f"parley:note:{reply_id}"
