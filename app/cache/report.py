"""What operators see and do of a cache, as lines for people."""

from app.cache.stores import EntryTotals, StoreStats, open_store
from app.cache.urls import describe_url, parse_cache_url


async def describe_cache(url: str, model: str | None = None) -> str:
    """What is there, of each model and of all, or of one. Raises StoreError."""
    store = open_store(url)
    try:
        return _report(describe_url(parse_cache_url(url)), await store.stats(), model)
    finally:
        await store.aclose()


async def count_replies(url: str, model: str | None = None) -> int:
    """How many replies are there: all, or those of one model. Raises StoreError."""
    store = open_store(url)
    try:
        stats = await store.stats()
    finally:
        await store.aclose()
    return stats.entries if model is None else stats.by_model.get(model, EntryTotals(0, 0)).entries


async def purge_cache(url: str, model: str | None = None) -> str:
    """How many replies were deleted: all, or those of one model. Raises StoreError."""
    store = open_store(url)
    try:
        return f"{await store.purge(model)} replies deleted from the cache: {describe_url(parse_cache_url(url))}"
    finally:
        await store.aclose()


def _report(where: str, stats: StoreStats, model: str | None) -> str:
    rows = [(name, held) for name, held in stats.by_model.items() if model in (None, name)]
    if model is None:
        rows.append(("all models", EntryTotals(stats.entries, stats.bytes)))
    elif not rows:
        rows.append((model, EntryTotals(0, 0)))
    width = max(len(name) for name, _ in rows)
    lines = [f"{name:<{width}}  {held.entries:>9,} replies  {held.bytes:>15,} bytes" for name, held in rows]
    return "\n".join([f"cache: {where}", *lines])
