"""A `config.json` of claude-code-router becomes settings of Parley, or a note."""

import hashlib
from typing import Any

from tests.each_case import each_case
from tests.importers.imported import ccr

PROVIDER = "{name: p, api_base_url: 'http://h/v1/chat/completions', api_key: $KEY, models: [a, b]"


def one(rest: str = "", more: str = "") -> tuple[dict[str, Any], list[str]]:
    return ccr(f"Providers: [{PROVIDER}{rest}}}]\n{more}")


def test_a_provider_is_an_upstream_with_models_that_clients_name_as_before() -> None:
    tree, notes = one()
    assert tree["upstreams"] == {"p": {"base_url": "http://h/v1", "api_key": "${KEY}"}}
    assert tree["models"] == {name: {"upstreams": ["p"], "aliases": [f"p,{name}"]} for name in "ab"}
    assert notes == ["Router.default: is missing: clients name one of the models"]


def test_a_model_that_only_the_router_names_is_one_of_its_provider() -> None:
    transformer = ", transformer: {use: [[maxtoken, {max_tokens: 9}]], 'c:online': {use: [unknown]}}"
    tree, notes = one(transformer, "Router: {default: 'p,a', webSearch: 'p,c:online', think: 'gone,a'}")
    assert tree["models"]["c:online"] == {
        "upstreams": ["p"],
        "aliases": ["p,c:online"],
        "profile": {"max_output_tokens": 9},
    }
    assert tree["models"]["ccr"]["rules"] == [{"when": {"tool": "web_search*"}, "use": "c:online"}]
    assert notes == [
        "Providers[0].transformer: 'unknown' was not taken",
        "Router.think: there is no model 'gone,a'",
    ]


def test_rules_without_a_default_are_noted() -> None:
    tree, notes = one(more="Router: {think: 'p,a'}")
    assert "ccr" not in tree["models"] and "default_model" not in tree
    assert notes == [
        "Router.default: is missing: clients name one of the models",
        "Router.think: is not taken without a `default`",
    ]
    _, notes = one(more="Router: {default: 'gone,a', think: 'p,b'}")
    assert notes == ["Router.default: there is no model 'gone,a'", "Router.think: is not taken without a `default`"]


@each_case(
    ("address", "upstream"),
    [
        ("https://api.deepseek.com/chat/completions", {"base_url": "https://api.deepseek.com", "kind": "deepseek"}),
        (
            "https://api.anthropic.com/v1/messages",
            {"base_url": "https://api.anthropic.com/v1", "api": "messages", "kind": "anthropic"},
        ),
        (
            "https://api.z.ai/api/anthropic/v1/messages",
            {"base_url": "https://api.z.ai/api/anthropic/v1", "api": "messages"},
        ),
        (
            "https://api.openai.com/v1/responses",
            {"base_url": "https://api.openai.com/v1", "api": "responses", "kind": "openai"},
        ),
        (
            "https://generativelanguage.googleapis.com/v1beta/models/",
            {"base_url": "https://generativelanguage.googleapis.com/v1beta/openai", "kind": "gemini"},
        ),
        ("http://h/v1beta/models/", {"base_url": "http://h/v1beta", "api": "gemini", "kind": "gemini"}),
        ("http://h:1234", {"base_url": "http://h:1234", "kind": "lmstudio"}),
        ("${HOST}/v1/chat/completions", {"base_url": "${HOST}/v1"}),
    ],
)
def test_the_address_of_a_provider_is_that_of_its_requests(address: str, upstream: dict[str, Any]) -> None:
    tree, _ = ccr(f"Providers: [{{name: p, api_base_url: '{address}', models: [a]}}]")
    assert [*tree["upstreams"].values()] == [upstream]


def test_a_name_that_two_providers_have_is_written_with_its_provider() -> None:
    second = PROVIDER.replace("name: p", "name: q").replace("http://h", "http://i")
    tree, _ = ccr(f"Providers: [{PROVIDER}}}, {PROVIDER}}}, {second}}}]")
    assert tree["models"]["q,a"] == {"upstreams": ["q"], "name": "a"}
    assert [*tree["models"]] == ["a", "b", "q,a", "q,b"]


@each_case(
    ("transformer", "row", "notes"),
    [
        ("{use: [tooluse, [maxtoken, {max_tokens: 9}]]}", {"profile": {"max_output_tokens": 9}}, []),
        ("{use: [[maxtoken, {max_tokens: 0}]]}", {}, []),
        ("{a: {use: [[maxtoken, {max_tokens: 9}]]}}", {"profile": {"max_output_tokens": 9}}, []),
        (
            "{use: [[openrouter, {provider: {only: [x]}}]]}",
            {"defaults": {"extra_body": {"provider": {"only": ["x"]}}}},
            [],
        ),
        ("{use: [gemini-cli, 3]}", {}, ["Providers[0].transformer: 'gemini-cli' was not taken"]),
    ],
)
def test_transformers_that_change_a_request_are_settings_of_models(
    transformer: str, row: dict[str, Any], notes: list[str]
) -> None:
    tree, found = one(f", transformer: {transformer}", "Router: {default: 'p,a'}")
    assert (tree["models"]["a"], found) == ({"upstreams": ["p"], "aliases": ["p,a"], **row}, notes)


def test_the_router_is_a_virtual_model_for_every_name() -> None:
    tree, notes = one(
        more="Router: {default: 'p,a', background: 'p,b', think: 'p,b', longContext: 'p,b', image: 'p,b'}"
    )
    assert tree["default_model"] == "ccr"
    assert tree["models"]["ccr"] == {
        "use": "a",
        "rules": [
            {"when": {"media": "image"}, "use": "b"},
            {"when": {"tokens_above": 60000}, "use": "b"},
            {"when": {"model": "*haiku*"}, "use": "b"},
            {"when": {"thinking": True}, "use": "b"},
        ],
        "aliases": ["*"],
    }
    assert notes == []


def test_the_fallbacks_of_a_key_of_the_router_are_those_of_its_model() -> None:
    router = "Router: {default: 'p,a', think: 'p,b', background: 'p,b'}"
    tree, notes = one(more=router + "\nfallback: {default: ['p,b', 'p,c', 'p,a'], think: ['p,a'], webSearch: []}")
    assert tree["models"]["a"]["fallbacks"] == ["b", "c"]
    assert tree["models"]["b"]["fallbacks"] == ["a"]
    assert tree["models"]["c"] == {"upstreams": ["p"], "aliases": ["p,c"]}
    assert notes == []
    _, notes = one(
        more=router + "\nfallback: {think: ['p,a'], background: ['p,c'], webSearch: ['p,b'], default: ['z,a']}"
    )
    assert notes == [
        "fallback.background: 'b' has the fallbacks of another key already",
        "fallback.webSearch: the router names no model for it",
        "fallback.default: not all of its models are there",
    ]


def test_rules_at_the_end_that_say_what_the_default_says_are_left_out() -> None:
    tree, _ = one(more="Router: {default: 'p,a', longContext: 'p,b', longContextThreshold: '9000', think: 'p,a'}")
    assert tree["models"]["ccr"]["rules"] == [{"when": {"tokens_above": 9000}, "use": "b"}]
    tree, _ = one(more="Router: {default: 'p,a', webSearch: 'p,b'}")
    assert tree["models"]["ccr"]["rules"] == [{"when": {"tool": "web_search*"}, "use": "b"}]


def test_what_cannot_be_taken_is_noted() -> None:
    tree, notes = ccr("""
        Providers:
          - {name: p, api_base_url: 'http://h/v1', models: [ccr, 3]}
          - {name: q}
          - {name: v, api_base_url: 'https://us-aiplatform.googleapis.com', models: [g]}
        Router: {default: 'p,ccr', think: 'z,a', odd: x}
        transformers: [{path: a.js}]
        CUSTOM_ROUTER_PATH: r.js
        LOG: true
        plugins: [a]
    """)
    assert tree["models"]["ccr-router"]["use"] == "ccr" and tree["default_model"] == "ccr-router"
    assert notes == [
        "Providers[1]: has no name, or no api_base_url",
        "Providers[2].api_base_url: servers of Vertex AI are not taken: docs/start/servers.md has their lines",
        "Router.think: there is no model 'z,a'",
        "Router.odd: has no counterpart that is known",
        "transformers: a transformer in JavaScript cannot be taken",
        "CUSTOM_ROUTER_PATH: a router in JavaScript cannot be taken: write rules of the virtual model",
        "plugins: there are no plugins",
    ]


@each_case(
    ("more", "server", "keys", "notes"),
    [
        ("HOST: 0.0.0.0", None, None, []),
        ("HOST: 127.0.0.1", {"host": "127.0.0.1"}, None, []),
        ("PORT: 99999", None, None, []),
        (
            "{APIKEY: k, HOST: 0.0.0.0, PORT: 3456, LOG_LEVEL: warn}",
            {"host": "0.0.0.0", "port": 3456, "log_level": "warning"},
            {"ccr": {"sha256": hashlib.sha256(b"k").hexdigest()}},
            [],
        ),
        ("APIKEY: $KEY", None, {"ccr": {}}, ['APIKEY: set PARLEY_API_KEYS="ccr:${KEY}"']),
    ],
)
def test_the_server_and_its_key_are_the_same(
    more: str, server: dict[str, Any] | None, keys: dict[str, Any] | None, notes: list[str]
) -> None:
    tree, found = one(more=f"Router: {{default: 'p,a'}}\n{more.strip('{}').replace(', ', chr(10))}")
    assert (tree.get("server"), tree.get("keys"), found) == (server, keys, notes)


def test_times_and_the_proxy_are_those_of_every_server() -> None:
    tree, _ = one(more="API_TIMEOUT_MS: '600000'\nPROXY_URL: 'http://127.0.0.1:7890'")
    assert tree["upstreams"]["p"] == {
        "base_url": "http://h/v1",
        "api_key": "${KEY}",
        "first_token_seconds": 600.0,
        "whole_reply_seconds": 600.0,
        "proxy": "http://127.0.0.1:7890",
    }
