"""What was spent in this day and month before a limit was in force, read from the totals of usage.

Without Redis, limits are counted in memory. So that neither a restart nor a limit that a reload adds gives each owner
its whole money again, counting goes on from these sums.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from datetime import tzinfo

from app.limits.values import Kind, Rule
from app.state import StateError
from app.usage.ledger import TooManyRows, UsageLedger, name_day
from app.usage.totals import GroupBy, UsageQuery

log = logging.getLogger("parley.limits")

_MAX_ROWS = 1_000_000


def read_spending(
    ledger: UsageLedger, rules: Sequence[Rule], now: float, zone: tzinfo, teams: Mapping[str, str]
) -> list[tuple[Rule, float]]:
    """Return the money that the ledger has for these limits of spending; if it cannot be read, return nothing, and log
    that they begin at 0. `now` is the Unix time; days and months are those of the
    zone. `teams` are the names of teams by those of their keys. It blocks."""
    try:
        return list(_read_spending(ledger, {rule.counter: rule for rule in rules}, name_day(now, zone), teams))
    except (StateError, TooManyRows) as error:
        log.warning("limits of spending begin at 0, because the totals of usage cannot be read: %s", error)
        return []


def _read_spending(
    ledger: UsageLedger, rules: Mapping[str, Rule], today: str, teams: Mapping[str, str]
) -> Iterator[tuple[Rule, float]]:
    """`rules` are by the names of their counters."""
    groups: tuple[GroupBy, GroupBy] = ("key", "model")
    periods: tuple[tuple[Kind, str], ...] = (("spend_per_day", today), ("spend_per_month", f"{today[:8]}01"))
    for kind, first_day in periods:
        for group in groups:
            rows = ledger.read(UsageQuery(first_day, today, (group,)), _MAX_ROWS)
            spent = {row.key.key if group == "key" else row.key.model: row.totals.cost for row in rows}
            counters = {f"{group}:{name}:{kind}": cost for name, cost in spent.items()}
            if group == "key":
                counters[f"all:{kind}"] = sum(spent.values())
                for name, cost in spent.items():
                    if name in teams:
                        counter = f"team:{teams[name]}:{kind}"
                        counters[counter] = counters.get(counter, 0.0) + cost
            yield from ((rules[counter], cost) for counter, cost in counters.items() if counter in rules)
