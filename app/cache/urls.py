"""Where a cache is kept, out of a URL.

    memory:                                             this process
    null:                                               nowhere
    sqlite:///cache.db   sqlite:////data/cache.db       a file; four slashes begin an absolute path
    redis://user:password@host:6379/0                   one server; rediss:// with TLS
    redis+unix:///run/redis.sock?db=0                   one server, by its socket
    redis+cluster://host:6379,other:6379                a cluster; rediss+cluster:// with TLS
    redis+sentinel://host:26379,other:26379/mymaster/0  whoever is master by the sentinels' word; rediss+sentinel://

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
    """What the sentinels call the master."""
    db: int = 0
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: bool = False
    tls_options: tuple[tuple[str, str], ...] = ()
    kind: Literal["redis"] = "redis"


CacheUrl: TypeAlias = MemoryUrl | NullUrl | SqliteUrl | RedisUrl


def parse_cache_url(url: str) -> CacheUrl:
    """Raises ValueError in words that never repeat the URL, for it may hold a password."""
    scheme, colon, rest = url.partition(":")
    if not colon or re.search(r"[\s\x00-\x1f]", url):
        raise ValueError(f"must be a URL, {_EXAMPLES}")
    if scheme in ("memory", "null"):
        if rest.strip("/"):
            raise ValueError(f"{scheme}: takes nothing behind the colon")
        return MemoryUrl() if scheme == "memory" else NullUrl()
    if scheme == "sqlite":
        return _sqlite(rest)
    if found := _REDIS.fullmatch(scheme):
        return _redis(urlsplit(url), found[1] == "rediss", found[2] or "single")
    raise ValueError(f"must begin with sqlite, redis, rediss, memory or null, {_EXAMPLES}")


def describe_url(address: CacheUrl) -> str:
    """For people: where it is, without a login."""
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
    caller = RedisUrl(username=unquote(username) or None, password=unquote(password) or None, tls=tls)
    steps = [unquote(step) for step in parts.path.split("/") if step]
    if form == "unix":
        return _unix(caller, hosts, unquote(parts.path), dict(parse_qsl(parts.query)))
    caller = replace(
        caller,
        hosts=tuple(_hosts(hosts, 26379 if form == "sentinel" else 6379)),
        tls_options=_tls_options(parts.query, tls),
    )
    match form:
        case "cluster":
            return _cluster(caller, steps)
        case "sentinel":
            return _sentinel(caller, steps)
        case _:
            return _single(caller, steps)


def _single(caller: RedisUrl, steps: list[str]) -> RedisUrl:
    if len(caller.hosts) > 1 or len(steps) > 1:
        raise ValueError("must name one server and one database, as redis://127.0.0.1:6379/0 does")
    return replace(caller, db=_db(steps[0] if steps else "0"))


def _cluster(caller: RedisUrl, steps: list[str]) -> RedisUrl:
    if steps not in ([], ["0"]):
        raise ValueError("must name no database: a cluster has only 0")
    return replace(caller, form="cluster")


def _sentinel(caller: RedisUrl, steps: list[str]) -> RedisUrl:
    if not 1 <= len(steps) <= 2:
        raise ValueError("must name the master behind the sentinels, as redis+sentinel://a:26379,b:26379/mymaster does")
    return replace(caller, form="sentinel", service=steps[0], db=_db(steps[1] if len(steps) > 1 else "0"))


def _unix(caller: RedisUrl, hosts: str, path: str, options: dict[str, str]) -> RedisUrl:
    if hosts or not path.strip("/") or caller.tls or options.keys() - {"db"}:
        raise ValueError("must name a socket, as redis+unix:///run/redis.sock?db=0 does")
    return replace(caller, form="unix", socket=path, db=_db(options.get("db", "0")))


def _hosts(text: str, port: int) -> Iterator[tuple[str, int]]:
    for one in text.split(","):
        found = _HOST.fullmatch(one)
        if not found or not 0 < int(found[2] or port) < 65536:
            raise ValueError("must name a host, and a port from 1 to 65535 where it is another than usual")
        yield unquote(found[1]).strip("[]"), int(found[2] or port)


def _tls_options(query: str, tls: bool) -> tuple[tuple[str, str], ...]:
    options = dict(parse_qsl(query, keep_blank_values=True))
    if wrong := sorted(options.keys() - _TLS_OPTIONS) if tls else sorted(options):
        raise ValueError(f"takes no {', '.join(wrong)}" + ("" if tls else " without TLS (rediss)"))
    return tuple(options.items())


def _db(text: str) -> int:
    if not re.fullmatch(r"\d{1,5}", text):
        raise ValueError("must name a database by its number, as redis://127.0.0.1:6379/0 does")
    return int(text)
