"""What callers are told of the cost of a reply, and what the totals tell of all of them."""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.in_process_gateway import STOP, Answer, ModelServer, Running, streamed

PRICED: dict[str, Any] = {
    "upstreams": {"local": {"base_url": "http://model.test/v1"}},
    "models": {
        "m": {"upstreams": ["local"], "price": {"input": 2.0, "output": 10.0, "cached_input": 0.5}, "aliases": ["mm"]},
        "free": {"upstreams": ["local"]},
    },
    "cache": {"url": "memory:"},
}
USAGE = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100, "prompt_cache_hit_tokens": 400}
COST = 0.0024
HELLO = b'data: {"choices":[{"index":0,"delta":{"content":"Hello"}}]}\n\n'
QUESTION = {"messages": [{"role": "user", "content": "Hi"}]}


def answering(usage: Any) -> ModelServer:
    last = b'data: {"choices":[],"usage":%b}\n\n' % json.dumps(usage).encode()
    return ModelServer(lambda _: streamed(HELLO, STOP.replace(b"data: [DONE]\n\n", last), b"data: [DONE]\n\n"))


def failing(_: httpx.Request) -> httpx.Response:
    return httpx.Response(500, json={"error": {"message": "broken"}})


@pytest.fixture
def gateway() -> Iterator[Running]:
    with Running(PRICED, answering(USAGE)) as gateway:
        yield gateway


def find_costs(value: Any) -> list[Any]:
    """The costs anywhere in an answer; AutoGen's metadata holds JSON as text."""
    if isinstance(value, str) and value.startswith("{"):
        return find_costs(json.loads(value))
    if isinstance(value, list):
        return [cost for item in value for cost in find_costs(item)]
    if not isinstance(value, dict):
        return []
    own = [value["cost"]] if "cost" in value else []
    return own + [cost for item in value.values() for cost in find_costs(item)]


def frames_of(answer: Answer) -> list[Any]:
    lines = [line[6:] for line in answer.body.decode().split("\n") if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def totals(gateway: Running, query: str = "", **headers: str) -> Any:
    answer = gateway.get(f"/v1/usage{query}", headers)
    assert answer.status == 200, answer.body
    return answer.json


def test_every_format_has_the_cost_in_the_whole_reply_and_in_the_last_frames(gateway: Running) -> None:
    for name in ("qwen", "openai", "autogen", "agentscope", "agentscope2"):
        for stream in (False, True):
            body = QUESTION | {"model": "m", "reply_format": name, "stream": stream, "cache": {"mode": "off"}}
            answer = gateway.post("/v1/chat", body)
            found = frames_of(answer)[-3:] if stream else answer.json
            assert set(find_costs(found)) == {COST}, (name, stream, answer.body)
            unpriced = gateway.post("/v1/chat", body | {"model": "free"})
            assert find_costs(frames_of(unpriced) if stream else unpriced.json) == [], name


def test_openais_clients_read_the_cost_as_openrouter_sends_it(gateway: Running) -> None:
    whole = gateway.post("/v1/chat/completions", QUESTION | {"model": "m"}).json
    assert (whole["usage"]["cost"], whole["usage"]["prompt_tokens_details"]) == (COST, {"cached_tokens": 400})
    body = QUESTION | {"model": "m", "stream": True, "stream_options": {"include_usage": True}}
    chunks = frames_of(gateway.post("/v1/chat/completions", body))
    assert [chunk["usage"]["cost"] for chunk in chunks if chunk.get("usage")] == [COST]


def test_a_cost_that_the_server_reports_is_passed_on_and_counted() -> None:
    reported = USAGE | {"cost": {"input_tokens_cost": 0.1, "output_tokens_cost": 0.2, "total_cost": 0.3}}
    with Running(PRICED, answering(reported)) as gateway:
        usage = gateway.post("/v1/chat", QUESTION | {"model": "free", "stream": False}).json["usage"]
        assert (usage["cost"], usage["cost_details"]) == (0.3, reported["cost"])
        assert totals(gateway)["total"]["cost"] == 0.3


def test_a_cached_reply_costs_nothing_and_its_tokens_are_counted_apart(gateway: Running) -> None:
    body = QUESTION | {"model": "mm", "stream": False}
    assert gateway.post("/v1/chat", body).json["usage"]["cost"] == COST
    for _ in range(2):
        usage = gateway.post("/v1/chat", body).json["usage"]
        assert (usage["cost"], usage["cached"], usage["prompt_tokens"]) == (0.0, True, 1000)
    (entry,) = totals(gateway, "?group_by=model")["data"]
    assert entry == {
        "model": "m",
        "requests": 3,
        "errors": 0,
        "cache_hits": 2,
        "estimated_requests": 0,
        "input_tokens": 1000,
        "cached_input_tokens": 400,
        "output_tokens": 100,
        "reasoning_tokens": 0,
        "saved_tokens": 2200,
        "cost": COST,
    }


def test_failures_are_errors_and_missing_usage_is_estimated() -> None:
    with Running(PRICED, ModelServer(failing)) as gateway:
        gateway.post("/v1/chat", QUESTION | {"model": "m"})
        gateway.post("/v1/chat", QUESTION | {"model": "unknown"})
        gateway.post("/v1/chat", b"not JSON")
        rows = totals(gateway, "?group_by=model")["data"]
        assert [(row["model"], row["requests"], row["errors"], row["cost"]) for row in rows] == [
            ("", 2, 2, 0),
            ("m", 1, 1, 0),
        ]
    with Running(PRICED, answering(None)) as gateway:
        reply = gateway.post("/v1/chat", QUESTION | {"model": "m", "stream": False}).json
        assert reply["usage"] is None
        total = totals(gateway)["total"]
        assert (total["estimated_requests"], total["output_tokens"]) == (1, 2)
        assert total["input_tokens"] > 10 and total["cost"] > 0


def test_what_is_asked_wrongly_is_refused(gateway: Running) -> None:
    answer = gateway.get("/v1/usage?from=soon&group_by=colour")
    assert answer.status == 422
    assert [item["param"] for item in answer.json["error"]["violations"]] == ["from", "group_by"]
    with Running(PRICED | {"usage": {"url": "null:"}}, answering(USAGE)) as other:
        assert other.post("/v1/chat", QUESTION | {"model": "m"}).status == 200
        assert (other.get("/v1/usage").status, other.get("/v1/usage").json["error"]["code"]) == (404, "not_found")


def test_a_key_sees_its_own_usage_and_an_administrator_all() -> None:
    names = ("one", "two", "boss")
    keys = {
        name: {"sha256": hashlib.sha256(f"pk-{name}".encode()).hexdigest(), "admin": name == "boss"} for name in names
    }
    one, two, boss = ({"authorization": f"Bearer pk-{name}"} for name in names)
    with Running(PRICED | {"keys": keys}, answering(USAGE)) as gateway:
        for number, headers in enumerate((one, two, two)):
            body = QUESTION | {"model": "m", "generate_cfg": {"seed": number}}
            assert gateway.post("/v1/chat", body, headers).status == 200
        assert gateway.get("/v1/usage").status == 401
        seen = [[(row["key"], row["requests"]) for row in totals(gateway, **who)["data"]] for who in (one, two, boss)]
        assert seen == [[("one", 1)], [("two", 2)], [("one", 1), ("two", 2)]]
        assert gateway.get("/v1/usage?key=two", one).status == 403
        assert totals(gateway, "?key=two&group_by=key", **boss)["total"]["requests"] == 2


def test_without_keys_an_admin_key_is_needed_if_there_is_one() -> None:
    with Running(PRICED | {"server": {"admin_key": "s3cret"}}, answering(USAGE)) as gateway:
        assert gateway.get("/v1/usage").status == 403
        assert totals(gateway, authorization="Bearer s3cret")["data"] == []
