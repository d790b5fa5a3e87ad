"""Who may call the gateway and how much each may use, from the settings: API keys and limits."""

from typing import TYPE_CHECKING

from msgspec.structs import astuple

from app.access import Caller, KeyRing, ModelGlobs, hash_key
from app.access.key_ring import StoredKey
from app.config.settings import Key, LimitSettings, Settings, find_answering
from app.limits import NO_LIMITS, Limiter, Limits
from app.limits.spending import Spending
from app.limits.values import Rule, Team, make_caller_rules, make_gateway_rules, make_model_rules
from app.state import Database
from app.usage.meter import Price

if TYPE_CHECKING:
    from app.redis.connection import RedisConnection

ADMIN_KEY_NAME, NO_KEY_NAME = "(server.admin_key)", "(anonymous)"
"""The names of callers that no key can have."""


def make_key_ring(settings: Settings) -> KeyRing | None:
    """Return the API keys of the settings; None if there are none. `server.admin_key` is then one of them that may use
    no model."""
    if not settings.keys:
        return None
    keys = [
        StoredKey(row.sha256, _make_caller(name, row, settings), row.expires) for name, row in settings.keys.items()
    ]
    server = settings.server
    if server.admin_key is not None:
        admin = Caller(ADMIN_KEY_NAME, ADMIN_KEY_NAME, admin=True, models=ModelGlobs(()))
        keys.append(StoredKey(hash_key(server.admin_key.get_secret_value()), admin))
    return KeyRing(keys, Caller(NO_KEY_NAME, NO_KEY_NAME) if server.allow_anonymous else None)


def _make_caller(name: str, key: Key, settings: Settings) -> Caller:
    models = None if "*" in key.models else ModelGlobs(key.models)
    team = None
    if key.team is not None:
        row = settings.teams[key.team]
        team = Team(key.team, make_limits(row.limits))
        if "*" not in row.models:
            models = ModelGlobs(key.models, ModelGlobs(row.models))
    return Caller(name, key.cache_scope or name, key.admin, models, make_limits(key.limits), team)


def make_limiter(settings: Settings, redis: "RedisConnection | None", database: Database | None) -> Limiter | None:
    """Return the limits of the settings; None if there are none. They are counted in Redis if there is one, else in
    this process; spending is counted in the state database, if there is one."""
    limits, models = make_limits(settings.limits), make_model_limits(settings)
    callers = [make_limits(row.limits) for row in settings.keys.values()]
    callers += [make_limits(row.limits) for row in settings.teams.values()]
    if all(one == NO_LIMITS for one in (limits, *models.values(), *callers)):
        return None
    spending = None if database is None else Spending(database, settings.usage.zone)
    store = None
    if redis is not None:
        from app.limits.redis_store import RedisLimitStore  # the package for Redis takes time to import

        store = RedisLimitStore(redis)
    return Limiter(limits, models, store, spending=spending, prices=find_highest_prices(settings))


def find_highest_prices(settings: Settings) -> dict[str, Price]:
    """Return, for each model that has a price, the highest prices of the models that may answer a request for it."""
    found: dict[str, Price] = {}
    for name in settings.models:
        rows = [settings.models[one].price for one in find_answering(settings, name) if one in settings.models]
        prices = [row.to_price() for row in rows if row is not None]
        if prices:
            found[name] = Price(*(max(numbers) for numbers in zip(*map(astuple, prices), strict=True)))
    return found


def make_model_limits(settings: Settings) -> dict[str, Limits]:
    return {name: make_limits(row.limits) for name, row in settings.models.items()}


def make_limits(settings: LimitSettings) -> Limits:
    return Limits(**settings.model_dump())


def list_spending_rules(settings: Settings) -> dict[str, Rule]:
    """Return the limits of spending of all owners, by the names of their counters."""
    rules = [*make_gateway_rules(make_limits(settings.limits))]
    for name, limits in make_model_limits(settings).items():
        rules += make_model_rules(name, limits)
    for name, row in settings.keys.items():
        team = None if row.team is None else Team(row.team, make_limits(settings.teams[row.team].limits))
        rules += make_caller_rules(name, make_limits(row.limits), team)
    return {rule.counter: rule for rule in rules if rule.is_spending}
