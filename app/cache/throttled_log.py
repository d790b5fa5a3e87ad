"""Log lines about a cache in trouble: one when it begins, and one a minute while it goes on."""

import logging
import time
from collections.abc import Callable

_EVERY_SECONDS = 60.0


class ThrottledLog:
    """May be used from several threads: at worst a line is said twice."""

    def __init__(self, log: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._log, self._clock = log, clock
        self._last_warned: dict[str, tuple[float, int]] = {}
        """For each trouble: when it was last said, and how often it has come since."""

    def warn(self, trouble: str, cause: object) -> None:
        """`trouble` is one of a few fixed texts; what comes with `cause` may be different each time."""
        now = self._clock()
        said_at, silent = self._last_warned.get(trouble, (-_EVERY_SECONDS, 0))
        if now - said_at < _EVERY_SECONDS:
            self._last_warned[trouble] = (said_at, silent + 1)
            return
        self._last_warned[trouble] = (now, 0)
        self._log.warning(
            "%s: %s%s", trouble, cause, f" ({silent} more of these since the last line)" if silent else ""
        )
