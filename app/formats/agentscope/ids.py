"""Ids that nobody gave, made from what they name: equal conversations give equal messages."""

ID_DIGITS = 22
"""Of the digest in an id."""


def make_unique(id: str, used: set[str]) -> str:
    found, count = id, 1
    while found in used:
        count += 1
        found = f"{id}_{count}"
    used.add(found)
    return found
