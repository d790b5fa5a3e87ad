"""What is left of a request when it has ended: nothing that waits for the garbage collector, which rarely runs."""

import gc
import hashlib
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from app.server.process import GC_THRESHOLD

from tests.each_case import each_case
from tests.in_process_gateway import HELLO, ModelServer, Running, streamed

KEYS = {"me": "the-key-of-me-0123456", "limited": "the-key-of-limited-0123456", "admin": "the-key-of-admin-0123456"}
MORE: dict[str, dict[str, Any]] = {
    "me": {},
    "limited": {"limits": {"requests_per_minute": 1}},
    "admin": {"admin": True},
}
TREE: dict[str, Any] = {
    "server": {"max_body_bytes": 2**20},
    "state": {"url": "memory:"},
    "upstreams": {"box": {"base_url": "http://box.test/v1"}},
    "models": {
        "m": {"upstreams": ["box"], "max_retries": 0},
        "checked": {"upstreams": ["box"], "max_retries": 0, "profile": {"check_output": "enforce"}},
    },
    "keys": {name: {"sha256": hashlib.sha256(key.encode()).hexdigest(), **MORE[name]} for name, key in KEYS.items()},
}
CHATS: dict[str, dict[str, Any]] = {
    "/v1/chat": {"messages": [{"role": "user", "content": "Hi"}]},
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "Hi"}]},
    "/v1/messages": {"max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]},
    "/v1/responses": {"input": "Hi"},
}
FAILURES = {
    "refused": lambda: httpx.Response(400, json={"error": {"message": "refused"}}),
    "failed": lambda: httpx.Response(500, json={"error": {"message": "failed"}}),
    "cut": lambda: streamed(HELLO),
    "broken": lambda: streamed(b"data: {\n\n"),
}


def answer(request: httpx.Request) -> httpx.Response:
    failure = FAILURES.get(json.loads(request.content).get("user", ""))
    return ModelServer.short_reply() if failure is None else failure()


@pytest.fixture(scope="module")
def gateway() -> Iterator[Running]:
    with Running(TREE, ModelServer(answer)) as running:
        gc.collect()
        gc.freeze()  # what other tests of the process have left is not searched again for each request
        yield running
        gc.unfreeze()


def count_garbage(gateway: Running, method: str, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, int]:
    """Return the status of a request, and how many objects only the garbage collector frees. What is loaded with the
    first request is not counted."""
    gateway.ask(method, path, [body], headers)
    gc.collect()
    gc.disable()
    try:
        return gateway.ask(method, path, [body], headers).status, gc.collect()
    finally:
        gc.enable()


def write_headers(name: str, **more: str) -> dict[str, str]:
    return {"authorization": f"Bearer {KEYS.get(name, name)}", "content-type": "application/json"} | more


@each_case("path", CHATS)
def test_nothing_of_a_chat_request_waits_for_the_garbage_collector(gateway: Running, path: str) -> None:
    body = {"model": "m", **CHATS[path]}
    no_messages = {"input": [{"type": "no-type"}]} if "input" in body else {"messages": [{"role": "no-role"}]}
    cases: list[tuple[str, Any, dict[str, str]]] = [
        ("fine", body | {"stream": False}, write_headers("me")),
        ("streamed", body | {"stream": True}, write_headers("me")),
        ("an unknown key", body, write_headers("no-key")),
        ("a limit", body, write_headers("limited")),
        ("a media type", body, write_headers("me", **{"content-type": "text/plain"})),
        ("no JSON", json.dumps(body).encode()[:-1], write_headers("me")),
        ("no object", [body], write_headers("me")),
        ("too large", b" " * (2**20 + 1), write_headers("me")),
        ("an unknown model", body | {"model": "no-model"}, write_headers("me")),
        ("an unknown field", body | {"temprature": 1}, write_headers("me")),
        ("a wrong type", body | {"stream": "no"}, write_headers("me")),
        ("wrong messages", body | no_messages, write_headers("me")),
    ]
    if path == "/v1/chat/completions":
        checked = {"model": "checked", "response_format": {"type": "json_object"}}
        cases += [(kind, body | {"user": kind}, write_headers("me")) for kind in FAILURES]
        cases.append(("a format that is enforced", body | checked, write_headers("me")))
    for kind, given, headers in cases:
        raw = given if isinstance(given, bytes) else json.dumps(given).encode()
        status, garbage = count_garbage(gateway, "POST", path, raw, headers)
        assert garbage == 0, f"{kind} ({status}) at {path} leaves {garbage} objects of {GC_THRESHOLD}"


@each_case(
    "method, path, body",
    [
        ("GET", "/v1/nothing", b""),
        ("PUT", "/v1/chat", b"{}"),
        ("POST", "/v1/convert", b'{"no": 1}'),
        ("POST", "/v1/messages/count_tokens", b'{"model": "m"}'),
        ("POST", "/v1/responses/input_tokens", b'{"model": "no-model"}'),
        ("GET", "/v1/responses/resp_none", b""),
        ("GET", "/v1/chat/chat-none", b""),
        ("POST", "/v1/keys", b'{"name": "a/b"}'),
        ("GET", "/v1/keys/none", b""),
        ("GET", "/v1/usage?from=no", b""),
    ],
)
def test_nothing_of_a_refused_request_waits_for_the_garbage_collector(
    gateway: Running, method: str, path: str, body: bytes
) -> None:
    status, garbage = count_garbage(gateway, method, path, body, write_headers("admin"))
    assert 400 <= status < 500
    assert garbage == 0
