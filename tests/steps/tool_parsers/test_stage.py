"""What stands around calls in text: structured calls, thoughts, annotations, the end."""

import pytest
from app.chat.events import Event, Extra, Failed, Fault, Finish, ReasoningDelta, TextDelta, ToolCallDelta
from app.chat.messages import Tool
from app.steps.tool_parsers import tool_parser_stage
from app.steps.tool_parsers.stage import CallStage
from msgspec.structs import replace

from tests.linear_time import linear
from tests.steps.stage_runner import STOP, joined

OWN = '<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>'


def stage() -> CallStage:
    return tool_parser_stage("hermes", [Tool("f", {"name": "f"})], "chat-1")


def events(*given: Event) -> list[Event]:
    machine = stage()
    return joined([event for one in given for event in machine.feed([one])])


def test_structured_calls_are_numbered_behind_those_found_before() -> None:
    found = events(
        TextDelta(OWN),
        ToolCallDelta(0, "{", "c1", "g"),
        ToolCallDelta(0, "}"),
        Extra({"extra_content": 1}, 0),
        ToolCallDelta(1, "{}", "c1", "h"),
        Finish("tool_calls"),
    )
    calls = [event for event in found if isinstance(event, ToolCallDelta)]
    assert [(call.index, call.name, call.arguments) for call in calls] == [
        (0, "f", '{"a": 1}'),
        (1, "g", "{}"),
        (2, "h", "{}"),
    ]
    assert calls[1].id == "c1"
    assert len({call.id for call in calls}) == 3
    assert Extra({"extra_content": 1}, 1) in found


def test_after_a_structured_call_text_is_text() -> None:
    call = ToolCallDelta(0, "{}", "c1", "g")
    end = Finish("tool_calls")
    found = events(TextDelta("A <tool"), call, TextDelta(OWN), end)
    warned = replace(end, warnings=("a text ends with a marker that closes tool calls",))
    assert found == [TextDelta("A <tool"), call, TextDelta(OWN), warned]


def test_anything_but_text_ends_what_is_held() -> None:
    thought = ReasoningDelta("Hm")
    found = events(TextDelta("A <tool_"), thought, TextDelta("call>"), STOP)
    assert found == [TextDelta("A <tool_"), thought, TextDelta("call>"), STOP]


@pytest.mark.parametrize(
    ("family", "text"), [("pythonic", "[f(a=1)]"), ("llama_json", '{"name": "f", "parameters": {"a": 1}}')]
)
def test_calls_that_are_read_at_the_beginning_only_may_follow_reasoning(family: str, text: str) -> None:
    machine = tool_parser_stage(family, [Tool("f", {"name": "f"})], "chat-1")
    found = [event for one in (ReasoningDelta("Hm"), TextDelta(text), STOP) for event in machine.feed([one])]
    assert [event.name for event in found if isinstance(event, ToolCallDelta)][:1] == ["f"]
    assert found[0] == ReasoningDelta("Hm") and not any(isinstance(event, TextDelta) for event in found)


def test_an_annotation_passes_what_is_held() -> None:
    note = Extra({"reasoning_details": []})
    assert events(TextDelta("<tool"), note, TextDelta("box>"), STOP) == [note, TextDelta("<toolbox>"), STOP]


def test_a_refusal_is_never_searched() -> None:
    refusal = TextDelta(OWN, refusal=True)
    assert events(refusal, STOP) == [refusal, STOP]


def test_only_stop_becomes_tool_calls() -> None:
    for end in (Finish("length", {"n": 1}), Finish("content_filter"), Failed(Fault("timeout", "", True))):
        assert events(TextDelta(OWN), end)[-1] == end
    assert events(TextDelta(OWN), Finish("stop", {"n": 1}, "eos"))[-1] == Finish("tool_calls", {"n": 1}, "eos")


def test_the_end_gives_what_is_held() -> None:
    machine = stage()
    machine.feed([TextDelta("A <tool_ca")])
    assert joined(machine.feed([STOP])) == [TextDelta("<tool_ca"), STOP]


def test_text_far_from_a_tag_is_the_same_event() -> None:
    given, machine = TextDelta("word "), stage()
    machine.feed([TextDelta("A ")])
    assert machine.feed([given])[0] is given


def test_a_list_that_is_empty_or_calls_nothing_known_is_text() -> None:
    for text in ("[]", "[] and more"):
        found = tool_parser_stage("pythonic", [Tool("f", {"name": "f"})], "chat-1")
        assert found is not None
        assert joined([*found.feed([TextDelta(text)]), *found.feed([STOP])]) == [TextDelta(text), STOP]


def test_an_end_without_a_beginning_is_left_out() -> None:
    found = tool_parser_stage("harmony", [Tool("f", {"name": "f"})], "chat-1")
    assert joined([*found.feed([TextDelta("a<|end|>b")]), *found.feed([STOP])]) == [TextDelta("ab"), STOP]


@pytest.mark.many_cases
def test_a_number_without_end_takes_linear_time() -> None:
    start = '<tool_call>{"name": "f", "arguments": {"a": 0.'
    assert linear(lambda count: events(TextDelta(start), *[TextDelta("123")] * count, STOP), 3000)


def test_a_reply_that_should_have_calls_and_has_none_is_told() -> None:
    lost = Finish("stop", native_reason="tool_calls")
    silent = tool_parser_stage("auto", [Tool("f", {"name": "f"})], "chat-1")
    [*_, end] = silent.feed([TextDelta("I look."), lost])
    assert isinstance(end, Finish) and len(end.warnings) == 1 and not end.cacheable
    found = tool_parser_stage("auto", [Tool("f", {"name": "f"})], "chat-1")
    [*_, end] = found.feed([TextDelta('<tool_call>{"name": "f", "arguments": {}}</tool_call>'), lost])
    assert isinstance(end, Finish) and end.reason == "tool_calls" and "lost" not in end.warnings[0]


def test_what_the_text_of_a_call_was_is_told_at_the_end_of_the_reply() -> None:
    stage = tool_parser_stage("auto", (Tool("f", {"name": "f"}),), "chat-1")
    end = stage.feed([TextDelta("<function=f>\n<parameter=a>\nls"), Finish("length")])[-1]
    assert isinstance(end, Finish)
    assert "it was cut off" in end.warnings[0]
