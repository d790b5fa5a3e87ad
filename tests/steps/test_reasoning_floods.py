"""What a flood of text that must wait costs."""

from collections.abc import Callable

import pytest
from app.chat.accumulator import MessageAccumulator
from app.chat.events import Event, Finish, TextDelta
from app.chat.stage import Stage
from app.steps.reasoning_parser import ReasoningStage, ThinkMode

from tests.linear_time import linear

PIECE = "x" * 40


def flooded(stage: Stage, first: str, piece: str, times: int) -> list[Event]:
    out = stage.feed([TextDelta(first)])
    for _ in range(times):
        out += stage.feed([TextDelta(piece)])
    return out + stage.feed([Finish("stop")])


def thinking(mode: ThinkMode, first: str, piece: str) -> Callable[[int], object]:
    return lambda n: flooded(ReasoningStage(mode, ("<think>", "</think>"), "<tool_call>"), first, piece, n)


def in_one_event(mode: ThinkMode, piece: str) -> Callable[[int], object]:
    """The flood as one text, as a server sends it that does not stream."""
    return lambda n: flooded(ReasoningStage(mode, ("<think>", "</think>"), "<tool_call>"), piece * 8 * n, "", 0)


def blank(times: int) -> None:
    segmenter = MessageAccumulator()
    for _ in range(times):
        segmenter.feed([TextDelta(" " * 40)])


FLOODS: dict[str, Callable[[int], object]] = {
    "blanks before a thought": thinking("leading", "", " " * 40),
    "no sign of a thought": thinking("auto_close", "a", PIECE),
    "line breaks in a thought": thinking("leading", "<think>a", "\n" * 40),
    "a thought": thinking("leading", "<think>a", PIECE),
    "text between thoughts": thinking("interleaved", "a", PIECE),
    "blank content": blank,
    "empty thoughts in one event": in_one_event("interleaved", "<think></think>"),
    "thoughts with line breaks in one event": in_one_event("interleaved", "<think>\n\n\nx\n\n</think>\n\n\nx"),
    "thoughts that calls end in one event": in_one_event("interleaved", "<think>x\n<tool_call>"),
    "thoughts that begin with calls in one event": in_one_event("interleaved", "<think>\n<tool_call>"),
    "line breaks in one event": in_one_event("interleaved", "\n"),
}


@pytest.mark.many_cases
@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
def test_a_flood_takes_linear_time(flood: Callable[[int], object]) -> None:
    assert linear(flood, 4000)
