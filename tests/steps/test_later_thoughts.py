"""Reasoning behind the beginning of an answer: where a block of it counts, and where it is a part of the answer."""

from collections.abc import Callable

import pytest
from app.chat.events import Event, ReasoningDelta, ToolCallDelta
from app.chat.template_tokens import THINK_TAGS
from app.steps.reasoning_parser import ReasoningStage

from tests.each_case import each_case
from tests.linear_time import linear
from tests.steps.stage_runner import PIECE, flooded, run, texts

TAGS = ("<think>", "</think>")
CALL = "<tool_call>{}"

BEHIND_TAGS: list[tuple[str, list[tuple[str, ...]]]] = [
    ("So:\n<think>b</think>It is 4.", [("C", "So:\n"), ("R", "b"), ("C", "It is 4.")]),
    ("So.\n\n<think>\nb < c\n</think>\n\nd", [("C", "So.\n\n"), ("R", "b < c"), ("C", "d")]),
    ("So.\n<think></think>\nd", [("C", "So.\nd")]),
    ("1\n<think>b</think>\n2\n<think>c</think>\n3", [("C", "1\n"), ("R", "b"), ("C", "2\n"), ("R", "c"), ("C", "3")]),
    (f"So:\n<think>b\n{CALL}", [("C", "So:\n"), ("R", "b"), ("C", CALL)]),
    ("So:\n<think>b", [("C", "So:\n<think>b")]),
    ("So:\n<thin", [("C", "So:\n<thin")]),
    ("Use <think>b</think> so.", [("C", "Use <think>b</think> so.")]),
    ("So:\n`<think>b</think>`", [("C", "So:\n`<think>b</think>`")]),
    ("So:\n```\n<think>b</think>\n```\n", [("C", "So:\n```\n<think>b</think>\n```\n")]),
    ("So:\n\n    <think>b</think>\n", [("C", "So:\n\n    <think>b</think>\n")]),
    ("For example:\n<think>b</think>\n", [("C", "For example:\n<think>b</think>\n")]),
]
BEHIND_FIELD: list[tuple[str, list[tuple[str, ...]]]] = [
    ("So:\n<think>\nb\n</think>\n\nd", [("C", "So:\n"), ("R", "b"), ("C", "d")]),
    ("<think>\nb\n</think>\n\nd", [("R", "b"), ("C", "d")]),
    ("So:\n<think> \r\nb\r\n</think>", [("C", "So:\n"), ("R", "b")]),
    ("<think>demo</think> is a tag", [("C", "<think>demo</think> is a tag")]),
    ("So:\n<think>\nb\n</think> is a block", [("C", "So:\n<think>\nb\n</think> is a block")]),
    ("So:\n<think>\nb\n</think> ", [("C", "So:\n"), ("R", "b")]),
    ("So:\n<think>", [("C", "So:\n<think>")]),
    ("So:\n<think>\n<think>\nb", [("C", "So:\n<think>\n<think>\nb")]),
    (f"So:\n<think>\nb\n{CALL}", [("C", f"So:\n<think>\nb\n{CALL}")]),
]


@each_case("seed", [None, *range(6)])
@each_case(("text", "want"), BEHIND_TAGS)
def test_a_block_at_the_start_of_a_line_behind_tags_is_reasoning(
    text: str, want: list[tuple[str, ...]], seed: int | None
) -> None:
    stage = ReasoningStage("leading", TAGS, "<tool_call>")
    found = run([stage], texts(f"<think>a</think>{text}", seed)).short()
    assert found == [("R", "a"), *want]


@each_case("seed", [None, *range(6)])
@each_case(("text", "want"), BEHIND_FIELD)
@each_case("mode", ["leading", "interleaved"])
def test_a_block_on_lines_of_its_own_behind_a_field_is_reasoning(
    mode: str, text: str, want: list[tuple[str, ...]], seed: int | None
) -> None:
    stage = ReasoningStage("leading" if mode == "leading" else "interleaved", TAGS, "<tool_call>")
    thought: list[Event] = [ReasoningDelta("a")]
    found = run([stage], [thought, *texts(text, seed)]).short()
    joined = [("R", f"a{want[0][1]}"), *want[1:]] if want[0][0] == "R" else [("R", "a"), *want]
    assert found == joined


@each_case("first", ["<think>a</think>", "a</think>"])
def test_an_open_block_before_a_call_is_reasoning(first: str) -> None:
    stage = ReasoningStage("auto_close", TAGS)
    call: list[Event] = [ToolCallDelta(0, "{}", id="c", name="f")]
    found = run([stage], [*texts(f"{first}So:\n<think>b", 0), call]).short()
    assert found[:3] == [("R", "a"), ("C", "So:\n"), ("R", "b")]


@each_case("seed", [None, 0, 1])
@each_case(("opening", "closing"), [(opening, closing) for opening, *closings in THINK_TAGS for closing in closings])
def test_the_tags_with_which_the_reply_began_count(opening: str, closing: str, seed: int | None) -> None:
    stage = ReasoningStage("leading", TAGS, other_tags=THINK_TAGS)
    found = run([stage], texts(f"{opening}a{closing}Hi.\n{opening}b{closing}So.", seed)).short()
    assert found == [("R", "a"), ("C", "Hi.\n"), ("R", "b"), ("C", "So.")]


def behind(first: str, piece: str) -> Callable[[int], object]:
    return lambda n: flooded(ReasoningStage("leading", TAGS, "<tool_call>"), first, piece, n)


def in_one_event(piece: str) -> Callable[[int], object]:
    return lambda n: flooded(ReasoningStage("leading", TAGS, "<tool_call>"), "<think>a</think>b" + piece * 8 * n, "", 0)


FLOODS: dict[str, Callable[[int], object]] = {
    "text": behind("<think>a</think>b", PIECE),
    "a block that does not end": behind("<think>a</think>b\n<think>", PIECE),
    "tags within a line": in_one_event("x <think>y</think>"),
    "blocks": in_one_event("\n<think>\ny</think>\n"),
    "openings": in_one_event("\n<think>"),
    "line breaks behind a block": behind("<think>a</think>b\n<think>c</think>", "\n" * 40),
}


@pytest.mark.many_cases
@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
def test_a_flood_takes_linear_time(flood: Callable[[int], object]) -> None:
    assert linear(flood, 4000)
