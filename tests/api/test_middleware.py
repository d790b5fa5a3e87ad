"""What every response has: a request id, and errors of one shape."""

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from tests.each_case import each_case
from tests.in_process_gateway import SERVER, ModelServer, Running

CHAT = {"messages": [{"role": "user", "content": "x"}]}


@pytest.fixture(scope="module")
def gateway() -> Iterator[Running]:
    with Running({**SERVER, "server": {"max_body_bytes": 1024}}, ModelServer()) as running:
        yield running


class Broken:
    """Takes the place of a part of the gateway, and fails as a defect does."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("a secret of the program")


REQUESTS = [
    ("POST", "/v1/chat", b'{"messages":[{"role":"user","content":"x"}]}', 200),
    ("POST", "/v1/chat", b"{", 400),
    ("POST", "/v1/chat", b"{}", 422),
    ("POST", "/v1/chat", b" " * 2000, 413),
    ("GET", "/v1/chat", b"", 405),
    ("HEAD", "/v1/chat", b"", 405),
    ("POST", "/v1/models", b"", 405),
    ("GET", "/v1/models", b"", 200),
    ("GET", "/healthz", b"", 200),
    ("GET", "/readyz", b"", 200),
    ("GET", "/docs", b"", 200),
    ("GET", "/nowhere", b"", 404),
    ("POST", "/v1/chats", b"{}", 404),
]


@each_case(("method", "path", "body", "status"), REQUESTS)
def test_every_reply_has_one_request_id(gateway: Running, method: str, path: str, body: bytes, status: int) -> None:
    answer = gateway.ask(method, path, [body], {"x-request-id": "mine-1"})
    assert answer.status == status
    assert answer.headers.get_list("x-request-id") == ["mine-1"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status"), [row for row in REQUESTS if row[3] >= 400 and row[1] != "/v1/models"]
)
def test_every_error_has_one_shape(gateway: Running, method: str, path: str, body: bytes, status: int) -> None:
    answer = gateway.ask(method, path, [body], {"x-request-id": "mine-1"})
    error = answer.json["error"]
    assert answer.headers["content-type"] == "application/json"
    assert (error["status"], error["request_id"], error["retryable"]) == (status, "mine-1", False)
    assert set(error) - {"violations"} == {"code", "message", "param", "status", "retryable", "request_id"}


@each_case(
    ("method", "path", "status"),
    [("POST", "/v1/models", 405), ("PUT", "/v1/models/m", 405), ("GET", "/v1/models/m/x", 404)],
)
def test_errors_of_openais_endpoints_have_its_type(gateway: Running, method: str, path: str, status: int) -> None:
    answer = gateway.ask(method, path)
    assert (answer.status, answer.json["error"]["type"]) == (status, "invalid_request_error")


@pytest.mark.parametrize("id_", ["a", "trace-1:2.3_x", "A" * 128])
def test_a_harmless_request_id_is_kept(gateway: Running, id_: str) -> None:
    assert gateway.get("/healthz", {"X-Request-ID": id_}).headers["x-request-id"] == id_


@pytest.mark.parametrize("id_", ["", "A" * 129, "a b", "a\tb", "a\r\nset-cookie: x", "<script>", "ä"])
def test_an_odd_request_id_is_replaced(gateway: Running, id_: str) -> None:
    given = gateway.get("/healthz", {"x-request-id": id_}).headers["x-request-id"]
    assert given != id_
    assert given.startswith("req-")


def test_request_ids_differ(gateway: Running) -> None:
    assert len({gateway.get("/healthz").headers["x-request-id"] for _ in range(100)}) == 100


@pytest.mark.parametrize(("method", "path", "allow"), [("GET", "/v1/chat", "POST"), ("POST", "/v1/models", "GET")])
def test_a_refused_method_says_which_is_allowed(gateway: Running, method: str, path: str, allow: str) -> None:
    answer = gateway.ask(method, path)
    assert (answer.status, answer.json["error"]["code"]) == (405, "method_not_allowed")
    assert answer.headers["allow"] == allow


def test_a_path_that_is_not_there_is_named(gateway: Running) -> None:
    text = "Parley serves POST /v1/chat, /v1/chat/completions, /v1/responses and /v1/messages, and GET /v1/models"
    expected = f"no such path: /nowhere/at/all. {text} (/docs describes all)."
    assert gateway.get("/nowhere/at/all").json["error"]["message"] == expected


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/chat/completions", "/v1/chat/completions"),
        ("/v1/v1/chat/completions", "/v1/chat/completions"),
        ("/v1/chatcompletions", "/v1/chat/completions"),
        ("/v2/chat", "/v1/chat"),
        ("/models", "/v1/models"),
        ("/V1/Chat/", "/v1/chat"),
        ("/health", "/healthz"),
    ],
)
def test_the_error_of_an_unknown_path_suggests_the_nearest(gateway: Running, path: str, meant: str) -> None:
    error = gateway.ask("POST", path).json["error"]
    assert (error["code"], error["message"]) == ("not_found", f"no such path: {path}. Did you mean {meant}?")


@pytest.mark.parametrize("path", ["/v1/chat", "/v1/chat/completions"])
def test_the_error_of_a_wrong_method_names_the_right_one(gateway: Running, path: str) -> None:
    assert gateway.ask("PUT", path).json["error"]["message"] == f"{path} accepts POST, not PUT"


def test_the_error_of_an_unknown_model_suggests_the_nearest_configured_one(gateway: Running) -> None:
    body = {"model": "M", "messages": [{"role": "user", "content": "Hi"}]}
    error = gateway.post("/v1/chat", body).json["error"]
    assert error["message"] == "there is no model 'M'; did you mean 'm'? (GET /v1/models lists them)"


def test_the_error_of_a_request_without_a_model_lists_the_models() -> None:
    rows = {name: {"upstreams": ["local"]} for name in ("a", "b")}
    with Running({**SERVER, "models": rows}) as gateway:
        answer = gateway.post("/v1/chat", {"messages": [{"role": "user", "content": "Hi"}]})
    assert (answer.status, answer.json["error"]["param"]) == (400, "model")
    text = "`model` is required. Available models: a, b. (Set default_model in parley.toml to make it optional.)"
    assert answer.json["error"]["message"] == text


@pytest.mark.parametrize(
    ("method", "path", "part"), [REQUESTS[0][:2] + ("gateway",), ("GET", "/v1/models", "registry")]
)
def test_a_defect_is_a_500_of_the_same_shape_that_shows_nothing(
    method: str, path: str, part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with Running(server=ModelServer()) as gateway:
        context = gateway.context
        context.live = replace(context.live, **{part: Broken()})
        answer = gateway.ask(method, path, [REQUESTS[0][2]])
    assert (answer.status, answer.json["error"]["code"]) == (500, "internal_error")
    assert answer.headers["x-request-id"] == answer.json["error"]["request_id"]
    assert b"secret" not in answer.body
    assert f"request {answer.headers['x-request-id']}: defect" in capsys.readouterr().err


def test_a_web_socket_is_turned_away(gateway: Running) -> None:
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "websocket", "path": "/v1/chat", "headers": [], "query_string": b"", "subprotocols": []}
    gateway.loop.run_until_complete(gateway.app(scope, receive, send))
    assert [message["type"] for message in sent] == ["websocket.close"]


@pytest.fixture(scope="module")
def prefixed() -> Iterator[Running]:
    with Running({**SERVER, "server": {"base_path": "/parley/"}}, ModelServer()) as running:
        yield running


@each_case(
    ("method", "path", "body", "status"),
    [
        *[(method, f"/parley{path}", body, status) for method, path, body, status in REQUESTS if status != 413],
        ("GET", "/healthz", b"", 200),
        ("GET", "/parleys/healthz", b"", 404),
        ("GET", "/parley/parley/healthz", b"", 404),
        ("GET", "/parley/", b"", 200),
    ],
)
def test_a_prefix_that_a_proxy_left_is_no_part_of_the_path(
    prefixed: Running, method: str, path: str, body: bytes, status: int
) -> None:
    assert prefixed.ask(method, path, [body]).status == status


def test_the_prefix_alone_leads_to_the_page_below_it(prefixed: Running) -> None:
    answer = prefixed.ask("GET", "/parley")
    assert (answer.status, answer.headers["location"]) == (307, "/parley/")
