"""`Cache`: answers a request with a stored reply, a call in progress, or a new call.

Identical requests at the same time share one call (single-flight). A reply that ends normally is stored, even if all of
its readers have left by then.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from app.cache.values import CacheRequest, CacheRules, Found, Hit, Join, New, Unheld
from app.calls.call import InFlightCall, OpenUpstream, TickRegistry
from app.calls.entry import LARGE_ENTRY, CorruptEntry, NotEncodable, StoredEntry, load
from app.calls.log import ReplaySource, ReplyLocation
from app.calls.stored_log import StoredLog
from app.chat.stream import Origin, Reply
from app.errors import CacheMiss, StoreDown
from app.runtime.bounded_map import BoundedMap
from app.runtime.throttled_log import ThrottledLog
from app.runtime.turn_queue import TurnQueue
from app.stores import NotKept, Store, StoreError, StoreStats

if TYPE_CHECKING:
    from app.calls.shared import Coordinator

log = logging.getLogger("parley.cache")

STORING_SECONDS = 5.0
"""How long a purge, or the end of the process, waits for large replies that are being stored."""
MAX_RECENT_BYTES = 16 * 1024 * 1024
"""Of all stored replies that are kept decoded, as they are counted; with the frames of their texts they take up to a
third more."""
MAX_RECENT_REPLY_BYTES = 1024 * 1024
"""A larger reply is not kept decoded."""
_READ_TOGETHER = 100
"""How many values that are no replies are read at the same time."""
MAX_RECENT_REPLIES = 2000
"""The garbage collector visits about 15 objects of each."""


class Cache:
    def __init__(
        self, store: Store, ticker: TickRegistry, rules: CacheRules, coordinator: "Coordinator | None" = None
    ) -> None:
        self._store = store
        self._ticker = ticker
        self._rules = rules
        self._coordinator = coordinator
        self.is_shared = coordinator is not None
        """Whether the cache shares calls with other processes."""
        self._throttled_log = ThrottledLog(log)
        self._recent: BoundedMap[str, StoredLog] = BoundedMap(MAX_RECENT_BYTES, MAX_RECENT_REPLIES)
        """Stored replies that were read a short time ago, so that a hit on one of them again needs no decoding."""
        self._calls: dict[str, InFlightCall] = {}
        self._running: set[InFlightCall] = set()
        self._to_store: TurnQueue[tuple[CacheRequest, InFlightCall]] = TurnQueue(self._store_ended)
        """Calls whose small replies are to be stored. They wait, because many streams may end at the same time, and
        the readers get the last events first."""
        self._storing: set[asyncio.Task[None]] = set()
        self.counts: Counter[str] = Counter()
        """How many requests got their reply from where, by cache label."""

    @property
    def calls(self) -> int:
        """The number of calls in progress."""
        return len(self._running)

    @property
    def storing(self) -> int:
        """The number of replies that are being stored."""
        return len(self._to_store) + len(self._storing)

    @property
    def in_memory(self) -> int:
        """The number of calls that identical requests find in memory: in progress, or ended and not yet in the
        store."""
        return len(self._calls)

    @property
    def readers(self) -> int:
        """The number of readers of all calls in progress. Checks every call."""
        return sum(len(call.log.readers) for call in self._running)

    @property
    def calls_without_caller(self) -> int:
        """The number of calls without a reader, which go on for clients that may resume. Checks every call."""
        return sum(not call.has_readers for call in self._running)

    async def find(self, request: CacheRequest, open_upstream: OpenUpstream) -> Found:
        """Return a stored reply, a call in progress, or a new call. Raises CacheMiss if only a stored reply may answer
        and there is none."""
        policy = request.policy
        if not policy.keep:
            return Unheld(open_upstream)
        hit = await self._find_stored(request) if policy.read else None
        if hit is not None:
            return hit
        if policy.only:
            raise CacheMiss("no reply is cached")
        if policy.share and policy.read:
            return self.join_or_start(request, open_upstream)
        return New(self._start_call(request, open_upstream), "refresh" if policy.write else "bypass")

    def join_or_start(self, request: CacheRequest, open_upstream: OpenUpstream) -> Hit | Join | New:
        """Return the call in progress or the reply that it had a moment ago, else a new call."""
        call = self._find_call(request.key)
        if call is not None and call.ended:
            hit = self._make_hit_of_ended(request, call)
            if hit is not None:
                return hit
        if call is None or call.ended or not call.complete:
            return New(self._start_call(request, open_upstream), "miss")
        if request.unread_seconds:
            call.retain(request.unread_seconds)
        return Join(call)

    async def open(self, found: Found) -> Reply:
        """Open the reply, and count it. Raises ParleyError."""
        reply = await found.open()
        self.counts[found.origin.label] += 1
        return reply

    # Stored replies.

    async def _find_stored(self, request: CacheRequest) -> Hit | None:
        call = self._find_call(request.key)
        if call is not None and call.ended:
            return self._make_hit_of_ended(request, call)
        if call is not None and call.complete and not request.policy.only:
            return None
        stored: StoredLog | None = None
        try:
            stored = await self._load_stored(request.key)
        except StoreError as error:  # a request goes on without the cache
            self._throttled_log.warn("a cached reply was not read", error)
        return None if stored is None else self._make_hit(request, stored)

    def _make_hit_of_ended(self, request: CacheRequest, call: InFlightCall) -> Hit | None:
        """Return the reply of a call that has ended, which may not be in the store yet."""
        return self._make_hit(request, self._make_stored(request.key, call.log.make_entry(), call.entry))

    def _make_hit(self, request: CacheRequest, stored: StoredLog) -> Hit | None:
        """Return the stored reply; None if it is older than the request allows."""
        age, max_age = max(0.0, self._rules.clock() - stored.created), request.policy.max_age
        return None if max_age is not None and age > max_age else Hit(stored, Origin("hit", int(age)))

    async def _load_stored(self, key: str) -> StoredLog | None:
        """Raises StoreError."""
        found = await self._store.get(key)
        if found is None:
            return None
        data = found.value
        recent = self._recent.get(key)
        if recent is not None and recent.data == data:
            return recent
        stored: StoredLog | None = None
        try:
            stored = self._make_stored(key, load(data), data)
        except CorruptEntry as error:
            log.warning("a cached reply cannot be decoded, and is deleted: %s", error)
        if stored is None:
            await self._store.delete(key)
            return None
        # At the original pace it has all its batches, in thousands of lists.
        if self._rules.pace == "fast" and stored.size <= MAX_RECENT_REPLY_BYTES:
            self._recent.put(key, stored, stored.size)
        return stored

    def _make_stored(self, key: str, entry: StoredEntry, data: bytes | None) -> StoredLog:
        """Raises CorruptEntry."""
        return StoredLog(entry, ("entry", f"{key}@{entry.created!r}"), data, self._rules.pace)

    # Calls.

    def _start_call(self, request: CacheRequest, open_upstream: OpenUpstream) -> InFlightCall:
        """Start a new call. If the policy of the request shares it, identical requests may join it from now on."""
        start = partial(self._open_call, request, open_upstream)
        # Not a lambda, which would hold `open_upstream`, and so the body of the request, until the call ends.
        call = self._new_call(start, partial(self._on_call_ended, request))
        if request.policy.share:
            self._calls[request.key] = call
        if request.unread_seconds:
            call.retain(request.unread_seconds)
        return call

    async def _open_call(self, request: CacheRequest, open_upstream: OpenUpstream, call: InFlightCall) -> Reply:
        """Return the source of the call."""
        if self._coordinator is None:
            return await open_upstream()
        key = request.key if request.policy.share and request.policy.read else None
        return await self._coordinator.open_call(call, key, open_upstream)

    def _new_call(
        self,
        start: Callable[[InFlightCall], Awaitable[Reply]],
        on_end: Callable[[InFlightCall], None],
    ) -> InFlightCall:
        """Create and register a call. `on_end` must remove it."""
        call = InFlightCall(start, on_end, limits=self._rules.log_limits, clock=self._rules.clock)
        self._ticker.add(call)
        self._running.add(call)
        return call

    def _find_call(self, key: str) -> InFlightCall | None:
        """Return the call in progress, or one that has ended with a reply that may be stored."""
        call = self._calls.get(key)
        return None if call is not None and call.ended and not self._is_cacheable(call) else call

    def _is_cacheable(self, call: InFlightCall) -> bool:
        """Whether the reply of a call that has ended may be stored."""
        if call.cacheable is None:
            call.cacheable = call.log.is_cacheable(length=self._rules.store_length)
        return call.cacheable

    def _remove_call(self, call: InFlightCall) -> None:
        self._ticker.discard(call)
        self._running.discard(call)

    def _on_call_ended(self, request: CacheRequest, call: InFlightCall) -> None:
        self._remove_call(call)
        if not request.policy.write or call.log.finished_at is None:
            self._forget(request.key, call)
        elif call.size < LARGE_ENTRY and not call.followed:
            self._keep_newest(request.key, call)
            self._to_store.add((request, call))
        elif self._is_cacheable(call):
            self._keep_newest(request.key, call)
            self._start_storing_reply(request, call, None)
        else:
            self._forget(request.key, call)

    def _store_ended(self, ended: list[tuple[CacheRequest, InFlightCall]]) -> None:
        for request, call in ended:
            self._store_small(request, call)

    def _store_small(self, request: CacheRequest, call: InFlightCall) -> None:
        """Start to store a small reply, if it may be stored. Small replies are encoded one after the other."""
        if not self._is_cacheable(call):
            self._forget(request.key, call)
            return
        try:
            data = call.log.dump()
        except NotEncodable as error:
            log.warning("a reply was not cached: %s", error)
            self._forget(request.key, call)
            return
        call.entry = data
        self._start_storing_reply(request, call, data)

    def _start_storing_reply(self, request: CacheRequest, call: InFlightCall, data: bytes | None) -> None:
        task = asyncio.get_running_loop().create_task(self._store_reply(request, call, data))
        self._storing.add(task)
        task.add_done_callback(self._storing.discard)

    async def _store_reply(self, request: CacheRequest, call: InFlightCall, data: bytes | None) -> None:
        """Store a reply. `data` is its entry, if that is encoded already."""
        try:
            if data is None:
                call.entry = data = await asyncio.to_thread(call.log.dump)
            if not call.followed:
                await self._store.put(request.key, data, ttl_seconds=request.ttl_seconds, model=request.model)
        except NotKept:
            pass
        except (NotEncodable, StoreError) as error:
            self._throttled_log.warn("a reply was not cached", error)
        finally:
            asyncio.get_running_loop().call_later(self._rules.linger_seconds, self._forget, request.key, call)

    def _keep_newest(self, key: str, call: InFlightCall) -> None:
        """Make this call answer identical requests, unless a newer call is in progress."""
        current = self._calls.get(key)
        if current is None or (current is not call and current.ended and self._is_cacheable(call)):
            self._calls[key] = call

    def _forget(self, key: str, call: InFlightCall) -> None:
        if self._calls.get(key) is call:
            del self._calls[key]

    # Replies of earlier requests, here and in other processes.

    @property
    def is_redis_connected(self) -> bool | None:
        """Whether the cache's Redis answers; None if it is not in Redis."""
        return None if self._coordinator is None else self._coordinator.is_connected

    async def put_record(self, reply_id: str, data: bytes, ttl_seconds: float) -> None:
        if self._coordinator is not None:
            await self._coordinator.put_record(reply_id, data, ttl_seconds)

    async def get_record(self, reply_id: str) -> bytes | None:
        """Return the record of a reply of any process; None if there is none. Raises StoreDown."""
        return None if self._coordinator is None else await self._coordinator.get_record(reply_id)

    async def is_running(self, location: ReplyLocation) -> bool:
        """Whether a call of another process has not ended. Raises StoreDown."""
        kind, name = location
        return kind == "flight" and self._coordinator is not None and await self._coordinator.is_running(name)

    async def publish_cancel(self, reply_id: str) -> bool:
        """Notify every other process that this reply is cancelled. False if Redis is down."""
        return self._coordinator is None or await self._coordinator.publish_cancel(reply_id)

    def on_cancel(self, cancel: Callable[[str], None]) -> None:
        """Call `cancel` with the id of each reply that any process cancels."""
        if self._coordinator is not None:
            self._coordinator.on_cancel(cancel)

    async def find_source(self, location: ReplyLocation) -> ReplaySource | None:
        """Return a reply of another process by its location; None if it no longer exists. Raises StoreDown."""
        kind, name = location
        if kind == "entry":
            key, _, at = name.rpartition("@")
            try:
                stored = await self._load_stored(key)
            except StoreError as error:
                raise StoreDown("the stored reply cannot be read, because the cache failed: try again later") from error
            # A newer reply to an identical request may have replaced the entry.
            return None if stored is None or at != repr(stored.created) else stored
        coordinator = self._coordinator
        if coordinator is None or not await coordinator.is_known(name):
            return None
        return self._new_call(lambda call: coordinator.follow(call, name), self._remove_call)

    # Values that are no replies.

    async def read_values(self, keys: Sequence[str], max_age: int | None = None) -> dict[str, tuple[bytes, float]]:
        """Return those values of these keys that are stored, each with its age in seconds: at most `max_age`."""
        found: dict[str, tuple[bytes, float]] = {}
        wanted = list(dict.fromkeys(keys))
        try:
            for start in range(0, len(wanted), _READ_TOGETHER):
                part = wanted[start : start + _READ_TOGETHER]
                values = await asyncio.gather(*map(self._store.get, part))
                now = self._rules.clock()
                found |= {
                    key: (value.value, max(0.0, now - value.stored_at))
                    for key, value in zip(part, values, strict=True)
                    if value is not None
                }
        except StoreError as error:  # a request goes on without the cache
            self._throttled_log.warn("cached values were not read", error)
            return {}
        return {key: one for key, one in found.items() if max_age is None or one[1] <= max_age}

    def start_storing(self, values: Mapping[str, bytes], ttl_seconds: float, model: str) -> None:
        """Start to store values under their keys, which no reply has."""
        task = asyncio.get_running_loop().create_task(self._store_values(values, ttl_seconds, model))
        self._storing.add(task)
        task.add_done_callback(self._storing.discard)

    async def _store_values(self, values: Mapping[str, bytes], ttl_seconds: float, model: str) -> None:
        puts = [self._store.put(key, data, ttl_seconds=ttl_seconds, model=model) for key, data in values.items()]
        for error in await asyncio.gather(*puts, return_exceptions=True):
            if isinstance(error, BaseException) and not isinstance(error, StoreError):
                raise error
            if error is not None and not isinstance(error, NotKept):
                self._throttled_log.warn("a value was not cached", error)

    # Maintenance.

    async def purge(self, model: str | None = None) -> int:
        """Delete all replies, or those of one model, and return how many. Raises StoreError."""
        await self._finish_storing()
        self._recent.clear()
        for key in [key for key, call in self._calls.items() if call.ended]:
            del self._calls[key]
        return await self._store.purge(model)

    async def stats(self) -> StoreStats:
        """Count the stored replies. Raises StoreError."""
        await self._finish_storing()
        return await self._store.stats()

    async def _finish_storing(self) -> None:
        self._to_store.handle_all()
        if self._storing:
            await asyncio.wait(self._storing, timeout=STORING_SECONDS)

    async def aclose(self) -> None:
        for call in tuple(self._running):
            call.abort()
        await self._finish_storing()
        if self._coordinator is not None:
            await self._coordinator.aclose()
        await self._store.aclose()
