"""`cache` of a request in its short forms, on every endpoint."""

from typing import Any

import pytest

from tests.each_case import each_case
from tests.in_process_gateway import SERVER, ModelServer, Running

BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat": {"messages": [{"role": "user", "content": "Hi"}], "stream": False},
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "Hi"}]},
    "/v1/messages": {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 9},
    "/v1/responses": {"input": "Hi"},
}


@pytest.mark.parametrize("path", list(BODIES))
@each_case(
    ("cache", "calls"),
    [({"mode": "off"}, 2), ("off", 2), (False, 2), ({"mode": "on"}, 1), ("on", 1), (True, 1), ("refresh", 2)],
)
def test_a_short_form_is_the_mode(path: str, cache: Any, calls: int) -> None:
    server = ModelServer()
    with Running({**SERVER, "cache": {"url": "memory:"}}, server) as gateway:
        for _ in range(2):
            assert gateway.post(path, {"model": "m", **BODIES[path], "cache": cache}).status == 200
    assert len(server.requests) == calls


@pytest.mark.parametrize("path", list(BODIES))
def test_anything_else_is_refused_with_the_forms(path: str) -> None:
    with Running() as gateway:
        for cache, text in [
            ("none", 'must be one of on, off, refresh, only, not "none"; did you mean `off`?'),
            (
                5,
                'must be true, false, on, off, refresh, only, or an object {"mode": …, "ttl_seconds": …}, not a number',
            ),
        ]:
            error = gateway.post(path, {"model": "m", **BODIES[path], "cache": cache}).json["error"]
            assert (error["code"], error["message"]) == ("invalid_request", f"cache: {text}")
