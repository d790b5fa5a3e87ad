"""Make missing ids from the content that they identify: equal conversations then give equal messages."""

ID_DIGITS = 22
"""How many digits of a digest an id has."""


def make_unique(id: str, used: set[str]) -> str:
    found, count = id, 1
    while found in used:
        count += 1
        found = f"{id}_{count}"
    used.add(found)
    return found
