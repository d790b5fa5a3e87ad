"""The way to Redis: an operation takes a tenth of a second at most, and none is tried while Redis is known to be away.

After a few failures in a row every call is refused at once, and a task of the link's own asks, once a second, whether
the server is back; so an outage delays the few requests that discover it, and no other.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from typing import TypeAlias, TypeVar

from redis import exceptions
from redis.asyncio import Redis, RedisCluster

from app.cache.addresses import RedisAt, parse_address
from app.cache.redis_client import make_client

T = TypeVar("T")
Client: TypeAlias = Redis | RedisCluster

TIMEOUT_SECONDS = 0.1
_LOG = logging.getLogger("parley.cache")
_PROBE_SECONDS = 1.0
_LATE = 1.5
_TROUBLE = (exceptions.RedisError, exceptions.RedisClusterException, OSError)


class Away(Exception):
    """Redis does not answer, or not in time."""


class Refused(Away):
    """Redis answers that it will not: out of memory, read-only, no permission. It is there all the same."""


class RedisLink:
    """One for each event loop; connects with the first call."""

    def __init__(
        self,
        address: RedisAt | str,
        *,
        max_connections: int = 64,
        failures: int = 2,
        rest_seconds: float = 1.0,
    ) -> None:
        """`address` may be the URL. Raises ValueError when that is of no Redis."""
        self._address = _redis_at(address)
        self._max_connections = max_connections
        self._allowed, self._rest_seconds = failures, rest_seconds
        self._client: Client | None = None
        self._failed = 0
        self._probing: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def away(self) -> bool:
        """Whether a call would be refused at once."""
        return self._closed or self._probing is not None

    async def call(self, op: Callable[[Client], Awaitable[T]], *, timeout: float = TIMEOUT_SECONDS) -> T:  # noqa: ASYNC109
        """What `op` returns. `timeout` is in seconds, for the whole of it. Raises Away, and nothing else of Redis's."""
        if self.away:
            raise Away("redis is away")
        began = time.monotonic()
        try:
            result = await self._bounded(op, timeout)
        except Refused:
            self._failed = 0
            raise
        except Away as error:
            # Much later than it was to be: then this process was busy, and who knows of Redis.
            if time.monotonic() - began < _LATE * timeout:
                self._count(error)
            raise
        self._failed = 0
        return result

    async def _bounded(self, op: Callable[[Client], Awaitable[T]], seconds: float) -> T:
        try:
            async with asyncio.timeout(seconds):
                return await op(self._connected())
        except TimeoutError as error:
            raise Away(f"no answer within {seconds * 1000:.0f} ms") from error
        except exceptions.ResponseError as error:
            raise Refused(str(error)) from error
        except _TROUBLE as error:
            raise Away(str(error) or type(error).__name__) from error

    def _connected(self) -> Client:
        if self._client is None:
            self._client = make_client(self._address, self._max_connections)
        return self._client

    def _count(self, error: Away) -> None:
        self._failed += 1
        if self._failed >= self._allowed and not self.away:
            _LOG.warning("redis is away: %s", error)
            self._probing = asyncio.get_running_loop().create_task(self._probe())

    async def _probe(self) -> None:
        while True:
            await asyncio.sleep(self._rest_seconds)
            try:
                await self._bounded(_ping, _PROBE_SECONDS)
            except Away:
                continue
            self._failed, self._probing = 0, None
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
            with contextlib.suppress(*_TROUBLE):
                async with asyncio.timeout(TIMEOUT_SECONDS):
                    await client.aclose()


async def _ping(client: Client) -> object:
    """A value that cannot be there: unlike PING, a cluster's client can send it to one node."""
    return await client.exists("parley:probe")


def _redis_at(address: RedisAt | str) -> RedisAt:
    found = parse_address(address) if isinstance(address, str) else address
    if not isinstance(found, RedisAt):
        raise ValueError("must be the URL of a Redis")
    return found
