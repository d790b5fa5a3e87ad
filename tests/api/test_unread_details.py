"""What a client sends back of one provider, and a server of another API does not get: a warning names it."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.each_case import each_case
from tests.in_process_gateway import ModelServer, Running

Json = dict[str, Any]
APIS = ("chat_completions", "messages", "responses", "gemini")
SETTINGS: Json = {
    "upstreams": {api: {"base_url": f"http://{api}.test/v1", "api": api} for api in APIS},
    "models": {api: {"upstreams": [api], "max_retries": 0} for api in APIS},
    "server": {"log_level": "error"},
}
COMPACTED: Json = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAAAB"}
THOUGHT: Json = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAAAB"}
SUMMARY = "input[1]: a summary that another provider has encrypted was left out"


class Gateway:
    def __init__(self) -> None:
        self.server = ModelServer(lambda _: httpx.Response(400, json={"error": {"message": "no"}}))
        self.running = Running(SETTINGS, self.server)

    def send(self, path: str, body: Json) -> list[str]:
        """Return the warnings that were known when the server was asked."""
        answer = self.running.post(path, body)
        assert answer.status == 400
        warnings: list[str] = json.loads(answer.headers.get("x-parley-warnings", "[]"))
        return warnings


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    gateway = Gateway()
    with gateway.running:
        yield gateway


def say_with(item: Json) -> list[Json]:
    return [
        {"role": "user", "content": "a"},
        item,
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": "c"},
    ]


@each_case("model", ["chat_completions", "messages", "gemini"])
def test_a_summary_that_cannot_be_read_is_named(gateway: Gateway, model: str) -> None:
    """openai/codex#45401."""
    warnings = gateway.send("/v1/responses", {"model": model, "store": False, "input": say_with(COMPACTED)})
    assert warnings == [SUMMARY]
    assert b"gAAAAAB" not in gateway.server.requests[-1].content


@each_case("model", ["chat_completions", "messages", "gemini"])
def test_reasoning_that_cannot_be_read_is_named(gateway: Gateway, model: str) -> None:
    (warning,) = gateway.send("/v1/responses", {"model": model, "store": False, "input": say_with(THOUGHT)})
    assert warning.startswith("input[1]")


def test_a_server_of_the_same_api_gets_it_without_a_warning(gateway: Gateway) -> None:
    body = {
        "model": "responses",
        "store": False,
        "input": say_with(THOUGHT),
        "include": ["reasoning.encrypted_content"],
    }
    assert gateway.send("/v1/responses", body) == []
    assert b"gAAAAAB" in gateway.server.requests[-1].content


@each_case("model", ["chat_completions", "responses", "gemini"])
def test_hidden_reasoning_of_messages_is_named(gateway: Gateway, model: str) -> None:
    hidden = {
        "role": "assistant",
        "content": [{"type": "redacted_thinking", "data": "EmwK"}, {"type": "text", "text": "b"}],
    }
    turns = [{"role": "user", "content": "a"}, hidden, {"role": "user", "content": "c"}]
    warnings = gateway.send("/v1/messages", {"model": model, "max_tokens": 9, "messages": turns})
    assert warnings == ["messages[1].content[0]: reasoning that only another provider can read was left out"]
