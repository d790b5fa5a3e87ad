"""The way to Redis: an operation takes a tenth of a second at most, and none is tried while Redis is known to be away.

After the first failure every call is refused at once, those that wait for their turn too, and a task of the link's own
asks whether the server is back: soon, and then once a second. So an outage delays only who was under way when it began,
and each of those once, whatever else it would have asked. Time in which this process did not get round to reading the
answer is not held against the server.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeAlias, TypeVar

from redis import exceptions
from redis.asyncio import Redis, RedisCluster

from app.cache.redis.client import make_client
from app.cache.urls import RedisUrl, parse_cache_url

T = TypeVar("T")
Client: TypeAlias = Redis | RedisCluster

TIMEOUT_SECONDS = 0.1
_LOG = logging.getLogger("parley.cache")
_PROBE_SECONDS = 1.0
_FIRST_REST_SECONDS = 0.1
_STEPS = 10
"""A bound of time is counted in so many steps. One that takes longer counts once: it was this process that was busy."""
_BUSY_SECONDS = 1.0
"""Nobody is busy for longer than that."""
_REDIS_ERRORS = (exceptions.RedisError, exceptions.RedisClusterException, OSError)


class RedisUnavailable(Exception):
    """Redis does not answer, or not in time."""


class RedisRejected(RedisUnavailable):
    """Redis answers that it will not: out of memory, read-only, no permission. It is there all the same."""


class RedisCircuitBreaker:
    """One for each event loop; connects with the first call."""

    def __init__(
        self,
        address: RedisUrl | str,
        *,
        max_connections: int = 256,
        at_once: int = 16,
        timeout_seconds: float = TIMEOUT_SECONDS,
        rest_seconds: float = 1.0,
    ) -> None:
        """`address` may be the URL. Of calls that are not patient, `at_once` are under way. Raises ValueError."""
        self._address = _to_redis_url(address)
        self._max_connections = max_connections
        self._timeout_seconds, self._rest_seconds = timeout_seconds, rest_seconds
        self._turns = asyncio.Semaphore(at_once)
        self._client: Client | None = None
        self._probing: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def is_open(self) -> bool:
        """Whether a call would be refused at once."""
        return self._closed or self._probing is not None

    async def call(self, op: Callable[[Client], Awaitable[T]], *, timeout: float | None = None) -> T:  # noqa: ASYNC109
        """What `op` returns. Raises Away, and nothing else of Redis's.

        `timeout` is in seconds, from the time that it is this call's turn. A patient call, which has more time than is
        usual, takes no turn from others and waits for none.
        """
        if timeout is not None and timeout > self._timeout_seconds:
            return await self._call_or_trip(op, timeout)
        if self.is_open:
            raise RedisUnavailable("redis is away")
        # Of many at once, each would have to wait for all: with nothing wrong but a busy process, all would be late.
        async with self._turns:
            return await self._call_or_trip(op, timeout or self._timeout_seconds)

    async def _call_or_trip(self, op: Callable[[Client], Awaitable[T]], seconds: float) -> T:
        if self.is_open:
            raise RedisUnavailable("redis is away")
        try:
            return await self._call_with_timeout(op, seconds)
        except RedisRejected:
            raise
        except RedisUnavailable as error:
            if not self.is_open:
                _LOG.warning("redis is away: %s", error)
                self._probing = asyncio.get_running_loop().create_task(self._probe())
            raise

    async def _call_with_timeout(self, op: Callable[[Client], Awaitable[T]], seconds: float) -> T:
        try:
            async with _within(seconds):
                return await op(self._get_client())
        except TimeoutError as error:
            raise RedisUnavailable(f"no answer within {seconds * 1000:.0f} ms") from error
        except exceptions.ResponseError as error:
            raise RedisRejected(str(error)) from error
        except _REDIS_ERRORS as error:
            raise RedisUnavailable(str(error) or type(error).__name__) from error

    def _get_client(self) -> Client:
        if self._client is None:
            self._client = make_client(self._address, self._max_connections)
        return self._client

    async def _probe(self) -> None:
        rest_seconds = min(_FIRST_REST_SECONDS, self._rest_seconds)
        while True:
            await asyncio.sleep(rest_seconds)
            rest_seconds = min(2 * rest_seconds, self._rest_seconds)
            try:
                await self._call_with_timeout(_ping, _PROBE_SECONDS)
            except RedisRejected:
                pass
            except RedisUnavailable:
                continue
            self._probing = None
            _LOG.info("redis is back")
            return

    async def aclose(self) -> None:
        self._closed = True
        if self._probing is not None:
            self._probing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._probing
            self._probing = None
        client, self._client = self._client, None
        if client is not None:
            with contextlib.suppress(*_REDIS_ERRORS):
                async with asyncio.timeout(TIMEOUT_SECONDS):
                    await client.aclose()


@contextlib.asynccontextmanager
async def _within(seconds: float) -> AsyncIterator[None]:
    """Raises TimeoutError for what the server had so long for, and did not do."""
    loop = asyncio.get_running_loop()
    step, last = seconds / _STEPS, time.monotonic() + seconds + _BUSY_SECONDS
    timer: asyncio.TimerHandle
    async with asyncio.timeout(None) as limit:

        def count(steps: int) -> None:
            nonlocal timer
            if steps == _STEPS or time.monotonic() > last:
                limit.reschedule(loop.time())
            else:
                timer = loop.call_later(step, count, steps + 1)

        timer = loop.call_later(step, count, 1)
        try:
            yield
        finally:
            timer.cancel()


async def _ping(client: Client) -> object:
    """A value that cannot be there: unlike PING, a cluster's client can send it to one node."""
    return await client.exists("parley:probe")


def _to_redis_url(address: RedisUrl | str) -> RedisUrl:
    found = parse_cache_url(address) if isinstance(address, str) else address
    if not isinstance(found, RedisUrl):
        raise ValueError("must be the URL of a Redis")
    return found
