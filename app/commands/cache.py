"""`parley cache`: count or delete the cached replies."""

import argparse
import asyncio
import sys

from app.cache.report import count_replies, describe_cache, purge_cache
from app.cache.stores import StoreError
from app.cache.urls import CacheUrl, MemoryUrl, NullUrl, describe_url, parse_cache_url
from app.command_line import UsageError
from app.commands.configuration import load_settings


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
