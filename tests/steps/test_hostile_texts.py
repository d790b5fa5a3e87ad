"""The time for a text is in proportion to its length, whatever the text is and however it arrives.

All texts are tried with `FUZZ=long`, a sample of them otherwise.
"""

import random

import pytest
from app.chat.events import Extra, Finish, TextDelta, ToolCallDelta
from app.steps.tool_parsers import FAMILIES
from app.steps.tool_parsers.parser import ParseState

from tests.each_case import each_case
from tests.effort import LONG
from tests.linear_time import linear
from tests.steps.hostile_texts import FORMS, STAGES, Hostile, feed_pieces, hostile_texts, pieces
from tests.steps.stage_runner import joined
from tests.steps.tool_parsers.sample_texts import TOOLS

SAMPLE = 2
LONGEST_HEAD = 600
"""No name, header or tag that a grammar waits for is longer."""


def sample(stage: str, count: int) -> list[Hostile]:
    texts = hostile_texts(stage)
    return texts if LONG else random.Random(stage).sample(texts, count)


@pytest.mark.many_cases
@each_case("stage", STAGES)
@each_case("size", [8, 1_000_000])
def test_time_is_in_proportion_to_the_length(stage: str, size: int) -> None:
    for text in sample(stage, SAMPLE):
        assert linear(lambda length: feed_pieces(STAGES[stage](), text.text(length), size), 5_000), text  # noqa: B023


@pytest.mark.many_cases
@each_case("family", FAMILIES)
def test_little_text_is_looked_at_again_when_more_comes(family: str) -> None:
    for text in sample(family, 100):
        state = ParseState("chat-1", TOOLS)
        steps = FAMILIES[family](state)
        next(steps)
        for piece in pieces(text.text(2_000), 7):
            state.add_text(piece)
            next(steps)
            assert len(state.text) < LONGEST_HEAD, text


@each_case("size", [8, 1_000_000])
def test_too_much_that_looks_like_calls_is_text(size: int) -> None:
    text = "Look: " + '\n//<tool_call>{"type":[' * 4_000 + '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
    found = feed_pieces(STAGES["hermes"](), text, size)
    assert "".join(event.text for event in found if isinstance(event, TextDelta)) == text
    assert [event for event in found if isinstance(event, Extra)][-1] == Extra(
        {"warning": "too much of the reply looks like tool calls and cannot be parsed: the rest is returned as text"}
    )
    end = found[-1]
    assert isinstance(end, Finish)
    assert (end.reason, end.cacheable) == ("stop", False)


@each_case("size", [8, 1_000_000])
def test_too_many_doubtful_ends_are_text(size: int) -> None:
    unit = '//<tool_call>{"name":"f","arguments":{"a":["</tool_call>",\n'
    found = joined(feed_pieces(STAGES["hermes"](), unit * 4_000, size))
    calls = [event for event in found if isinstance(event, ToolCallDelta)]
    text = "".join(event.text for event in found if isinstance(event, TextDelta))
    assert 2 < len(calls) < 20
    assert {call.arguments for call in calls} == {'{"a":["'}
    assert text.endswith(unit * (4_000 - len(calls)))
    end = found[-1]
    assert isinstance(end, Finish)
    assert (end.reason, end.cacheable) == ("tool_calls", False)
    assert any("too much of the reply" in warning for warning in end.warnings)


def test_a_call_after_many_that_fail_is_a_call() -> None:
    """What an essay about calls has of them is far from the limit."""
    mention = "A model writes <tool_call> before a call, and {'name' or <tool_call>{\"name\": in it.\n"
    text = mention * 500 + '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
    found = joined(feed_pieces(STAGES["hermes"](), text, 20))
    assert [event.name for event in found if isinstance(event, ToolCallDelta)] == ["f"]
    assert found[-1] == Finish("tool_calls", warnings=("a tool call that cannot be parsed is returned as text",))


VALUES = [
    *(
        "9" * 5_000,
        "-" + "9" * 5_000,
        "0x" + "f" * 5_000,
        "[" * 3_000 + "]" * 3_000,
        '{"a":' * 3_000 + "1" + "}" * 3_000,
    ),
    *("+1e999", "1e999", "[1e999,]", "Infinity", "-Infinity", "NaN", '"\\ud800"', '["\\ud800",]', "-" * 5_000 + "1"),
    *("(" * 300 + ")" * 300, "1+" * 5_000 + "1", "{1, 2}", "b'x'", "1j", "...", "lambda: 1", "*a", "f()"),
]


@pytest.mark.many_cases
@pytest.mark.timeout(400)
@each_case("stage", STAGES)
def test_no_value_breaks_a_reply(stage: str) -> None:
    """What is no JSON is passed on as the model wrote it, as invalid arguments or as text."""
    form = FORMS[stage]
    for value in VALUES:
        for opening in (form.arguments, form.arguments.removesuffix('{"a":')):
            rest = form.call.removeprefix(opening) if form.call.startswith(opening) else form.closer
            text = opening + value + rest.removeprefix("1")
            for size in (97, 1_000_000):
                found = feed_pieces(STAGES[stage](), text, size)
                written = "".join(f"{e.name}{e.arguments}" for e in found if isinstance(e, ToolCallDelta))
                written.encode()  # no half of a surrogate pair
                assert "inf" in value.lower() or "Infinity" not in written, value[:20]
                assert isinstance(found[-1], Finish)


def test_every_stage_has_a_form() -> None:
    assert FORMS.keys() == STAGES.keys()
