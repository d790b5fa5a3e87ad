"""Which hosts and origins a request may name, and which content types its body may have."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.each_case import each_case
from tests.in_process_gateway import SERVER, Answer, ModelServer, Running

ASK = b'{"model":"m","stream":false,"messages":[{"role":"user","content":"x"}]}'
JSON = {"content-type": "application/json"}
PATHS = ["/v1/chat", "/v1/chat/completions", "/v1/convert"]


def running(**server: Any) -> Running:
    return Running({**SERVER, "server": server}, ModelServer())


@pytest.fixture(scope="module")
def local() -> Iterator[Running]:
    """As without any setting: at a loopback address."""
    with running() as gateway:
        yield gateway


@pytest.fixture(scope="module")
def exposed() -> Iterator[Running]:
    """As in the container: at every address."""
    with running(host="0.0.0.0") as gateway:
        yield gateway


@pytest.fixture(scope="module")
def configured() -> Iterator[Running]:
    hosts, origins = ["chat.example", "*.inside.example"], ["https://ui.example"]
    with running(host="0.0.0.0", allowed_hosts=hosts, allowed_origins=origins) as gateway:
        yield gateway


def ask(gateway: Running, path: str = "/v1/chat", **headers: str) -> Answer:
    return gateway.post(path, ASK, {name.replace("_", "-"): value for name, value in (JSON | headers).items()})


def outcome(answer: Answer) -> tuple[int, str]:
    return answer.status, "" if answer.status == 200 else answer.json["error"]["code"]


LOOPBACK = [
    "localhost",
    "localhost:8000",
    "LOCALHOST.",
    "app.localhost:80",
    "127.0.0.1:8000",
    "127.1.2.3",
    "[::1]:8000",
]
STRANGE = ["evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.evil.example", "localhost:x", ""]
NETWORK = ["192.168.1.5:8000", "[fe80::1]:8000", "0.0.0.0:8000", "gateway-1:8000", "myserver"]


@pytest.mark.parametrize("host", LOOPBACK)
def test_loopback_names_are_always_good(local: Running, exposed: Running, configured: Running, host: str) -> None:
    for gateway in (local, exposed, configured):
        assert ask(gateway, host=host).status == 200
        assert gateway.get("/v1/models", {"host": host}).status == 200


@each_case("path", PATHS)
@each_case("host", [*STRANGE, "myserver", "192.168.1.5"])
def test_a_gateway_for_this_machine_answers_to_no_other_name(local: Running, host: str, path: str) -> None:
    answer = ask(local, path, host=host)
    assert outcome(answer) == (421, "host_not_allowed")
    assert "server.allowed_hosts" in answer.json["error"]["message"]
    assert local.get("/v1/models", {"host": host}).status == 421


@pytest.mark.parametrize("host", ["evil.example", "gateway.team.example:8000", *NETWORK])
def test_a_gateway_for_a_network_answers_programs_by_any_name(exposed: Running, host: str) -> None:
    assert ask(exposed, host=host).status == 200


@each_case(("host", "status"), [*((host, 421) for host in STRANGE), *((host, 200) for host in NETWORK)])
def test_a_page_of_a_name_that_was_made_to_lead_here_is_refused(exposed: Running, host: str, status: int) -> None:
    assert ask(exposed, host=host, origin=f"http://{host}").status == status


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("chat.example", 200),
        ("CHAT.example.:443", 200),
        ("a.b.inside.example", 200),
        ("10.0.0.7:8000", 200),
        ("gateway-1", 200),
        ("inside.example", 421),
        ("chat.example.evil", 421),
        ("evil.example", 421),
    ],
)
def test_configured_names_are_the_only_full_ones(configured: Running, host: str, status: int) -> None:
    assert ask(configured, host=host).status == status
    assert ask(configured, host=host, origin=f"https://{host}").status == status


def test_a_star_allows_every_host() -> None:
    with running(allowed_hosts=["*"]) as gateway:
        assert ask(gateway, host="evil.example").status == 200


def test_the_name_that_it_is_bound_to_is_good() -> None:
    with running(host="gateway.example") as gateway:
        assert ask(gateway, host="gateway.example:8000", origin="http://gateway.example:8000").status == 200


@each_case("path", PATHS)
@each_case(
    "origin",
    [
        "https://evil.example",
        "null",
        "file://",
        "http://localhost.evil.example",
        "ftp://localhost",
        "http://127.0.0.1.evil",
    ],
)
def test_a_page_of_another_origin_is_refused(local: Running, exposed: Running, origin: str, path: str) -> None:
    for gateway in (local, exposed):
        answer = ask(gateway, path, host="localhost:8000", origin=origin)
        assert outcome(answer)[0] == 403
        assert b"server.allowed_origins" in answer.body
        assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize(
    "origin", ["http://localhost:3000", "https://127.0.0.1", "http://[::1]:8000", "http://a.localhost"]
)
def test_pages_of_this_machine_are_let_in_without_cors(local: Running, origin: str) -> None:
    answer = ask(local, host="localhost:8000", origin=origin)
    assert answer.status == 200
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_its_own_pages_are_let_in(configured: Running) -> None:
    assert ask(configured, host="chat.example", origin="https://chat.example").status == 200
    assert ask(configured, host="chat.example:443", origin="https://chat.example").status == 200
    assert ask(configured, host="chat.example", origin="https://chat.example:8443").status == 403


def test_a_configured_origin_may_read_its_replies(configured: Running) -> None:
    answer = ask(configured, host="chat.example", origin="https://ui.example")
    assert answer.status == 200
    assert answer.headers["access-control-allow-origin"] == "https://ui.example"
    assert answer.headers["vary"] == "origin"
    assert "x-request-id" in answer.headers["access-control-expose-headers"]


def test_a_configured_origin_may_ask_first(configured: Running) -> None:
    headers = {
        "host": "chat.example",
        "origin": "https://ui.example",
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization, content-type",
    }
    answer = configured.ask("OPTIONS", "/v1/chat", headers=headers)
    assert (answer.status, answer.body) == (204, b"")
    assert answer.headers["access-control-allow-origin"] == "https://ui.example"
    assert answer.headers["access-control-allow-headers"] == "authorization, content-type"
    assert configured.ask("OPTIONS", "/v1/chat", headers=headers | {"origin": "https://evil.example"}).status == 403


def test_without_settings_no_page_may_ask_first(local: Running) -> None:
    headers = {"host": "localhost", "origin": "http://localhost:3000", "access-control-request-method": "POST"}
    answer = local.ask("OPTIONS", "/v1/chat", headers=headers)
    assert answer.status == 405
    assert "access-control-allow-origin" not in answer.headers


TYPES = [
    "text/plain",
    "text/plain;charset=UTF-8",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "",
]


@each_case("path", PATHS)
@each_case("content_type", [*TYPES, "application/jsonp", "text/json"])
def test_a_body_that_does_not_say_it_is_json_is_refused(local: Running, content_type: str, path: str) -> None:
    answer = local.post(path, ASK, {"content-type": content_type})
    assert answer.status == 415
    assert b"application/json" in answer.body


@pytest.mark.parametrize(
    "content_type",
    ["application/json", "application/json; charset=utf-8", "APPLICATION/JSON", "application/vnd.a+json"],
)
def test_json_is_json(local: Running, content_type: str) -> None:
    assert local.post("/v1/chat", ASK, {"content-type": content_type}).status == 200


def test_a_program_may_leave_the_content_type_out_and_a_page_may_not(local: Running) -> None:
    assert local.post("/v1/chat", ASK).status == 200
    assert local.post("/v1/chat", ASK, {"origin": "http://localhost:3000"}).status == 415


def test_the_openai_endpoint_refuses_in_its_own_shape(local: Running) -> None:
    error = ask(local, "/v1/chat/completions", host="evil.example").json["error"]
    assert (error["type"], error["code"]) == ("invalid_request_error", "host_not_allowed")
