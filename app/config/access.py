"""Who may call the gateway and how much each may use, from the settings: API keys and limits."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from app.access import Caller, KeyRing, ModelGlobs, hash_key
from app.access.issuer import Issuer, TeamRights
from app.access.key_ring import StoredKey
from app.access.stored_keys import KeyRow, StoredKeys
from app.access.user_hashes import UserHasher
from app.access.users import UserRules, parse_user_source
from app.chat.messages import IDENTITY_SEPARATOR
from app.config.references import find_answering
from app.config.settings import Settings
from app.config.tables.callers import JwtIssuer, Key, UserSettings
from app.config.tables.limits import LimitSettings
from app.limits import NO_LIMITS, Limiter, Limits
from app.limits.spending import Spending
from app.limits.values import (
    Rule,
    Team,
    make_any_user_rules,
    make_caller_rules,
    make_gateway_rules,
    make_model_rules,
    make_team_rules,
    name_any_caller,
)
from app.state import Database
from app.usage.meter import Price, find_highest

if TYPE_CHECKING:
    from app.access.jwks import JwksLocation, JwksSources
    from app.access.tokens import TokenVerifier
    from app.redis.connection import RedisConnection

ADMIN_KEY_NAME, NO_KEY_NAME = "(server.admin_key)", "(anonymous)"
"""The names of callers that no key can have."""


def make_key_ring(
    settings: Settings,
    stored: StoredKeys | None = None,
    jwks: "JwksSources | None" = None,
    hasher: UserHasher | None = None,
) -> KeyRing | None:
    """Return the API keys and the issuers of JWTs of the settings; None if there are none and everyone may call.
    `server.admin_key` is then one of them that may use no model. `stored` may have further keys: until they were read,
    it is not known whether requests need one.
    `jwks` has the keys of issuers. `hasher` hashes the names of end users."""
    hasher = hasher or UserHasher(None)
    # After the last stored key was revoked, one is still required.
    required = settings.requires_keys or (stored is not None and stored.were_there)
    if not required and (stored is None or stored.was_read or not stored.has_admin):
        return None
    server = settings.server
    keys: list[StoredKey] = []
    for name, row in settings.keys.items():
        caller = _make_caller(name, row, settings, hasher)
        keys.append(StoredKey(row.sha256, caller, row.expires))
        if row.previous_sha256 is not None:
            until = [time for time in (row.previous_until, row.expires) if time is not None]
            keys.append(StoredKey(row.previous_sha256, caller, min(until) if until else None))
    if server.admin_key is not None:
        admin = Caller(ADMIN_KEY_NAME, ADMIN_KEY_NAME, admin=True, models=ModelGlobs(()))
        keys.append(StoredKey(hash_key(server.admin_key.get_secret_value()), admin))
    anonymous = Caller(NO_KEY_NAME, NO_KEY_NAME) if server.allow_anonymous else None
    tokens = _make_token_verifier(settings, jwks, hasher) if settings.jwt and jwks is not None else None
    if stored is None:
        return KeyRing(keys, anonymous, tokens=tokens)
    return KeyRing(keys, anonymous, is_complete=lambda: stored.was_read, tokens=tokens, required=required)


def _make_token_verifier(settings: Settings, jwks: "JwksSources", hasher: UserHasher) -> "TokenVerifier":
    from app.access.tokens import TokenVerifier  # the package jwt takes time to import

    teams = {
        name: TeamRights(Team(name, make_limits(row.limits)), _make_globs(row.models, _name_team(name)))
        for name, row in settings.teams.items()
    }
    rows = zip(settings.jwt.items(), list_jwks_locations(settings), strict=True)
    return TokenVerifier((_make_issuer(name, row, teams, hasher), jwks.get(location)) for (name, row), location in rows)


def _make_issuer(name: str, row: JwtIssuer, teams: Mapping[str, TeamRights], hasher: UserHasher) -> Issuer:
    return Issuer(
        name,
        row.issuer,
        frozenset(row.audience),
        frozenset(row.algorithms),
        row.leeway_seconds,
        row.name_claim,
        row.team_claim,
        row.models_claim,
        row.admin_claim,
        row.admin_value,
        _make_globs(row.models),
        row.team,
        teams,
        make_limits(row.limits),
        own_fallbacks=row.fallbacks == "own",
        users=make_user_rules(row, hasher),
    )


def list_jwks_locations(settings: Settings) -> "list[JwksLocation]":
    """Return where the keys of each issuer of JWTs are, in the order of the settings."""
    if not settings.jwt:
        return []
    from app.access.jwks import JwksLocation

    return [
        JwksLocation(name, row.issuer, row.jwks_url, row.jwks_file, row.refresh_seconds, row.connections)
        for name, row in settings.jwt.items()
    ]


def _make_globs(patterns: tuple[str, ...], owner: str = "") -> ModelGlobs | None:
    """Return the models that these patterns allow; None: all."""
    return None if "*" in patterns else ModelGlobs(patterns, None, owner)


def with_stored_keys(settings: Settings, rows: Sequence[KeyRow]) -> Settings:
    """Return the settings with the keys of the state database. A key of the file with the same name counts first."""
    keys = {row.name: _read_key(row) for row in rows}
    return settings.model_copy(update={"keys": {**keys, **settings.keys}})


def _read_key(row: KeyRow) -> Key:
    return Key.model_validate({**row.settings, **_find_secrets(row)}).with_identity(row.identity)


def _find_secrets(row: KeyRow) -> dict[str, Any]:
    return {
        "sha256": row.sha256,
        "expires": _read_time(row.expires_at),
        "previous_sha256": row.previous_sha256,
        "previous_until": _read_time(row.previous_until),
    }


def _read_time(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def _make_caller(name: str, key: Key, settings: Settings, hasher: UserHasher) -> Caller:
    models, team = _make_globs(key.models), _find_team(key, settings)
    if team is not None:
        of_team = _make_globs(settings.teams[team.name].models, _name_team(team.name))
        models = models if of_team is None else ModelGlobs(key.models, of_team)
    elif key.team is not None:
        models = ModelGlobs((), None, _name_team(key.team))
    owner = f"{name}{IDENTITY_SEPARATOR}{key.identity}" if key.identity else name
    scope = key.cache_scope or owner
    own_fallbacks = key.fallbacks == "own"
    return Caller(
        name,
        scope,
        key.admin,
        models,
        make_limits(key.limits),
        team,
        owner,
        own_fallbacks,
        key.endpoints,
        make_user_rules(key, hasher, share_replies=key.cache_scope is not None),
    )


def make_user_rules(row: UserSettings, hasher: UserHasher, *, share_replies: bool = False) -> UserRules | None:
    """Return what a key or an issuer says of its end users; None if it names none."""
    if row.users is None:
        return None
    limits = make_limits(row.limits_per_user)
    hash_name = hasher.hash if row.hash_users else None
    return UserRules(parse_user_source(row.users), limits, row.users_required, hash_name, share_replies)


def _find_team(key: Key, settings: Settings) -> Team | None:
    """Return the team of a key; None also for a stored key whose team the configuration has no more."""
    row = None if key.team is None else settings.teams.get(key.team)
    return None if key.team is None or row is None else Team(key.team, make_limits(row.limits))


def _name_team(name: str) -> str:
    return f"its team {name!r}"


def make_limiter(settings: Settings, redis: "RedisConnection | None", database: Database | None) -> Limiter | None:
    """Return the limits of the settings; None if there are none. They are counted in Redis if there is one, else in
    this process; spending is counted in the state database, if there is one."""
    limits, models = make_limits(settings.limits), make_model_limits(settings)
    callers = [make_limits(row.limits) for row in settings.keys.values()]
    callers += [make_limits(row.limits) for row in settings.teams.values()]
    callers += [make_limits(row.limits) for row in settings.jwt.values()]
    callers += [make_limits(row.limits_per_user) for row in (*settings.keys.values(), *settings.jwt.values())]
    if all(one == NO_LIMITS for one in (limits, *models.values(), *callers)):
        return None
    spending = None if database is None else Spending(database, settings.usage.zone)
    store = None
    if redis is not None:
        from app.limits.redis_store import RedisLimitStore  # the package for Redis takes time to import

        store = RedisLimitStore(redis)
    prices, free = find_highest_prices(settings), find_free_models(settings)
    return Limiter(limits, models, store, spending=spending, prices=prices, free=free)


def find_highest_prices(settings: Settings) -> dict[str, Price]:
    """Return, for each model that has a price, the highest prices of the models that may answer a request for it."""
    found: dict[str, Price] = {}
    for name in settings.models:
        rows = [settings.models[one].price for one in find_answering(settings, name) if one in settings.models]
        prices = [row.to_price() for row in rows if row is not None]
        if prices:
            found[name] = find_highest(prices)
    return found


def find_free_models(settings: Settings) -> frozenset[str]:
    """Return the models for which a request costs nothing, whichever model answers and whatever it searches."""
    hosted = (settings.hosted_tools.web_search, settings.hosted_tools.web_fetch)
    priced = [ModelGlobs(tool.models) for tool in hosted if tool is not None and tool.price.per_1000]

    def is_free(name: str) -> bool:
        row = settings.models.get(name)
        is_known = row is not None and row.price is not None and row.price.to_price().is_free
        return is_known and not any(models.match(name) for models in priced)

    return frozenset(name for name in settings.models if all(map(is_free, find_answering(settings, name))))


def make_model_limits(settings: Settings) -> dict[str, Limits]:
    return {name: make_limits(row.limits) for name, row in settings.models.items()}


def make_limits(settings: LimitSettings) -> Limits:
    return Limits(**settings.model_dump(include=set(LimitSettings.model_fields)))


def list_spending_rules(settings: Settings) -> dict[str, Rule]:
    """Return the limits of spending of all owners, by the names of their counters."""
    rules = [*make_gateway_rules(make_limits(settings.limits))]
    for name, limits in make_model_limits(settings).items():
        rules += make_model_rules(name, limits)
    for name, row in settings.keys.items():
        rules += make_caller_rules(name, make_limits(row.limits), _find_team(row, settings))
        rules += make_any_user_rules(name, make_limits(row.limits_per_user))
    for name, issuer in settings.jwt.items():
        rules += make_caller_rules(name_any_caller(name), make_limits(issuer.limits))
        rules += make_any_user_rules(name_any_caller(name), make_limits(issuer.limits_per_user))
    if settings.jwt:  # their callers may be of any team
        rules += itertools.chain.from_iterable(
            make_team_rules(Team(name, make_limits(row.limits))) for name, row in settings.teams.items()
        )
    return {rule.counter: rule for rule in rules if rule.is_spending}


def describe_foreign_fallbacks(settings: Settings) -> Iterator[str]:
    """Yield a sentence for each key of the configuration whose requests fallbacks may answer, or may not, that it could
    not ask for itself."""
    for name, row in settings.keys.items():
        caller = _make_caller(name, row, settings, UserHasher(None))
        found = [
            fallback
            for model, each in settings.models.items()
            if caller.may_use(model, *each.aliases)
            for fallback in (*each.fallbacks, *each.fallbacks_on_context_length, *each.fallbacks_on_content_filter)
            if not caller.may_use(fallback)
        ]
        if found:
            verb = "may not" if caller.own_fallbacks else "may"
            names = ", ".join(dict.fromkeys(found))
            yield f"key {name}: {names} {verb} answer as a fallback, which it may not ask for itself"
