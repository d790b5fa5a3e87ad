"""`BoundedMap`: keeps the most recently used items, as many as a limit of bytes and one of their number allow."""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class BoundedMap(Generic[K, V]):
    def __init__(self, max_bytes: int, max_items: int) -> None:
        self._max_bytes = max_bytes
        self._max_items = max_items
        self._items: OrderedDict[K, tuple[V, int]] = OrderedDict()
        """Each with its size in bytes; the most recently used last."""
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._items)

    def get(self, key: K) -> V | None:
        found = self._items.get(key)
        if found is None:
            return None
        self._items.move_to_end(key)
        return found[0]

    def put(self, key: K, value: V, size: int) -> None:
        """Add an item, which replaces one with the same key, and drop the least recently used ones above the limits."""
        self.pop(key)
        self._items[key] = (value, size)
        self._bytes += size
        while self._bytes > self._max_bytes or len(self._items) > self._max_items:
            self.pop(next(iter(self._items)))

    def pop(self, key: K) -> V | None:
        found = self._items.pop(key, None)
        if found is None:
            return None
        self._bytes -= found[1]
        return found[0]

    def clear(self) -> None:
        self._items.clear()
        self._bytes = 0

    def items(self) -> Iterator[tuple[K, V]]:
        """Yield the items, the least recently used first."""
        for key, (value, _) in self._items.items():
            yield key, value
