"""A model with several servers: one that cannot be sent a request is passed over where another can."""

import json
from typing import Any

import pytest
from app.access import hash_key
from app.config.registry import list_served_models
from app.steps.dropped_reasoning import NOTHING_WANTED, Wanted

from tests.in_process_gateway import ModelServer, Running

LONG = [{"role": "system", "content": "word " * 400}, {"role": "user", "content": "q"}]
CALLED = {"role": "assistant", "content": "", "function_call": {"name": "f", "arguments": "{}"}}
GAPS = [
    {"role": "user", "content": "q"},
    CALLED,
    {"role": "function", "name": "g", "content": "r", "extra": {"function_id": "c9"}},
]


def settings(**kinds: str) -> dict[str, Any]:
    """One model with a server of each kind, in this order."""
    upstreams = {name: {"base_url": f"http://{name}.test/v1", "kind": kind} for name, kind in kinds.items()}
    return {"upstreams": upstreams, "models": {"m": {"upstreams": list(upstreams)}}}


def prepare(tree: dict[str, Any], messages: list[Any], **body: Any) -> tuple[Any, list[str]]:
    """(the answer, the hosts that were asked)."""
    server = ModelServer()
    with Running(tree, server) as gateway:
        answer = gateway.post("/v1/chat", {"messages": messages, "stream": False, **body})
    return answer, [request.url.host for request in server.requests]


@pytest.mark.parametrize(
    ("first", "second", "asked_first"), [("vllm", "openai", "one.test"), ("openai", "vllm", "two.test")]
)
def test_a_server_that_cannot_be_sent_the_request_is_passed_over(first: str, second: str, asked_first: str) -> None:
    sound = [{"role": "user", "content": [{"audio": {"data": "A" * 16}}]}]  # the openai kind needs a format
    answer, hosts = prepare(settings(one=first, two=second), sound)
    assert (answer.status, hosts) == (200, [asked_first])


def test_if_no_deployment_can_serve_the_request_the_first_error_is_raised() -> None:
    answer, hosts = prepare(settings(one="vllm", two="openai"), LONG, generate_cfg={"max_input_tokens": 1})
    assert (answer.status, answer.json["error"]["code"], hosts) == (400, "context_length_exceeded", [])


def words(tree: dict[str, Any]) -> dict[str, Any]:
    tree["models"]["m"]["profile"] = {"native_tools": False}
    return tree


def test_gaps_between_calls_and_results_are_words_where_nothing_can_be_called() -> None:
    answer, hosts = prepare(words(settings(one="openai_compatible")), GAPS)
    assert (answer.status, hosts) == (200, ["one.test"])
    assert [warning.partition(":")[0] for warning in answer.json["warnings"]] == [
        "messages[2]",
        "messages[1].function_call",
    ]


def test_gaps_are_repaired_where_functions_are_given() -> None:
    answer, hosts = prepare(words(settings(one="openai_compatible")), GAPS, functions=[{"name": "f"}])
    assert (answer.status, hosts) == (200, ["one.test"])
    assert all(warning.endswith("the conversation was repaired") for warning in answer.json["warnings"])


@pytest.mark.parametrize(
    "wrong",
    [
        {"generate_cfg": {"nope": 1}},
        {"functions": [{"name": "f"}, {"name": 7}]},
        {"metadata": {"a": 1}, "functions": [{"name": "f"}]},
    ],
    ids=json.dumps,
)
def test_gaps_are_no_violations_beside_others(wrong: dict[str, Any]) -> None:
    answer, _ = prepare(settings(one="openai_compatible"), GAPS, **{"functions": [{"name": "f"}], **wrong})
    [violation] = answer.json["error"]["violations"]
    assert not violation["param"].startswith("messages")


def test_gaps_are_not_looked_for_among_messages_that_are_refused() -> None:
    wrong = [GAPS[0], {**CALLED, "function_call": {"name": 7}}, GAPS[2]]
    answer, _ = prepare(settings(one="openai_compatible"), wrong, functions=[{"name": "f"}])
    assert all(one["param"].startswith("messages[1]") for one in answer.json["error"]["violations"])


PATTERN: dict[str, Any] = {
    "upstreams": {"one": {"base_url": "http://one.test/v1"}, "two": {"base_url": "http://two.test/v1"}},
    "models": {
        "openai": {"upstreams": ["one"], "name": "*", "aliases": ["openai/*"]},
        "kimi": {"upstreams": ["two"], "name": "hf:*-turbo", "aliases": ["kimi-*", "k-*-x"]},
        "exact": {"upstreams": ["two"], "aliases": ["openai/exact"]},
    },
}


@pytest.mark.parametrize(
    ("model", "sent"),
    [
        ("openai/gpt-5", ("one.test", "gpt-5")),
        ("openai/a/*", ("one.test", "a/*")),
        ("kimi-k2", ("two.test", "hf:k2-turbo")),
        ("k-2-x", ("two.test", "hf:2-turbo")),
        ("openai/exact", ("two.test", "exact")),
    ],
)
def test_what_a_pattern_stands_for_is_a_part_of_the_name_at_the_server(model: str, sent: tuple[str, str]) -> None:
    server = ModelServer()
    with Running(PATTERN, server) as gateway:
        answer = gateway.post("/v1/chat/completions", {"model": model, "messages": [{"role": "user", "content": "q"}]})
    assert answer.status == 200
    (request,) = server.requests
    assert (request.url.host, json.loads(request.content)["model"]) == sent


def test_a_model_whose_name_is_a_pattern_is_neither_listed_nor_used_by_itself() -> None:
    with Running(PATTERN, ModelServer()) as gateway:
        assert [row["id"] for row in gateway.get("/v1/models").json["data"]] == ["exact", "openai/exact"]
        for name in ("openai", "openai/"):
            body = {"model": name, "messages": [{"role": "user", "content": "q"}]}
            assert gateway.post("/v1/chat/completions", body).status == 404
        registry = gateway.context.registry
        assert registry.models() == ["exact", "openai", "kimi"]
        assert list_served_models(gateway.context.settings, "two") == {"exact": "exact"}
    only = {**PATTERN, "models": {"openai": PATTERN["models"]["openai"]}}
    with Running(only, ModelServer()) as gateway:
        assert gateway.context.registry.default_model is None


def test_a_key_may_use_some_of_the_models_that_a_pattern_stands_for() -> None:
    keys = {"some": {"sha256": hash_key("k" * 20), "models": ["openai/gpt-*"]}}
    body = {"messages": [{"role": "user", "content": "q"}]}
    with Running({**PATTERN, "keys": keys}, ModelServer()) as gateway:
        for model, status in (("openai/gpt-5", 200), ("openai/o9", 403), ("kimi-k2", 403)):
            answer = gateway.post(
                "/v1/chat/completions", {**body, "model": model}, {"authorization": f"Bearer {'k' * 20}"}
            )
            assert answer.status == status, model


@pytest.mark.parametrize(("kind", "wanted"), [("deepseek", Wanted(True, False)), ("vllm", NOTHING_WANTED)])
def test_a_route_knows_what_its_servers_want_back(kind: str, wanted: Wanted) -> None:
    tree = {**settings(one=kind), "passthrough": "one"}
    with Running(tree, ModelServer()) as gateway:
        routes = [gateway.context.registry.find(model) for model in ("m", "any")]
    assert [route and route.wanted for route in routes] == [wanted, wanted]
