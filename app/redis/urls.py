"""Parse cache URLs.

    memory:                                             this process
    null:                                               no cache
    sqlite:///cache.db   sqlite:////data/cache.db       a file; four slashes begin an absolute path
    redis://user:password@host:6379/0                   one server; rediss:// with TLS
    redis+unix:///run/redis.sock?db=0                   one server, by its socket
    redis+cluster://host:6379,other:6379                a cluster; rediss+cluster:// with TLS
    redis+sentinel://host:26379,other:26379/mymaster/0  the master that the sentinels name; rediss+sentinel:// with TLS

TLS takes `ssl_ca_certs`, `ssl_certfile`, `ssl_keyfile`, `ssl_cert_reqs` and `ssl_check_hostname` as a query.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

_TLS_OPTIONS = frozenset({"ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs", "ssl_check_hostname"})
_REDIS = re.compile(r"(rediss?)(?:\+(cluster|sentinel|unix))?")
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s:/@\[\],]+)(?::(\d{1,5}))?")
_EXAMPLES = "such as sqlite:////data/cache.db, redis://127.0.0.1:6379/0, memory: or null:"


@dataclass(frozen=True, slots=True)
class MemoryUrl:
    kind: Literal["memory"] = "memory"


@dataclass(frozen=True, slots=True)
class NullUrl:
    kind: Literal["null"] = "null"


@dataclass(frozen=True, slots=True)
class SqliteUrl:
    path: str
    kind: Literal["sqlite"] = "sqlite"


@dataclass(frozen=True, slots=True)
class RedisUrl:
    form: Literal["single", "cluster", "sentinel", "unix"] = "single"
    hosts: tuple[tuple[str, int], ...] = ()
    socket: str = ""
    service: str = ""
    """The sentinels' name of the master."""
    db: int = 0
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: bool = False
    tls_options: tuple[tuple[str, str], ...] = ()
    kind: Literal["redis"] = "redis"


CacheUrl: TypeAlias = MemoryUrl | NullUrl | SqliteUrl | RedisUrl


def parse_cache_url(url: str) -> CacheUrl:
    """Parse a cache URL. Raises ValueError, whose message never repeats the URL: it may hold a password."""
    scheme, colon, rest = url.partition(":")
    if not colon or re.search(r"[\s\x00-\x1f]", url):
        raise ValueError(f"must be a URL, {_EXAMPLES}")
    if scheme in ("memory", "null"):
        if rest.strip("/"):
            raise ValueError(f"must be just {scheme}: with nothing after the colon")
        return MemoryUrl() if scheme == "memory" else NullUrl()
    if scheme == "sqlite":
        return _sqlite(rest)
    if match := _REDIS.fullmatch(scheme):
        return _redis(urlsplit(url), match[1] == "rediss", match[2] or "single")
    raise ValueError(f"must begin with sqlite, redis, rediss, memory or null, {_EXAMPLES}")


def describe_url(address: CacheUrl) -> str:
    """Describe where the cache is, without the login."""
    match address:
        case SqliteUrl(path):
            return path
        case RedisUrl():
            hosts = ",".join(f"{host}:{port}" for host, port in address.hosts) or address.socket
            return f"redis at {hosts}" + (f", master {address.service}" if address.service else "")
        case _:
            return address.kind


def _sqlite(rest: str) -> SqliteUrl:
    path = unquote(rest[3:])
    if not rest.startswith("///") or not path.strip("/") or path.endswith("/") or "?" in rest:
        raise ValueError("must name a file, as sqlite:///cache.db and sqlite:////data/cache.db do")
    return SqliteUrl(path)


def _redis(parts: SplitResult, tls: bool, form: str) -> RedisUrl:
    login, _, hosts = parts.netloc.rpartition("@")
    username, _, password = login.partition(":")
    address = RedisUrl(username=unquote(username) or None, password=unquote(password) or None, tls=tls)
    steps = [unquote(step) for step in parts.path.split("/") if step]
    if form == "unix":
        return _unix(address, hosts, unquote(parts.path), dict(parse_qsl(parts.query)))
    address = replace(
        address,
        hosts=tuple(_hosts(hosts, 26379 if form == "sentinel" else 6379)),
        tls_options=_tls_options(parts.query, tls),
    )
    match form:
        case "cluster":
            return _cluster(address, steps)
        case "sentinel":
            return _sentinel(address, steps)
        case _:
            return _single(address, steps)


def _single(address: RedisUrl, steps: list[str]) -> RedisUrl:
    if len(address.hosts) > 1 or len(steps) > 1:
        raise ValueError("must name one server and one database, as redis://127.0.0.1:6379/0 does")
    return replace(address, db=_db(steps[0] if steps else "0"))


def _cluster(address: RedisUrl, steps: list[str]) -> RedisUrl:
    if steps not in ([], ["0"]):
        raise ValueError("must not name a database: a cluster has only database 0")
    return replace(address, form="cluster")


def _sentinel(address: RedisUrl, steps: list[str]) -> RedisUrl:
    if not 1 <= len(steps) <= 2:
        raise ValueError("must name the master behind the sentinels, as redis+sentinel://a:26379,b:26379/mymaster does")
    return replace(address, form="sentinel", service=steps[0], db=_db(steps[1] if len(steps) > 1 else "0"))


def _unix(address: RedisUrl, hosts: str, path: str, options: dict[str, str]) -> RedisUrl:
    if hosts or not path.strip("/") or address.tls or options.keys() - {"db"}:
        raise ValueError("must name a socket, as redis+unix:///run/redis.sock?db=0 does")
    return replace(address, form="unix", socket=path, db=_db(options.get("db", "0")))


def _hosts(text: str, port: int) -> Iterator[tuple[str, int]]:
    for part in text.split(","):
        match = _HOST.fullmatch(part)
        if not match or not 0 < int(match[2] or port) < 65536:
            raise ValueError(f"must name hosts, each with a port from 1 to 65535 unless it is {port}")
        yield unquote(match[1]).strip("[]"), int(match[2] or port)


def _tls_options(query: str, tls: bool) -> tuple[tuple[str, str], ...]:
    options = dict(parse_qsl(query, keep_blank_values=True))
    if wrong := sorted(options.keys() - _TLS_OPTIONS) if tls else sorted(options):
        allowed = "" if tls else " without TLS (rediss)"
        raise ValueError(f"must not have the option {', '.join(wrong)}{allowed}")
    return tuple(options.items())


def _db(text: str) -> int:
    if not re.fullmatch(r"\d{1,5}", text):
        raise ValueError("must name a database by its number, as redis://127.0.0.1:6379/0 does")
    return int(text)
