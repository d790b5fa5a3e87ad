"""`recall_names`: what was found out about names in bodies. Clients repeat the same few ones in each request."""

from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

T = TypeVar("T")

MAX_CHARACTERS = 200
"""Of a name that is kept. A client may send one that is as long as a body may be, which would stay in memory."""
MAX_NAMES = 1024


def recall_names(find: Callable[[str], T]) -> Callable[[str], T]:
    """Return the function, which keeps what it has found for the last short names."""
    recall = lru_cache(maxsize=MAX_NAMES)(find)

    def find_or_recall(name: str) -> T:
        return recall(name) if len(name) <= MAX_CHARACTERS else find(name)

    return find_or_recall
