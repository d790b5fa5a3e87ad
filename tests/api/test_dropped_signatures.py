"""Gemini's signatures of calls that a client drops from its history are restored, for its caller alone."""

import json
from typing import Any

from tests.api.completion_requests import DONE, called, event, server_sending
from tests.in_process_gateway import Running

Json = dict[str, Any]
ALICE, BOB = {"authorization": "Bearer alice"}, {"authorization": "Bearer bob"}
EXTRA = {"google": {"thought_signature": "U0lHTkVE"}}
SKIP = {"google": {"thought_signature": "skip_thought_signature_validator"}}
QUESTION = {"role": "user", "content": "Weather?"}
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]
SETTINGS: Json = {
    "upstreams": {"google": {"base_url": "http://model.test/v1", "kind": "gemini"}},
    "models": {"m": {"upstreams": ["google"]}},
    "cache": {"url": "memory:"},
}


def history(*calls: tuple[str, str]) -> list[Json]:
    functions = [
        {"id": id_, "type": "function", "function": {"name": "f", "arguments": arguments}} for id_, arguments in calls
    ]
    results = [{"role": "tool", "tool_call_id": id_, "content": "ok"} for id_, _ in calls]
    return [QUESTION, {"role": "assistant", "content": None, "tool_calls": functions}, *results]


def test_the_signature_that_the_gateway_has_seen_is_sent_and_another_call_is_not_checked() -> None:
    server = server_sending(
        called(0, "call_9fKq2", "f", '{"a": 1}', extra_content=EXTRA),
        called(1, "call_8gLr3", "f", "{}"),
        event({}, "tool_calls"),
        DONE,
    )

    def send(messages: list[Json], headers: Json | None) -> tuple[list[Any], list[str]]:
        body = {"model": "m", "messages": messages, "tools": TOOLS}
        answer = gateway.post("/v1/chat/completions", body, headers)
        assert answer.status == 200, answer.body
        sent = json.loads(server.requests[-1].content)["messages"]
        calls = sent[1]["tool_calls"] if len(sent) > 1 else []
        return [one.get("extra_content") for one in calls], json.loads(answer.headers.get("x-parley-warnings", "[]"))

    with Running(SETTINGS, server) as gateway:
        send([QUESTION], ALICE)
        both = history(("call_9fKq2", '{"a":1}'), ("call_8gLr3", "{}"))
        signed, warnings = send(both, ALICE)
        assert (signed, [text.split(": ")[0] for text in warnings]) == ([EXTRA, None], ["messages[1]"])
        assert send(both, BOB) == ([SKIP, None], [])
        assert send(history(("call_other", "{}")), ALICE) == ([SKIP], [])
        both[1]["tool_calls"][0]["extra_content"] = {"google": {"thought_signature": "own"}}
        assert send(both, ALICE)[0] == [{"google": {"thought_signature": "own"}}, None]
