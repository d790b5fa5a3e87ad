"""What was spent in this day and month before a limit was in force, read from the totals of usage.

Without Redis, limits are counted in memory. So that neither a restart nor a limit that a reload adds gives each owner
its whole money again, counting goes on from these sums.
"""

import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import tzinfo

from app.limits.values import Kind, Rule, describe_caller, describe_user, make_rule, name_any_caller, name_user_counters
from app.observe.request_record import ISSUER_SEPARATOR
from app.state import StateError
from app.usage.ledger import TooManyRows, UsageLedger, name_day
from app.usage.totals import UsageQuery

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
    periods: tuple[tuple[Kind, str], ...] = (("spend_per_day", today), ("spend_per_month", f"{today[:8]}01"))
    for kind, first_day in periods:
        spent: defaultdict[str, float] = defaultdict(float)
        for row in ledger.read(UsageQuery(first_day, today, ("key", "team")), _MAX_ROWS):
            name, cost = row.key.key, row.totals.cost
            # A key has the team of the configuration; that of a JWT caller is known only from its tokens.
            team = row.key.team if ISSUER_SEPARATOR in name else teams.get(name)
            for owner in ("all", f"key:{name}", *([f"team:{team}"] if team else [])):
                spent[owner] += cost
        for row in ledger.read(UsageQuery(first_day, today, ("model",)), _MAX_ROWS):
            spent[f"model:{row.key.model}"] += row.totals.cost
        yield from _read_user_spending(ledger, rules, UsageQuery(first_day, today, ("key", "user")), kind)
        for owner, cost in spent.items():
            rule = _find_rule(rules, owner, kind)
            if rule is not None:
                yield rule, cost


def _read_user_spending(
    ledger: UsageLedger, rules: Mapping[str, Rule], query: UsageQuery, kind: Kind
) -> Iterator[tuple[Rule, float]]:
    if not any(rule.scope == "user" and rule.kind == kind for rule in rules.values()):
        return
    for row in ledger.read(query, _MAX_ROWS):
        caller, user = row.key.key, row.key.user
        named = name_any_caller(caller.partition(ISSUER_SEPARATOR)[0]) if ISSUER_SEPARATOR in caller else caller
        of_each = rules.get(f"{name_user_counters(named)}:{kind}")
        if of_each is not None:
            owner, counters = describe_user(caller, user), name_user_counters(caller, user)
            yield make_rule(owner, counters, kind, of_each.limit), row.totals.cost


def _find_rule(rules: Mapping[str, Rule], owner: str, kind: Kind) -> Rule | None:
    """Return the rule of an owner. A JWT caller has that of its issuer, counted for this caller alone."""
    found = rules.get(f"{owner}:{kind}")
    name = owner.removeprefix("key:")
    if found is not None or name == owner or ISSUER_SEPARATOR not in name:
        return found
    of_issuer = rules.get(f"key:{name_any_caller(name.partition(ISSUER_SEPARATOR)[0])}:{kind}")
    return None if of_issuer is None else make_rule(describe_caller(name), owner, kind, of_issuer.limit)
