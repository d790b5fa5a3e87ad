"""Find the known name that is most similar to an unknown one, for "did you mean" in error messages."""

import difflib
import re
from collections.abc import Callable, Iterable

MAX_LENGTH = 128
"""Longer names are not compared, because the time of a comparison grows with the square of the length."""
MAX_KNOWN = 1000
CUTOFF = 0.7
"""The lowest similarity, from 0 to 1, that counts. `prot` and `port` have 0.75."""
MODEL_CUTOFF = 0.6
"""Lower for model names, which are long and often given in part."""
ONE_EDIT_LENGTH = 5
TWO_EDITS_LENGTH = 10
"""How many letters and digits the longer of two names needs so that one or two edits count as a misspelling.
`min_tokens` and `max_tokens` have nine letters and differ in two; `top_p` and `top_k` have four and differ in one."""


def find_nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the most similar name of `known`, or None. Case and punctuation do not count (`maxTokens`)."""
    found = _find_similar(name, known, _plain, CUTOFF)
    return found[0] if found else None


def find_nearest_model(name: str, known: Iterable[str]) -> str | None:
    """Return the model that was probably meant, or None. Case and the text before the last slash do not count."""
    found = _find_similar(name, known, _base, MODEL_CUTOFF)
    return found[0] if found else None


def find_correct_spelling(name: str, known: Iterable[str]) -> str | None:
    """Return the name of `known` that `name` misspells, or None.

    The two differ only in case and punctuation, or in one edit (two in a long name): a letter is changed, missing,
    added or swapped with its neighbour.
    """
    plain = _plain(name)
    for candidate in _find_similar(name, known, _plain, CUTOFF):
        other = _plain(candidate)
        length = max(len(plain), len(other))
        allowed = (length >= ONE_EDIT_LENGTH) + (length >= TWO_EDITS_LENGTH)
        if _count_edits(plain, other) <= allowed:
            return candidate
    return None


def suggest_name(name: str, known: Iterable[str]) -> str:
    """Return the end of an error message: "; did you mean `x`?", or an empty string."""
    found = find_nearest(name, known)
    return f"; did you mean `{found}`?" if found else ""


def _find_similar(name: str, known: Iterable[str], normalize: Callable[[str], str], cutoff: float) -> list[str]:
    """Return at most three names, the most similar first. If names equal `name` after `normalize`, only those."""
    if not name or len(name) > MAX_LENGTH:
        return []
    candidates = [candidate for candidate in known if candidate != name and len(candidate) <= MAX_LENGTH][:MAX_KNOWN]
    normalized_name = normalize(name)
    normalized = [normalize(candidate) for candidate in candidates]
    same = [candidate for candidate, form in zip(candidates, normalized, strict=True) if form == normalized_name]
    if same:
        return same[:3]
    by_spelling: dict[str, str] = {}
    for candidate, form in zip(candidates, normalized, strict=True):
        by_spelling.setdefault(candidate.lower(), candidate)
        by_spelling.setdefault(form, candidate)
    for spelling in dict.fromkeys((name.lower(), normalized_name)):
        found = difflib.get_close_matches(spelling, by_spelling, n=3, cutoff=cutoff)
        if found:
            return list(dict.fromkeys(by_spelling[similar] for similar in found))
    return []


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower()) or name


def _base(name: str) -> str:
    return name.lower().rpartition("/")[2] or name.lower()


def _count_edits(source: str, target: str) -> int:
    """Return the optimal string alignment distance: letters changed, added, removed or swapped with their neighbour."""
    previous: list[int] = []
    row = list(range(len(target) + 1))
    for i, letter in enumerate(source, 1):
        previous, before_previous, row = row, previous, [i]
        for j, target_letter in enumerate(target, 1):
            cost = min(previous[j] + 1, row[j - 1] + 1, previous[j - 1] + (letter != target_letter))
            if i > 1 and j > 1 and letter == target[j - 2] and source[i - 2] == target_letter:
                cost = min(cost, before_previous[j - 2] + 1)
            row.append(cost)
    return row[-1]
