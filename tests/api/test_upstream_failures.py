"""A model server that fails is named with the cause in every format and on every face, and gives away no secret."""

from typing import Any

import httpx
import pytest

from tests.in_process_gateway import HELLO, Answer, ModelServer, Running, streamed

KEY, OTHER_KEY = "Zx9!plain/key", "other?key+value"
SETTINGS = {
    "upstreams": {
        "local": {"base_url": "http://model.test:9999/v1", "api_key": KEY, "headers": {"x-team": "team=red!42"}},
        "other": {"base_url": "http://10.1.2.3/v1", "api_key": OTHER_KEY},
    },
    "models": {"m": {"upstreams": ["local"]}, "n": {"upstreams": ["other"]}},
}
FACES = [("/v1/chat", {"format": name}) for name in ("qwen", "openai", "autogen", "agentscope", "agentscope2")]
FACES += [("/v1/chat/completions", {})]
MESSAGES: dict[str, Any] = {
    "autogen": [{"type": "UserMessage", "content": "x", "source": "user"}],
    "agentscope": [{"name": "user", "role": "user", "content": "x"}],
    "agentscope2": [{"name": "user", "role": "user", "content": [{"type": "text", "text": "x"}]}],
}


def down(_: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("no") from ConnectionRefusedError(111, "refused at 10.0.0.1")


def breaking(_: httpx.Request) -> httpx.Response:
    return streamed(HELLO)


WORDS = f"bad key {KEY} or {OTHER_KEY} of team=red!42 at http://model.test:9999/v1, see /srv/keys/all.txt"


def refusing(_: httpx.Request) -> httpx.Response:
    return httpx.Response(401, json={"error": {"message": WORDS}})


def refusing_late(_: httpx.Request) -> httpx.Response:
    return streamed(HELLO, b'data: {"error": {"message": "%b"}}\n\n' % WORDS.encode())


def failed(path: str, fields: dict[str, Any], answer: Any, stream: bool) -> Answer:
    messages = MESSAGES.get(fields.get("format", ""), [{"role": "user", "content": "x"}])
    with Running(SETTINGS, ModelServer(answer)) as gateway:
        return gateway.post(path, {"model": "m", "messages": messages, "stream": stream, **fields})


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(("path", "fields"), FACES, ids=[fields.get("format", path) for path, fields in FACES])
@pytest.mark.parametrize(("answer", "cause"), [(down, b"connection_refused"), (breaking, b"reply_not_finished")])
def test_every_endpoint_names_the_upstream_and_the_cause(
    path: str, fields: dict[str, Any], stream: bool, answer: Any, cause: bytes
) -> None:
    body = failed(path, fields, answer, stream).body
    if b"REPLY_END" in body:  # an event of AgentScope 2, whose errors have a type and a message alone
        assert b"ended before it was finished" in body
    else:
        assert b'"name":"local"' in body
        assert b'"cause":"%b"' % cause in body
    assert b":9999" not in body
    assert b"10.0.0.1" not in body


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(("path", "fields"), FACES, ids=[fields.get("format", path) for path, fields in FACES])
@pytest.mark.parametrize("answer", [refusing, refusing_late])
def test_no_endpoint_shows_a_secret_of_any_upstream(
    path: str, fields: dict[str, Any], stream: bool, answer: Any
) -> None:
    text = failed(path, fields, answer, stream).body.decode()
    assert "bad key [redacted] or [redacted] of [redacted] at [address]" in text
    assert not [word for word in ("plain", "other?", "red!42", ":9999", "/srv") if word in text]
