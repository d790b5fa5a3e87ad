"""The bodies of coding agents, the model server that answers them, and the tables of `agent-turn`."""

import json
from typing import Any

import agent_turn
import agent_turn_report
import pytest
from agent_bodies import GEMINI, WRITERS, Conversation, make_conversation
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
    key = {"/v1/responses": "input", GEMINI: "contents"}.get(path, "messages")
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


def some_results() -> agent_turn.Results:
    results: agent_turn.Results = {}
    for name, first, last in (("gateway", [2.0, 6.0], [1.0, 1.0]), ("claude-code-router", [4.0, 6.0], [40.0, 60.0])):
        results[name, "/v1/messages", agent_turn.FIRST_CPU] = first
        results[name, "/v1/messages", agent_turn.LAST_CPU] = last
    return results


def test_costs_are_compared_within_a_round() -> None:
    ((name, path, first, last),) = agent_turn_report.ratios(some_results())
    assert (name, path) == ("claude-code-router", "/v1/messages")
    assert first.median == pytest.approx(0.75)
    assert last.median == pytest.approx((1 / 40 + 1 / 60) / 2)
    text = agent_turn_report.markdown(some_results())
    assert "| claude-code-router | `/v1/messages` | × 0.75 (0.5–1) | × 0.0208 (0.0167–0.025) |" in text


def test_the_worst_endpoint_decides_and_what_was_not_measured_decides_nothing() -> None:
    results = some_results()
    for path, alone, turns in (("/v1/messages", [3.0], [4.0]), ("/v1/responses", [3.0], [4.5])):
        results["gateway", path, agent_turn.ALONE] = alone
        results["gateway", path, agent_turn.beside(10)] = turns
    table = agent_turn_report.targets_table(results)
    assert "CPU beside claude-code-router, `/v1/messages` | × 0.0208 (0.0167–0.025) | × 0.02 | **missed** |" in table
    assert "ms above alone, worst endpoint | + 1.5 | + 2 | met |" in table
    assert "CPU beside litellm, `/v1/chat/completions` | – | × 0.05 | not measured |" in table
    assert not agent_turn_report.all_met(results)


def test_memory_is_compared_with_that_of_a_gateway_that_remembers_nothing() -> None:
    results: agent_turn.Results = {}
    for name, megabytes in (("gateway", 150.0), (agent_turn.FORGETFUL, 90.0)):
        results[name, agent_turn.MEMORY_PATH, agent_turn.AT_END] = [megabytes]
    assert "remembering nothing, MB | + 60 | + 67 | met |" in agent_turn_report.targets_table(results)
    assert agent_turn_report.all_met(results)
