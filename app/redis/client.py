"""Create a Redis client for one server, a socket, a cluster, or the master that sentinels name."""

from typing import Any

from redis.asyncio import (
    BlockingConnectionPool,
    Connection,
    Redis,
    RedisCluster,
    SSLConnection,
    UnixDomainSocketConnection,
)
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel, SentinelConnectionPool
from redis.backoff import NoBackoff
from typing_extensions import override

from app.redis.urls import RedisUrl

_UNBLOCKED_CONNECTIONS = 1024
"""The size of pools that raise an error when they are full instead of waiting."""


class _SentinelPool(SentinelConnectionPool):
    """A pool that also closes the connections to the sentinels."""

    @override
    async def aclose(self) -> None:
        await super().aclose()
        for sentinel in self.sentinel_manager.sentinels:
            await sentinel.aclose()


def make_client(address: RedisUrl, max_connections: int) -> Redis | RedisCluster:
    """Create a client that connects with its first command. It has no timeouts; the circuit breaker sets them."""
    if address.form == "cluster":
        return _cluster(address)
    if address.form == "sentinel":
        return _make_sentinel_client(address)
    server: dict[str, Any] = {"connection_class": UnixDomainSocketConnection, "path": address.socket}
    if address.form == "single":
        (host, port), kind = address.hosts[0], SSLConnection if address.tls else Connection
        server = {"connection_class": kind, "host": host, "port": port, **_tls(address)}
    pool = BlockingConnectionPool(max_connections, timeout=None, db=address.db, **server, **_options(address))
    return Redis.from_pool(pool)


def _cluster(address: RedisUrl) -> RedisCluster:
    nodes = [ClusterNode(host, port) for host, port in address.hosts]
    return RedisCluster(
        startup_nodes=nodes,
        max_connections=_UNBLOCKED_CONNECTIONS,
        require_full_coverage=False,
        ssl=address.tls,
        **_tls(address),
        **_options(address),
    )


def _make_sentinel_client(address: RedisUrl) -> Redis:
    """The login is sent to the master only, not to the sentinels. TLS applies to both."""
    tls = {"ssl": address.tls, **_tls(address)}
    bounds = {name: value for name, value in _options(address).items() if name not in ("username", "password")}
    sentinels = Sentinel(address.hosts, sentinel_kwargs={**tls, **bounds})  # type: ignore[no-untyped-call]
    pool = _SentinelPool(  # type: ignore[no-untyped-call]
        address.service,
        sentinels,
        max_connections=_UNBLOCKED_CONNECTIONS,
        db=address.db,
        **tls,
        **_options(address),
    )
    return Redis.from_pool(pool)


def _options(address: RedisUrl) -> dict[str, Any]:
    return {
        "username": address.username,
        "password": address.password,
        "socket_timeout": None,
        "socket_connect_timeout": None,
        # RESP2: servers before Redis 6 do not know RESP3.
        "protocol": 2,
        # One retry: only the next command finds out that an idle connection was closed.
        "retry": Retry(NoBackoff(), 1),
    }


def _tls(address: RedisUrl) -> dict[str, Any]:
    options: dict[str, Any] = dict(address.tls_options)
    if "ssl_check_hostname" in options:
        options["ssl_check_hostname"] = options["ssl_check_hostname"].lower() in ("true", "1", "yes")
    return options
