"""How long a model server asks to be left alone."""

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

MAX_RETRY_AFTER = 120.0
"""Seconds; what servers ask beyond is cut to it."""


def retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds to wait: `retry-after-ms`, then `retry-after` as a number or a date; None when absent or past."""
    try:
        if "retry-after-ms" in headers:
            return _bounded(float(headers["retry-after-ms"]) / 1000)
    except ValueError:
        pass
    value = headers.get("retry-after", "")
    try:
        return _bounded(float(value))
    except ValueError:
        return _until(value, now)


def _until(date: str, now: datetime) -> float | None:
    try:
        when = parsedate_to_datetime(date)
    except (TypeError, ValueError):
        return None
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return _bounded((when - now).total_seconds())


def _bounded(seconds: float) -> float | None:
    return min(seconds, MAX_RETRY_AFTER) if seconds > 0 else None
