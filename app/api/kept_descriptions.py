"""`KeptDescriptions`: what models have said of media, in the memory of a worker."""

import time
from collections import OrderedDict
from collections.abc import Callable

MAX_BYTES = 64 * 1024 * 1024
_ENTRY_BYTES = 300
"""What an entry needs beside its text."""


class KeptDescriptions:
    """The least used ones go first."""

    def __init__(self, max_bytes: int = MAX_BYTES, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_bytes = max_bytes
        self._clock = clock
        self._kept: OrderedDict[bytes, tuple[str, float]] = OrderedDict()
        self._bytes = 0

    def find(self, key: bytes) -> str | None:
        found = self._kept.get(key)
        if found is None:
            return None
        if found[1] < self._clock():
            self._drop(key)
            return None
        self._kept.move_to_end(key)
        return found[0]

    def keep(self, key: bytes, text: str, seconds: float) -> None:
        self._drop(key)
        self._kept[key] = text, self._clock() + seconds
        self._bytes += _measure(text)
        while self._bytes > self._max_bytes:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: bytes) -> None:
        found = self._kept.pop(key, None)
        if found is not None:
            self._bytes -= _measure(found[0])


def _measure(text: str) -> int:
    return len(text.encode("utf-8", "replace")) + _ENTRY_BYTES
