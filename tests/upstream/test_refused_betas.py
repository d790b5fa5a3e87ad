"""Headers that are sent once more without the betas that a server has refused."""

import httpx
from app.chat.events import Fault
from app.upstream.api import find_api, repair_refused

from tests.in_process_gateway import ModelServer, Running

VERSION = (b"anthropic-version", b"2023-06-01")
NAMED = (
    "Unexpected value(s) `effort-2025-11-24` for the `anthropic-beta` header. Please consult our documentation at "
    "docs.anthropic.com or try again without the header."
)


def leave_out(message: str, *headers: tuple[bytes, bytes]) -> object:
    repaired = repair_refused(find_api("messages"), b"{}", Fault("invalid_request", message, False, 400), headers)
    return None if repaired is None else repaired.headers


def test_a_refused_beta_is_left_out_and_all_of_them_if_none_is_named() -> None:
    betas = (b"Anthropic-Beta", b"a-2025-01-01, effort-2025-11-24")
    assert leave_out(NAMED, VERSION, betas) == [VERSION, (b"Anthropic-Beta", b"a-2025-01-01")]
    assert leave_out("invalid beta flag", VERSION, betas) == [VERSION]
    assert leave_out("invalid beta flag", VERSION) is None
    assert leave_out("invalid flag", VERSION, betas) is None


def test_a_request_is_sent_once_more_without_a_refused_beta() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if "effort" in request.headers.get("anthropic-beta", ""):
            return httpx.Response(
                400, json={"type": "error", "error": {"message": NAMED, "type": "invalid_request_error"}}
            )
        reply = {"id": "m", "type": "message", "role": "assistant", "content": [{"type": "text", "text": "Hi"}]}
        return httpx.Response(200, json={**reply, "model": "m", "usage": {"input_tokens": 1, "output_tokens": 1}})

    server = ModelServer(answer)
    upstream = {"base_url": "http://a.test/v1", "kind": "anthropic", "api": "messages"}
    models = {"m": {"upstreams": ["a"], "max_retries": 0, "profile": {"stream": "never"}}}
    body = {"model": "m", "max_tokens": 50, "messages": [{"role": "user", "content": "Hi"}]}
    with Running({"upstreams": {"a": upstream}, "models": models}, server) as gateway:
        headers = {"anthropic-version": "2023-06-01", "anthropic-beta": "a-2025-01-01,effort-2025-11-24"}
        answered = gateway.post("/v1/messages", body, headers)
        assert answered.status == 200 and "refused values of anthropic-beta" in str(answered.json)
        assert gateway.post("/v1/messages", body, headers).status == 200
    sent = [one.headers["anthropic-beta"] for one in server.requests]
    assert sent == [headers["anthropic-beta"], "a-2025-01-01", "a-2025-01-01"], "it is remembered"
