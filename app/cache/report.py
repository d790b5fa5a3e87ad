"""The operations behind `parley cache`, each of which returns text for the terminal."""

from app.cache.stores import EntryTotals, StoreStats, open_store
from app.cache.urls import describe_url, parse_cache_url


async def describe_cache(url: str, model: str | None = None) -> str:
    """List the stored replies by model, or those of one model. Raises StoreError."""
    store = open_store(url)
    try:
        return _report(describe_url(parse_cache_url(url)), await store.stats(), model)
    finally:
        await store.aclose()


async def count_replies(url: str, model: str | None = None) -> int:
    """Count the stored replies: all, or those of one model. Raises StoreError."""
    store = open_store(url)
    try:
        stats = await store.stats()
    finally:
        await store.aclose()
    return stats.entries if model is None else stats.by_model.get(model, EntryTotals(0, 0)).entries


async def purge_cache(url: str, model: str | None = None) -> str:
    """Delete all replies, or those of one model, and report how many. Raises StoreError."""
    store = open_store(url)
    try:
        return f"{await store.purge(model)} replies deleted from the cache: {describe_url(parse_cache_url(url))}"
    finally:
        await store.aclose()


def _report(location: str, stats: StoreStats, model: str | None) -> str:
    rows = [(name, totals) for name, totals in stats.by_model.items() if model in (None, name)]
    if model is None:
        rows.append(("all models", EntryTotals(stats.entries, stats.bytes)))
    elif not rows:
        rows.append((model, EntryTotals(0, 0)))
    width = max(len(name) for name, _ in rows)
    lines = [f"{name:<{width}}  {totals.entries:>9,} replies  {totals.bytes:>15,} bytes" for name, totals in rows]
    return "\n".join([f"cache: {location}", *lines])
