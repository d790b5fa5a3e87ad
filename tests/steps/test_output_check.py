"""Texts of replies against a schema: what is valid, what can be mended without losing anything, what is neither."""

import json
from typing import Any

import pytest
from app.chat.events import Event, Failed, Fault, Finish, Passed, ReasoningDelta, TextDelta, ToolCallDelta
from app.chat.messages import ChatRequest, Message, Text
from app.profiles import Profile
from app.steps.output_check import (
    ANY_JSON,
    MAX_TEXT_CHARACTERS,
    MAX_TRAILING_SPACE,
    OutputCheck,
    OutputCheckStage,
    check_output,
    find_output_schema,
    make_output_stage,
)

from tests.each_case import each_case

SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
    "required": ["a"],
    "additionalProperties": False,
}


@each_case(
    ("text", "outcome", "mended"),
    [
        ('{"a": 1}', "valid", None),
        (' \n{"a": 1}\n', "valid", None),
        ('```json\n{"a": 1}\n```', "mended", '{"a": 1}'),
        ('```\n{"a": 1}```', "mended", '{"a": 1}'),
        ('{"a": 1,}', "mended", '{"a":1}'),
        ("{'a': 1}", "mended", '{"a":1}'),
        ("{a: 1}", "mended", '{"a":1}'),
        ('```json\n{"a": 1,}\n```', "mended", '{"a":1}'),
        ('Here it is: {"a": 1}', "invalid", None),
        ('```json\n{"a": 1}\n```\nThat is it.', "invalid", None),
        ('{"a": 1', "invalid", None),
        ('{"a": 1, "b": "cut', "invalid", None),
        ('{"a": 1} {"a": 2}', "invalid", None),
        ('{"a": 1, "c": 2}', "invalid", None),
        ('{"a": "1"}', "invalid", None),
        ('{"a": 1 /* one */}', "invalid", None),
        ('{"a": 1, "b": "x\ny\t\x01"}', "mended", '{"a": 1, "b": "x\\u000ay\\u0009\\u0001"}'),
        ('{"a": 1,\n "b": "x"}', "valid", None),
        ('\ufeff{"a": 1}', "mended", '{"a": 1}'),
        ('{"a": 1, "b": NaN,}', "invalid", None),
        ('{"a": NaN}', "invalid", None),
        ('{"a": 1e400}', "invalid", None),
        ('{"a": 1, "a": 2}', "valid", None),
        ('{"a": 1, "a": 2,}', "invalid", None),
        ('{"a": 18446744073709551616}', "valid", None),
        ("1", "invalid", None),
        ("", "invalid", None),
        ("The answer.", "invalid", None),
        ('{"a": 1, "b": "\ud800"}', "invalid", None),
        ("[" * 5000, "invalid", None),
        ("{" * 5000, "invalid", None),
        ("```\n" + " " * 20_000 + "x```", "invalid", None),
        (" " * (MAX_TEXT_CHARACTERS + 1), "unchecked", None),
    ],
)
def test_check_output(text: str, outcome: str, mended: str | None) -> None:
    check = check_output(text, SCHEMA, 10**9)
    assert check.outcome == outcome
    assert check.text == (text if mended is None else mended)
    assert bool(check.problems) is (outcome in ("invalid", "unchecked"))


def test_a_text_that_is_long_for_its_work_is_not_checked() -> None:
    check = check_output(json.dumps({"a": 1, "b": "x" * 3000}), SCHEMA, 100)
    assert check.problems == ("it is too long to be checked",)


@pytest.mark.parametrize("text", ['{"a": 1, "b": "' + "x" * 3000 + '",}', "{" * 60 + "}" * 60, '[{"b": ' * 30])
def test_a_text_whose_repair_takes_long_is_not_mended(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """json_repair needs the square of a row of opening brackets."""

    def refuse(text: str) -> object:
        raise AssertionError("it is repaired")

    monkeypatch.setattr("app.steps.output_check.json_repair.loads", refuse)
    assert check_output(text, SCHEMA, 1000).outcome == "invalid"


def run(*batches: list[Event], warns: bool = True) -> list[Event]:
    stage = OutputCheckStage(SCHEMA, "response_format", warns=warns)
    return [event for events in batches for event in stage.feed(events)]


def text(*pieces: str) -> list[Event]:
    return [TextDelta(piece) for piece in pieces]


@pytest.mark.parametrize("warns", [True, False])
def test_an_invalid_text_is_told_and_not_cached(warns: bool) -> None:
    *before, end = run(text('{"a":'), [*text(' "x"}'), Finish("stop", warnings=("other",))], warns=warns)
    assert before == text('{"a":', ' "x"}')
    assert isinstance(end, Finish) and not end.cacheable and end.output == "invalid"
    told = "the reply is not valid against the schema of response_format: $.a: 'x' is not of type 'integer'"
    assert end.warnings == (("other", told) if warns else ("other",))


def test_a_valid_text_changes_nothing_but_the_outcome() -> None:
    assert run([ReasoningDelta("{"), *text('{"a": 1}'), Finish("stop")])[-1] == Finish("stop", output="valid")
    (end,) = run(text('{"a": 1,}'), [Finish("stop")])[1:]
    assert isinstance(end, Finish) and end.cacheable and end.output == "mended" and "fence" in end.warnings[0]


@each_case(
    "events",
    [
        [*text("cut"), Finish("content_filter")],
        [*text("x"), ToolCallDelta(0, "{}", "id", "f"), Finish("tool_calls")],
        [TextDelta("I must not.", refusal=True), Finish("stop")],
        [*text("x"), Failed(Fault("server_error", "no", True))],
    ],
)
def test_what_need_not_be_valid(events: list[Event]) -> None:
    assert run(events) == events


def test_a_text_beyond_the_limit_is_not_kept() -> None:
    stage = OutputCheckStage(SCHEMA, "response_format", warns=True)
    for _ in range(3):
        stage.feed(text("x" * MAX_TEXT_CHARACTERS))
    (end,) = stage.feed([Finish("stop")])
    assert isinstance(end, Finish) and end.output == "unchecked" and "too long" in end.warnings[0]


def request(response_format: object) -> ChatRequest:
    return ChatRequest("m", (Message("user", (Text("x"),)),), params={"response_format": response_format})


@each_case(
    ("response_format", "schema"),
    [
        ({"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}, SCHEMA),
        ({"type": "json_schema", "json_schema": {"name": "x", "schema": True}}, True),
        ({"type": "json_schema", "json_schema": {"name": "x"}}, None),
        ({"type": "json_schema"}, None),
        ({"type": "json_object"}, ANY_JSON),
        ({"type": "json_object", "schema": SCHEMA}, SCHEMA),
        ({"type": "text"}, None),
        (None, None),
    ],
)
def test_the_schema_of_a_request(response_format: object, schema: object) -> None:
    assert find_output_schema(request(response_format)) == schema
    for mode, wanted in (("off", False), ("warn", schema is not None), ("enforce", schema is not None)):
        stage = make_output_stage(request(response_format), Profile.model_validate({"check_output": mode}))
        assert (stage is not None) is wanted


@each_case(
    ("reasoning", "said", "moved"),
    [
        (['{"a"', ": 1}\n"], [], True),
        (['\n{"a": 1}'], ["\n\n"], True),
        (['{"a": 1}'], ['{"a": 2}'], False),
        (['{"a": "x"}'], [], False),
        (['I think {"a": 1}'], [], False),
        (['```json\n{"a": 1}\n```'], [], False),
        ([], [], False),
    ],
)
@pytest.mark.parametrize("warns", [True, False])
def test_json_that_comes_as_reasoning_is_the_text_as_well(
    reasoning: list[str], said: list[str], moved: bool, warns: bool
) -> None:
    thought: list[Event] = [ReasoningDelta(piece) for piece in reasoning]
    *before, end = run(thought, [*text(*said), Finish("stop")], warns=warns)
    assert isinstance(end, Finish)
    assert before == [*thought, *text(*said), *([TextDelta('{"a": 1}')] if moved else [])]
    assert any("as reasoning" in line for line in end.warnings) is moved
    assert (end.output == "mended" and end.cacheable) is moved


def test_reasoning_of_a_reply_that_is_cut_is_not_its_text() -> None:
    thought, end = run([ReasoningDelta('{"a": 1}'), Finish("length")])
    assert thought == ReasoningDelta('{"a": 1}')
    assert isinstance(end, Finish) and end.output == "unchecked"


def test_a_reply_that_is_cut_behind_its_json_is_valid() -> None:
    *_, end = run([*text('{"a": 1}\n'), Finish("length")])
    assert isinstance(end, Finish) and (end.output, end.warnings) == ("valid", ())


@each_case(
    ("given", "outcome"),
    [
        ('{"a": "x"}', "valid"),
        ("[1]", "valid"),
        ('```json\n{"a": 1}\n```', "mended"),
        ("1", "invalid"),
        ("null", "invalid"),
        ("The answer.", "invalid"),
        ("", "invalid"),
    ],
)
def test_without_a_schema_a_reply_must_be_an_object_or_an_array(given: str, outcome: str) -> None:
    assert check_output(given, ANY_JSON, 1000).outcome == outcome


def test_no_text_is_added_to_events_that_are_passed_on() -> None:
    events: list[Event] = [Passed("message_start", "{}"), ReasoningDelta('{"a": 1}')]
    *before, end = run([*events, Finish("stop")])
    assert before == events
    assert isinstance(end, Finish) and end.output == "invalid"


def test_white_space_without_end_behind_the_json_ends_the_reply() -> None:
    stage = OutputCheckStage(SCHEMA, "response_format", warns=True)
    space = text(" \n" * (MAX_TRAILING_SPACE // 4))
    assert stage.feed(text('{"a":', " 1}\n")) == text('{"a":', " 1}\n")
    assert stage.feed(space) == space
    *before, end = stage.feed(space)
    assert before == space
    assert isinstance(end, Finish) and (end.reason, end.output) == ("stop", "valid")
    assert "white space" in end.warnings[0]
    assert stage.feed([*space, Finish("length")]) == []


@each_case("given", ['{"a": 1', '{"a": "x"}', "", '{"a": 1} and'])
def test_white_space_behind_another_text_does_not_end_the_reply(given: str) -> None:
    space: list[Event] = text(" " * (MAX_TRAILING_SPACE + 1)) * 3
    assert run(text(given), *[[piece] for piece in space]) == [*text(given), *space]


def test_white_space_within_the_json_does_not_end_the_reply() -> None:
    space = " " * (MAX_TRAILING_SPACE + 1)
    events = [*text('{"a":', space), *text(space, "1}"), Finish("stop")]
    assert run(*[[event] for event in events])[:-1] == events[:-1]


def test_the_white_space_of_a_whole_reply_is_no_reason_to_end_it() -> None:
    events = [*text('{"a": 1}' + " " * (MAX_TRAILING_SPACE + 1)), Finish("length")]
    assert run(events) == [events[0], Finish("length", output="valid")]


def test_the_text_is_looked_at_a_few_times_only(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[str] = []

    def watch(text: str, schema: Any, max_work: int) -> OutputCheck:
        looks.append(text)
        return check_output(text, schema, max_work)

    monkeypatch.setattr("app.steps.output_check.check_output", watch)
    run(*[text("[" + " " * (MAX_TRAILING_SPACE + 1)) for _ in range(20)])
    assert len(looks) == 3
