"""Check where replies, the state and usage are kept: Redis, files, PostgreSQL."""

import asyncio
import os
import shutil
import sqlite3
import time
from pathlib import Path
from typing import Any

from redis.asyncio import RedisCluster
from redis.exceptions import AuthenticationError, AuthorizationError, NoPermissionError, RedisError

from app.doctor.findings import Finding
from app.redis.connection import TIMEOUT_SECONDS, make_client
from app.redis.urls import MemoryUrl, NullUrl, RedisUrl, SqliteUrl, describe_url, parse_cache_url
from app.state import StateError, open_database
from app.state.urls import FileUrl, PostgresUrl, describe_state_url, parse_state_url
from app.usage.ledger import TooManyRows, UsageLedger, name_day
from app.usage.report import parse_query
from app.usage.store import UsageStore

MIN_FREE_BYTES = 256 * 1024 * 1024
SLOW_MILLISECONDS = TIMEOUT_SECONDS * 1000
"""A request waits at most this long for Redis."""

_NO_FOLDER = "no file can be written in the user's folders, so they are kept in memory until the gateway ends"


async def check_cache(url: str | None, max_bytes: int, seconds: float) -> list[Finding]:
    if url is None:
        return [Finding("cache", "path", "warning", _NO_FOLDER, "set cache.url to a file or to Redis")]
    match parse_cache_url(url):
        case RedisUrl() as address:
            return await _check_redis(address, seconds)
        case SqliteUrl(path):
            return _check_file("cache", Path(path), max_bytes, "cache.url")
        case MemoryUrl():
            return [Finding("cache", "path", "ok", "replies are kept in memory, until the gateway ends")]
        case NullUrl():
            return [Finding("cache", "path", "ok", "nothing is cached")]


async def check_state(url: str, seconds: float) -> list[Finding]:
    """Check the state database, where usage is too unless `usage.url` names another one."""
    match parse_state_url(url):
        case FileUrl(""):
            return [Finding("state", "path", "ok", "responses are kept in memory, until the gateway ends")]
        case FileUrl(path):
            return _check_file("state", Path(path), MIN_FREE_BYTES, "state.url")
        case PostgresUrl() as address:
            return await _check_postgres(address, seconds, "state")
        case _:
            return [Finding("state", "path", "ok", "nothing is stored")]


async def check_usage(url: str | None, seconds: float) -> list[Finding]:
    """Check a database of usage that is not the state database."""
    if url is None:
        return [Finding("usage", "path", "warning", _NO_FOLDER, "set usage.url to a file or to PostgreSQL")]
    match parse_state_url(url):
        case FileUrl(""):
            return [Finding("usage", "path", "ok", "the totals are kept in memory, until the gateway ends")]
        case FileUrl(path):
            return _check_file("usage", Path(path), MIN_FREE_BYTES, "usage.url")
        case PostgresUrl() as address:
            return await _check_postgres(address, seconds, "usage")
        case _:
            return [Finding("usage", "path", "ok", "nothing is counted")]


async def _check_redis(address: RedisUrl, seconds: float) -> list[Finding]:
    subject = f"cache: {describe_url(address)}"
    client = make_client(address, 1)
    try:
        async with asyncio.timeout(seconds):
            await client.ping()
            started = time.monotonic()
            await client.ping()
            milliseconds = (time.monotonic() - started) * 1000
            info = await _read_info(client)
    except TimeoutError:
        text = f"no answer within {seconds:g} s"
        return [Finding(subject, "redis", "problem", text, "check the network and the firewall, or correct cache.url")]
    except (AuthenticationError, AuthorizationError, NoPermissionError) as error:
        advice = "correct user and password in cache.url; the user needs all commands on keys of Parley"
        return [Finding(subject, "redis", "problem", f"refuses the login: {error}", advice)]
    except (RedisError, OSError) as error:
        advice = "start Redis, or correct cache.url; without it each gateway works for itself and caches nothing"
        return [Finding(subject, "redis", "problem", f"no connection: {error}", advice)]
    finally:
        await client.aclose()
    if info.get("redis_mode") == "cluster" and address.form != "cluster":
        advice = "let cache.url begin with redis+cluster: or rediss+cluster: in place of redis: or rediss:"
        return [Finding(subject, "redis", "problem", "is a cluster, and cache.url names a single server", advice)]
    return [_describe_speed(subject, milliseconds, info), *_describe_memory(subject, info)]


async def _read_info(client: Any) -> dict[str, Any]:
    """Return the figures of the server, or of one of the cluster; empty if the user may not read them."""
    try:
        if isinstance(client, RedisCluster):
            return dict(await client.info(target_nodes=client.get_random_node()))
        return dict(await client.info())
    except (NoPermissionError, AuthorizationError):
        return {}


def _describe_speed(subject: str, milliseconds: float, info: dict[str, Any]) -> Finding:
    version = f"version {info['redis_version']} " if "redis_version" in info else ""
    text = f"{version}answers in {milliseconds:.1f} ms"
    if milliseconds > SLOW_MILLISECONDS:
        advice = f"a request waits at most {SLOW_MILLISECONDS:.0f} ms for it: use a Redis near the gateway"
        return Finding(subject, "redis", "warning", text, advice)
    return Finding(subject, "redis", "ok", text)


def _describe_memory(subject: str, info: dict[str, Any]) -> list[Finding]:
    policy, limit = info.get("maxmemory_policy"), info.get("maxmemory")
    if policy is None or not isinstance(limit, int):
        return []
    if limit == 0:
        advice = "set maxmemory, and maxmemory-policy allkeys-lru, in Redis"
        return [
            Finding(subject, "eviction", "warning", "no memory limit: Redis grows until the machine is full", advice)
        ]
    text = f"maxmemory {limit / 2**20:,.0f} MiB, policy {policy}"
    if policy == "noeviction":
        advice = "set maxmemory-policy allkeys-lru in Redis: with noeviction a full Redis refuses to store replies"
        return [Finding(subject, "eviction", "problem", text, advice)]
    return [Finding(subject, "eviction", "ok", text)]


async def _check_postgres(address: PostgresUrl, seconds: float, name: str) -> list[Finding]:
    subject = f"{name}: {describe_state_url(address)}"

    def read() -> None:
        ledger = UsageLedger(UsageStore(open_database(address)))
        try:
            ledger.read(parse_query(name_day(time.time())))
        finally:
            ledger.close()

    try:
        async with asyncio.timeout(seconds):
            await asyncio.to_thread(read)
    except TooManyRows:
        pass
    except TimeoutError:
        text = f"no answer within {seconds:g} s"
        return [Finding(subject, "postgres", "problem", text, f"check the network, or correct {name}.url")]
    except StateError as error:
        return [Finding(subject, "postgres", "problem", str(error), f"start PostgreSQL, or correct {name}.url")]
    return [Finding(subject, "postgres", "ok", "its tables can be read")]


def _check_file(name: str, path: Path, wanted_bytes: int, setting: str) -> list[Finding]:
    """Check that a file can be written, or created with its folders. Nothing is written."""
    subject = f"{name}: {path}"
    existing = next(parent for parent in (path.absolute(), *path.absolute().parents) if parent.exists())
    mistake = _find_mistake(path, existing)
    if mistake:
        advice = f"make it writable for the user of the gateway, or correct {setting}"
        return [Finding(subject, "path", "problem", mistake, advice)]
    findings = [Finding(subject, "path", "ok", "can be written")]
    folder = existing if existing.is_dir() else existing.parent
    free = shutil.disk_usage(folder).free
    used = path.stat().st_size if path.exists() else 0
    text = f"{free / 2**30:,.1f} GiB free"
    if free + used < wanted_bytes:
        advice = f"free {(wanted_bytes - used) / 2**30:,.1f} GiB, to which it may grow"
        advice += ", or lower cache.max_bytes" if name == "cache" else ""
        return [*findings, Finding(subject, "disk", "warning", text, advice)]
    return [*findings, Finding(subject, "disk", "ok", text)]


def _find_mistake(path: Path, existing: Path) -> str | None:
    if existing != path.absolute():
        if not existing.is_dir():
            return f"{existing} is not a folder"
        return None if os.access(existing, os.W_OK | os.X_OK) else f"the folder {existing} cannot be written"
    if not path.is_file():
        return "is not a file"
    if not os.access(path, os.R_OK | os.W_OK):
        return "the file cannot be written"
    if not os.access(path.parent, os.W_OK | os.X_OK):
        return f"the folder {path.parent} cannot be written, where SQLite keeps its other files"
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=1)
        try:
            connection.execute("PRAGMA schema_version").fetchone()
        finally:
            connection.close()
    except sqlite3.OperationalError as error:
        return f"the file cannot be read: {error}"
    except sqlite3.DatabaseError as error:
        return f"is not a database: {error}"
    return None
