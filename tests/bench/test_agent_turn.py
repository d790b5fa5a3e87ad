"""The bodies of coding agents, the model server that answers them, and the tables of `agent-turn`."""

import json
from typing import Any

import agent_turn
import pytest
from agent_bodies import WRITERS, Conversation, make_conversation
from fixed_replies import answer

from tests.each_case import each_case

SHORT = make_conversation(rounds=2, functions=3)


def written(path: str, conversation: Conversation) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(WRITERS[path](conversation, "mock"))
    return body


def test_the_reference_request_has_half_a_megabyte_at_each_endpoint() -> None:
    conversation = make_conversation(agent_turn.ROUNDS, agent_turn.FUNCTIONS)
    sizes = [len(write(conversation, "mock")) for write in WRITERS.values()]
    assert all(480_000 < size < 560_000 for size in sizes)


@each_case("path", sorted(WRITERS))
def test_a_session_grows_at_its_end(path: str) -> None:
    shorter, longer = (written(path, SHORT.until(count)) for count in (1, 2))
    key = "input" if path == "/v1/responses" else "messages"
    before, after = shorter.pop(key), longer.pop(key)
    assert shorter == longer
    assert [_without_mark(each) for each in after[: len(before)]] == [_without_mark(each) for each in before]
    assert len(after) > len(before)


def _without_mark(message: dict[str, Any]) -> str:
    return json.dumps(message).replace(', "cache_control": {"type": "ephemeral"}', "")


def test_another_seed_shares_no_text() -> None:
    one, other = (make_conversation(2, 2, seed) for seed in (1, 2))
    assert one.rounds[0].result != other.rounds[0].result
    assert one.system != other.system
    assert make_conversation(2, 2, 1) == one


@each_case("path", sorted(WRITERS))
def test_functions_are_left_out_where_there_are_none(path: str) -> None:
    assert not {"tools", "functions"} & written(path, make_conversation(1, 0)).keys()


@each_case(
    ("path", "body", "media_type", "part"),
    [
        ("/v1/chat/completions", b'{"stream": true}', "text/event-stream", b"data: [DONE]"),
        ("/v1/chat/completions", b'{"stream":false}', "application/json", b'"chat.completion"'),
        ("/v1/responses", b"{}", "application/json", b'"output_text"'),
        ("/v1/messages", b"{}", "application/json", b'"end_turn"'),
        ("/v1/models", b"", "application/json", b'"mock"'),
        ("/health", b"", "application/json", b'"ok"'),
    ],
)
def test_the_model_server_answers_in_the_form_of_the_path(path: str, body: bytes, media_type: str, part: bytes) -> None:
    found, reply = answer(path, body)
    assert found == media_type
    assert part in reply


def test_costs_are_compared_within_a_round() -> None:
    results: agent_turn.Results = {}
    for name, first, last in (("gateway", [2.0, 6.0], [1.0, 1.0]), ("litellm", [4.0, 6.0], [10.0, 20.0])):
        results[name, "/v1/messages", "first, 100 rounds, 60 functions, CPU ms"] = first
        results[name, "/v1/messages", "last of 100 rounds, CPU ms"] = last
    ((name, path, first_ratio, last_ratio),) = agent_turn.ratios(results)
    assert (name, path) == ("litellm", "/v1/messages")
    assert first_ratio.median == pytest.approx(0.75)
    assert last_ratio.median == pytest.approx(0.075)
    assert "| litellm | `/v1/messages` | × 0.75 (0.5–1) | × 0.075 (0.05–0.1) |" in agent_turn.markdown(results)
