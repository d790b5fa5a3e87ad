"""Calls without results and results without calls."""

from app.chat.messages import CacheMark, Message, Reasoning, Text, ToolCall, ToolResult
from app.openai_messages.grouping import find_call_violations, group_messages
from hypothesis import given
from hypothesis import strategies as st

parts = st.sampled_from(
    [
        *[Text("a"), Text(" "), Text("b")] * 3,
        *(Text(""), Text("m", CacheMark({"type": "ephemeral"}, "p")), Reasoning("r")),
        *(ToolCall("f", "{}", "c1"), ToolCall("f", "{}"), ToolResult((Text("x"),), "f", "c1")),
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
    assert find_call_violations(given_messages) == group_messages(given_messages)[1]
