"""What a client's connection may take, and the warnings that all connections of a server share."""

import logging
import time

from msgspec import Struct

log = logging.getLogger("parley.connection")

MIN_READ_BYTES_PER_SECOND = 1024
"""A client that reads more slowly than this over `stall_seconds` is disconnected."""
WARNING_SECONDS = 10.0
"""The minimum time between two warnings of the same kind."""


class ConnectionLimits(Struct, frozen=True):
    max_connections: int
    max_head_bytes: int
    head_seconds: float
    body_seconds: float
    """How long the rest of a body is still received that is not read, because its request was refused."""
    keep_alive_seconds: float
    stall_seconds: float

    @property
    def tick_seconds(self) -> float:
        """How often `tick` is called: every second, or more often if the shortest limit needs it."""
        shortest = min(self.head_seconds, self.body_seconds, self.keep_alive_seconds, self.stall_seconds)
        return min(1.0, shortest / 4)


class ThrottledWarning:
    """A warning that is logged at most once in `WARNING_SECONDS`, with the number of times it was due."""

    def __init__(self) -> None:
        self._next = 0.0
        self._count = 0

    def warn(self, message: str, *arguments: object) -> None:
        self._count += 1
        now = time.monotonic()
        if now >= self._next:
            log.warning(f"{message} (%d times since the last such line)", *arguments, self._count)
            self._next, self._count = now + WARNING_SECONDS, 0


class ConnectionWarnings:
    """The warnings that all connections of one server share."""

    def __init__(self) -> None:
        self.full = ThrottledWarning()
        self.too_many = ThrottledWarning()
        self.accept = ThrottledWarning()


def is_too_slow(read_bytes: int, seconds: float) -> bool:
    """Whether a client has read too little of what waits for it in this time."""
    return read_bytes < seconds * MIN_READ_BYTES_PER_SECOND
