"""The known name that is most like an unknown one: for messages that say what to write instead."""

import difflib
import re
from collections.abc import Iterable

MAX_LENGTH = 128
"""Names that are longer are compared with nothing: the comparison takes time that grows with their square."""
MAX_KNOWN = 1000
CUTOFF = 0.7
"""How alike two names are, from 0 to 1. `prot` and `port` are 0.75."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """One of `known`, or None where none is alike. Case and punctuation count least: `maxTokens` is `max_tokens`."""
    if not name or len(name) > MAX_LENGTH:
        return None
    candidates = [one for one in known if one != name and len(one) <= MAX_LENGTH][:MAX_KNOWN]
    same = [one for one in candidates if _plain(one) == _plain(name)]
    if same:
        return same[0]
    plain: dict[str, str] = {}
    for one in candidates:
        plain.setdefault(one.lower(), one)
    found = difflib.get_close_matches(name.lower(), plain, n=1, cutoff=CUTOFF)
    return plain[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message: "; did you mean `x`?", or nothing."""
    found = nearest(name, known)
    return f"; did you mean `{found}`?" if found else ""


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower()) or name
