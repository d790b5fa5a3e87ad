"""What a gateway says at its start about what it does not keep or share."""

from pathlib import Path

from app.config.load import load
from app.config.settings import Settings
from app.config.warnings import find_suspect_upstreams, find_unused_fields, find_warnings

from tests.each_case import each_case

REDIS, POSTGRES = {"url": "redis://r/0"}, {"url": "postgresql://p/usage"}


def _issuer(**row: str) -> dict[str, object]:
    kept = {"cache": {"url": "memory:"}, "usage": {"url": "memory:"}}
    return {**kept, "jwt": {"a": {"audience": "parley", **row}}}


MEMORY: dict[str, object] = {"usage": {"url": "memory:"}}
RATES: dict[str, object] = {"limits": {"requests_per_minute": 5}}


@each_case(
    ("settings", "words"),
    [
        ({"cache": {"url": "memory:"}, "usage": {"url": "memory:"}}, []),
        ({"server": {"replicas": 2}, "cache": REDIS, "usage": POSTGRES}, []),
        (
            {"server": {"replicas": 2}, "cache": {"url": "memory:"}, "usage": POSTGRES},
            ["server.replicas is 2", "calls in progress, rate limits of its own"],
        ),
        (
            {"server": {"replicas": 3}, "cache": {"url": "memory:"}, "usage": {"url": "memory:"}},
            ["server.replicas is 3", "usage and spending", "usage.url to a PostgreSQL"],
        ),
        ({"cache": REDIS, "usage": {"url": "memory:"}}, ["are in Redis, which may evict them: set state.url"]),
        ({"cache": REDIS, "state": {"url": "sqlite:///s.db"}, "usage": {"url": "memory:"}}, []),
        ({"cache": {"url": "memory:"}, **MEMORY, "request_log": {"keep": "all"}}, ["set request_log.url"]),
        (
            {"cache": {"url": "memory:"}, **MEMORY, "request_log": {"url": "sqlite:///r.db", "content": "full"}},
            [],
        ),
        (
            {
                "cache": {"url": "memory:"},
                **MEMORY,
                "request_log": {"url": "sqlite:///r.db", "content": "full", "keep": "errors"},
            },
            ["with personal data"],
        ),
        ({"cache": {"url": "memory:"}}, ["usage are in memory", "Set usage.url, or mount"]),
        ({"server": {"workers": 2}, "cache": REDIS, "state": {"url": "sqlite:///s.db"}, **RATES, **MEMORY}, []),
        ({"server": {"workers": 2}, "cache": {"url": "memory:"}, **MEMORY}, []),
        ({"server": {"workers": 1}, "cache": {"url": "memory:"}, **RATES, **MEMORY}, []),
        (
            {"server": {"workers": 2}, "cache": {"url": "memory:"}, **RATES, **MEMORY},
            ["are counted by each of the 2 workers", "up to 2 times as much"],
        ),
        (
            {"server": {"workers": 3, "admin_key": "sk-admin"}, "cache": {"url": "memory:"}, **MEMORY},
            ["are counted by each of the 3 workers"],
        ),
        (_issuer(issuer="http://idp.test"), ["JWT issuer a come over plain HTTP", "from idp.test"]),
        (_issuer(issuer="http://127.0.0.1:8080"), []),
        (_issuer(issuer="http://idp.test", jwks_url="https://idp.test/keys"), []),
        (_issuer(issuer="kubernetes", jwks_file="keys.json"), []),
    ],
)
def test_warnings(settings: dict[str, object], words: list[str]) -> None:
    text = "\n".join(find_warnings(Settings.model_validate(settings)))
    assert bool(text) is bool(words)
    assert [word for word in words if word not in text] == []


def test_an_unwritable_home_is_told(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    assert [*find_warnings(load(environ))] == []
    (text,) = find_warnings(load({"HOME": "/proc/1"}))
    assert text.startswith("replies and usage are in memory") and "cache.url and usage.url" in text


def test_a_field_of_a_profile_that_changes_nothing_is_named() -> None:
    upstreams = {"a": {"base_url": "http://h/v1", "api": "messages"}, "b": {"base_url": "http://h/v1"}}
    models = {"m": {"upstreams": ["a", "b"], "profile": {"names": "user", "takes": "all", "media": ["image"]}}}
    settings = Settings.model_validate({"upstreams": upstreams, "models": models})
    assert [text.partition(" has")[0] + text[-2:] for text in find_unused_fields(settings)] == [
        "models.m.profile.names a",
        "models.m.profile.takes b",
    ]


@each_case(
    ("row", "expected"),
    [
        ({"base_url": "http://h/v1", "api_key": "$ecret"}, []),
        ({"base_url": "http://h/responses", "api_key": "${K"}, []),
        (
            {"base_url": "http://h/v1/chat/completions/", "api_key": "$OWN_KEY"},
            [
                "upstreams.a.base_url ends with /chat/completions, which the gateway adds itself: leave it out",
                "upstreams.a.api_key begins with $: a variable is written ${OWN_KEY}",
            ],
        ),
        (
            {"base_url": "http://h/v1/messages", "api": "messages"},
            ["upstreams.a.base_url ends with /messages, which the gateway adds itself: leave it out"],
        ),
        ({"base_url": "http://h/v1beta", "api": "gemini"}, []),
    ],
)
def test_an_address_and_a_key_that_will_hardly_work_are_named(row: dict[str, str], expected: list[str]) -> None:
    settings = Settings.model_validate({"upstreams": {"a": row}, "passthrough": "a"})
    assert [*find_suspect_upstreams(settings)] == expected
    assert [line for line in find_warnings(settings) if line in expected] == expected
