"""`Limits`: how much a caller, a model or the whole gateway may use, and the `Rule` for each of them."""

from collections.abc import Iterator
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from app.observe.request_record import ISSUER_SEPARATOR

Kind: TypeAlias = Literal[
    "requests_per_minute", "tokens_per_minute", "concurrent_streams", "spend_per_day", "spend_per_month"
]
_USER_SEPARATOR = "\x1f"
"""In the name of a counter, between a caller and its user: a control character, which neither has."""
UNITS_OF_MONEY = 1_000_000_000
"""Money is counted in integers of this part, so that sums are exact: a reply may cost a millionth."""


def describe_caller(name: str) -> str:
    """Return a caller's name as errors say it: `the API key 'alice'`."""
    return f"{'the JWT caller' if ISSUER_SEPARATOR in name else 'the API key'} {name!r}"


def name_any_caller(issuer: str) -> str:
    """Return the name of the limits that each caller of an issuer of JWTs has. It is the name of no caller: theirs is
    longer."""
    return issuer + ISSUER_SEPARATOR


def find_issuer(rule: "Rule") -> str | None:
    """Return the issuer of JWTs of which each caller has this limit; None for the limit of one owner, and of users."""
    scope, _, name = rule.counter.removesuffix(f":{rule.kind}").partition(":")
    return name.removesuffix(ISSUER_SEPARATOR) if scope == "key" and name.endswith(ISSUER_SEPARATOR) else None


def is_of_any_user(rule: "Rule") -> bool:
    """Whether each user of a caller has this limit."""
    return rule.scope == "user" and rule.counter.endswith(f"{_USER_SEPARATOR}:{rule.kind}")


def name_caller_rule(rule: "Rule", caller: str) -> "Rule":
    """Return a limit that each caller of an issuer has, as that of one of them."""
    return replace(rule, owner=describe_caller(caller), counter=f"key:{caller}:{rule.kind}")


class Limits(Struct, frozen=True):
    """None: no limit."""

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    concurrent_streams: int | None = None
    """Replies in progress at the same time, streamed or whole."""
    spend_per_day: float | None = None
    """In the currency of the models' prices, for each day."""
    spend_per_month: float | None = None


NO_LIMITS = Limits()


class Team(Struct, frozen=True):
    """What the callers of a team have together."""

    name: str
    limits: Limits


class Rule(Struct, frozen=True):
    """One limit of one owner."""

    owner: str
    """As an error names it: `the API key 'alice'`."""
    kind: Kind
    limit: int
    """Money in parts, see UNITS_OF_MONEY."""
    counter: str
    """The name of the counter in a store. It begins with the word for the kind of owner, such as `key:`."""
    is_spending: bool
    is_window: bool
    """Requests or tokens per minute."""
    amount: int | None
    """What each request takes of the limit; None: its tokens. Money is not taken: it is counted when it was spent."""

    @property
    def scope(self) -> str:
        """The kind of owner: `all`, `model`, `team`, `key` or `user`."""
        return self.counter.partition(":")[0]

    def amount_of(self, tokens: int) -> int:
        """Return what a request of so many tokens takes of the limit."""
        return tokens if self.amount is None else self.amount


def make_gateway_rules(limits: Limits) -> Iterator[Rule]:
    """Return the rules of all requests together."""
    return make_rules("the gateway", "all", limits)


def make_model_rules(model: str, limits: Limits) -> Iterator[Rule]:
    return make_rules(f"the model {model!r}", f"model:{model}", limits)


def make_caller_rules(caller: str, limits: Limits, team: Team | None = None) -> Iterator[Rule]:
    """Return the rules of a caller, then those of its team."""
    yield from make_rules(describe_caller(caller), f"key:{caller}", limits)
    if team is not None:
        yield from make_team_rules(team)


def name_user_counters(caller: str, user: str = _USER_SEPARATOR) -> str:
    """Return the name of the counters of a user; without one, of the limits that each user of the caller has."""
    return f"user:{caller}{_USER_SEPARATOR}{user}"


def make_any_user_rules(caller: str, limits: Limits) -> Iterator[Rule]:
    """Return the rules that each user of a caller has."""
    return make_rules("", name_user_counters(caller), limits)


def describe_user(caller: str, user: str) -> str:
    """Return the name of a user as errors have it; with an empty name, of the requests that name none."""
    of_caller = describe_caller(caller)
    return f"the user {user!r} of {of_caller}" if user else f"the requests without a user of {of_caller}"


def describe_owner(rule: Rule) -> tuple[str, str]:
    """Return the kind of a rule's owner and its name: `key` and `alice`; the gateway has none."""
    scope, _, rest = rule.counter.removesuffix(f":{rule.kind}").partition(":")
    return scope, rest


def make_user_rules(caller: str, user: str, limits: Limits) -> Iterator[Rule]:
    """Return the rules of an end user of a caller; with an empty name, those of its requests that name none."""
    return make_rules(describe_user(caller, user), name_user_counters(caller, user), limits)


def make_team_rules(team: Team) -> Iterator[Rule]:
    return make_rules(f"the team {team.name!r}", f"team:{team.name}", team.limits)


def make_rules(owner: str, name: str, limits: Limits) -> Iterator[Rule]:
    """Return a rule for each limit that is set. `name` names the owner in a store."""
    numbers: tuple[tuple[Kind, int | None], ...] = (
        ("requests_per_minute", limits.requests_per_minute),
        ("tokens_per_minute", limits.tokens_per_minute),
        ("concurrent_streams", limits.concurrent_streams),
        ("spend_per_day", _to_parts(limits.spend_per_day)),
        ("spend_per_month", _to_parts(limits.spend_per_month)),
    )
    for kind, limit in numbers:
        if limit is not None:
            yield make_rule(owner, name, kind, limit)


def make_rule(owner: str, name: str, kind: Kind, limit: int) -> Rule:
    is_spending = kind in ("spend_per_day", "spend_per_month")
    is_window = kind in ("requests_per_minute", "tokens_per_minute")
    amount = None if kind == "tokens_per_minute" else 0 if is_spending else 1
    return Rule(owner, kind, limit, f"{name}:{kind}", is_spending, is_window, amount)


def _to_parts(money: float | None) -> int | None:
    return None if money is None else round(money * UNITS_OF_MONEY)
