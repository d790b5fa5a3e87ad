"""What was spent in this day and month before the process started, read from the totals of usage.

Without Redis, limits are counted in memory. So that a restart does not give each owner its whole money again, counting
goes on from these sums.
"""

import logging
from collections.abc import Iterator

from app.limits.limiter import Limiter
from app.limits.values import Kind
from app.usage.ledger import TooManyRows, UsageLedger, utc_day
from app.usage.stores import UsageStoreError
from app.usage.totals import GroupBy, UsageQuery

log = logging.getLogger("parley.limits")

_MAX_ROWS = 1_000_000


def restore_spending(limiter: Limiter, ledger: UsageLedger, now: float) -> None:
    """Set the counters of spending to what the ledger has; if it cannot be read, log that they begin at 0. `now` is the
    Unix time. It blocks, and must end before the first request."""
    try:
        limiter.set_spent(list(_read_spending(ledger, utc_day(now))))
    except (UsageStoreError, TooManyRows) as error:
        log.warning("limits of spending begin at 0, because the totals of usage cannot be read: %s", error)


def _read_spending(ledger: UsageLedger, today: str) -> Iterator[tuple[str, Kind, float]]:
    groups: tuple[GroupBy, GroupBy] = ("key", "model")
    periods: tuple[tuple[Kind, str], ...] = (("spend_per_day", today), ("spend_per_month", f"{today[:8]}01"))
    for kind, first_day in periods:
        for group in groups:
            rows = ledger.read(UsageQuery(first_day, today, (group,)), _MAX_ROWS)
            if group == "key":
                yield "all", kind, sum(row.totals.cost for row in rows)
            for row in rows:
                name = row.key.key if group == "key" else row.key.model
                if row.totals.cost:
                    yield f"{group}:{name}", kind, row.totals.cost
