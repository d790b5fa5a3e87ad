"""Log repeated cache failures at most once a minute for each kind."""

import logging
import time
from collections.abc import Callable

_EVERY_SECONDS = 60.0


class ThrottledLog:
    """Throttles warnings. It may be used from several threads; at worst a line is logged twice."""

    def __init__(self, log: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._log, self._clock = log, clock
        self._last_warned: dict[str, tuple[float, int]] = {}
        """For each message: when it was last logged, and how many times it was suppressed since."""

    def warn(self, message: str, cause: object) -> None:
        """Log a warning unless the same message was logged within the last minute.

        `message` must be one of a few fixed texts; `cause` may differ each time.
        """
        now = self._clock()
        logged_at, suppressed = self._last_warned.get(message, (-_EVERY_SECONDS, 0))
        if now - logged_at < _EVERY_SECONDS:
            self._last_warned[message] = (logged_at, suppressed + 1)
            return
        self._last_warned[message] = (now, 0)
        self._log.warning(
            "%s: %s%s", message, cause, f" ({suppressed} more of these since the last line)" if suppressed else ""
        )
