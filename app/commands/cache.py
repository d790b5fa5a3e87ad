"""`parley cache`: count or delete the cached replies."""

import argparse
import asyncio
import sys

from app.commands.command_line import UsageError
from app.commands.configuration import load_settings
from app.redis.urls import CacheUrl, MemoryUrl, NullUrl, describe_url, parse_cache_url
from app.stores import EntryTotals, StoreError, StoreStats, opened_store


async def describe_cache(url: str, model: str | None = None) -> str:
    """List the stored replies by model, or those of one model. Raises StoreError."""
    async with opened_store(url) as store:
        return _report(describe_url(parse_cache_url(url)), await store.stats(), model)


async def count_replies(url: str, model: str | None = None) -> int:
    """Count the stored replies: all, or those of one model. Raises StoreError."""
    async with opened_store(url) as store:
        stats = await store.stats()
    return stats.entries if model is None else stats.by_model.get(model, EntryTotals(0, 0)).entries


async def purge_cache(url: str, model: str | None = None) -> str:
    """Delete all replies, or those of one model, and report how many. Raises StoreError."""
    async with opened_store(url) as store:
        return f"{await store.purge(model)} replies deleted from the cache: {describe_url(parse_cache_url(url))}"


def _report(location: str, stats: StoreStats, model: str | None) -> str:
    rows = [(name, totals) for name, totals in stats.by_model.items() if model in (None, name)]
    if model is None:
        rows.append(("all models", EntryTotals(stats.entries, stats.bytes)))
    elif not rows:
        rows.append((model, EntryTotals(0, 0)))
    width = max(len(name) for name, _ in rows)
    lines = [f"{name:<{width}}  {totals.entries:>9,} replies  {totals.bytes:>15,} bytes" for name, totals in rows]
    return "\n".join([f"cache: {location}", *lines])


def run(arguments: argparse.Namespace) -> int:

    url = load_settings(arguments.config).cache.url or "memory:"
    address = parse_cache_url(url)
    if isinstance(address, MemoryUrl | NullUrl):
        raise UsageError(
            f"the cache is {address.kind}: it cannot be read from outside the gateway; use a file or Redis (cache.url)"
        )
    purge = arguments.action == "purge"
    if purge and not arguments.yes and not sys.stdin.isatty():
        raise UsageError("purge asks for confirmation and standard input is not a terminal: use --yes to purge")
    try:
        if purge and not arguments.yes and not _confirm(asyncio.run(count_replies(url, arguments.model)), address):
            print("parley: nothing was deleted", file=sys.stderr)
            return 1
        print(asyncio.run((purge_cache if purge else describe_cache)(url, arguments.model)))
    except StoreError as error:
        print(f"parley: {error}", file=sys.stderr)
        return 1
    return 0


def _confirm(count: int, address: CacheUrl) -> bool:
    """Ask at the terminal whether to delete these replies."""

    print(
        f"Delete {count} replies from the cache: {describe_url(address)}? [y/N] ", end="", file=sys.stderr, flush=True
    )
    return sys.stdin.readline().strip().lower() in ("y", "yes")
