"""Names of models in error messages: what was probably meant, and a list that stays short."""

from collections.abc import Sequence

from app.nearest import nearest_model

SHOWN = 10
MAX_SHOWN_NAME = 100


def join_names(names: Sequence[str]) -> str:
    shown = [name if len(name) <= MAX_SHOWN_NAME else f"{name[:MAX_SHOWN_NAME]}…" for name in names[:SHOWN]]
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(shown) + more


def suggest_model(name: str, known: Sequence[str]) -> str:
    """What follows "there is no model 'x'"."""
    near = nearest_model(name, known)
    if near is not None:
        return f"; did you mean {near!r}?"
    return f"; available models: {join_names(known)}" if known else ""
