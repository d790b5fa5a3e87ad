"""`SharedReading`: a value that is costly to read, and that several tasks need at nearly the same time."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class SharedReading(Generic[Value]):
    """Reads the value at most once in `seconds`, for all who need it."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = asyncio.Lock()
        self._read_at = -math.inf
        self._value: Value

    async def get(self, read: Callable[[], Awaitable[Value]]) -> Value:
        async with self._lock:
            if time.monotonic() - self._read_at >= self._seconds:
                self._value = await read()
                self._read_at = time.monotonic()
            return self._value
