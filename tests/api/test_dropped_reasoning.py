"""Reasoning that a client drops from its history is restored before a tool call, for its caller alone."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from app.formats import FORMATS

from tests.conversations.clients import CALLERS, call, frames, sse
from tests.each_case import each_case
from tests.in_process_gateway import Answer, ModelServer, Running, streamed

Json = dict[str, Any]
ALICE, BOB = {"authorization": "Bearer alice"}, {"authorization": "Bearer bob"}
RANDOM, COUNTER = "call_9fKq2", "functions.get_weather:0"


class Gateway:
    def __init__(self, **settings: Any) -> None:
        self.id, self.reasoning = RANDOM, "I need Paris."
        self.server = ModelServer(lambda _: streamed(self.say()))
        profile = {"restore_reasoning": True, "replay_blank_reasoning": True}
        models = {
            "thinker": {"upstreams": ["local"], "profile": profile},
            "plain": {"upstreams": ["local"]},
        }
        upstreams = {"local": {"base_url": "http://model.test/v1"}}
        self.running = Running(
            {"upstreams": upstreams, "models": models, "cache": {"url": "memory:"}, **settings}, self.server
        )

    def say(self) -> bytes:
        calling = call(0, self.id, "get_weather", '{"city": "Paris"}')
        return sse({"reasoning_content": self.reasoning}, calling, finish="tool_calls")

    def ask(self, question: str = "Weather?", headers: dict[str, str] | None = ALICE, model: str = "thinker") -> None:
        messages = [{"role": "user", "content": question}]
        answer = self.running.post("/v1/chat/completions", {"model": model, "messages": messages}, headers)
        assert answer.status == 200, answer.body

    def go_on(self, question: str = "Weather?", headers: dict[str, str] | None = ALICE, **fields: Any) -> Answer:
        """Send the history without the reasoning, and with the arguments written in another way."""
        function = {"name": "get_weather", "arguments": '{"city":"Paris"}'}
        messages = [
            {"role": "user", "content": question},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": self.id, "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": self.id, "content": "sunny"},
        ]
        body = {"model": "thinker", "messages": messages, **fields}
        return self.running.post("/v1/chat/completions", body, headers)

    def sent(self) -> str | None:
        """The reasoning of the history that the model server was sent."""
        messages = json.loads(self.server.requests[-1].content)["messages"]
        found: str | None = messages[1].get("reasoning_content")
        return found


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    gateway = Gateway()
    with gateway.running:
        yield gateway


def test_dropped_reasoning_is_restored_and_a_warning_says_so(gateway: Gateway) -> None:
    gateway.ask()
    answer = gateway.go_on()
    assert gateway.sent() == "I need Paris."
    [warning] = json.loads(answer.headers["x-parley-warnings"])
    assert warning.startswith("messages[1]: the reasoning")


def test_reasoning_that_the_client_sends_is_not_replaced(gateway: Gateway) -> None:
    gateway.ask()
    function = {"name": "get_weather", "arguments": '{"city": "Paris"}'}
    calls = [{"id": RANDOM, "type": "function", "function": function}]
    messages = [
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": None, "reasoning_content": "Mine.", "tool_calls": calls},
        {"role": "tool", "tool_call_id": RANDOM, "content": "sunny"},
    ]
    answer = gateway.running.post("/v1/chat/completions", {"model": "thinker", "messages": messages}, ALICE)
    assert gateway.sent() == "Mine."
    assert "x-parley-warnings" not in answer.headers


def test_nothing_crosses_callers_and_nothing_is_restored_for_servers_that_do_not_want_it(gateway: Gateway) -> None:
    gateway.ask()
    for headers in (BOB, None):
        gateway.go_on(headers=headers)
        assert gateway.sent() == ""
    gateway.go_on(model="plain")
    assert gateway.sent() is None
    gateway.id = "call_7hTz"
    gateway.ask(model="plain")
    gateway.go_on()
    assert gateway.sent() == ""


def test_an_id_that_comes_again_stands_for_the_reply_to_the_same_message(gateway: Gateway) -> None:
    gateway.id = COUNTER
    for question in ("First?", "Second?"):
        gateway.reasoning = f"About {question}"
        gateway.ask(question)
    for question in ("First?", "Second?"):
        gateway.go_on(question)
        assert gateway.sent() == f"About {question}"
    gateway.go_on("Third?")
    assert gateway.sent() == ""


def test_an_id_that_does_not_come_again_counts_also_behind_other_words(gateway: Gateway) -> None:
    gateway.ask()
    gateway.go_on("Weather? <reminder>Be brief</reminder>")
    assert gateway.sent() == "I need Paris."


def test_a_request_that_must_not_be_stored_keeps_no_reasoning(gateway: Gateway) -> None:
    gateway.ask(headers={**ALICE, "cache-control": "no-store"})
    gateway.go_on()
    assert gateway.sent() == ""


def test_a_setting_switches_it_off() -> None:
    gateway = Gateway(reasoning={"restore": False})
    with gateway.running:
        gateway.ask()
        gateway.go_on()
        assert gateway.sent() == ""


def is_reasoning(message: Json) -> bool:
    return message.get("type") in ("reasoning", "ThoughtEvent") or bool(message.get("reasoning_content"))


def drop_reasoning(message: Json) -> Json:
    content = message.get("content")
    if isinstance(content, list):
        blocks = [one for one in content if not isinstance(one, dict) or one.get("type") != "thinking"]
        return {**message, "content": blocks}
    return {key: value for key, value in message.items() if key != "reasoning_content"}


@each_case("form", FORMATS)
@each_case("stream", (True, False))
def test_it_is_restored_in_every_format(gateway: Gateway, form: str, stream: bool) -> None:
    gateway.id = f"call_{form}{stream}x"
    caller = CALLERS[form]
    question = [caller.ask(f"Weather? {gateway.id}")]
    asked: Json = {"model": "thinker", "format": form, "messages": question, "stream": stream}
    answer = gateway.running.post("/v1/chat", asked, ALICE)
    reply = caller.streamed(frames(answer)) if stream else caller.whole(answer.json)
    kept = [drop_reasoning(one) for one in reply if not is_reasoning(one) or "tool_calls" in one]
    history = caller.answer([*question, *kept], {gateway.id: "sunny"})
    again = gateway.running.post("/v1/chat", asked | {"messages": history}, ALICE)
    assert again.status == 200, again.body
    assert gateway.sent() == "I need Paris."
