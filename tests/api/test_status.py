"""`GET /v1/status`: what operators see of one process."""

import httpx
import pytest

from tests.in_process_gateway import SERVER, ModelServer, Running

QUESTION = {"messages": [{"role": "user", "content": "A secret question"}], "stream": False}
ADMIN = {"authorization": "Bearer letmein"}


def test_it_shows_servers_cache_limits_and_the_last_requests() -> None:
    settings = SERVER | {
        "cache": {"url": "memory:"},
        "limits": {"requests_per_minute": 10, "spend_per_day": 2.5},
        "models": {"m": {"upstreams": ["local"], "limits": {"tokens_per_minute": 100_000}}},
    }
    with Running(settings, ModelServer()) as gateway:
        for _ in range(2):
            assert gateway.post("/v1/chat", QUESTION).status == 200
        assert gateway.post("/v1/chat", QUESTION | {"model": "other"}).status == 404
        answer = gateway.get("/v1/status")
    status = answer.json
    assert [row["name"] for row in status["upstreams"]] == ["local"]
    assert status["cache"]["requests"] == {"miss": 1, "hit": 1}
    limits = {(row["owner"], row["kind"]): (row["limit"], row["used"]) for row in status["limits"]}
    assert limits["the gateway", "requests_per_minute"] == (10, 2)
    assert limits["the gateway", "spend_per_day"] == (2.5, 0)
    assert limits["the model 'm'", "tokens_per_minute"][0] == 100_000
    rows = [(row["model"], row["status"], row["error"], row["cache"], row["attempts"]) for row in status["requests"]]
    assert rows == [
        ("", 404, "unknown_model", "", []),
        ("m", 200, None, "hit", []),
        ("m", 200, None, "miss", ["local: ok"]),
    ]
    assert status["load"]["in_progress"] == 0
    assert b"secret" not in answer.body


def test_reading_the_limits_uses_nothing_of_them() -> None:
    with Running(SERVER | {"limits": {"requests_per_minute": 2, "concurrent_streams": 1}}, ModelServer()) as gateway:
        for _ in range(3):
            assert [row["used"] for row in gateway.get("/v1/status").json["limits"]] == [0, 0]
        assert gateway.post("/v1/chat", QUESTION).status == 200


def test_a_failed_server_is_seen() -> None:
    server = ModelServer(lambda _: httpx.Response(500, json={"error": {"message": "broken"}}))
    with Running(SERVER, server) as gateway:
        assert gateway.post("/v1/chat", QUESTION).status == 502
        [request] = gateway.get("/v1/status").json["requests"]
    assert (request["status"], request["attempts"]) == (502, ["local: server_error"])


@pytest.mark.parametrize(
    ("answer", "asked", "error", "responsible"),
    [
        (httpx.Response(500, json={"error": {"message": "broken"}}), {}, "server_error", "upstream"),
        (httpx.ConnectError("no route"), {}, "server_error", "network"),
        (httpx.Response(400, json={"error": {"message": "bad"}}), {}, "invalid_request", "caller"),
        (None, {"model": "other"}, "unknown_model", "caller"),
        (None, {}, None, None),
    ],
)
def test_it_says_whose_fault_a_failure_is(
    answer: httpx.Response | httpx.ConnectError | None,
    asked: dict[str, str],
    error: str | None,
    responsible: str | None,
) -> None:
    def reply(_: httpx.Request) -> httpx.Response:
        if isinstance(answer, httpx.Response):
            return answer
        assert answer is not None
        raise answer

    with Running(SERVER, ModelServer() if answer is None else ModelServer(reply)) as gateway:
        gateway.post("/v1/chat", QUESTION | asked)
        [request] = gateway.get("/v1/status").json["requests"]
    assert (request["error"], request["responsible"]) == (error, responsible)
    assert request["error_from_upstream"] is (answer is not None)


def test_only_the_last_requests_are_kept() -> None:
    with Running(SERVER, ModelServer()) as gateway:
        for number in range(55):
            assert gateway.post("/v1/chat", QUESTION, {"x-request-id": f"r{number}"}).status == 200
        ids = [row["request_id"] for row in gateway.get("/v1/status").json["requests"]]
    assert ids == [f"r{number}" for number in range(54, 4, -1)]


def test_it_needs_no_key_only_where_the_gateway_listens_on_loopback() -> None:
    servers = (
        {"host": "0.0.0.0", "allow_anonymous": True},
        {"allowed_hosts": ["chat.example"]},
        {"allowed_origins": ["https://chat.example"]},
        {"admin_key": "letmein"},
    )
    for server in servers:
        with Running(SERVER | {"server": server}, ModelServer()) as gateway:
            assert gateway.get("/v1/status").status == 403, server
            assert gateway.get("/v1/status/events").status == 403, server
            if "admin_key" in server:
                assert gateway.get("/v1/status", ADMIN).status == 200
