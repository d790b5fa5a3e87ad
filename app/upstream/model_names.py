"""Names of models in error messages: the nearest to one that is not known, and a list that stays short."""

import difflib
from collections.abc import Sequence

SHOWN = 10
MAX_SHOWN_NAME = 100
COMPARED = 500
"""Names that are compared; each of at most `MAX_COMPARED_NAME` characters, like the one that is looked for."""
MAX_COMPARED_NAME = 128


def nearest(name: str, known: Sequence[str]) -> str | None:
    """The known name that was probably meant. Case does not count, nor does what stands before the last slash."""
    if len(name) > MAX_COMPARED_NAME:
        return None
    forms: dict[str, str] = {}
    for one in known[:COMPARED]:
        if len(one) <= MAX_COMPARED_NAME:
            for form in (one.lower(), _base(one)):
                forms.setdefault(form, one)
    for form in (name.lower(), _base(name)):
        found = difflib.get_close_matches(form, forms, n=1, cutoff=0.6)
        if found:
            return forms[found[0]]
    return None


def listed(names: Sequence[str]) -> str:
    shown = [name if len(name) <= MAX_SHOWN_NAME else f"{name[:MAX_SHOWN_NAME]}…" for name in names[:SHOWN]]
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(shown) + more


def suggestion(name: str, known: Sequence[str]) -> str:
    """What follows "there is no model 'x'"."""
    near = nearest(name, known)
    if near is not None and near != name:
        return f"; did you mean {near!r}?"
    return f"; available models: {listed(known)}" if known else ""


def _base(name: str) -> str:
    return name.lower().rpartition("/")[2]
