"""Model names in error messages: the name that was probably meant, or a short list of those available."""

from collections.abc import Sequence

from app.nearest import find_nearest_model

SHOWN = 10
MAX_SHOWN_NAME = 100


def join_names(names: Sequence[str]) -> str:
    """List at most SHOWN names, each cut to MAX_SHOWN_NAME characters, and say how many more there are."""
    shown = [name if len(name) <= MAX_SHOWN_NAME else f"{name[:MAX_SHOWN_NAME]}…" for name in names[:SHOWN]]
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(shown) + more


def suggest_model(name: str, known: Sequence[str]) -> str:
    """Return the end of the message "there is no model 'x'": a similar name, or the available ones."""
    near = find_nearest_model(name, known)
    if near is not None:
        return f"; did you mean {near!r}?"
    return f"; available models: {join_names(known)}" if known else ""
