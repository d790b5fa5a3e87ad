"""A limit of output tokens that the API needs and the request does not have."""

from typing import Any

import httpx
import pytest

from tests.in_process_gateway import ModelServer, Running
from tests.upstream.messages.replies import REPLY, SETTINGS


def ask(path: str, stop_reason: str, **fields: Any) -> Any:
    server = ModelServer(lambda _: httpx.Response(200, json={**REPLY, "stop_reason": stop_reason}))
    body = {"model": "anthropic", "messages": [{"role": "user", "content": "Hi"}], **fields}
    with Running(SETTINGS, server) as gateway:
        answer = gateway.post(path, body)
    assert answer.status == 200, answer.body
    return answer.body.decode()


def test_a_reply_that_ends_at_the_default_has_a_warning() -> None:
    assert "default is 8192 tokens" in ask("/v1/chat/completions", "max_tokens")


@pytest.mark.parametrize(
    ("path", "stop_reason", "fields"),
    [
        ("/v1/chat/completions", "end_turn", {}),
        ("/v1/chat/completions", "max_tokens", {"max_tokens": 8192}),
        ("/v1/chat/completions", "max_tokens", {"max_completion_tokens": 5}),
        ("/v1/messages", "max_tokens", {"max_tokens": 5}),
    ],
)
def test_any_other_reply_has_none(path: str, stop_reason: str, fields: Any) -> None:
    assert "default_max_tokens" not in ask(path, stop_reason, **fields)
