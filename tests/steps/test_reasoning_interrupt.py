"""A tool marker at the beginning of a line ends a thought that was left open."""

from app.chat.events import Event, ReasoningDelta
from app.steps.reasoning_parser import ReasoningStage, ThinkMode

from tests.each_case import each_case
from tests.steps.stage_runner import run, texts

CALL = "<tool_call>{}"


@each_case("seed", [None, *range(6)])
@each_case(
    ("mode", "text", "want"),
    [
        ("forced_open", f"Need it.\n{CALL}", [("R", "Need it."), ("C", CALL)]),
        ("forced_open", f"Need it.\r\n\r\n{CALL}", [("R", "Need it."), ("C", CALL)]),
        ("forced_open", CALL, [("C", CALL)]),
        ("forced_open", "<tool", [("R", "<tool")]),
        ("forced_open", f"\n\n{CALL}", [("C", CALL)]),
        ("forced_open", f"I use {CALL}", [("R", f"I use {CALL}")]),
        ("forced_open", "a\n<tool box\nb", [("R", "a\n<tool box\nb")]),
        ("forced_open", f"a\n</think>\n{CALL}", [("R", "a"), ("C", CALL)]),
        ("forced_open", f"a {CALL}</think>b", [("R", f"a {CALL}"), ("C", "b")]),
        ("leading", f"<think>\na\n{CALL}", [("R", "a"), ("C", CALL)]),
        ("leading", f"a\n{CALL}", [("C", f"a\n{CALL}")]),
        ("auto_close", "a\nb < c\n</think>\nd", [("R", "a\nb < c"), ("C", "d")]),
        ("auto_close", "a < b", [("C", "a < b")]),
        ("interleaved", f"<think>a\n{CALL}\n<think>b</think>", [("R", "a"), ("C", f"{CALL}\n"), ("R", "b")]),
    ],
)
def test_a_thought_ends_before_a_call(
    mode: ThinkMode, text: str, want: list[tuple[str, ...]], seed: int | None
) -> None:
    stage = ReasoningStage(mode, ("<think>", "</think>"), "<tool_call>")
    assert run([stage], texts(text, seed)).short() == want


def test_without_an_interrupt_a_call_in_a_thought_is_a_thought() -> None:
    stage = ReasoningStage("forced_open", ("<think>", "</think>"))
    assert run([stage], texts(f"a\n{CALL}")).short() == [("R", f"a\n{CALL}")]


def test_reasoning_in_a_field_after_text_ends_the_search_for_tags() -> None:
    stage = ReasoningStage("interleaved", ("<think>", "</think>"))
    field: list[Event] = [ReasoningDelta("c")]
    found = run([stage], [*texts("<think>a</think>b"), field, *texts("<think>d</think>")]).short()
    assert found == [("R", "a"), ("C", "b"), ("R", "c"), ("C", "<think>d</think>")]
