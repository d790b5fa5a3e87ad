"""Conversations that are too long: what survives, against Qwen-Agent's own recordings and against any conversation."""

from typing import Any

import pytest
from app.chat.messages import (
    ChatRequest,
    Message,
    Text,
    TokenCounter,
    Tool,
    ToolCall,
    ToolResult,
)
from app.errors import ContextTooLong
from app.formats.base import make_summary
from app.profiles import Profile
from app.runtime.token_counting import EstimatingCounter
from app.steps.pipeline import prepare_request
from app.steps.truncation.measure import TokenMeasure
from app.steps.truncation.truncate import input_limit, truncate
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.each_case import each_case
from tests.effort import examples
from tests.steps.conversations import conversation, conversations, texts
from tests.steps.recorded_truncations import CASES, DIFFERENT, MEDIA, TOO_LONG, name_of, places, survivors
from tests.steps.word_counter import Words


@each_case("case", CASES, ids=name_of)
def test_the_messages_that_qwen_agent_keeps_survive(case: dict[str, Any]) -> None:
    key = (case["name"], case["max_tokens"])
    expected = DIFFERENT[key][0] if key in DIFFERENT else survivors(case)
    try:
        request, _ = truncate(conversation(*case["messages"]), case["max_tokens"], Words(), MEDIA)
    except ContextTooLong:
        assert expected == TOO_LONG
    else:
        assert places(request) == expected


def test_every_difference_is_one() -> None:
    for case in CASES:
        key = (case["name"], case["max_tokens"])
        if key in DIFFERENT and case["ok"]:
            assert DIFFERENT[key][0] != survivors(case)


TOOL_TURN = next(case["messages"] for case in CASES if case["name"] == "tool_turn")


@pytest.mark.parametrize(
    ("name", "limit"), [("three_turns", 90), ("tool_turn", 150), ("tool_turn", 60), ("long_single_user", 30)]
)
def test_shortened_texts_are_those_of_qwen_agent(name: str, limit: int) -> None:
    case = next(case for case in CASES if (case["name"], case["max_tokens"]) == (name, limit))
    request, _ = truncate(conversation(*case["messages"]), limit, Words(), MEDIA)
    assert texts(request) == texts(conversation(*case["result"]))


def test_a_shortened_result_keeps_its_name_and_its_id() -> None:
    request, _ = truncate(conversation(*TOOL_TURN), 170, Words(), MEDIA)
    result = request.messages[2].parts[0]
    assert isinstance(result, ToolResult)
    assert (result.name, result.id) == ("f1", "id1")
    assert Words().count(texts(request)[2][1]) == 29


def test_a_call_of_an_old_turn_goes_with_its_result() -> None:
    call = {"role": "assistant", "content": "", "function_call": {"name": "f", "arguments": "a b c d e f g h"}}
    result = {"role": "function", "name": "f", "content": "r r r r"}
    turns: list[dict[str, Any]] = [
        {"role": "user", "content": "q q q q"},
        call,
        result,
        {"role": "user", "content": "z"},
    ]
    request, _ = truncate(conversation(*turns), 8, Words(), MEDIA)
    assert texts(request) == [("user", "z")]


def test_a_note_between_a_call_and_its_result_begins_no_turn() -> None:
    call = {"role": "assistant", "content": "", "function_call": {"name": "f", "arguments": "a b"}}
    turns: list[dict[str, Any]] = [
        {"role": "user", "content": "q q q"},
        call,
        {"role": "user", "content": "note"},
        {"role": "function", "name": "f", "content": "r r r"},
        {"role": "user", "content": "z z z z"},
    ]
    request, _ = truncate(conversation(*turns), 5, Words(), MEDIA)
    assert texts(request) == [("user", "z z z z")]


def test_a_summary_stays_where_the_turns_behind_it_are_dropped() -> None:
    """NousResearch/hermes-agent#55224: it is all that is left of what a compaction has replaced."""
    request = conversation(*({"role": role, "content": f"{role} a b c d"} for role in ("user", "assistant") * 3))
    summary = make_summary("s " * 9 + "s", "input[0]")
    for messages in ((summary, *request.messages), (*request.messages[:3], summary, *request.messages[3:])):
        cut, _ = truncate(replace(request, messages=messages), 28, Words(), MEDIA)
        assert cut.messages == (summary, *request.messages[-2:])


def test_a_summary_that_is_too_long_alone_is_refused() -> None:
    request = conversation({"role": "user", "content": "z"})
    messages = (make_summary("s " * 30, "input[0]"), *request.messages)
    with pytest.raises(ContextTooLong):
        truncate(replace(request, messages=messages), 20, Words(), MEDIA)


def test_reasoning_counts_and_goes_before_the_answer_is_shortened() -> None:
    turns: list[dict[str, Any]] = [
        {"role": "user", "content": "q q q q q"},
        {"role": "assistant", "content": "a a a a a", "reasoning_content": "t t t t t"},
        {"role": "user", "content": "z"},
    ]
    request, _ = truncate(conversation(*turns), 12, Words(), MEDIA)
    assert texts(request) == [("user", "q q q q q"), ("assistant", "a a a a a"), ("user", "z")]
    assert [part.kind for part in request.messages[1].parts] == ["text"]


def test_a_message_that_was_only_reasoning_goes_with_it() -> None:
    turns: list[dict[str, Any]] = [
        {"role": "user", "content": "q q q q q"},
        {"role": "assistant", "content": "", "reasoning_content": "t t t t t"},
        {"role": "assistant", "content": "a"},
        {"role": "user", "content": "z"},
    ]
    request, _ = truncate(conversation(*turns), 7, Words(), MEDIA)
    assert places(request) == [0, 2, 3]


def test_tools_count_and_are_never_cut() -> None:
    tools = (Tool("f", {"name": "f", "description": "d " * 20}),)
    request = conversation({"role": "user", "content": "q " * 30 + "q"}, tools=tools)
    cut, warnings = truncate(request, 30, Words(), MEDIA)
    assert cut.tools == tools
    assert Words().count(texts(cut)[0][1]) < 12
    assert len(warnings) == 1
    with pytest.raises(ContextTooLong):
        truncate(request, 20, Words(), MEDIA)


@pytest.mark.parametrize(("choice", "fits"), [("none", True), ("auto", False)])
def test_tools_that_are_not_explained_to_the_model_do_not_count(choice: str, fits: bool) -> None:
    tools = (Tool("f", {"name": "f", "description": "d " * 60}),)
    params = {"function_choice": choice, "max_input_tokens": 40}
    request = conversation({"role": "user", "content": "q " * 30}, tools=tools, params=params)
    profile = Profile(native_tools=False)
    if fits:
        seen, warnings = prepare_request(request, profile, Words(), {})
        assert (texts(seen), warnings) == (texts(request), [])
    else:
        with pytest.raises(ContextTooLong):
            prepare_request(request, profile, Words(), {})


def test_the_image_of_the_last_question_is_kept_or_the_request_refused() -> None:
    request = conversation({"role": "user", "content": [{"text": "q " * 20}, {"image": "x.png"}]})
    cut, _ = truncate(request, 12, Words(), MEDIA)
    assert [part.kind for part in cut.messages[0].parts] == ["text", "media"]
    with pytest.raises(ContextTooLong) as refused:
        truncate(request, 8, Words(), MEDIA)
    assert (refused.value.code, refused.value.status) == ("context_length_exceeded", 400)


def test_the_image_of_an_old_question_goes_before_its_text() -> None:
    request = conversation(
        {"role": "user", "content": [{"text": "q q q"}, {"image": "x.png"}]},
        {"role": "assistant", "content": "a a"},
        {"role": "user", "content": "z"},
    )
    cut, _ = truncate(request, 7, Words(), MEDIA)
    assert texts(cut) == [("user", "q q q"), ("assistant", "a a"), ("user", "z")]
    assert [part.kind for part in cut.messages[0].parts] == ["text"]


def test_warnings_name_what_was_left_out_and_what_was_shortened() -> None:
    turns: list[dict[str, Any]] = [
        {"role": role, "content": "word " * 8 + "word"} for role in ("user", "assistant") * 2
    ]
    _, warnings = truncate(conversation(*turns, {"role": "user", "content": "z"}), 17, Words(), MEDIA)
    cut = "the conversation has 37 tokens, more than max_input_tokens (17): "
    assert warnings == (f"{cut}messages[0], messages[1] dropped", f"{cut}messages[2] shortened")


def test_many_names_are_summed_up() -> None:
    turns: list[dict[str, Any]] = [{"role": "user", "content": "word word"}] * 9 + [{"role": "user", "content": "z"}]
    _, warnings = truncate(conversation(*turns), 1, Words(), MEDIA)
    assert warnings[0].endswith("messages[0], messages[1], … messages[8] (9 messages) dropped")


def test_a_message_without_a_place_is_named_by_its_number() -> None:
    request = ChatRequest("m", (Message("user", (Text("a b c"),)), Message("user", (Text("d"),))))
    _, warnings = truncate(request, 1, Words(), MEDIA)
    assert warnings[0].endswith("message 1 dropped")


class Uncountable:
    def count(self, text: str) -> int:
        raise AssertionError("nothing had to be counted")

    def truncate(self, text: str, max_tokens: int, keep_both_sides: bool = False) -> str:
        raise AssertionError("nothing had to be cut")


def test_what_cannot_be_too_long_is_not_counted() -> None:
    request = conversation({"role": "user", "content": "汉字"})
    assert truncate(request, 7, Uncountable(), MEDIA) == (request, ())


def test_a_turn_that_is_just_what_is_too_much_goes_whole() -> None:
    turns: list[dict[str, Any]] = [
        {"role": "user", "content": "a a a a"},
        {"role": "assistant", "content": "b b"},
        {"role": "user", "content": "z"},
    ]
    _, warnings = truncate(conversation(*turns), 1, Words(), MEDIA)
    assert len(warnings) == 1
    request, _ = truncate(conversation(*turns), 3, Words(), MEDIA)
    assert texts(request) == [("user", "omit"), ("assistant", "b"), ("user", "z")]


def test_the_longest_text_of_the_last_turn_is_shortened() -> None:
    wire = [{"role": "user", "content": "q q q"}, {"role": "assistant", "content": "a a a a a a a"}]
    request, _ = truncate(conversation(*wire), 8, Words(), MEDIA)
    assert texts(request) == [("user", "q q q"), ("assistant", "a a... a a")]
    request, _ = truncate(conversation(wire[1] | {"role": "user"}, wire[0] | {"role": "assistant"}), 8, Words(), MEDIA)
    assert texts(request) == [("user", "a a... a a"), ("assistant", "q q q")]


def test_an_old_image_stays_where_shorter_text_is_enough() -> None:
    request = conversation(
        {"role": "user", "content": [{"text": "q q q q q q q"}, {"image": "x.png"}]},
        {"role": "user", "content": "z"},
    )
    cut, _ = truncate(request, 14, Words(), MEDIA)
    assert [part.kind for part in cut.messages[0].parts] == ["text", "media"]


def test_a_last_question_between_a_call_and_its_result_stays() -> None:
    def call(id_: str) -> Message:
        return Message("assistant", (ToolCall("f", "a b", id_),))

    def result(id_: str) -> Message:
        return Message("tool", (ToolResult((Text("r r r r"),), "f", id_),))

    def user(text: str) -> Message:
        return Message("user", (Text(text),))

    messages = (user("q"), call("1"), user("note"), result("1"), call("2"), result("2"), call("3"), result("3"))
    cut, _ = truncate(ChatRequest("m", messages), 13, Words(), MEDIA)
    assert [one.role for one in cut.messages] == ["user", "assistant", "user", "tool", "assistant", "tool"]
    assert ids(cut, ToolCall) == ids(cut, ToolResult) == ["1", "3"]


class Marked(Words):
    """Some tokenizers put a mark before each text."""

    def count(self, text: str) -> int:
        return super().count(text) + 1


def test_texts_of_one_token_more_than_their_bytes_are_counted() -> None:
    request = conversation(*[{"role": "user", "content": "a"}] * 5)
    cut, _ = truncate(request, 9, Marked(), MEDIA)
    assert cut != request


def test_a_question_without_a_word_stays() -> None:
    request = ChatRequest("m", (Message("user", ()), Message("assistant", (Text("a b c"),))))
    cut, _ = truncate(request, 2, Words(), MEDIA)
    assert texts(cut) == [("user", ""), ("assistant", "... c")]


@pytest.mark.parametrize(
    ("given", "own", "limit"), [(None, None, None), (None, 9, 9), (5, 9, 5), (0, 9, None), (-1, None, None)]
)
def test_the_callers_limit_wins_and_none_above_zero_means_no_limit(
    given: int | None, own: int | None, limit: int | None
) -> None:
    assert input_limit({"max_input_tokens": given}, Profile(max_input_tokens=own)) == limit


def size(request: ChatRequest, counter: TokenCounter) -> int:
    measure = TokenMeasure(counter, MEDIA)
    return sum(map(measure.count_message, request.messages)) + sum(map(measure.count_tool, request.tools))


def ids(request: ChatRequest, kind: type[ToolCall] | type[ToolResult]) -> list[str]:
    return sorted(str(part.id) for one in request.messages for part in one.parts if isinstance(part, kind))


@examples(40)
@given(conversations(), st.integers(1, 120), st.sampled_from([Words(), EstimatingCounter()]))
def test_any_conversation_is_cut_to_the_limit_or_refused(
    request: ChatRequest, limit: int, counter: TokenCounter
) -> None:
    try:
        cut, warnings = truncate(request, limit, counter, MEDIA)
    except ContextTooLong:
        assert size(request, counter) > limit
        return
    assert size(cut, counter) <= limit
    assert bool(warnings) == (cut != request) == (size(request, counter) > limit)
    assert truncate(cut, limit, counter, MEDIA) == (cut, ())
    assert ids(cut, ToolCall) == ids(cut, ToolResult)
    assert set(ids(cut, ToolCall)) <= set(ids(request, ToolCall))
    assert [one for one in cut.messages if one.role == "system"] == [
        one for one in request.messages if one.role == "system"
    ]
    users = [one.path for one in request.messages if one.role == "user"]
    assert users[-1:] == [one.path for one in cut.messages if one.role == "user"][-1:]
    before = {one.path: one for one in request.messages}
    calls = [part for one in cut.messages for part in one.parts if isinstance(part, ToolCall)]
    assert all(part in [p for one in request.messages for p in one.parts] for part in calls)
    assert all(one.name == before[one.path].name and one.role == before[one.path].role for one in cut.messages)


@examples(20)
@given(conversations(), st.integers(1, 80))
def test_warnings_name_everything_that_was_cut_and_nothing_else(request: ChatRequest, limit: int) -> None:
    try:
        cut, warnings = truncate(request, limit, Words(), MEDIA)
    except ContextTooLong:
        return
    after = {one.path: one for one in cut.messages}
    gone = [one.path for one in request.messages if one.path not in after]
    changed = [one.path for one in request.messages if after.get(one.path, one) != one]
    want = [(gone, "dropped"), (changed, "shortened")]
    assert len(warnings) == sum(bool(paths) for paths, _ in want)
    for warning, (paths, done) in zip(warnings, (pair for pair in want if pair[0]), strict=True):
        listed = warning.partition("): ")[2]
        named = ", ".join(paths) if len(paths) < 5 else f"{paths[0]}, {paths[1]}, … {paths[-1]} ({len(paths)} messages)"
        assert listed == f"{named} {done}"


def test_a_result_that_cannot_become_shorter_stays_as_it_is() -> None:
    messages = (
        Message("user", (Text("q"),)),
        Message("assistant", (ToolCall("f", "a", "1"),)),
        Message("tool", (ToolResult((Text("r"),), "f", "1"),)),
    )
    with pytest.raises(ContextTooLong):
        truncate(ChatRequest("m", messages), 2, Words(), MEDIA)
