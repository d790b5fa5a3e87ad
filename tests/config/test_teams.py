"""Teams: limits and models that several keys have together."""

import asyncio
from typing import Any

import pytest
from app.access import hash_key
from app.chat.messages import CallerRights
from app.chat.token_usage import UsageOwner
from app.config.access import list_spending_rules, make_key_ring
from app.config.mistakes import find_mistakes
from app.config.settings import Settings
from app.errors import Forbidden, QuotaExceeded, RateLimited
from app.limits import Limiter, Limits
from app.limits.past_spending import read_spending
from app.limits.spending import Spending
from app.state.sqlite import SqliteDatabase
from app.usage.ledger import LedgerRules, UsageLedger
from app.usage.store import UsageStore
from app.usage.totals import Totals
from pydantic import ValidationError

from tests.each_case import each_case

PRICE = {"input": 1, "output": 1}


def make_settings(**changes: Any) -> Settings:
    return Settings.model_validate(
        {
            "upstreams": {"u": {"base_url": "http://127.0.0.1:1/v1"}},
            "models": {name: {"upstreams": ["u"], "price": PRICE} for name in ("qwen", "gpt", "qwen-large")},
            "teams": {"search": {"models": ["qwen*"], "limits": {"spend_per_day": 2.0, "requests_per_minute": 3}}},
            "keys": {
                "a": {"sha256": hash_key("a" * 20), "team": "search"},
                "b": {"sha256": hash_key("b" * 20), "team": "search", "models": ["gpt", "*-large"]},
                "c": {"sha256": hash_key("c" * 20)},
            },
            **changes,
        }
    )


def callers(settings: Settings) -> dict[str, Any]:
    ring = make_key_ring(settings)
    assert ring is not None
    return {caller.name: caller for caller in ring.callers()}


def test_a_key_may_use_the_models_that_it_and_its_team_name() -> None:
    found = callers(make_settings())
    names = ["qwen", "gpt", "qwen-large"]
    assert {name: caller.select_models(names) for name, caller in found.items()} == {
        "a": ["qwen", "qwen-large"],
        "b": ["qwen-large"],
        "c": names,
    }
    with pytest.raises(Forbidden, match=r"it may use: gpt, \*-large, of those of its team 'search': qwen\*\."):
        found["b"].check_model("gpt")
    assert found["a"].rights == CallerRights("the API key 'a'", True) and found["c"].rights == CallerRights(
        "the API key 'c'", False
    )


def test_the_limits_of_a_team_hold_for_its_keys_together() -> None:
    async def scenario() -> None:
        found = callers(make_settings())
        database = SqliteDatabase("")
        limiter = Limiter(Limits(), {}, spending=Spending(database))
        first = await limiter.reserve(found["a"], "qwen", lambda: 1, 1, 1)
        assert first is not None
        limiter.settle(first, 2, 2.5)
        with pytest.raises(QuotaExceeded, match="the team 'search' has spent its limit of 2 per day"):
            await limiter.reserve(found["b"], "qwen", lambda: 1, 1, 1)
        with pytest.raises(QuotaExceeded):
            await limiter.reserve(found["a"], "qwen", lambda: 1, 1, 1)
        with pytest.raises(RateLimited, match="3 requests per minute of the team 'search'"):
            await limiter.reserve(found["b"], "qwen", lambda: 1, 1, 1)
        assert await limiter.reserve(found["c"], "qwen", lambda: 1, 1, 1) is None
        uses = [(use.owner, use.used) for use in await limiter.read(found.values())]
        assert uses == [("the team 'search'", 3.0), ("the team 'search'", 2.5)]
        await limiter.aclose()
        database.close()

    asyncio.run(scenario())


def test_what_its_keys_spent_before_counts_for_the_team() -> None:
    settings = make_settings()
    ledger = UsageLedger(UsageStore(SqliteDatabase("")), LedgerRules(clock=lambda: 1_795_305_600.0))
    for key in ("a", "b", "c"):
        ledger.add(UsageOwner(key), "qwen", Totals(requests=1, cost=0.5))
    teams = {name: row.team for name, row in settings.keys.items() if row.team}
    rules = [*list_spending_rules(settings).values()]
    spent = read_spending(ledger, rules, 1_795_305_600.0, settings.usage.zone, teams)
    assert [(rule.owner, money) for rule, money in spent] == [("the team 'search'", 1.0)]
    ledger.close()


def test_what_callers_with_tokens_spent_before_counts_for_them_and_for_their_teams() -> None:
    limits = {"spend_per_day": 4}
    corp = {"issuer": "https://idp.test", "audience": "x", "team_claim": "team", "limits": limits}
    free = {"issuer": "https://free.test", "audience": "x"}
    settings = make_settings(jwt={"corp": corp, "free": free})
    ledger = UsageLedger(UsageStore(SqliteDatabase("")), LedgerRules(clock=lambda: 1_795_305_600.0))
    for name, team in (("corp:a", "search"), ("corp:a", "search"), ("corp:b", "gone"), ("free:c", "search"), ("a", "")):
        ledger.add(UsageOwner(name, team), "qwen", Totals(requests=1, cost=0.5))
    rules = [*list_spending_rules(settings).values()]
    spent = read_spending(ledger, rules, 1_795_305_600.0, settings.usage.zone, {"a": "search"})
    found = {(rule.owner, rule.counter, rule.limit): money for rule, money in spent}
    assert found == {
        ("the JWT caller 'corp:a'", "key:corp:a:spend_per_day", 4_000_000_000): 1.0,
        ("the JWT caller 'corp:b'", "key:corp:b:spend_per_day", 4_000_000_000): 0.5,
        ("the team 'search'", "team:search:spend_per_day", 2_000_000_000): 2.0,
    }
    ledger.close()


def test_what_end_users_spent_before_counts_for_each_of_them() -> None:
    users = {"users": "user", "limits_per_user": {"spend_per_day": 2}}
    keys = {"app": {"sha256": "a" * 64, **users}, "a": {"sha256": "b" * 64}}
    issuer = {"issuer": "https://idp.test", "audience": "x", **users}
    settings = make_settings(keys=keys, teams={}, jwt={"corp": issuer})
    ledger = UsageLedger(UsageStore(SqliteDatabase("")), LedgerRules(clock=lambda: 1_795_305_600.0))
    for key, user in (("app", "ann"), ("app", "bob"), ("app", "ann"), ("app", ""), ("a", "ann"), ("corp:x", "ann")):
        ledger.add(UsageOwner(key, "", user), "qwen", Totals(requests=1, cost=0.5))
    rules = [*list_spending_rules(settings).values()]
    spent = read_spending(ledger, rules, 1_795_305_600.0, settings.usage.zone, {})
    assert {rule.counter: (rule.owner, rule.limit, money) for rule, money in spent} == {
        "user:app\x1f:spend_per_day": ("the requests without a user of the API key 'app'", 2_000_000_000, 0.5),
        "user:app\x1fann:spend_per_day": ("the user 'ann' of the API key 'app'", 2_000_000_000, 1.0),
        "user:app\x1fbob:spend_per_day": ("the user 'bob' of the API key 'app'", 2_000_000_000, 0.5),
        "user:corp:x\x1fann:spend_per_day": ("the user 'ann' of the JWT caller 'corp:x'", 2_000_000_000, 0.5),
    }
    ledger.close()


@each_case(
    ("tree", "words"),
    [
        ({"keys": {"a": {"sha256": "a" * 64, "users_required": True}}}, "has users_required, which needs `users`"),
        ({"keys": {"a": {"sha256": "a" * 64, "limits_per_user": {"spend_per_day": 1}}}}, "has limits_per_user"),
        ({"keys": {"a": {"sha256": "a" * 64, "users": "claim:email"}}}, "which only JWTs have"),
        ({"keys": {"a": {"sha256": "a" * 64, "users": "x-user"}}}, "must be header:NAME, user, "),
    ],
)
def test_settings_of_users_need_a_place_where_requests_name_them(tree: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        make_settings(**tree)


def test_a_hash_of_users_needs_a_state_database() -> None:
    keys = {"a": {"sha256": "a" * 64, "users": "user", "hash_users": True}}
    (mistake,) = find_mistakes(make_settings(keys=keys, teams={}, state={"url": "null:"}))
    assert mistake.startswith("keys.a.hash_users: needs a state database")


def test_mistakes_in_teams_are_named() -> None:
    keys = {"a": {"sha256": "a" * 64, "team": "serch"}}
    (mistake,) = find_mistakes(make_settings(keys=keys))
    assert mistake.startswith("keys.a.team: there is no team 'serch'; did you mean `search`?; add [teams.serch]")
    models = {"qwen": {"upstreams": ["u"]}, "gpt": {"upstreams": ["u"]}}
    assert [line.split(":")[0] for line in find_mistakes(make_settings(models=models))] == [
        "teams.search.limits",
    ]
