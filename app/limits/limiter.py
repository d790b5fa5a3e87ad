"""`Limiter`: reserves the limits of a request, and corrects them by what the request has used."""

import itertools
import logging
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from msgspec import Struct

from app.chat.stream import AttemptLog
from app.errors import QuotaExceeded, RateLimited, StoreDown
from app.limits.spending import Exhausted, ReservedMoney, Spending, SpendingUnavailable, find_period_end
from app.limits.stores import MemoryLimitStore, RuleWindows, StoreUnavailable, Taken
from app.limits.users import CountedUsers
from app.limits.values import (
    UNITS_OF_MONEY,
    Kind,
    Limits,
    Rule,
    Team,
    make_caller_rules,
    make_gateway_rules,
    make_model_rules,
    make_user_rules,
    name_any_caller,
    name_caller_rule,
)
from app.limits.windows import (
    BUSY_SECONDS,
    WINDOW_SECONDS,
    Count,
    Counted,
    elapsed_part,
    fits,
    period_end,
    remaining,
    reset_seconds,
    used_amount,
    wait_seconds,
)
from app.observe.request_record import RequestRecord
from app.runtime.throttled_log import ThrottledLog
from app.usage.meter import Price, read_cost

if TYPE_CHECKING:  # importing the package redis takes time
    from app.limits.redis_store import RedisLimitStore

log = logging.getLogger("parley.limits")

MAX_RULE_SETS = 10_000
"""How many pairs of a caller and a model have their rules at hand: there may be any number of callers with a JWT."""
MAX_SPENDERS = 1000
"""Of so many callers of an issuer of JWTs it is read at most what they have spent."""
_MINUTE = int(WINDOW_SECONDS)
_REQUESTS_HEADERS = (b"x-ratelimit-limit-requests", b"x-ratelimit-remaining-requests", b"x-ratelimit-reset-requests")
_TOKENS_HEADERS = (b"x-ratelimit-limit-tokens", b"x-ratelimit-remaining-tokens", b"x-ratelimit-reset-tokens")
_WITHOUT_CALL = frozenset(("hit", "shared"))
"""The cache results of replies for which this request made no call to a model."""
_WORDS: Mapping[Kind, str] = {
    "requests_per_minute": "requests per minute",
    "tokens_per_minute": "tokens per minute",
    "concurrent_streams": "replies at the same time",
    "spend_per_day": "per day",
    "spend_per_month": "per month",
}


Headers: TypeAlias = list[tuple[bytes, bytes]]


class Owner(Protocol):
    """A caller with limits of its own."""

    @property
    def name(self) -> str: ...

    @property
    def limits(self) -> Limits: ...

    @property
    def team(self) -> Team | None: ...

    @property
    def user(self) -> str | None: ...

    @property
    def user_limits(self) -> Limits: ...


class Reservation(Struct, eq=False, gc=False):
    """What a request has taken from its limits. `Limiter.settle` gives back what it did not use."""

    store: "RedisLimitStore | None"
    """What counts for several processes; None: the counters in memory do."""
    model: str
    """The model that was requested."""
    rule_set: "_RuleSet"
    lease: str
    minute: int
    tokens: int
    """The estimate of all tokens of the request."""
    headers: Headers
    """The headers `x-ratelimit-*` of the response."""
    money: ReservedMoney | None = None
    """What is reserved of the limits of spending in the state database."""
    settled: bool = False


class LimitUse(Struct, frozen=True):
    """What is used of one limit. Money is in the currency of the models' prices."""

    owner: str
    kind: Kind
    limit: float
    used: float


class _DescribedRules(NamedTuple):
    """The rules that three headers of a response describe: those of requests, or those of tokens."""

    row: int | None
    """The place of the rule among all rules of the request; None if there are several."""
    limits: Mapping[int, tuple[bytes, bytes]]
    """The header with the limit of each rule, by its place."""
    remaining_name: bytes
    reset_name: bytes


class _RuleSet(Struct, frozen=True):
    """The rules for the requests of one caller to one model."""

    limits: Limits
    """Those of the caller; a reload of the configuration replaces them."""
    user_limits: Limits
    """Those of its end user."""
    team: Team | None
    """That of the caller; also the token of a caller may name another one than the token before."""
    rules: tuple[Rule, ...]
    windows: RuleWindows
    """Their counters in memory."""
    described: tuple[_DescribedRules, ...]
    spending: tuple[Rule, ...]
    """The rules that the state database counts; the other ones are `rules`."""
    tokens_limit: int | None
    """The lowest limit of tokens; None if there is none."""

    def is_outdated(self, caller: Owner) -> bool:
        """Whether the caller has got other limits, or another team."""
        return (
            self.limits is not caller.limits
            or self.team is not caller.team
            or self.user_limits is not caller.user_limits
        )


class Limiter:
    def __init__(
        self,
        limits: Limits,
        models: Mapping[str, Limits],
        store: "RedisLimitStore | None" = None,
        memory: MemoryLimitStore | None = None,
        spending: Spending | None = None,
        prices: Mapping[str, Price] | None = None,
        free: frozenset[str] = frozenset(),
    ) -> None:
        """`limits` are those of all requests together, `models` those of each model by its configured name. `store`
        counts for several processes; while it cannot be reached, and without it, `memory` counts for this one.
        `spending` counts money, which is otherwise counted with the rest, when it is spent. `prices` are the highest
        that a request for a model can have. Requests for a model of `free` cost nothing, whichever model answers, so no
        limit of spending holds for them."""
        self.memory_reservations = 0
        """How many reservations were counted in memory because the store could not be reached."""
        self._memory = memory or MemoryLimitStore()
        self._store = store
        self._spending = spending
        self._down = False
        self._throttled_log = ThrottledLog(log)
        self._users = CountedUsers()
        self.set_limits(limits, models, prices, free)
        self._leases = itertools.count()
        self._lease_prefix = os.urandom(8).hex()

    def set_limits(
        self,
        limits: Limits,
        models: Mapping[str, Limits],
        prices: Mapping[str, Price] | None = None,
        free: frozenset[str] = frozenset(),
    ) -> None:
        """Set the limits. Those of callers come with each request. What has been used still counts."""
        self._prices = prices or {}
        self._free = free
        self._global = tuple(make_gateway_rules(limits))
        self._models = {name: tuple(make_model_rules(name, row)) for name, row in models.items()}
        self._has_spending_limits = any(rule.is_spending for rules in self._models.values() for rule in rules)
        """Whether the cost of a fallback can count for a limit of its own."""
        self._rule_sets: dict[tuple[str, ...], _RuleSet] = {}
        """By the names of the caller, the model and the end user, if the caller names some. All models without limits
        have the same."""

    @property
    def is_redis_connected(self) -> bool | None:
        """Whether the store that counts for several processes answered the last request; None without one."""
        return None if self._store is None else not self._down

    async def reserve(
        self,
        caller: Owner,
        model: str,
        prompt_tokens: Callable[[], int],
        max_tokens: int | None,
        default_tokens: int,
        most_tokens: Callable[[], int] | None = None,
        find_units: Callable[[], Mapping[str, int]] = dict,
    ) -> Reservation | None:
        """Reserve all limits of a request; None if it has none, and no fallback can have a limit of spending. Raises
        RateLimited, QuotaExceeded, or StoreDown if money is limited and cannot be counted.

        `prompt_tokens` is called only if tokens or money are limited. Without `max_tokens`, up to `default_tokens` are
        reserved for the reply, and fewer if less is left of the limit. `most_tokens` returns how many the reply may
        have at most, for limits of spending; it is called only if there are some. `find_units` returns what else it may
        be billed for then, as `Price.compute_cost` takes it: one of each if that is more.
        """
        name = model if model in self._models or model in self._free else ""
        user = None if caller.user is None else self._users.choose_counted(caller.name, caller.user)
        key = (caller.name, name) if user is None else (caller.name, name, user)
        rule_set = self._rule_sets.get(key)
        if rule_set is None or rule_set.is_outdated(caller):
            if len(self._rule_sets) >= MAX_RULE_SETS:
                self._rule_sets.clear()
                self._memory.forget_idle()
            rule_set = self._rule_sets[key] = self._make_rule_set(caller, name, user)
        rules = rule_set.rules
        if not rules and not rule_set.spending:
            return Reservation(self._store, model, rule_set, "", 0, 0, []) if self._has_spending_limits else None
        prompt, tokens, most = 0, 0, rule_set.tokens_limit
        if most is not None:
            prompt = prompt_tokens()
            tokens = prompt + (max_tokens or default_tokens)
            if tokens > most and not max_tokens:
                tokens = max(prompt, most)
        store, lease, taken = await self._take(rule_set, tokens)
        if not taken.admitted and not max_tokens and (left := _find_tokens_left(taken)) < tokens:
            tokens = max(prompt, left)
            if tokens == left:
                store, lease, taken = await self._take(rule_set, tokens)
        headers = _describe_limits(rule_set.described, taken)
        if not taken.admitted:
            raise _refuse(tokens, taken, headers)
        reservation = Reservation(store, model, rule_set, lease, taken.minute, tokens, headers)
        if self._spending is not None and rule_set.spending:
            try:
                price = self._prices.get(model)
                reply = (max_tokens or default_tokens) if most_tokens is None else most_tokens()
                most = 0 if price is None else _find_most(price, prompt_tokens(), reply, find_units())
                reservation.money = await self._reserve_money(self._spending, rule_set.spending, most, headers)
            except BaseException:
                reservation.settled = True
                self._give_back(reservation, rules, -tokens, 0)
                raise
        return reservation

    async def _reserve_money(
        self, spending: Spending, rules: Sequence[Rule], most: int, headers: Headers
    ) -> ReservedMoney:
        """Raises QuotaExceeded, RateLimited or StoreDown."""
        try:
            result = await spending.reserve(rules, most)
        except SpendingUnavailable as error:
            self._throttled_log.warn("a request with a limit of spending was refused", error)
            raise StoreDown(
                "what was spent cannot be counted, because the state database failed: try again later"
            ) from error
        if isinstance(result, ReservedMoney):
            return result
        raise _refuse_spending(result, spending, headers)

    def _make_rule_set(self, caller: Owner, model: str, user: str | None) -> _RuleSet:
        of_user = () if user is None else make_user_rules(caller.name, user, caller.user_limits)
        own = [*of_user, *make_caller_rules(caller.name, caller.limits, caller.team)]
        every = [*self._global, *self._models.get(model, ()), *own]
        if model in self._free:
            every = [rule for rule in every if not rule.is_spending]
        spending = () if self._spending is None else tuple(rule for rule in every if rule.is_spending)
        rules = tuple(rule for rule in every if rule not in spending)
        return _RuleSet(
            caller.limits,
            caller.user_limits,
            caller.team,
            rules,
            self._memory.find_windows(rules),
            (
                *_make_described(rules, "requests_per_minute", _REQUESTS_HEADERS),
                *_make_described(rules, "tokens_per_minute", _TOKENS_HEADERS),
            ),
            spending,
            min((rule.limit for rule in rules if rule.kind == "tokens_per_minute"), default=None),
        )

    async def _take(self, rule_set: _RuleSet, tokens: int) -> "tuple[RedisLimitStore | None, str, Taken]":
        """Return the store that has counted, the lease that it knows, and what it has found."""
        if self._store is None:
            return None, "", self._memory.take(rule_set.windows, tokens)
        lease = f"{self._lease_prefix}-{next(self._leases)}"
        try:
            taken = await self._store.take(rule_set.rules, tokens, lease)
        except StoreUnavailable as error:
            self.memory_reservations += 1
            self._on_unavailable(error)
            return None, lease, self._memory.take(rule_set.windows, tokens)
        self._on_answer()
        return self._store, lease, taken

    def _on_unavailable(self, error: StoreUnavailable) -> None:
        if not self._down:
            self._down = True
            log.warning("limits are counted for this process alone until redis answers: %s", error)

    def _on_answer(self) -> None:
        if self._down:
            self._down = False
            log.info("limits are counted in redis again")

    async def read(self, callers: Iterable[Owner]) -> list[LimitUse]:
        """Return what is used of each limit: of the gateway, the models and these callers."""
        found = dict.fromkeys([*self._global, *itertools.chain.from_iterable(self._models.values())])
        for caller in callers:
            found |= dict.fromkeys(make_caller_rules(caller.name, caller.limits, caller.team))
        return await self.read_rules([*found])

    async def read_rules(self, rules: Sequence[Rule]) -> list[LimitUse]:
        """Return what is used of each of these limits; limits of money come last, and are left out while the state
        database cannot be used."""
        if not rules:
            return []
        money: list[LimitUse] = []
        if self._spending is not None:
            money = await _read_money(self._spending, [rule for rule in rules if rule.is_spending])
            rules = [rule for rule in rules if not rule.is_spending]
        read = await self._read_store(rules) or self._memory.read(self._memory.find_windows(rules))
        elapsed = elapsed_part(read.now)
        return [*(_describe_use(rule, count, elapsed) for rule, count in read.counts), *money]

    async def read_spent(self, rules: Sequence[Rule]) -> list[tuple[Rule, int]] | None:
        """Return what is spent of these limits of money, in parts of the currency, without what is reserved; None while
        it cannot be read."""
        if not rules:
            return []
        if self._spending is not None:
            try:
                return [(rule, row.spent) for rule, row in await self._spending.read(rules)]
            except SpendingUnavailable:
                return None
        read = await self._read_store(rules) or self._memory.read(self._memory.find_windows(rules))
        return [(rule, count.current) for rule, count in read.counts]

    async def find_spenders(self, rule: Rule, issuer: str, least: int) -> list[tuple[Rule, int]] | None:
        """Return of which callers of an issuer of JWTs at least so much is spent of a limit that each of them has, as
        `read_spent`. Without a state database it is not known which there are."""
        if self._spending is None:
            return []
        beginning = f"key:{name_any_caller(issuer)}"
        try:
            found = await self._spending.find_spent(beginning, rule.kind, max(1, least), MAX_SPENDERS)
        except SpendingUnavailable:
            return None
        names = (
            (counter.removeprefix("key:").removesuffix(f":{rule.kind}"), spent) for counter, spent in found.items()
        )
        return [(name_caller_rule(rule, name), spent) for name, spent in names]

    async def _read_store(self, rules: Sequence[Rule]) -> Taken | None:
        """Return what several processes have used; None if the counters in memory count."""
        if self._store is None or not rules:
            return None
        try:
            read = await self._store.read(rules)
        except StoreUnavailable as error:
            self._on_unavailable(error)
            return None
        self._on_answer()
        return read

    def settle(
        self, reservation: Reservation, tokens: int | None, cost: float | None, fallback_model: str | None = None
    ) -> None:
        """End a request: it used these tokens and cost this much. With None for the tokens the estimate remains. The
        cost of a fallback model counts for its limits, not for those of the model that was requested. A second call
        does nothing."""
        if reservation.settled:
            return
        more = 0 if tokens is None else tokens - reservation.tokens
        parts = 0 if cost is None else round(cost * UNITS_OF_MONEY)
        reservation.settled = True
        rules = reservation.rule_set.rules
        if self._spending is not None:
            self._settle_money(self._spending, reservation, parts, fallback_model)
            self._give_back(reservation, rules, more, 0)
            return
        if fallback_model is None or not parts:
            self._give_back(reservation, rules, more, parts)
            return
        own, others = (self._models.get(name, ()) for name in (reservation.model, fallback_model))
        spending = [rule for rule in (*rules, *others) if rule.is_spending and rule not in own]
        self._give_back(reservation, rules, more, 0)
        self._give_back(reservation, spending, 0, parts)

    def _settle_money(
        self, spending: Spending, reservation: Reservation, parts: int, fallback_model: str | None
    ) -> None:
        counted: Sequence[Rule] = reservation.rule_set.spending
        if fallback_model is not None:
            own, others = (self._models.get(name, ()) for name in (reservation.model, fallback_model))
            counted = [rule for rule in (*counted, *others) if rule.is_spending and rule not in own]
        if reservation.money is not None or (parts and counted):
            spending.settle(reservation.money, parts, counted)

    def _give_back(self, reservation: Reservation, rules: Sequence[Rule], tokens: int, cost: int) -> None:
        if reservation.store is not None:
            reservation.store.give_back(rules, reservation.lease, reservation.minute, tokens, cost)
            return
        rule_set = reservation.rule_set
        windows = rule_set.windows if rules is rule_set.rules else self._memory.find_windows(rules)
        self._memory.give_back(windows, reservation.minute, tokens, cost)

    async def set_spent(self, spent: Iterable[tuple[Rule, float]]) -> None:
        """Set the money that was spent in this day or month before anything was counted for these rules."""
        if self._spending is not None:
            try:
                await self._spending.set_least([(rule, round(money * UNITS_OF_MONEY)) for rule, money in spent])
            except SpendingUnavailable as error:
                log.warning("what was spent before is not counted, because the state cannot be used: %s", error)
            return
        for rule, money in spent:
            self._memory.set_spent(rule.counter, rule.kind, round(money * UNITS_OF_MONEY))

    def settle_record(self, record: RequestRecord) -> None:
        """Settle the reservation of a request that has ended."""
        reservation = record.reservation
        if type(reservation) is not Reservation:
            return
        if record.cache in _WITHOUT_CALL:
            self.settle(reservation, 0, None)
        else:
            cost = read_cost(record.usage) if record.cost is None else record.cost
            self.settle(reservation, _used_tokens(record), cost, record.fallback_model)

    def settle_late(self, reservation: object, attempts: AttemptLog) -> None:
        """Settle the reservation of a request whose call went on without it, and has ended. A call without usage has
        got nothing from a model."""
        assert type(reservation) is Reservation
        usage = attempts.usage
        if usage is None:
            self.settle(reservation, 0, None)
        else:
            self.settle(reservation, usage.tokens.total, usage.cost, usage.fallback_model)

    async def aclose(self) -> None:
        if self._spending is not None:
            await self._spending.aclose()
        if self._store is not None:
            await self._store.aclose()


async def _read_money(spending: Spending, rules: Sequence[Rule]) -> list[LimitUse]:
    """Return what is spent and reserved; nothing if it cannot be read now."""
    try:
        rows = await spending.read(rules) if rules else []
    except SpendingUnavailable as error:
        log.warning("what was spent cannot be read: %s", error)
        return []
    return [_describe_use(rule, Count(row.spent + row.reserved), 0.0) for rule, row in rows]


def _find_most(price: Price, prompt_tokens: int, reply_tokens: int, units: Mapping[str, int]) -> int:
    """Return the most that a request can cost, in parts of the currency."""
    price = price.find_tier(prompt_tokens)
    each = max(price.input, price.cached_input, price.cache_write)
    tokens = (prompt_tokens * each + reply_tokens * price.output) / 1_000_000
    return math.ceil((tokens + max(price.unit, price.compute_units(units))) * UNITS_OF_MONEY)


def _refuse_spending(exhausted: Exhausted, spending: Spending, headers: Headers) -> RateLimited:
    lines = {name.decode(): value.decode() for name, value in headers}
    now = spending.clock()
    spent = [rule for rule, row in exhausted.rules if row.spent >= rule.limit]
    if not spent:
        rule, row = exhausted.rules[0]
        return RateLimited(
            f"{rule.owner} has spent {row.spent / UNITS_OF_MONEY:g} of its limit of {rule.limit / UNITS_OF_MONEY:g} "
            f"{_WORDS[rule.kind]}, and requests in progress may cost the rest. Try again in {BUSY_SECONDS:g} s",
            BUSY_SECONDS,
            lines,
            rule.scope,
        )
    ends = [(find_period_end(rule.kind, now, spending.zone), rule) for rule in spent]
    end, rule = max(ends, key=lambda row: math.inf if row[1].limit == 0 else row[0])
    wait = None if rule.limit == 0 else end - now
    return QuotaExceeded(_describe_spending(rule, end), wait, lines, rule.scope)


def _describe_use(rule: Rule, count: Counted, elapsed: float) -> LimitUse:
    unit = UNITS_OF_MONEY if rule.is_spending else 1
    return LimitUse(rule.owner, rule.kind, rule.limit / unit, round(used_amount(count, elapsed) / unit, 6))


def _used_tokens(record: RequestRecord) -> int | None:
    """Return the tokens of a request as they are billed; None if they are unknown, because the reply was cut off."""
    if record.tokens is not None:
        return record.tokens.total
    return 0 if record.first_token_at is None else None


def _make_described(rules: Sequence[Rule], kind: Kind, names: tuple[bytes, bytes, bytes]) -> Iterator[_DescribedRules]:
    """Return how the rules of this kind are described, if there are any."""
    limits = {row: (names[0], b"%d" % rule.limit) for row, rule in enumerate(rules) if rule.kind == kind}
    if limits:
        yield _DescribedRules(next(iter(limits)) if len(limits) == 1 else None, limits, names[1], names[2])


def _describe_limits(groups: Sequence[_DescribedRules], taken: Taken) -> Headers:
    """Return OpenAI's headers, for the limits that are nearest to their end."""
    headers: Headers = []
    counts, now = taken.counts, taken.now
    end_of_next_minute = _format_seconds(2 * _MINUTE - int(now % _MINUTE))
    for row, limits, remaining_name, reset_name in groups:
        if row is None:
            row = _find_tightest(limits, taken)
        rule, count = counts[row]
        current = count.current
        left, reset = rule.limit - current, end_of_next_minute
        if not current or count.previous or left < 0:
            elapsed = elapsed_part(now)
            left, reset = remaining(rule, count, elapsed), _format_duration(reset_seconds(count, elapsed))
        headers += (limits[row], (remaining_name, b"%d" % left), (reset_name, reset))
    return headers


def _find_tightest(rows: Iterable[int], taken: Taken) -> int:
    elapsed = elapsed_part(taken.now)
    return min(rows, key=lambda row: remaining(*taken.counts[row], elapsed))


def _format_duration(seconds: float) -> bytes:
    """Format a time as OpenAI does: `1m59s`, `12s`, `80ms`."""
    return b"%dms" % round(seconds * 1000) if seconds < 1 else _format_seconds(math.ceil(seconds))


@lru_cache(maxsize=256)
def _format_seconds(seconds: int) -> bytes:
    """Nearly all times are those until the end of the next minute, so they are at most 120 different ones."""
    return b"%ds" % seconds if seconds < 60 else b"%dm%ds" % (seconds // 60, seconds % 60)


def _find_tokens_left(taken: Taken) -> int:
    """Return how many tokens are left of the limit of tokens with the least left."""
    elapsed = elapsed_part(taken.now)
    rules = (row for row in taken.counts if row[0].kind == "tokens_per_minute")
    return min((remaining(*row, elapsed) for row in rules), default=0)


def _refuse(tokens: int, taken: Taken, lines: Headers) -> RateLimited:
    """Return the error for the limit that the request must wait for longest."""
    headers = {name.decode(): value.decode() for name, value in lines}
    elapsed = elapsed_part(taken.now)
    taking = ((rule, count, rule.amount_of(tokens)) for rule, count in taken.counts)
    refused = [
        (wait_seconds(rule, count, amount, taken.now), rule, amount, remaining(rule, count, elapsed))
        for rule, count, amount in taking
        if not fits(rule, count, amount, elapsed)
    ]
    wait, rule, amount, left = max(refused, key=lambda row: float("inf") if row[0] is None else row[0])
    if rule.is_spending:
        return QuotaExceeded(_describe_spending(rule, period_end(rule.kind, taken.now)), wait, headers, rule.scope)
    words = f"{rule.limit} {_WORDS[rule.kind]} of {rule.owner}"
    if wait is None:
        text = (
            f"the request needs about {amount} tokens for the prompt and the reply, more than the limit of {words}: "
            "shorten it or lower max_tokens"
        )
        return RateLimited(text, None, headers, rule.scope)
    needs = (
        f"; the request needs about {amount} tokens, and {left} are left" if rule.kind == "tokens_per_minute" else ""
    )
    text = f"the limit of {words} is reached{needs}. Try again in {max(1, round(wait))} s"
    return RateLimited(text, wait, headers, rule.scope)


def _describe_spending(rule: Rule, period_end: float) -> str:
    """`period_end` is the Unix time at which the day or month is over."""
    limit = f"{rule.limit / UNITS_OF_MONEY:g} {_WORDS[rule.kind]}"
    if rule.limit == 0:
        return f"{rule.owner} may spend nothing: its {rule.kind} is 0"
    end = datetime.fromtimestamp(period_end, UTC)
    return f"{rule.owner} has spent its limit of {limit}. Try again from {end:%Y-%m-%dT%H:%M:%SZ} on"
