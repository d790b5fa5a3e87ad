"""What callers receive about the cost of a reply, and the totals of all replies."""

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from app.chat.token_usage import UsageOwner
from app.config.settings import Settings
from app.formats.base import USAGE_ESTIMATED
from app.observe.request_record import RequestRecord
from app.usage.totals import Totals

from tests.each_case import each_case
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
    for usage in (whole["usage"], *(chunk["usage"] for chunk in chunks if chunk.get("usage"))):
        assert "cached_tokens" not in usage, "clients would count them twice"
    assert gateway.post("/v1/chat", QUESTION | {"model": "m", "stream": False}).json["usage"]["cached_tokens"] == 400


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
        "searches": 0,
        "fetches": 0,
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
        assert (total["estimated_requests"], total["output_tokens"]) == (1, 1)
        assert total["input_tokens"] == 4 and total["cost"] > 0


def test_an_invalid_query_is_refused(gateway: Running) -> None:
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


def test_usage_is_totalled_by_the_teams_of_keys_and_is_csv_where_that_is_asked_for() -> None:
    keys = {name: {"sha256": hash_key(name), "team": team} for name, team in (("a", "red"), ("b", "red"), ("c", None))}
    boss = {"boss": {"sha256": hash_key("boss"), "admin": True}}
    with Running(PRICED | {"keys": keys | boss, "teams": {"red": {}}}, answering(USAGE)) as gateway:
        for name in ("a", "b", "c"):
            body = QUESTION | {"model": "m", "cache": {"mode": "off"}}
            assert gateway.post("/v1/chat", body, {"authorization": f"Bearer {name}"}).status == 200
        headers = {"authorization": "Bearer boss"}
        by_team = totals(gateway, "?group_by=team", **headers)["data"]
        assert [(row["team"], row["requests"]) for row in by_team] == [("", 1), ("red", 2)]
        of_red = totals(gateway, "?group_by=key&team=red", **headers)["data"]
        assert [row["key"] for row in of_red] == ["a", "b"]
        assert "team" not in totals(gateway, **headers)["data"][0]
        asked = "/v1/usage?from=2026-01-01&to=2099-01-01&group_by=team"
        by_parameter = gateway.get(f"{asked}&format=csv", headers)
        by_header = gateway.get(asked, headers | {"accept": "text/csv"})
        assert by_parameter.body == by_header.body
        assert by_header.headers["content-type"] == "text/csv; charset=utf-8"
        assert 'filename="usage-2026-01-01-2099-01-01.csv"' in by_header.headers["content-disposition"]
        assert [line.split(",")[:2] for line in by_header.body.decode().splitlines()] == [
            ["team", "requests"],
            ["", "1"],
            ["red", "2"],
        ]
        assert gateway.get(f"{asked}&format=json", headers | {"accept": "text/csv"}).json["total"]["requests"] == 3
        refused = gateway.get(f"{asked}&format=xml", headers)
        assert (refused.status, refused.json["error"]["param"]) == (422, "format")
        assert gateway.get("/v1/usage?format=xml", headers).status == 422


def test_without_keys_an_admin_key_is_needed_if_there_is_one() -> None:
    with Running(PRICED | {"server": {"admin_key": "s3cret"}}, answering(USAGE)) as gateway:
        assert gateway.get("/v1/usage").status == 403
        assert totals(gateway, authorization="Bearer s3cret")["data"] == []


FALLING_BACK: dict[str, Any] = {
    **PRICED,
    "models": {
        "down": {"upstreams": ["local"], "price": {"input": 99.0, "output": 99.0}, "fallbacks": ["m"]},
        "m": PRICED["models"]["m"],
    },
}


def failing_for(model: str) -> ModelServer:
    """A model server that only has the other models."""

    def answer(request: httpx.Request) -> httpx.Response:
        named = json.loads(request.content)["model"]
        return failing(request) if named == model else streamed(*pieces)

    last = b'data: {"choices":[],"usage":%b}\n\n' % json.dumps(USAGE).encode()
    pieces = (HELLO, STOP.replace(b"data: [DONE]\n\n", last), b"data: [DONE]\n\n")
    return ModelServer(answer)


def test_a_reply_of_a_fallback_is_counted_for_the_model_that_answered_at_its_price() -> None:
    records: list[RequestRecord] = []
    with Running(FALLING_BACK, failing_for("down")) as gateway:
        gateway.context.ended.observers.append(records.append)
        answer = gateway.post("/v1/chat", QUESTION | {"model": "down", "stream": False})
        assert (answer.status, answer.json["model"], answer.json["usage"]["cost"]) == (200, "m", COST)
        found = {entry["model"]: entry for entry in totals(gateway, "?group_by=model")["data"]}
        scraped = gateway.get("/metrics").body.decode()
    assert [(name, entry["requests"], entry["cost"]) for name, entry in found.items()] == [("m", 1, COST)]
    assert [(record.model, record.fallback_model) for record in records] == [("down", "m")]
    assert f'parley_cost_total{{model="m",key=""}} {COST}' in scraped.replace('key="",model="m"', 'model="m",key=""')
    assert 'parley_requests_total{endpoint="chat",fault="",key="",model="down",outcome="completed"} 1.0' in scraped


def test_what_was_spent_before_a_restart_counts_for_the_limits_of_today(tmp_path: Path) -> None:
    key = hash_key("alice")
    for limits in (
        {"limits": {"spend_per_day": COST}},
        {"limits": {"spend_per_month": COST}},
        {"models": {**PRICED["models"], "m": {**PRICED["models"]["m"], "limits": {"spend_per_day": COST}}}},
        {"keys": {"alice": {"sha256": key, "limits": {"spend_per_month": COST}}}},
    ):
        tree = {**PRICED, "keys": {"alice": {"sha256": key}}, **limits}
        tree["usage"] = {"url": f"sqlite:///{tmp_path / str(len(list(tmp_path.iterdir())))}.db"}
        asked = QUESTION | {"model": "m", "stream": False}
        headers = {"authorization": "Bearer alice"}
        with Running(tree, answering(USAGE)) as gateway:
            assert gateway.post("/v1/chat", asked, headers).status == 200
            assert gateway.post("/v1/chat", asked | {"cache": {"mode": "off"}}, headers).status == 402
        with Running(tree, answering(USAGE)) as gateway:
            refused = gateway.post("/v1/chat", asked, headers)
            assert (refused.status, refused.json["error"]["code"]) == (402, "insufficient_quota"), limits


def test_what_was_spent_before_a_reload_counts_for_the_limits_that_it_adds() -> None:
    alice, bob, model = {"sha256": hash_key("alice"), "admin": True}, {"sha256": hash_key("bob")}, PRICED["models"]["m"]
    both = {"spend_per_day": 1.0, "spend_per_month": 1.0}
    unlimited = {**PRICED, "keys": {"alice": alice, "bob": bob}, "usage": {"url": "memory:"}}
    limited = {
        **unlimited,
        "limits": both,
        "models": {"m": {**model, "limits": both}},
        "keys": {"alice": {**alice, "limits": both}, "bob": {**bob, "limits": both}},
    }
    changed = {**limited, "limits": {**both, "spend_per_day": 2.0}}
    headers = {"authorization": "Bearer alice"}
    loading: list[dict[str, Any]] = []
    with Running(unlimited, answering(USAGE), load_settings=lambda: Settings.model_validate(loading[-1])) as gateway:
        reloader = gateway.context.reloader
        assert reloader is not None
        # limits that were not there, that were there, and that were there some time ago
        for number, tree in enumerate((unlimited, limited, changed, unlimited, limited)):
            loading.append(tree)
            assert gateway.loop.run_until_complete(reloader.reload())
            used: dict[str, list[float]] = {}
            for row in gateway.get("/v1/status", headers).json["limits"]:
                used.setdefault(row["owner"], []).append(round(row["used"] / COST, 6))
            spent = {
                "the gateway": number,
                "the model 'm'": number,
                "the API key 'alice'": number,
                "the API key 'bob'": 0,
            }
            assert used == ({} if tree is unlimited else {owner: [times, times] for owner, times in spent.items()})
            asked = QUESTION | {"model": "m", "stream": False, "cache": {"mode": "off"}}
            assert gateway.post("/v1/chat", asked, headers).status == 200


def test_a_reload_counts_nothing_twice_for_the_limits_that_stay() -> None:
    day = {**PRICED, "limits": {"spend_per_day": 9.0}, "usage": {"url": "memory:"}}
    both = {**day, "limits": {"spend_per_day": 8.0, "spend_per_month": 9.0}}
    with Running(day, load_settings=lambda: Settings.model_validate(both)) as gateway:
        context = gateway.context
        assert context.reloader is not None and context.usage_ledger is not None
        context.usage_ledger.add(UsageOwner(""), "m", Totals(cost=2.0))  # of another worker
        assert gateway.loop.run_until_complete(context.reloader.reload())
        limits = gateway.get("/v1/status").json["limits"]
    assert {row["kind"]: (row["limit"], row["used"]) for row in limits} == {
        "spend_per_day": (8.0, 0.0),
        "spend_per_month": (9.0, 2.0),
    }


def test_a_gateway_whose_totals_cannot_be_read_starts_and_counts_spending_from_0(tmp_path: Path) -> None:
    tree = {**PRICED, "limits": {"spend_per_day": COST}, "usage": {"url": f"sqlite:///{tmp_path}"}}
    with Running(tree, answering(USAGE)) as gateway:
        assert gateway.post("/v1/chat", QUESTION | {"model": "m", "stream": False}).status == 200


def test_the_cost_of_a_fallback_counts_for_its_own_limits_and_not_for_those_of_the_requested_model() -> None:
    limits = {"spend_per_day": COST}
    rows = FALLING_BACK["models"]
    models = {"down": {**rows["down"], "limits": limits}, "m": {**rows["m"], "limits": limits}}
    with Running({**FALLING_BACK, "models": models}, failing_for("down")) as gateway:
        asked = QUESTION | {"stream": False, "cache": {"mode": "off"}}
        assert gateway.post("/v1/chat", asked | {"model": "down"}).status == 200
        assert gateway.post("/v1/chat", asked | {"model": "m"}).status == 402
        assert gateway.post("/v1/chat", asked | {"model": "down"}).status == 200


def test_the_cost_of_a_fallback_counts_for_its_own_limits_if_the_requested_model_has_none() -> None:
    rows = FALLING_BACK["models"]
    models = {**rows, "m": {**rows["m"], "limits": {"spend_per_day": COST}}}
    with Running({**FALLING_BACK, "models": models}, failing_for("down")) as gateway:
        asked = QUESTION | {"stream": False, "cache": {"mode": "off"}}
        assert gateway.post("/v1/chat", asked | {"model": "down"}).status == 200
        assert gateway.post("/v1/chat", asked | {"model": "m"}).status == 402


def test_a_key_that_may_use_a_model_gets_the_replies_of_its_fallbacks() -> None:
    tree = {**FALLING_BACK, "keys": {"alice": {"sha256": hash_key("alice"), "models": ["down"]}}}
    headers = {"authorization": "Bearer alice"}
    with Running(tree, failing_for("down")) as gateway:
        answers = [
            gateway.post("/v1/chat", QUESTION | {"model": name, "stream": False}, headers) for name in ("down", "m")
        ]
    assert [answer.status for answer in answers] == [200, 403]
    assert answers[0].json["model"] == "m"


def hash_key(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


SHORT, LONG = "Hi", "What is the weather like in Paris? " * 20
REQUESTS: dict[str, Callable[[str], dict[str, Any]]] = {
    "/v1/messages": lambda text: {"max_tokens": 9, "messages": [{"role": "user", "content": text}]},
    "/v1/responses": lambda text: {"input": text, "store": False},
}
COUNTING = {"/v1/messages": "/v1/messages/count_tokens", "/v1/responses": "/v1/responses/input_tokens"}


@each_case("path", REQUESTS)
@each_case("text", [SHORT, LONG])
@each_case("stream", [False, True])
def test_all_estimates_of_a_request_are_one(path: str, text: str, stream: bool) -> None:
    body = {"model": "free", **REQUESTS[path](text)}
    with Running(PRICED, answering(None)) as gateway:
        counted = gateway.post(COUNTING[path], body).json["input_tokens"]
        answer = gateway.post(path, body | {"stream": stream})
        frames = answer.frames if stream else [answer.json]
        found = frames[-2] if stream and path == "/v1/messages" else frames[-1]
        found = found.get("response", found)
        if stream and path == "/v1/messages":
            assert frames[0]["message"]["usage"]["input_tokens"] == counted
        total = totals(gateway)["total"]
    assert found["parley"]["warnings"] == [USAGE_ESTIMATED]
    usage = found["usage"]
    assert counted > 0 and usage["input_tokens"] == total["input_tokens"] == counted
    assert usage["output_tokens"] == total["output_tokens"] > 0
    assert total["estimated_requests"] == 1


@each_case("usage", [{"prompt_tokens": 7, "completion_tokens": None}, {"prompt_tokens": 7, "completion_tokens": 0}])
@each_case("stream", [False, True])
def test_a_number_that_the_server_leaves_out_is_estimated_in_every_format(usage: Any, stream: bool) -> None:
    with Running(PRICED, answering(usage)) as gateway:
        body = QUESTION | {"model": "free", "stream": stream, "stream_options": {"include_usage": True}}
        answer = gateway.post("/v1/chat/completions", body | ({} if stream else {"stream_options": None}))
        found = next(chunk["usage"] for chunk in frames_of(answer) if chunk.get("usage")) if stream else answer.json
        found = found.get("usage", found)
        assert found["prompt_tokens"] == 7 and found["completion_tokens"] > 0 and found["estimated"] is True
        assert found["total_tokens"] == 7 + found["completion_tokens"]
        total = totals(gateway)["total"]
        assert (total["estimated_requests"], total["output_tokens"]) == (1, found["completion_tokens"])


RUNNING_USAGE = (
    b'data: {"choices":[{"index":0,"delta":{"content":"Hello"}}],"usage":%b}\n\n'
    % json.dumps({"prompt_tokens": 1000, "completion_tokens": 216, "total_tokens": 1216}).encode()
)
CUT: dict[str, dict[str, Any]] = {
    "/v1/chat": QUESTION,
    "/v1/chat/completions": QUESTION,
    "/v1/messages": {"max_tokens": 9, **QUESTION},
    "/v1/responses": {"input": "Hi", "store": False},
}


@each_case("path", CUT)
@each_case("stream", [False, True])
def test_usage_that_a_server_reported_before_its_reply_was_cut_is_counted_and_in_the_error(
    path: str, stream: bool
) -> None:
    cost = round((1000 * 2.0 + 216 * 10.0) / 1e6, 12)
    models = {"m": PRICED["models"]["m"] | {"limits": {"tokens_per_minute": 5000}}}
    with Running(PRICED | {"models": models}, ModelServer(lambda _: streamed(HELLO, RUNNING_USAGE))) as gateway:
        answer = gateway.post(path, {"model": "m", **CUT[path], "stream": stream})
        total = totals(gateway)["total"]
        left = gateway.post(path, {"model": "m", **CUT[path]}).headers["x-ratelimit-remaining-tokens"]
    last = answer.frames[-1] if stream else answer.json
    if path == "/v1/responses" and stream:
        usage = last["response"]["usage"]
        assert (usage["input_tokens"], usage["output_tokens"]) == (1000, 216)
        assert "usage" not in last["response"]["error"]
    else:
        usage = last["error"]["usage"]
        assert usage == {"prompt_tokens": 1000, "completion_tokens": 216, "total_tokens": 1216, "cost": cost}
    assert (total["errors"], total["estimated_requests"]) == (1, 0)
    assert (total["input_tokens"], total["output_tokens"], total["cost"]) == (1000, 216, cost)
    assert 0 < 5000 - 1216 - int(left) < 1100, "the tokens of the cut reply count for the limit"


def test_a_request_that_a_server_refuses_has_used_nothing() -> None:
    with Running(PRICED, ModelServer(failing)) as gateway:
        answer = gateway.post("/v1/chat", QUESTION | {"model": "m", "stream": False})
        assert "usage" not in answer.json["error"]
        assert totals(gateway)["total"]["input_tokens"] == 0
