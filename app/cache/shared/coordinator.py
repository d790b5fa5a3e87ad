"""What all gateways of one Redis share: who makes a call, who listens to it, and what they must know of each other."""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress

from app.cache.codec import Batch
from app.cache.redis.breaker import RedisCircuitBreaker, RedisUnavailable
from app.cache.shared.batch_writer import BatchWriter
from app.cache.shared.call_store import KEEP_SECONDS, LEASE_SECONDS, CallKeys, CallStore
from app.cache.shared.cancel_bus import CancelBus, publish
from app.cache.shared.follower import FollowedReply, Lead
from app.cache.shared.lease import CallLease
from app.cache.shared.opening import PublishedOpening
from app.cache.shared.publisher import PublishedReply
from app.cache.shared.spliced import SplicedReply
from app.cache.shared.tailer import StreamTailer
from app.chat.events import Failed
from app.chat.stream import Reply
from app.errors import UpstreamFailed


class Coordinator:
    """One for each event loop. It does not close the link."""

    def __init__(
        self, link: RedisCircuitBreaker, *, lease_seconds: float = LEASE_SECONDS, keep_seconds: float = KEEP_SECONDS
    ) -> None:
        """A leader that is silent for `lease_seconds` is dead; what a flight told can be followed for `keep_seconds`
        after its end."""
        self._calls = CallStore(link, lease_seconds=lease_seconds, keep_seconds=keep_seconds)
        self._writer = BatchWriter(self._calls)
        self._tailer = StreamTailer(self._calls)
        self._openings: set[PublishedOpening] = set()
        self._cancel_bus: CancelBus | None = None

    async def claim_or_follow(self, key: str, lead: Lead) -> tuple[Reply, bool, str]:
        """(the reply, whether this process makes the call, the flight's id), once the reply has begun.

        The id is empty where nobody else can follow: Redis is away. Raises UpstreamFailed; of another gateway's call
        too."""
        names = CallKeys.new(key)
        try:
            held = await self._calls.claim(names)
        except RedisUnavailable:
            return await lead(), True, ""
        if held is not None:
            return await self._join(CallKeys(key, held), lead)
        return await self._lead(self._writer.begin(names, 1), lead), True, names.id

    async def claim_private(self, lead: Lead) -> tuple[Reply, bool, str]:
        """The same for a call that nobody may join, only follow by its id."""
        return await self.claim_or_follow(f"private-{os.urandom(16).hex()}", lead)

    async def follow(self, flight_id: str) -> Reply | None:
        """The reply from its first event on; None: no such flight is known."""
        names = CallKeys.from_id(flight_id)
        try:
            (state,) = await self._calls.watch([names])
        except RedisUnavailable:
            return None
        if state == "gone":
            return None
        followed = self._new_follower(names, None)
        followed.mark_begun()
        await self._catch_up(followed)
        return followed

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
        self._cancel_bus = CancelBus(self._calls, stopped)

    async def aclose(self) -> None:
        """Others may go on at once with what this process led. Replies that are open are their owners' to close."""
        if self._cancel_bus is not None:
            await self._cancel_bus.aclose()
        for opening in tuple(self._openings):
            await opening.aclose()
        await self._tailer.aclose()
        await self._writer.aclose()

    # -- leading ------------------------------------------------------------------------------------------------------

    async def _lead(self, tenure: CallLease, lead: Lead) -> PublishedReply:
        opening = PublishedOpening(tenure, lead)
        self._openings.add(opening)
        opening.when_done(self._openings.discard)
        return await opening.published()

    # -- following ----------------------------------------------------------------------------------------------------

    async def _join(self, names: CallKeys, lead: Lead) -> tuple[Reply, bool, str]:
        followed = self._new_follower(names, lead)
        try:
            await self._catch_up(followed)
            await followed.begun
        except BaseException:
            followed.close()
            raise
        return followed, followed.led_here, names.id if followed.shared else ""

    def _new_follower(self, names: CallKeys, lead: Lead | None) -> FollowedReply:
        return FollowedReply(names, self._tailer, self._take_over, lead, self._calls.lease_seconds)

    async def _catch_up(self, followed: FollowedReply) -> None:
        with suppress(RedisUnavailable):
            found = await self._calls.read_history(followed.names, followed.last_record)
            if followed.wants_records:  # By now it may go on by itself.
                followed.on_records(found)

    async def _take_over(self, followed: FollowedReply, lead: Lead, *, shared: bool) -> Reply | None:
        fence = -1
        try:
            if shared:
                fence = await self._calls.take_over(followed.names)
            if fence == 0:
                return None
            whole = shared and await self._read_to_end(followed)
        except RedisUnavailable:
            if fence <= 0:
                return None
            whole = False
        if followed.over:
            return None
        if whole and fence > 0:
            return await self._lead_on(followed, lead, fence)
        followed.shared = False
        return SplicedReply(await lead(), followed.events)

    async def _read_to_end(self, followed: FollowedReply) -> bool:
        while found := await self._calls.read_history(followed.names, followed.last_record):
            place = followed.last_record
            followed.on_records(found)
            if followed.last_record == place:
                return False
        return True

    async def _lead_on(self, followed: FollowedReply, lead: Lead, fence: int) -> Reply:
        tenure = self._writer.begin(followed.names, fence, followed.last_record)
        asked_at = asyncio.get_running_loop().time()
        try:
            reply = await lead()
        except UpstreamFailed as error:
            if followed.begun.done():
                tenure.append(Batch(0.0, [Failed(error.fault)]))
                tenure.end()
            else:
                tenure.write_failure(error.fault)
            raise
        except BaseException:
            tenure.resign()
            raise
        tenure.write_started()
        return PublishedReply(SplicedReply(reply, followed.events), tenure, asked_at, followed.events)


def _record_key(reply_id: str) -> str:
    return f"parley:note:{reply_id}"
