"""Claims of a verified JWT: the caller that they make, and claims that are missing, of another type or ask for more."""

from typing import Any

import pytest
from app.access import Caller, ModelGlobs
from app.access.issuer import MAX_MODELS, MAX_NAME, Issuer, TeamRights, find_claim, make_caller, shorten
from app.access.users import UserRules, UserSource
from app.errors import Forbidden, InvalidToken
from app.limits.values import NO_LIMITS, Limits, Team
from msgspec.structs import replace

from tests.each_case import each_case

RESEARCH = TeamRights(Team("research", Limits(requests_per_minute=5)), ModelGlobs(("qwen*",), None, "its team"))
SUPPORT = TeamRights(Team("support", NO_LIMITS), None)
ISSUER = Issuer(
    "kc",
    "https://idp.test",
    frozenset({"parley"}),
    frozenset({"ES256"}),
    30.0,
    "sub",
    None,
    None,
    None,
    None,
    None,
    None,
    {"research": RESEARCH, "support": SUPPORT},
    Limits(tokens_per_minute=100),
)


def caller(claims: dict[str, Any], **fields: Any) -> Caller:
    return make_caller({"sub": "alice", **claims}, replace(ISSUER, **fields))


def models(found: Caller, *names: str) -> list[str]:
    return found.select_models(names or ("qwen3", "gpt-4o", "m"))


def test_a_caller_has_the_name_of_the_issuer_before_its_own_and_the_issuers_limits() -> None:
    found = caller({})
    assert (found.name, found.scope, found.admin, found.models, found.team) == (
        "kc:alice",
        "kc:alice",
        False,
        None,
        None,
    )
    assert found.limits is ISSUER.limits


def test_a_claim_is_found_by_its_name_else_by_its_path() -> None:
    claims = {"a.b": 1, "a": {"b": 2, "c": {"d": [3]}}, "https://x.example/roles": 4, "n": "text"}
    assert [find_claim(claims, name) for name in ("a.b", "a.c.d", "https://x.example/roles")] == [1, [3], 4]
    assert [find_claim(claims, name) for name in ("b", "a.x", "n.x", "a.c.d.e", "n.0")] == [None] * 5
    assert caller({"realm": {"user": "bob"}}, name_claim="realm.user").name == "kc:bob"


@each_case(
    ("value", "mistake"),
    [
        (None, "no claim 'sub', from which the caller's name is read"),
        (7, "must be a string, not 7"),
        (["alice"], "must be a string, not ['alice']"),
        ({"a": "x"}, "must be a string"),
        ("", "1 to 128 printable characters"),
        ("x" * (MAX_NAME + 1), "1 to 128 printable characters"),
        ("a\nb", "1 to 128 printable characters"),
        ("a\u202eb", "1 to 128 printable characters"),
        (" a", "no space at its ends"),
    ],
)
def test_a_name_that_is_no_name_is_refused(value: Any, mistake: str) -> None:
    with pytest.raises(InvalidToken) as caught:
        caller({"sub": value})
    assert mistake in caught.value.message


def test_names_of_all_kinds_are_accepted() -> None:
    for name in (
        "auth0|5f7c",
        "system:serviceaccount:ns:agent",
        "a@example.com",
        "spiffe://x/y",
        "Jörg 张",
        "*",
        "alice",
    ):
        assert caller({"sub": name}).name == f"kc:{name}"


@each_case(
    ("given", "claim", "default", "team"),
    [
        ("support", None, None, None),
        ("research", "team", None, "research"),
        (["unknown", "support", "research"], "team", None, "support"),
        (None, "team", "support", "support"),
        ([], "team", "support", "support"),
        ("research", None, "support", "support"),
    ],
)
def test_the_team_is_that_of_the_claim_else_the_issuers(
    given: Any, claim: str | None, default: str | None, team: str | None
) -> None:
    found = caller({} if given is None else {"team": given}, team_claim=claim, team=default)
    assert (None if found.team is None else found.team.name) == team


def test_a_team_that_is_not_configured_is_never_replaced_by_another() -> None:
    for given in ("unknown", "", ["unknown"], "research "):
        with pytest.raises(Forbidden, match="names no team of this gateway"):
            caller({"team": given}, team_claim="team", team="support")
    with pytest.raises(InvalidToken, match="no claim 'team'"):
        caller({}, team_claim="team")
    with pytest.raises(Forbidden, match="names no team of this gateway"):
        caller({"team": []}, team_claim="team")
    wrong: list[Any] = [7, {"research": 1}, [["research"]], [1], True]
    for value in wrong:
        with pytest.raises(InvalidToken, match="a string or a list of strings"):
            caller({"team": value}, team_claim="team")


@each_case(
    ("given", "allowed", "team", "expected"),
    [
        (["*"], None, None, ["qwen3", "gpt-4o", "m"]),
        ("qwen3 m", None, None, ["qwen3", "m"]),
        (["qwen3", "m"], None, None, ["qwen3", "m"]),
        (["*"], ("gpt*",), None, ["gpt-4o"]),
        ("* gpt*", ("qwen*",), None, ["qwen3"]),
        (["*"], None, "research", ["qwen3"]),
        (["*"], ("gpt*",), "research", []),
        (["gpt*", "m"], ("*4o", "qwen*"), "support", ["gpt-4o"]),
        ([], None, None, []),
        ("", None, None, []),
        ("   ", ("qwen*",), None, []),
    ],
)
def test_a_token_never_allows_more_models_than_the_issuer_and_the_team(
    given: Any, allowed: tuple[str, ...] | None, team: str | None, expected: list[str]
) -> None:
    globs = None if allowed is None else ModelGlobs(allowed)
    found = caller({"models": given}, models_claim="models", models=globs, team=team)
    assert models(found) == expected
    if not expected:
        words = "Send another token" if not given or not given[0].strip() else "it may use: "
        with pytest.raises(Forbidden, match=words):
            found.check_model("m")


def test_without_a_claim_for_models_the_issuer_and_the_team_say_which() -> None:
    assert models(caller({"models": ["*"]}, models=ModelGlobs(("gpt*",)))) == ["gpt-4o"]
    found = caller({}, models=ModelGlobs(("*m*", "q*")), team="research")
    with pytest.raises(Forbidden) as caught:
        found.check_model("m")
    assert "the JWT caller 'kc:alice' may not use the model 'm'; it may use: *m*, q*, of those of its team: qwen*" in (
        caught.value.message
    )
    assert "`models` of the issuer of the JWT" in caught.value.message


def test_a_claim_for_models_of_another_type_or_that_is_missing_is_refused() -> None:
    for given, mistake in [
        (None, "no claim 'models'"),
        (True, "a string or a list of strings, not True"),
        ({"qwen3": 1}, "a string or a list of strings"),
        (["qwen3", 1], "a string or a list of strings"),
        (["x"] * (MAX_MODELS + 1), "lists 201 models"),
    ]:
        with pytest.raises(InvalidToken) as caught:
            caller({"models": given}, models_claim="models")
        assert mistake in caught.value.message


@each_case(
    ("claim", "value", "given", "admin"),
    [
        (None, None, {"admin": True}, False),
        ("admin", True, {"admin": True}, True),
        ("admin", True, {"admin": "true"}, False),
        ("admin", True, {"admin": 1}, False),
        ("admin", "true", {"admin": True}, False),
        ("roles", "root", {"roles": "root"}, True),
        ("roles", "root", {"roles": ["user", "root"]}, True),
        ("roles", "root", {"roles": ["roots", ["root"]]}, False),
        ("roles", "root", {"roles": "user root"}, False),
        ("roles", "root", {"roles": {"root": True}}, False),
        ("roles", "root", {}, False),
        ("realm_access.roles", "root", {"realm_access": {"roles": ["root"]}}, True),
        ("scope", "parley.admin", {"scope": "openid parley.admin"}, True),
        ("scope", "parley.admin", {"scope": "openid parley.administrator"}, False),
        ("scp", "admin", {"scp": ["admin"]}, True),
    ],
)
def test_an_administrator_is_who_has_exactly_the_configured_value(
    claim: str | None, value: str | bool | None, given: dict[str, Any], admin: bool
) -> None:
    assert caller(given, admin_claim=claim, admin_value=value).admin is admin


def test_what_a_message_repeats_is_short() -> None:
    assert len(shorten("x" * 10_000)) == 201
    assert shorten("x") == "'x'"


@each_case(
    ("source", "user"),
    [
        (UserSource("claim", "email"), "ann@example.com"),
        (UserSource("claim", "act.name"), "bot"),
        (UserSource("claim", "missing"), ""),
        (UserSource("header", "x-user"), None),
        (UserSource("user"), None),
    ],
)
def test_a_claim_names_the_end_user_and_other_places_are_read_later(source: UserSource, user: str | None) -> None:
    claims = {"email": "ann@example.com", "act": {"name": "bot"}}
    found = caller(claims, users=UserRules(source, Limits(requests_per_minute=1)))
    assert (found.name, found.user) == ("kc:alice", user)
    assert (found.identity == "kc:alice") is not bool(user)
    assert caller(claims).users is None
