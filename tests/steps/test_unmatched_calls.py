"""A conversation in which calls and results are not pairs becomes one in which they are."""

from app.chat.known_conversation import KnownConversation
from app.chat.messages import (
    INTERRUPTED,
    CallState,
    ChatRequest,
    Media,
    Message,
    Role,
    Text,
    Tool,
    ToolCall,
    ToolResult,
)
from app.openai_messages.grouping import find_unmatched_calls
from app.profiles import Profile
from app.steps.pipeline import prepare_request
from app.steps.unmatched_calls import repair_calls
from hypothesis import example, given
from hypothesis import strategies as st

from tests.each_case import each_case
from tests.steps.word_counter import Words

USER = Message("user", (Text("u"),))


def call(*ids: str | None, role: Role = "assistant") -> Message:
    return Message(role, tuple(ToolCall("f", "{}", id_) for id_ in ids), path="call")


def result(id_: str | None, name: str | None = None, text: str = "x") -> Message:
    return Message("tool", (ToolResult((Text(text),), name, id_),), path="result")


def interrupted(id_: str | None) -> Message:
    return Message("tool", (ToolResult((Text(INTERRUPTED),), "f", id_),), path="call")


def orphan(name: str = "") -> Message:
    head = "The result of a call that this conversation does not have"
    named = f"{head}, of the function {name}:" if name else f"{head}:"
    return Message("user", (Text(named), Text("x")), path="result")


def repair(*messages: Message) -> list[Message]:
    repaired, warnings = repair_calls(ChatRequest("m", messages))
    assert bool(warnings) is (repaired.messages != messages)
    return list(repaired.messages)


@each_case(
    ("messages", "expected"),
    [
        ([USER, call("a"), result("a")], [USER, call("a"), result("a")]),
        ([USER, call("a")], [USER, call("a"), interrupted("a")]),
        ([USER, call("a"), USER], [USER, call("a"), interrupted("a"), USER]),
        ([call("a", "b"), result("b"), USER], [call("a", "b"), result("b"), interrupted("a"), USER]),
        ([call("a"), call("b"), result("b")], [call("a"), call("b"), result("b"), interrupted("a")]),
        ([call("a", "b"), result("a"), call("c")], [call("a", "b"), result("a"), interrupted("b"), call("c")]),
        ([call(None, None), result(None)], [call(None, None), result(None), interrupted(None)]),
        ([USER, result("z"), USER], [USER, orphan(), USER]),
        ([result("z", "f")], [orphan("f")]),
        ([call("a"), result("a"), result("a")], [call("a"), result("a"), orphan()]),
    ],
)
def test_a_call_gets_a_result_and_a_result_without_a_call_is_a_text(
    messages: list[Message], expected: list[Message]
) -> None:
    found = repair(*messages)
    assert found[: len(expected)] == expected and len(found) <= len(expected) + 1
    assert not find_unmatched_calls(found).violations


def test_media_of_a_result_without_a_call_are_kept() -> None:
    image = Media("image", ("https://x.test/i.png",))
    whole = Message("tool", (ToolResult((image,), None, "z"), ToolResult((Text("x"),), None, "a")), path="result")
    [first, kept, text] = repair(call("a"), whole)
    assert (first.role, text.role, text.parts[1:], kept.role) == ("assistant", "user", (image,), "tool")


def test_calls_before_the_messages_count() -> None:
    request = ChatRequest("m", (result("a"),), known=KnownConversation())
    state = CallState(1, {"a": 1}, frozenset("a"))
    found = find_unmatched_calls(request.messages, state)
    assert "already has a result" in found.violations[0].message


def test_each_repair_is_a_warning_with_its_place() -> None:
    _, warnings = repair_calls(ChatRequest("m", (call("a"), USER, result("z"))))
    assert sorted(text.partition(":")[0] for text in warnings) == ["call.function_call", "result"]
    assert all(text.endswith("; the conversation was repaired") for text in warnings)


IDS = st.sampled_from([None, "a", "b", "c"])
TURNS = st.one_of(
    st.builds(lambda ids: call(*ids), st.lists(IDS, min_size=1, max_size=2)),
    st.builds(result, IDS, st.sampled_from([None, "f", "g"])),
    st.builds(result, IDS, st.sampled_from([None, "f", "g"])),
    st.just(USER),
)


@example([call("a", None), result(None), result(None), result("a")])
@given(st.lists(TURNS, min_size=1, max_size=8))
def test_what_was_repaired_has_only_pairs_and_is_not_repaired_again(messages: list[Message]) -> None:
    repaired, _ = repair_calls(ChatRequest("m", tuple(messages)))
    assert not find_unmatched_calls(repaired.messages).violations
    assert repair_calls(repaired) == (repaired, [])


def test_old_calls_that_become_text_are_not_repaired() -> None:
    tool = Tool("f", {"name": "f"})
    request = ChatRequest("m", (USER, call("a")), (tool,), {"function_choice": "none"})
    prepared, warnings = prepare_request(request, Profile(native_tools=False), Words(), {})
    assert INTERRUPTED not in str(prepared.messages) and len(warnings) > 0
