"""Reasoning in the text of a reply: where it ends, and how long it takes to find it."""

from collections.abc import Callable

import pytest
from app.chat.accumulator import MessageAccumulator
from app.chat.events import Event, ReasoningDelta, TextDelta
from app.chat.template_tokens import STRAY_CLOSERS, THINK_TAGS
from app.steps.reasoning_parser import ReasoningStage, ThinkMode

from tests.each_case import each_case
from tests.linear_time import linear
from tests.steps.stage_runner import PIECE, flooded, run, texts

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


AGAIN_CASES: list[tuple[str, list[tuple[str, ...]]]] = [
    ("<think>a</think><think>b</think>c", [("R", "a\n\nb"), ("C", "c")]),
    ("<think>\na\n</think>\n \n<think>\nb\n</think>\n<think>c</think>\n\nd", [("R", "a\n\nb\n\nc"), ("C", "d")]),
    ("<think></think><think>b</think>c", [("R", "b"), ("C", "c")]),
    ("<think>a</think><think>\n</think>c", [("R", "a"), ("C", "c")]),
    (f"<think>a</think><think>b\n{CALL}", [("R", "a\n\nb"), ("C", CALL)]),
    ("<think>a</think>\n<think> is a tag.", [("R", "a"), ("C", "<think> is a tag.")]),
    ("<think>a</think>\n <thin", [("R", "a"), ("C", " <thin")]),
    ("<think>a</think> b", [("R", "a"), ("C", " b")]),
    ("<think>a</think>b <think>c</think>", [("R", "a"), ("C", "b <think>c</think>")]),
    ("<think>a</think>`<think>c</think>`", [("R", "a"), ("C", "`<think>c</think>`")]),
]


@each_case("seed", [None, *range(6)])
@each_case(("text", "want"), AGAIN_CASES)
@each_case("mode", ["leading", "forced_open", "auto_close"])
def test_a_block_directly_behind_reasoning_is_reasoning(
    mode: ThinkMode, text: str, want: list[tuple[str, ...]], seed: int | None
) -> None:
    stage = ReasoningStage(mode, ("<think>", "</think>"), "<tool_call>")
    assert run([stage], texts(text, seed)).short() == want


def test_a_block_behind_an_answer_is_text() -> None:
    stage = ReasoningStage("leading", ("<think>", "</think>"), answer_tags=("<response>", "</response>"))
    told = run([stage], texts("<think>a</think><response>b</response><think>c</think>", 0)).short()
    assert told == [("R", "a"), ("C", "b<think>c</think>")]


FIELD_CASES: list[tuple[list[str], str, list[tuple[str, str]]]] = [
    (["Hmm", " well"], "<think>Hmm well</think>Hi", [("R", "Hmm well"), ("C", "Hi")]),
    (["Hmm well"], "<think>\nHmm well\n</think>\n\nHi", [("R", "Hmm well"), ("C", "Hi")]),
    (["Hmm well"], "<think>Hmm</think>Hi", [("R", "Hmm well"), ("C", "Hi")]),
    (["Hmm"], "<think>Hmm well</think>Hi", [("R", "Hmm well"), ("C", "Hi")]),
    (["Hmm"], "<think></think>Hi", [("R", "Hmm"), ("C", "Hi")]),
    (["Hmm"], "<think>Hmm", [("R", "Hmm")]),
    (["Hmm"], "<think>No</think>Hi", [("R", "Hmm"), ("C", "<think>No</think>Hi")]),
    (["Hmm"], "<think>No", [("R", "Hmm"), ("C", "<think>No")]),
    (["Hmm"], "<think>Hmm</think><think>Hmm</think>", [("R", "Hmm"), ("C", "<think>Hmm</think>")]),
    (["Hmm"], "<thing>", [("R", "Hmm"), ("C", "<thing>")]),
    (["H" * 90], f"<think>{'H' * 60}a</think>", [("R", "H" * 90), ("C", f"<think>{'H' * 60}a</think>")]),
    (["H" * 90], f"<think>{'H' * 90}</think>a", [("R", "H" * 90), ("C", "a")]),
]


@each_case(("field", "content", "told"), FIELD_CASES)
@each_case("seed", [None, 0, 1, 2])
@each_case("mode", ["leading", "interleaved", "forced_open"])
def test_a_block_that_says_what_the_field_says_is_left_out(
    field: list[str], content: str, told: list[tuple[str, str]], seed: int | None, mode: ThinkMode
) -> None:
    thought: list[list[Event]] = [[ReasoningDelta(one)] for one in field]
    found = run([ReasoningStage(mode, ("<think>", "</think>"))], [*thought, *texts(content, seed)])
    assert found.short() == told


def test_a_field_and_a_block_can_grow_together() -> None:
    batches: list[list[Event]] = [
        [ReasoningDelta("The user"), TextDelta("<think>The user")],
        [ReasoningDelta(" said"), TextDelta(" said")],
        [TextDelta("</think>Hi")],
    ]
    assert run([ReasoningStage("leading", ("<think>", "</think>"))], batches).short() == [
        ("R", "The user said"),
        ("C", "Hi"),
    ]


BESIDE_CASES: list[tuple[str, list[tuple[str, str]]]] = [
    ("C:<think>Hmm|R:Hmm|C: well</think>|R: well|C:Hi", [("R", "Hmm well"), ("C", "Hi")]),
    ("C:<think>\nHmm|R:\nHmm|C:\n well\n</think>\n\n|R:\n well|C:Hi", [("R", "Hmm\n well"), ("C", "Hi")]),
    ("C:<think>Hmm well</think>|R:Hmm|R: well|C:Hi", [("R", "Hmm well"), ("C", "Hi")]),
    ("C:<think>Hmm well</think>|R:Hmm|C:Hi", [("R", "Hmm well"), ("C", "Hi")]),
    ("C:<think>Hmm</think>|R:\n|R:Hmm|C:Hi", [("R", "Hmm"), ("C", "Hi")]),
    ("C:<think>H|R:Hm|C:mm|R:m well|C: well</think>Hi", [("R", "Hmm well"), ("C", "Hi")]),
    ("C:<think>Hmm well</think>|R:Hmm|R: so|C:Hi", [("R", "Hmm wellHmm so"), ("C", "Hi")]),
    ("C:<think>Hmm|R:Other|C: well</think>", [("R", "HmmOther"), ("C", " well</think>")]),
    ("C:<think>Hmm|R:Hmm well|C:\nHi|C:\n<b>\n", [("R", "Hmm well"), ("C", "\nHi\n<b>\n")]),
    ("C:<think>|R:Hmm|C:Hi", [("R", "Hmm"), ("C", "Hi")]),
    ("C:<think>Hmm</think>Hi|R:Hmm|C:!", [("R", "Hmm"), ("C", "Hi"), ("R", "Hmm"), ("C", "!")]),
]


@each_case(("said", "told"), BESIDE_CASES)
@each_case("mode", ["leading", "interleaved", "forced_open"])
def test_a_field_that_says_what_the_block_before_it_says_is_left_out(
    mode: ThinkMode, said: str, told: list[tuple[str, str]]
) -> None:
    stage = ReasoningStage(mode, ("<think>", "</think>"))
    parts = [part.partition(":") for part in said.split("|")]
    reads: list[list[Event]] = [[TextDelta(text) if kind == "C" else ReasoningDelta(text)] for kind, _, text in parts]
    assert run([stage], reads).short() == told


@each_case("seed", [None, 0, 1, 2])
@each_case(("opening", "closing"), [(opening, closing) for opening, *closings in THINK_TAGS for closing in closings])
def test_tags_of_other_models_count_at_the_start(opening: str, closing: str, seed: int | None) -> None:
    stage = ReasoningStage("leading", ("<think>", "</think>"), other_tags=THINK_TAGS)
    told = run([stage], texts(f"\n{opening}Hmm < [x{closing}\nHi {opening}a{closing}", seed)).short()
    assert told == [("R", "Hmm < [x"), ("C", f"Hi {opening}a{closing}")]


@each_case("text", ["Hi [THINK]a[/THINK]", "[THIN", "<think", "<b>"])
def test_a_text_that_begins_otherwise_stays(text: str) -> None:
    stage = ReasoningStage("leading", ("<think>", "</think>"), other_tags=THINK_TAGS)
    assert run([stage], texts(text, 0)).short() == [("C", text)]


@each_case("seed", [None, 0, 1])
def test_a_closing_tag_at_the_start_is_left_out(seed: int | None) -> None:
    stage = ReasoningStage("leading", ("<think>", "</think>"))
    assert run([stage], texts("\n</think>\n\nHi</think>", seed)).short() == [("C", "Hi</think>")]


def thinking_twice(times: int) -> None:
    stage = ReasoningStage("leading", ("<think>", "</think>"))
    stage.feed([TextDelta("<think>a"), ReasoningDelta("a")])
    for piece in (PIECE, "y" * 40) * times:
        stage.feed([TextDelta(piece)])
    for piece in (PIECE, "y" * 40) * times:
        assert stage.feed([ReasoningDelta(piece)]) == []


def repeating(times: int) -> None:
    stage = ReasoningStage("leading", ("<think>", "</think>"))
    stage.feed([ReasoningDelta(PIECE * times)])
    flooded(stage, "<think>", PIECE, times)


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
    "a thought that is repeated": repeating,
    "a thought that is repeated in a field": thinking_twice,
    "empty thoughts in one event": in_one_event("interleaved", "<think></think>"),
    "thoughts with line breaks in one event": in_one_event("interleaved", "<think>\n\n\nx\n\n</think>\n\n\nx"),
    "thoughts that calls end in one event": in_one_event("interleaved", "<think>x\n<tool_call>"),
    "thoughts that begin with calls in one event": in_one_event("interleaved", "<think>\n<tool_call>"),
    "thoughts behind thoughts in one event": in_one_event("leading", "<think>x\n</think>\n"),
    "a thought behind another one": thinking("leading", "<think>a</think><think>", PIECE),
    "line breaks in one event": in_one_event("interleaved", "\n"),
}


@pytest.mark.many_cases
@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
def test_a_flood_takes_linear_time(flood: Callable[[int], object]) -> None:
    assert linear(flood, 4000)


TAGS: list[tuple[str, str]] = [("<think>", "</think>"), *((tags[0], tags[1]) for tags in THINK_TAGS)]
THOUGHT, ANSWER = "I need 2 < 3.\n\nReally.", "It is [4].\n\n- `a`"


def list_tagged(opening: str, closing: str) -> list[tuple[str, str, str]]:
    """Return texts with the reasoning and the answer that each of them has."""
    quoted = f"Use `{opening.strip()}` and\n```\n{opening}x{closing}\n```"
    return [
        (f"{opening}{THOUGHT}{closing}{ANSWER}", THOUGHT, ANSWER),
        (f"\n{opening}\n{THOUGHT}\n{closing}\n\n{ANSWER}", THOUGHT, ANSWER),
        (f"{opening}{opening}{THOUGHT}{closing}{ANSWER}", THOUGHT, ANSWER),
        (f"{opening}{THOUGHT}{closing}\n{closing}{ANSWER}", THOUGHT, ANSWER),
        (f"{opening}{closing}{ANSWER}", "", ANSWER),
        (f"{opening}{THOUGHT}", THOUGHT, ""),
        (f"{opening}{THOUGHT}{closing}{quoted}", THOUGHT, quoted),
        (f"{opening}a </th and <thin{closing}{ANSWER}", "a </th and <thin", ANSWER),
        (f"{opening}{THOUGHT}{closing}\n<answer>\n{ANSWER}\n</answer>", THOUGHT, ANSWER),
        *([(f"{closing}{ANSWER}", "", ANSWER)] if closing in ("</think>", *STRAY_CLOSERS) else []),
    ]


@each_case("tags", TAGS, ids=lambda tags: tags[0])
def test_tags_of_each_model_are_read_wherever_a_text_is_cut(tags: tuple[str, str]) -> None:
    for text, thought, answer in list_tagged(*tags):
        for at in range(len(text)):
            stage = ReasoningStage("leading", TAGS[0], None, ("<response>", "</response>"), THINK_TAGS)
            parts: list[list[Event]] = [[TextDelta(part)] for part in (text[:at], text[at:]) if part]
            found = run([stage], parts).short()
            assert ["".join(one[1] for one in found if one[0] == kind).strip() for kind in "RC"] == [thought, answer], (
                text,
                at,
            )


def test_a_closing_tag_behind_an_answer_in_tags_is_text() -> None:
    text = "<think>a</think><response>b</response></think>c"
    stage = ReasoningStage("leading", TAGS[0], None, ("<response>", "</response>"), THINK_TAGS)
    assert run([stage], texts(text)).short() == [("R", "a"), ("C", "b</think>c")]
