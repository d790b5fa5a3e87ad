"""What a store holds, as lines for people."""

from app.cache.stores import Held, Stats


def report(where: str, stats: Stats, model: str | None = None) -> str:
    """One line for each model, and one for all of them; with `model`, that one's alone."""
    rows = [(name, held) for name, held in stats.by_model.items() if model in (None, name)]
    if model is None:
        rows.append(("all models", Held(stats.entries, stats.bytes)))
    elif not rows:
        rows.append((model, Held(0, 0)))
    width = max(len(name) for name, _ in rows)
    lines = [f"{name:<{width}}  {held.entries:>9,} replies  {held.bytes:>15,} bytes" for name, held in rows]
    return "\n".join([f"cache: {where}", *lines])
