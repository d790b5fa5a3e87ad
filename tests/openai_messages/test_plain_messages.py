"""Messages that are a text each are parsed and sent without schema and groups, with the same result."""

from typing import Any

import pytest
from app.chat.messages import CacheMark, Message, Reasoning, Text, ToolCall, ToolResult
from app.formats import openai, qwen
from app.formats.base import Options, ParsedMessages
from app.formats.request_limits import _find_invalid_values, find_invalid_values
from app.openai_messages import messages as writer
from app.openai_messages.grouping import find_call_violations, group_messages
from app.openai_messages.messages import write_openai_messages
from app.profiles import Profile
from hypothesis import given
from hypothesis import strategies as st

roles = st.sampled_from(["user", "user", "assistant", "assistant", "system", "tool", "function", "developer", "x"])
contents = st.one_of(st.sampled_from(["Hi", " ", "é"]), st.sampled_from(["", None, 1, [{"text": "a"}]]))
raw_messages = st.lists(
    st.fixed_dictionaries(
        {"role": roles, "content": st.one_of(st.just("Hi"), st.just("Hi"), contents)},
        optional={"name": st.sampled_from([None, None, "n"])},
    )
    | st.sampled_from([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}, "no", {}]),
    max_size=6,
)


@pytest.mark.parametrize("module", [qwen, openai])
@given(given_messages=raw_messages)
def test_plain_messages_are_parsed_as_by_the_schema(module: Any, given_messages: list[Any]) -> None:
    parsed = module._parse(given_messages, Options())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "parse_plain_messages", lambda messages: None)
        general = module._parse(given_messages, Options())
    assert _show(parsed) == _show(general)


def _show(parsed: ParsedMessages) -> Any:
    turns = [message.turn for message in parsed.messages]
    return tuple(parsed.messages), turns, list(parsed.violations), list(parsed.warnings)


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


@given(messages, st.booleans())
def test_plain_messages_are_sent_as_through_groups(given_messages: list[Message], text_parts: bool) -> None:
    profile = Profile(text_parts=text_parts)
    written = write_openai_messages(given_messages, profile, "\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "_write_plain_messages", lambda messages: None)
        assert written == write_openai_messages(given_messages, profile, "\n")


@given(messages)
def test_calls_without_results_are_found_as_through_groups(given_messages: list[Message]) -> None:
    assert find_call_violations(given_messages) == group_messages(given_messages)[1]


values: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from(["a", None, True, 1, 1.5, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, float("inf"), [], {}]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2),
    max_leaves=8,
)


@given(values, st.integers(0, 4))
def test_invalid_values_are_found_out_before_they_are_listed(value: Any, max_nesting: int) -> None:
    expected = list(_find_invalid_values(value, "v", max_nesting))
    assert list(find_invalid_values(value, "v", max_nesting)) == expected
