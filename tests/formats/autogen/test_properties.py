"""Whatever comes, nothing but violations; what was read comes back equal, and so does what was written."""

from typing import Any

import pytest
from app.chat.messages import Media, Message, Reasoning, Text, ToolCall, ToolResult
from app.errors import InvalidInput
from app.formats.autogen import AUTOGEN
from app.formats.autogen.sidecar import normalize_message
from app.formats.autogen.write import split
from app.formats.base import Options
from app.formats.qwen import QWEN
from app.openai_messages.messages import write_openai_messages
from app.profiles import Profile
from hypothesis import given
from hypothesis import strategies as st

from tests.effort import examples

QUICK = examples(20)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)
TYPES = [
    *("SystemMessage", "UserMessage", "AssistantMessage", "FunctionExecutionResultMessage", "TextMessage"),
    *("StopMessage", "MultiModalMessage", "ToolCallSummaryMessage", "HandoffMessage", "StructuredMessage[X]"),
    *("ToolCallRequestEvent", "ToolCallExecutionEvent", "ThoughtEvent", "CodeGenerationEvent", "CodeExecutionEvent"),
    *("ModelClientStreamingChunkEvent", "UserInputRequestedEvent", "MemoryQueryEvent", "SelectSpeakerEvent"),
    *("SelectorEvent", "Nonsense"),
]
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAIAAAABCAIAAAB7QOjdAAAAD0lEQVR4nGP8z8DAwMAAAAYIAQHLR3Z1AAAAAElFTkSuQmCC"
short = st.sampled_from(["", "x", "user", "a", "b", "é\u2028"])
ids = st.sampled_from(["", "1", "2", "call_3"])
call = st.fixed_dictionaries({"id": ids, "arguments": st.sampled_from(["", "{}", "{", '{"a":1}']), "name": short})
result = st.fixed_dictionaries(
    {"content": short, "call_id": ids}, optional={"name": short | st.none(), "is_error": st.booleans() | st.none()}
)
piece = short | st.just({"data": PNG})
context = st.one_of(
    st.fixed_dictionaries(
        {"type": st.just("UserMessage"), "source": short, "content": short | st.lists(piece, max_size=2)}
    ),
    st.fixed_dictionaries(
        {"type": st.just("AssistantMessage"), "source": short, "content": short | st.lists(call, max_size=2)},
        optional={"thought": short | st.none()},
    ),
    st.fixed_dictionaries({"type": st.just("FunctionExecutionResultMessage"), "content": st.lists(result, max_size=2)}),
    st.fixed_dictionaries({"type": st.just("SystemMessage"), "content": short}),
)
FIELDS: dict[str, dict[str, Any]] = {
    "TextMessage": {"content": short},
    "StopMessage": {"content": short},
    "MultiModalMessage": {"content": st.lists(piece, max_size=3)},
    "ToolCallSummaryMessage": {
        "content": short,
        "tool_calls": st.lists(call, max_size=2),
        "results": st.lists(result, max_size=2),
    },
    "HandoffMessage": {"content": short, "target": short, "context": st.lists(context, max_size=3)},
    "StructuredMessage[X]": {"content": st.dictionaries(short, json_values, max_size=2)},
    "ToolCallRequestEvent": {"content": st.lists(call, max_size=3)},
    "ToolCallExecutionEvent": {"content": st.lists(result, max_size=3)},
    "ThoughtEvent": {"content": short},
    "CodeGenerationEvent": {"content": short},
    "CodeExecutionEvent": {"result": st.fixed_dictionaries({"exit_code": st.integers(), "output": short})},
    "ModelClientStreamingChunkEvent": {"content": short},
    "UserInputRequestedEvent": {"request_id": short},
    "SelectSpeakerEvent": {"content": st.lists(short, max_size=2)},
    "SelectorEvent": {"content": short},
}
COMMON: dict[str, Any] = {
    "id": st.sampled_from(["m1", "m2", None]),
    "metadata": st.sampled_from([{}, {"kind": "content"}, {"kind": "reasoning"}, {"k": "v"}, {"parley": "{}"}]),
    "models_usage": st.sampled_from([None, {"prompt_tokens": 1, "completion_tokens": 2}]),
    "created_at": st.sampled_from(["2026-01-01T00:00:00Z", 5]),
    "more": json_values,
}


def _item(type_: str) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries({"type": st.just(type_), "source": short, **FIELDS[type_]}, optional=COMMON)


items = st.lists(st.one_of(*map(_item, FIELDS), context), max_size=7)
agents = st.sampled_from([None, "a", "user"])


@QUICK
@given(
    json_values
    | st.lists(
        st.fixed_dictionaries(
            {"type": st.sampled_from(TYPES)},
            optional=dict.fromkeys(
                ("source", "content", "metadata", "context", "tool_calls", "results", "created_at", "thought"),
                json_values,
            ),
        )
    ),
    agents,
)
def test_random_json_is_read_or_refused(value: Any, agent: str | None) -> None:
    messages = value if isinstance(value, list) else [value]
    decoded = AUTOGEN.parse(messages, Options(agent=agent))
    assert bool(decoded.violations) is not bool(decoded.messages)
    assert all(one.path.startswith("messages") for one in decoded.violations)


@QUICK
@given(items, agents)
def test_items_come_back_equal(given_items: list[Any], agent: str | None) -> None:
    options = Options(agent=agent)
    decoded = AUTOGEN.parse(given_items, options)
    if not decoded.violations:
        assert AUTOGEN.write(decoded.messages, options).messages == given_items
        assert all(len(split(one)) == 1 for one in decoded.messages)


@QUICK
@given(items)
def test_items_come_back_equal_through_another_format(given_items: list[Any]) -> None:
    decoded = AUTOGEN.parse([{"type": "TextMessage", "source": "user", "content": "q"}, *given_items], Options())
    there = QWEN.write(decoded.messages, Options()).messages
    back = QWEN.parse(there, Options())
    if not back.violations:
        assert AUTOGEN.write(back.messages, Options()).messages[1:] == given_items


@QUICK
@given(items, agents)
def test_what_is_read_is_sent_or_refused(given_items: list[Any], agent: str | None) -> None:
    decoded = AUTOGEN.parse(given_items, Options(agent=agent))
    try:
        write_openai_messages(decoded.messages, Profile(), "\n")
    except InvalidInput as refused:
        assert refused.violations


texts = st.builds(Text, st.sampled_from(["x", "y\nz", ""]))
media = st.builds(
    Media,
    st.sampled_from(["image", "audio", "video", "file"]),
    st.sampled_from([("http://h/x",), (f"data:image/png;base64,{PNG}",), (f"data:image/jpeg;base64,{PNG}",)]),
    path=st.just("messages[0].content[0].image"),
)
contents = st.lists(texts | media, max_size=3).map(tuple)
arguments = st.sampled_from(["", "{}", '{"a": 1}', "{"])
maybe = st.sampled_from([None, "1", "2"])
payloads = st.one_of(
    st.tuples(st.sampled_from(["system", "user", "assistant"]), contents),
    st.tuples(st.just("assistant"), st.builds(Reasoning, st.sampled_from(["r", ""])).map(lambda one: (one,))),
    st.tuples(
        st.just("assistant"), st.builds(ToolCall, st.sampled_from(["f", "g"]), arguments, maybe).map(lambda one: (one,))
    ),
    st.tuples(
        st.just("tool"),
        st.builds(ToolResult, contents, st.sampled_from(["f", None]), maybe, st.sampled_from([None, True, False])).map(
            lambda one: (one,)
        ),
    ),
)
extras = st.sampled_from(
    [{}, {"k": [1, None]}, {"message_id": "m"}, {"created_at": "soon"}, {"metadata": {"a": 1, "parley": "x"}}]
)
messages = st.lists(
    st.builds(
        lambda payload, name, turn, extra: Message(payload[0], payload[1], name, turn, "messages[9]", extra),
        payloads,
        st.sampled_from([None, "user", "a", "f"]),
        st.sampled_from([None, "t1", "t2"]),
        extras,
    ),
    min_size=1,
    max_size=6,
)


@QUICK
@given(messages, agents)
def test_messages_of_any_format_come_back_equal(given_messages: list[Message], agent: str | None) -> None:
    options = Options(agent=agent)
    encoded = AUTOGEN.write(given_messages, options)
    decoded = AUTOGEN.parse(encoded.messages, options)
    assert not decoded.violations
    assert [normalize_message(one) for one in decoded.messages] == [normalize_message(one) for one in given_messages]
    assert AUTOGEN.write(decoded.messages, options).messages == encoded.messages


@QUICK
@given(
    st.lists(
        st.fixed_dictionaries({"raw": json_values, "k": json_values, "as": json_values, "calls": json_values}),
        min_size=1,
        max_size=3,
    ),
    json_values,
)
def test_a_bag_of_nonsense_is_not_trusted(bags: list[Any], beside: Any) -> None:
    given_messages = [
        Message("user", (Text("x"),), "user", extra={"autogen": kept, "autogen_before": beside}) for kept in bags
    ]
    written = AUTOGEN.write(given_messages, Options()).messages
    assert [one["content"] for one in written] == ["x"] * len(bags)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"seal":1}', '{"seal":"x","messages":[{"parts":[{"kind":"no"}]}]}'])
def test_metadata_of_nonsense_are_not_trusted(text: str) -> None:
    item = {"type": "TextMessage", "source": "user", "content": "x", "metadata": {"parley": text}}
    (message,) = AUTOGEN.parse([item], Options()).messages
    assert (message.role, message.parts) == ("user", (Text("x"),))
