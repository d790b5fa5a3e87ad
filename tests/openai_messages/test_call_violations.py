"""Calls without results and results without calls."""

from app.chat.messages import CacheMark, Message, Reasoning, Role, Text, ToolCall, ToolResult
from app.openai_messages.grouping import find_unmatched_calls, group_messages
from hypothesis import given
from hypothesis import strategies as st

from tests.each_case import each_case

parts = st.sampled_from(
    [
        *[Text("a"), Text(" "), Text("b")] * 3,
        *(Text(""), Text("m", CacheMark({"type": "ephemeral"}, "p")), Reasoning("r")),
        *(ToolCall("f", "{}", "c1"), ToolCall("f", "{}"), ToolResult((Text("x"),), "f", "c1")),
        *(ToolCall("g", "{}", "c2"), ToolResult((Text("x"),), None, "c2")),
    ]
)
messages = st.lists(
    st.builds(
        Message,
        st.sampled_from(["system", "user", "user", "assistant", "assistant", "tool"]),
        st.lists(parts, min_size=1, max_size=1).map(tuple) | st.lists(parts, max_size=2).map(tuple),
        st.sampled_from([None, None, None, "n"]),
        st.sampled_from([None, None, "t"]),
        st.just("messages[0]"),
        st.sampled_from([{}, {}, {}, {"developer": True}]),
    ),
    max_size=6,
)


@given(messages)
def test_calls_without_results_are_found_as_through_groups(given_messages: list[Message]) -> None:
    assert list(find_unmatched_calls(given_messages).violations) == group_messages(given_messages)[1]


def call(id_: str | None, role: Role = "assistant") -> Message:
    return Message(role, (ToolCall("f", "{}", id_),), path="call")


def result(id_: str | None, role: Role = "tool") -> Message:
    return Message(role, (ToolResult((Text("x"),), None, id_),), path="result")


@each_case(
    ("messages", "count"),
    [
        ([call("a"), call("b"), result("b"), result("a")], 0),
        ([call("a")], 1),
        ([result("a")], 1),
        ([result("a"), call("a")], 2),
        ([call("a"), result("a"), result("a")], 1),
        ([call("a"), call("a"), result("a")], 1),
        ([call("a"), call("a"), result("a"), result("a")], 0),
        ([call(None), result(None)], 0),
        ([call(""), result("")], 0),
        ([call("a"), result("a", "user")], 1),
        ([call("a", "tool"), result("a")], 1),
    ],
)
def test_calls_and_results_are_pairs_by_id_and_order(messages: list[Message], count: int) -> None:
    found = find_unmatched_calls(messages)
    assert len(found.violations) == len(found.calls) + len(found.results) == count
    assert list(found.violations) == group_messages(messages)[1]
