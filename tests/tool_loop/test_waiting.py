import pytest
from app.chat.messages import Message, Text, ToolCall, ToolResult
from app.chat.tool_asks import ToolApproval
from app.errors import InvalidInput
from app.tool_loop.waiting import WaitingCall, find_paused, find_waiting, insert_results

MARKED = ToolCall("wx-set", "{}", "c1", awaits_approval=True)
PLAIN = ToolCall("wx-set", "{}", "c2")
DONE = Message("tool", (ToolResult((Text("ok"),), "wx-set", "c2"),))
USER = Message("user", (Text("Hi"),))


def turn(*calls: ToolCall) -> Message:
    return Message("assistant", calls)


def test_a_marked_call_without_a_result_waits_whether_or_not_it_is_answered() -> None:
    yes = ToolApproval("c1", approve=True)
    assert find_waiting([USER, turn(MARKED)], [yes]) == [WaitingCall(MARKED, "c1", yes, 2)]
    assert find_waiting([USER, turn(MARKED), USER], []) == [WaitingCall(MARKED, "c1", None, 2)]


def test_a_call_without_a_mark_waits_if_it_is_answered() -> None:
    assert find_waiting([USER, turn(PLAIN)], []) == []
    no = ToolApproval("c2", approve=False)
    assert find_waiting([USER, turn(PLAIN)], [no]) == [WaitingCall(PLAIN, "c2", no, 2)]


def test_an_answer_to_a_call_that_does_not_wait_is_refused_at_its_place() -> None:
    answers = [ToolApproval(id_, approve=True, path=f"tool_approvals[{at}].id") for at, id_ in enumerate(("c2", "c9"))]
    with pytest.raises(InvalidInput) as raised:
        find_waiting([USER, turn(PLAIN), DONE], answers)
    assert [violation.path for violation in raised.value.violations] == [answer.path for answer in answers]


def test_results_stand_behind_their_turn() -> None:
    messages = [USER, turn(MARKED), turn(PLAIN), DONE, USER, turn(ToolCall("wx-set", "{}", "c3", awaits_approval=True))]
    waiting = find_waiting(messages, [])
    results = [Message("tool", (ToolResult((Text(one.id),), "wx-set", one.id),)) for one in waiting]
    told = insert_results(messages, list(zip(waiting, results, strict=True)))
    assert told == (*messages[:4], results[0], *messages[4:], results[1])


def test_calls_with_which_the_conversation_ends_are_run_first() -> None:
    paused = [USER, turn(MARKED, PLAIN), DONE]
    assert find_paused(paused, {"wx-set"}) == [ToolApproval("c1", approve=True)]
    assert find_paused(paused, {"other"}) == find_paused(paused, ()) == find_paused([], {"wx-set"}) == []
    assert find_paused([*paused, USER], {"wx-set"}) == []
