"""What the chaos run finds wrong with a reply whose tools the gateway ran."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from chaos_checks import find_repeated
from chaos_loops import PlannedCall, answer_conversation, answer_turn, find_loop_mistake, is_possible, plan_turns
from chaos_readers import ChatReader, CompletionReader, read_whole
from chaos_replies import Question, Received, ServedCall, ServedResult

from tests.bench.chaos_frames import OPENING, frame

PROMPTS = (Question(f"q{number}", "loop", 5, 0).prompt for number in range(100))
PROMPT = next(prompt for prompt in PROMPTS if [len(calls) for calls in plan_turns(prompt)] == [2, 1])
PLANNED = [call for calls in plan_turns(PROMPT) for call in calls]
TEXTS = ["Error: one", "Error: two", "Error: three"]


def whole() -> Received:
    turns = [answer_turn(PROMPT, turn, TEXTS) for turn in range(3)]
    return Received(
        "".join(turn.reasoning for turn in turns),
        "".join(turn.content for turn in turns),
        ended="completed",
        finish_reason="stop",
        calls=[ServedCall(call.id, call.name, call.arguments) for call in PLANNED],
        results=[ServedResult(call.id, text, True) for call, text in zip(PLANNED, TEXTS, strict=True)],
    )


def test_a_right_reply_is_right_and_so_is_one_that_ends_early() -> None:
    right = whole()
    assert find_loop_mistake(PROMPT, right) == ""
    first = answer_turn(PROMPT, 0, [])
    begun = [*right.calls[:1], replace(right.calls[1], arguments='{"tok')]
    cut = Received(first.reasoning, first.content[:9], ended="failed", calls=begun)
    assert find_loop_mistake(PROMPT, cut) == ""


@pytest.mark.parametrize(
    ("spoil", "mistake"),
    [
        (lambda r: replace(r, results=r.results[:2]), "is wrong"),
        (lambda r: replace(r, results=[*r.results, r.results[-1]]), "3 calls have results for"),
        (lambda r: replace(r, results=[r.results[1], r.results[0], r.results[2]]), "3 calls have results for"),
        (lambda r: replace(r, results=[replace(r.results[0], text="Error: x"), *r.results[1:]]), "content is wrong"),
        (lambda r: replace(r, results=[replace(r.results[0], text="x"), *r.results[1:]]), "has the result 'x'"),
        (lambda r: replace(r, calls=r.calls[:2]), "2 calls have results for"),
        (lambda r: replace(r, calls=[*r.calls, r.calls[0]]), "the calls are"),
        (lambda r: replace(r, calls=[*r.calls[:2], replace(r.calls[2], arguments="{")]), "the calls are"),
        (lambda r: replace(r, content=r.content[:-1]), "its content is cut off"),
        (lambda r: replace(r, reasoning=r.reasoning[:-1]), "its reasoning is cut off"),
        (lambda r: replace(r, content=r.content + r.content), "content is wrong"),
        (lambda r: replace(r, finish_reason="tool_calls"), "the finish reason is 'tool_calls'"),
    ],
)
def test_a_wrong_reply_is_found(spoil: Callable[[Received], Received], mistake: str) -> None:
    assert mistake in find_loop_mistake(PROMPT, spoil(whole()))


@pytest.mark.parametrize(
    ("tool", "text", "failed", "possible"),
    [
        ("echo", "echo has done t", False, True),
        ("echo", "echo has done u", False, False),
        ("echo", "Error: its server ended", True, True),
        ("hang", "hang has done t", False, False),
        ("fail", "fail has failed t", True, True),
        ("fail", "fail has failed u", True, False),
        ("huge", "huge has done t\né\n[… 1 of 2 bytes left out]", False, True),
        ("huge", "huge has done t\né", False, False),
        ("nonsense", "anything", False, True),
    ],
)
def test_a_result_is_that_of_its_call(tool: str, text: str, failed: bool, possible: bool) -> None:
    call = PlannedCall("call_1", "stdio", tool, "t")
    assert is_possible(call, ServedResult("call_1", text, failed)) is possible


def history(results: list[tuple[str, str]]) -> list[dict[str, Any]]:
    calls = [{"id": call.id, "function": {"name": call.name, "arguments": call.arguments}} for call in PLANNED[:2]]
    told = [{"role": "tool", "tool_call_id": id_, "content": text} for id_, text in results]
    return [{"role": "user", "content": PROMPT}, {"role": "assistant", "content": "", "tool_calls": calls}, *told]


def test_the_model_goes_on_only_with_each_result_once_and_in_order() -> None:
    results = [(call.id, text) for call, text in zip(PLANNED[:2], TEXTS, strict=False)]
    assert answer_conversation(history(results)) == answer_turn(PROMPT, 1, TEXTS[:2])
    for wrong in (results[:1], results[::-1], [*results, results[0]]):
        assert "the history has" in answer_conversation(history(wrong)).content


def test_calls_and_results_are_read_in_each_form() -> None:
    call = {"role": "assistant", "content": "", "function_call": {"name": "s-t", "arguments": "{}"}}
    call["extra"] = {"function_id": "c"}
    result = {"role": "function", "name": "s-t", "content": "no", "extra": {"function_id": "c", "is_error": True}}
    frames = [
        OPENING,
        frame(2, "message.started", index=0, kind="function_call", message={}),
        frame(3, "message.delta", index=0, delta={"function_call": {"arguments": "{}"}}),
        frame(4, "message.completed", index=0, message=call),
        frame(5, "message.started", index=1, kind="function_result", message={}),
        frame(6, "message.delta", index=1, delta={"content": "no"}),
        frame(7, "message.completed", index=1, message=result),
    ]
    chat = ChatReader()
    for one in frames:
        chat.feed(one)
    told = [
        {"index": 0, "role": "assistant", "content": "", "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "s-t", "arguments": "{}"}}]},
        {"index": 1, "role": "tool", "tool_call_id": "c", "content": "no", "is_error": True},
    ]  # fmt: skip
    completions = CompletionReader()
    for message in told:
        completions.feed(b"data: " + json.dumps({"id": "x", "server_message": message, "choices": []}).encode())
    body = {"messages": [call, result], "finish_reason": "stop", "usage": None}
    choice = {"message": {"content": "", "server_messages": told}, "finish_reason": "stop"}
    read = [chat.received, completions.received, read_whole(body), read_whole({"choices": [choice], "usage": None})]
    for received in read:
        assert received.calls == [ServedCall("c", "s-t", "{}")]
        assert received.results == [ServedResult("c", "no", True)]


def test_a_call_that_a_tool_saw_twice_is_found() -> None:
    assert find_repeated(["a", "b", "a"]) == ["a"]
