"""Limits over HTTP: refusals in the shape of each endpoint, and headers of every response."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
from app.access import hash_key

from tests.in_process_gateway import SERVER, Answer, ModelServer, Running, streamed
from tests.in_process_gateway import STOP as SILENT_STOP

KEY = "key-of-alice-0001"
HEADERS = {"authorization": f"Bearer {KEY}"}
CHAT: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "x" * 40}], "stream": False}
PROMPT = 14
"""The estimate of the prompt's tokens."""
HELLO = b'data: {"choices":[{"index":0,"delta":{"content":"Hello"}}]}\n\n'
STOP = (
    b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":30,"completion_tokens":70,"total_tokens":100,"cost":50}}\n\ndata: [DONE]\n\n'
)


def gateway(*, key: dict[str, Any] | None = None, model: dict[str, Any] | None = None, **settings: Any) -> Running:
    keys = {"alice": {"sha256": hash_key(KEY), "limits": key or {}}}
    models = {"m": {"upstreams": ["local"], "limits": model or {}, "aliases": ["fast"]}}
    return Running({**SERVER, "keys": keys, "models": models, **settings}, ModelServer(lambda _: streamed(HELLO, STOP)))


def test_each_endpoint_refuses_in_its_own_shape_with_the_time_to_wait() -> None:
    for path, shape in [("/v1/chat", None), ("/v1/chat/completions", "rate_limit_error")]:
        with gateway(key={"requests_per_minute": 1}) as running:
            first = running.post(path, CHAT, HEADERS)
            answer = running.post(path, CHAT | {"stream": True}, HEADERS)
        assert first.status == 200
        error = answer.json["error"]
        assert (answer.status, error["code"], error["retryable"], error.get("type")) == (429, "rate_limit", True, shape)
        assert "1 requests per minute of the API key 'alice'" in error["message"]
        assert 60 <= int(answer.headers["retry-after"]) <= 120
        for response, left in [(first, "0"), (answer, "0")]:
            assert response.headers["x-ratelimit-limit-requests"] == "1"
            assert response.headers.get_list("x-ratelimit-remaining-requests") == [left]
            assert response.headers["x-ratelimit-reset-requests"].endswith("s")
            assert "x-ratelimit-limit-tokens" not in response.headers


def test_streams_have_the_headers_too_and_tokens_are_corrected_by_the_reported_usage() -> None:
    with gateway(model={"tokens_per_minute": 2000}) as running:
        lefts = []
        for _ in range(3):
            answer = running.post("/v1/chat", CHAT | {"stream": True, "model": "fast"}, HEADERS)
            assert answer.status == 200
            lefts.append(int(answer.headers["x-ratelimit-remaining-tokens"]))
        assert lefts == [986, 886, 786], "10 tokens of text, 4 of the message, 1000 of the reply; then 100 as reported"
        limited = running.post("/v1/chat", CHAT | {"generate_cfg": {"max_tokens": 1900}}, HEADERS)
        large = running.post("/v1/chat", CHAT | {"generate_cfg": {"max_tokens": 2000}}, HEADERS)
    assert (limited.status, limited.json["error"]["retryable"]) == (429, True)
    assert "2000 tokens per minute of the model 'm' is reached" in limited.json["error"]["message"]
    assert (large.status, large.json["error"]["retryable"]) == (429, False)


def test_tokens_count_as_they_are_billed_whatever_the_server_says_of_their_total() -> None:
    assert tokens_used(HELLO, STOP.replace(b'"total_tokens":100', b'"total_tokens":1')) == 100


def test_tokens_are_estimated_if_the_server_reports_none_and_are_none_before_the_first_token() -> None:
    assert tokens_used(HELLO, SILENT_STOP) == PROMPT + 1
    assert tokens_used(b'data: {"error":{"message":"no","code":400}}\n\n') == 0


def test_numbers_that_no_server_means_end_no_request_otherwise() -> None:
    reported = b'"usage":{"prompt_tokens":30,"completion_tokens":70,"total_tokens":100,"cost":50}'
    for usage in (reported.replace(b'"cost":50', b'"cost":1e300'), reported.replace(b":30", b":1" + b"0" * 400)):
        server = ModelServer(lambda _, usage=usage: streamed(HELLO, STOP.replace(reported, usage)))  # type: ignore[misc]
        local = {"upstreams": ["local"], "limits": {"concurrent_streams": 1, "spend_per_day": 1000.0}}
        for price in ({}, {"price": {"input": 1.0, "output": 1.0}}):
            with Running({**SERVER, "models": {"m": {**local, **price}}}, server) as running:
                assert [running.post("/v1/chat", CHAT).status for _ in range(3)] == [200] * 3


def tokens_used(*pieces: bytes) -> int:
    """The tokens of one request that is answered with these pieces."""
    server = ModelServer(lambda _: streamed(*pieces))
    models = {"m": {"upstreams": ["local"], "limits": {"tokens_per_minute": 5000}}}
    with Running({**SERVER, "models": models}, server) as running:
        answers = [running.post("/v1/chat", CHAT | {"stream": True}) for _ in range(2)]
    before, after = (int(answer.headers["x-ratelimit-remaining-tokens"]) for answer in answers)
    return before - after


def test_tokens_are_reserved_for_the_limit_of_the_reply_under_either_name() -> None:
    largest = {"max_completion_tokens": 500}
    local = {"upstreams": ["local"], "limits": {"tokens_per_minute": 2000}}
    for defaults, given, reserved in [
        ({}, {"max_tokens": 500}, 500),
        ({}, largest, 500),
        (largest, {}, 500),
        (largest, {"max_tokens": 300}, 300),
        ({"max_tokens": 300}, largest, 500),
    ]:
        with gateway(models={"m": {**local, "defaults": defaults}}) as running:
            answer = running.post("/v1/chat", CHAT | {"generate_cfg": given}, HEADERS)
        assert int(answer.headers["x-ratelimit-remaining-tokens"]) == 2000 - PROMPT - reserved, (defaults, given)


def test_a_request_that_is_refused_later_leaves_no_reply_in_progress_and_no_tokens() -> None:
    with gateway(limits={"concurrent_streams": 1, "tokens_per_minute": 1500}) as running:
        for _ in range(3):
            refused = running.post("/v1/chat", CHAT | {"functions": [{"name": "f"}, {"name": "f"}]}, HEADERS)
            assert refused.status in (200, 422)
        assert running.post("/v1/chat", CHAT, HEADERS).status == 200


def test_the_spending_of_a_day_is_an_exhausted_quota() -> None:
    with gateway(model={"spend_per_day": 50.0}) as running:
        assert running.post("/v1/chat", CHAT, HEADERS).status == 200
        answer = running.post("/v1/chat/completions", CHAT, HEADERS)
    assert (answer.status, answer.json["error"]["code"]) == (402, "insufficient_quota")
    assert "the model 'm' has spent its limit of 50 per day" in answer.json["error"]["message"]
    assert int(answer.headers["retry-after"]) <= 86_400


def test_web_pages_may_read_the_headers_of_limits() -> None:
    headers = HEADERS | {"origin": "https://a.example", "host": "localhost", "content-type": "application/json"}
    with gateway(key={"requests_per_minute": 5}, server={"allowed_origins": ["https://a.example"]}) as running:
        answer = running.post("/v1/chat", CHAT, headers)
    exposed = answer.headers["access-control-expose-headers"].split(", ")
    assert {name for name in answer.headers if name.startswith("x-ratelimit")} <= set(exposed)


def test_many_requests_at_once_over_two_gateways_spend_no_more_than_the_page_says(tmp_path: Path) -> None:
    tokens = 10_000
    usage = b'"usage":{"prompt_tokens":1,"completion_tokens":10000}'
    reply = SILENT_STOP.replace(b"}]}", b"}]," + usage + b"}")
    own: dict[str, Any] = {
        **SERVER,
        "state": {"url": f"sqlite:///{tmp_path}/state.db"},
        "usage": {"reserved_reply_tokens": tokens},
        "models": {"m": {"upstreams": ["local"], "price": {"input": 0, "output": 50}}},
        "keys": {"a": {"sha256": hash_key("sk-a-0123456789abc"), "limits": {"spend_per_day": 2.2}}},
    }
    waiting = asyncio.Event()

    class SlowServer(ModelServer):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            await waiting.wait()
            return await super().handle_async_request(request)

    server = SlowServer(lambda request: streamed(reply))
    key = {"authorization": "Bearer sk-a-0123456789abc"}

    async def ask(gateways: list[Running]) -> list[Answer]:
        async def ask_one(number: int) -> Answer:
            body = json.dumps({"model": "m", "messages": [{"role": "user", "content": f"q{number}"}]}).encode()
            return await gateways[number % 2].ask_async("POST", "/v1/chat", [body], key)

        asking = [asyncio.ensure_future(ask_one(number)) for number in range(50)]
        while sum(one.done() for one in asking) < 45:
            await asyncio.sleep(0.01)
        waiting.set()
        return await asyncio.gather(*asking)

    with Running(own, server) as first, Running(own, server, loop=first.loop) as second:
        statuses = [answer.status for answer in first.loop.run_until_complete(ask([first, second]))]
        # Each costs 0.5, and reserves it: five are admitted before 2.2 is reserved.
        assert (statuses.count(200), statuses.count(429)) == (5, 45) and len(server.requests) == 5
        after = second.post("/v1/chat", {"model": "m", "messages": [{"role": "user", "content": "x"}]}, key)
        assert after.status in (402, 429)  # 429 while the cost of a reply is still reserved
