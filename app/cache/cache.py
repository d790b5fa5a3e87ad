"""What answers a question: a stored reply, a call that is under way, or a new one.

Equal questions at one time are one call. A reply is stored when it has ended well, whoever still listens by then.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

from app.cache.codec import Batch, CorruptEntry, NotEncodable, StoredEntry, dump, is_cacheable, load
from app.cache.inflight import InFlightCall, TickRegistry
from app.cache.log import ReplyLocation, StoredReply
from app.cache.stores import Store, StoreStats
from app.cache.types import (
    CacheRequest,
    CacheRules,
    CallCoordinator,
    FoundReply,
    OpenedReply,
    OpenUpstream,
    ReplaySource,
)
from app.chat.stream import Origin, Reply
from app.errors import CacheMiss, UpstreamFailed

log = logging.getLogger("parley.cache")

LARGE_ENTRY = 256 * 1024
"""Entries of more bytes than this are packed in a thread."""


class Cache:
    def __init__(
        self, store: Store, beat: TickRegistry, rules: CacheRules, commons: CallCoordinator | None = None
    ) -> None:
        self._store = store
        self._ticker = beat
        self._rules = rules
        self._coordinator = commons
        self._calls: dict[str, InFlightCall] = {}
        self._running: set[InFlightCall] = set()
        self._storing: set[asyncio.Task[None]] = set()
        self.counts: Counter[str] = Counter()
        """Questions by where their reply came from."""

    @property
    def calls(self) -> int:
        """All that are under way."""
        return len(self._running)

    @property
    def storing(self) -> int:
        """Replies that are being stored."""
        return len(self._storing)

    @property
    def in_memory(self) -> int:
        """Replies that equal requests are given from memory: those under way, and those that ended a moment ago."""
        return len(self._calls)

    @property
    def readers(self) -> int:
        """Callers who read replies that are under way. Takes a look at each call."""
        return sum(len(call.log.readers) for call in self._running)

    @property
    def calls_without_caller(self) -> int:
        """Those that nobody listens to, but that go on for callers who may come back. Takes a look at each call."""
        return sum(not call.has_readers for call in self._running)

    async def find(self, request: CacheRequest, open_upstream: OpenUpstream) -> FoundReply:
        """A stored reply, a call in progress, or a new call. Raises CacheMiss where only a stored reply was wanted."""
        policy = request.policy
        if not policy.keep:
            call = self._new_call(lambda _: open_upstream(), self._remove_call, keep=False)
            return FoundReply(request, open_upstream, call, Origin("bypass"), started=True)
        stored = await self._find_stored(request, open_upstream) if policy.read else None
        if stored is not None:
            return stored
        if policy.only:
            raise CacheMiss("no reply is cached")
        if policy.share and policy.read:
            return self._join_or_start(request, open_upstream, 1 + request.retries)
        call = self._start_call(request, open_upstream)
        origin = Origin("refresh" if policy.write else "bypass")
        return FoundReply(request, open_upstream, call, origin, started=True)

    async def open(self, found: FoundReply) -> OpenedReply:
        """Raises UpstreamFailed."""
        origin = found.origin
        if isinstance(found.source, StoredReply):
            reply: Reply = found.source.add_reader(self._rules.pace)
        else:
            reply = await found.source.open()
            if isinstance(found.source, InFlightCall) and found.source.followed:
                origin = Origin("shared")
        self.counts[origin.label] += 1
        return OpenedReply(reply, origin)

    def find_again(self, found: FoundReply, error: UpstreamFailed) -> FoundReply:
        """Another call, when one that another request started failed with this error. Raises the error where the
        request must not be tried again."""
        if found.started or not error.retryable or not found.chances:
            raise error
        return self._join_or_start(found.request, found.open_upstream, found.chances - 1)

    # -- what is stored -----------------------------------------------------------------------------------------------

    async def _find_stored(self, request: CacheRequest, open_upstream: OpenUpstream) -> FoundReply | None:
        call = self._calls.get(request.key)
        if call is not None and call.ended:
            return self._find_fresh(request, open_upstream, call.log.batches, call.log.finished_at)
        if call is not None and call.complete and not request.policy.only:
            return None
        entry = await self._load_entry(request.key)
        return None if entry is None else self._find_fresh(request, open_upstream, entry.batches, entry.created)

    def _find_fresh(
        self,
        request: CacheRequest,
        open_upstream: OpenUpstream,
        batches: Sequence[Batch],
        finished_at: float | None,
    ) -> FoundReply | None:
        """The stored reply, unless the caller wants a newer one."""
        assert finished_at is not None
        age, max_age = max(0.0, self._rules.clock() - finished_at), request.policy.max_age
        if max_age is not None and age > max_age:
            return None
        stored = StoredReply(request.key, batches, finished_at)
        return FoundReply(request, open_upstream, stored, Origin("hit", int(age)))

    async def _load_entry(self, key: str) -> StoredEntry | None:
        stored = await self._store.get(key)
        if stored is None:
            return None
        try:
            return load(stored.value)
        except CorruptEntry as error:
            log.warning("a cached reply is not read: %s", error)
            await self._store.delete(key)
            return None

    # -- calls --------------------------------------------------------------------------------------------------------

    def _join_or_start(self, request: CacheRequest, open_upstream: OpenUpstream, chances: int) -> FoundReply:
        """The call that is in progress, or a new one."""
        call = self._calls.get(request.key)
        if call is not None and call.ended:
            stored = self._find_fresh(request, open_upstream, call.log.batches, call.log.finished_at)
            if stored is not None:
                return stored
        if call is None or call.ended or not call.complete:
            call = self._start_call(request, open_upstream)
            return FoundReply(request, open_upstream, call, Origin("miss"), started=True)
        if request.keep_running:
            call.retain()
        return FoundReply(request, open_upstream, call, Origin("shared"), chances=chances)

    def _start_call(self, request: CacheRequest, open_upstream: OpenUpstream) -> InFlightCall:
        """A new call, which equal requests may join from now on where this one shares."""

        async def start(call: InFlightCall) -> Reply:
            return await self._open_call(request, call, open_upstream)

        call = self._new_call(start, lambda call: self._on_call_ended(request, call))
        if request.policy.share:
            self._calls[request.key] = call
        if request.keep_running:
            call.retain()
        return call

    async def _open_call(self, request: CacheRequest, call: InFlightCall, open_upstream: OpenUpstream) -> Reply:
        """The source of the call. When another gateway's equal call fails, it is tried once more."""
        if self._coordinator is None:
            return await open_upstream()
        if not (request.policy.share and request.policy.read):
            return await self._coordinator.open_private_call(call, open_upstream)
        led = False

        async def lead() -> Reply:
            nonlocal led
            led = True
            return await open_upstream()

        try:
            return await self._coordinator.open_call(call, request.key, lead)
        except UpstreamFailed as error:
            if led or not error.retryable:
                raise
        return await self._coordinator.open_call(call, request.key, open_upstream)

    def _new_call(
        self,
        start: Callable[[InFlightCall], Awaitable[Reply]],
        on_end: Callable[[InFlightCall], None],
        *,
        keep: bool = True,
    ) -> InFlightCall:
        """`on_end` sees to it that the call is removed."""
        call = InFlightCall(start, on_end, keep=keep, limits=self._rules.log_limits, clock=self._rules.clock)
        self._ticker.add(call)
        self._running.add(call)
        return call

    def _remove_call(self, call: InFlightCall) -> None:
        self._ticker.discard(call)
        self._running.discard(call)

    def _on_call_ended(self, request: CacheRequest, call: InFlightCall) -> None:
        self._remove_call(call)
        good = call.complete and is_cacheable(call.log.batches, length=self._rules.store_length)
        if good and request.policy.write:
            self._keep_newest(request.key, call)
            task = asyncio.get_running_loop().create_task(self._store_reply(request, call))
            self._storing.add(task)
            task.add_done_callback(self._storing.discard)
        else:
            self._forget(request.key, call)

    async def _store_reply(self, request: CacheRequest, call: InFlightCall) -> None:
        try:
            assert call.log.finished_at is not None
            entry = StoredEntry(call.log.finished_at, call.log.batches)
            data = dump(entry) if call.size < LARGE_ENTRY else await asyncio.to_thread(dump, entry)
            if not call.followed:
                await self._store.put(request.key, data, ttl_seconds=request.ttl_seconds, model=request.model)
        except NotEncodable as error:
            log.warning("a reply is not stored: %s", error)
        finally:
            asyncio.get_running_loop().call_later(self._rules.linger_seconds, self._forget, request.key, call)

    def _keep_newest(self, key: str, call: InFlightCall) -> None:
        """Its reply is the newest there is; a call that is under way will be newer still."""
        known = self._calls.get(key)
        if known is None or known.ended:
            self._calls[key] = call

    def _forget(self, key: str, call: InFlightCall) -> None:
        if self._calls.get(key) is call:
            del self._calls[key]

    # -- what was asked for before ------------------------------------------------------------------------------------

    @property
    def is_shared(self) -> bool:
        """Other processes can know of what happens here."""
        return self._coordinator is not None

    async def put_record(self, reply_id: str, data: bytes, ttl_seconds: float) -> None:
        if self._coordinator is not None:
            await self._coordinator.put_record(reply_id, data, ttl_seconds)

    async def get_record(self, reply_id: str) -> bytes | None:
        return None if self._coordinator is None else await self._coordinator.get_record(reply_id)

    async def is_running(self, place: ReplyLocation) -> bool:
        """What another process told of has not ended."""
        kind, name = place
        return kind == "flight" and self._coordinator is not None and await self._coordinator.is_running(name)

    async def publish_cancel(self, reply_id: str) -> bool:
        """Let every other process know that this reply is cancelled. False: that cannot be."""
        return self._coordinator is None or await self._coordinator.publish_cancel(reply_id)

    def on_cancel(self, stopped: Callable[[str], None]) -> None:
        """`stopped` is told of replies that are cancelled anywhere."""
        if self._coordinator is not None:
            self._coordinator.on_cancel(stopped)

    async def find_source(self, place: ReplyLocation) -> ReplaySource | None:
        """What another process told of, where it still is."""
        kind, name = place
        if kind == "entry":
            key, _, at = name.rpartition("@")
            entry = await self._load_entry(key)
            # Another reply to the same question may have taken its place.
            return (
                None if entry is None or at != repr(entry.created) else StoredReply(key, entry.batches, entry.created)
            )
        coordinator = self._coordinator
        if coordinator is None or not await coordinator.is_known(name):
            return None
        return self._new_call(lambda call: coordinator.follow(call, name), self._remove_call)

    # -- looking after it ---------------------------------------------------------------------------------------------

    async def purge(self, model: str | None = None) -> int:
        """How many entries went. Raises StoreError."""
        for key in [key for key, call in self._calls.items() if call.ended]:
            del self._calls[key]
        return await self._store.purge(model)

    async def stats(self) -> StoreStats:
        """Raises StoreError."""
        return await self._store.stats()

    async def aclose(self) -> None:
        for call in tuple(self._running):
            call.abort()
        if self._storing:
            await asyncio.wait(self._storing, timeout=5)
        if self._coordinator is not None:
            await self._coordinator.aclose()
        await self._store.aclose()
