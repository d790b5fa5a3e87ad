"""The known name that is most like an unknown one: for messages that say what to write instead."""

import difflib
import re
from collections.abc import Callable, Iterable

MAX_LENGTH = 128
"""Names that are longer are compared with nothing: the comparison takes time that grows with their square."""
MAX_KNOWN = 1000
CUTOFF = 0.7
"""How alike two names are, from 0 to 1. `prot` and `port` are 0.75."""
MODEL_CUTOFF = 0.6
"""Names of models are long, and often asked for by a part."""
ONE_EDIT_LENGTH = 5
TWO_EDITS_LENGTH = 10
"""Letters and digits that the longer name has for one and for two mistakes to be called a misspelling. `min_tokens` and
`max_tokens` have nine letters and differ in two; `top_p` and `top_k` have four and differ in one."""


def find_nearest(name: str, known: Iterable[str]) -> str | None:
    """One of `known`, or None where none is alike. Case and punctuation count least: `maxTokens` is `max_tokens`."""
    found = _alike(name, known, _plain, CUTOFF)
    return found[0] if found else None


def nearest_model(name: str, known: Iterable[str]) -> str | None:
    """The model that was probably meant. Case does not count, nor does what stands before the last slash."""
    found = _alike(name, known, _base, MODEL_CUTOFF)
    return found[0] if found else None


def misspelt(name: str, known: Iterable[str]) -> str | None:
    """One of `known` that can hardly be anything but what was meant, or None: only case and punctuation differ, or one
    letter is wrong, missing, too many or in its neighbour's place; in a long name two are."""
    plain = _plain(name)
    for one in _alike(name, known, _plain, CUTOFF):
        other = _plain(one)
        length = max(len(plain), len(other))
        allowed = (length >= ONE_EDIT_LENGTH) + (length >= TWO_EDITS_LENGTH)
        if _edits(plain, other) <= allowed:
            return one
    return None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message: "; did you mean `x`?", or nothing."""
    found = find_nearest(name, known)
    return f"; did you mean `{found}`?" if found else ""


def _alike(name: str, known: Iterable[str], short: Callable[[str], str], cutoff: float) -> list[str]:
    """The most alike first, at most three. Names with the same `short` form are."""
    if not name or len(name) > MAX_LENGTH:
        return []
    candidates = [one for one in known if one != name and len(one) <= MAX_LENGTH][:MAX_KNOWN]
    same = [one for one in candidates if short(one) == short(name)]
    if same:
        return same[:3]
    forms: dict[str, str] = {}
    for one in candidates:
        forms.setdefault(one.lower(), one)
        forms.setdefault(short(one), one)
    for form in dict.fromkeys((name.lower(), short(name))):
        found = difflib.get_close_matches(form, forms, n=3, cutoff=cutoff)
        if found:
            return list(dict.fromkeys(forms[one] for one in found))
    return []


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower()) or name


def _base(name: str) -> str:
    return name.lower().rpartition("/")[2] or name.lower()


def _edits(one: str, other: str) -> int:
    """How many letters must be changed, put in, taken out or swapped with their neighbour to make `other` of `one`."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for at, letter in enumerate(one, 1):
        before, last, row = row, before, [at]
        for to, wanted in enumerate(other, 1):
            cost = min(before[to] + 1, row[to - 1] + 1, before[to - 1] + (letter != wanted))
            if at > 1 and to > 1 and letter == other[to - 2] and one[at - 2] == wanted:
                cost = min(cost, last[to - 2] + 1)
            row.append(cost)
    return row[-1]
