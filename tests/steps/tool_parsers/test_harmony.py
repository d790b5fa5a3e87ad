"""gpt-oss's channels: reasoning, content, and calls."""

from app.steps.tool_parsers import tool_parser_stage

from tests.each_case import each_case
from tests.steps.sample_calls import write_beam
from tests.steps.stage_runner import run, texts
from tests.steps.tool_parsers.family_replies import SEEDS, F, G, check_calls, check_text

CALLS: list[tuple[str, str, list[tuple[str, ...]]]] = [
    ("harmony", '<|start|>assistant to=functions.f<|channel|>commentary json<|message|>{"n": 1}<|call|>', [F]),
    ("harmony", "<|channel|>commentary<|message|>I look.<|end|><|channel|>final<|message|>It", [("C", "I look.It")]),
    (
        "harmony",
        "<|channel|>analysis<|message|>Hm<|channel|>final<|message|>Yes<|return|>",
        [("R", "Hm"), ("C", "Yes")],
    ),
    ("harmony", "Plain.", [("C", "Plain.")]),
    # the prompt has begun the message
    ("harmony", ' to=functions.f<|channel|>commentary json<|message|>{"n": 1}<|call|>', [F]),
    ("auto", 'assistant to=functions.f<|channel|>commentary <|constrain|>json<|message|>{"n": 1}', [F]),
    # Beam (sglang/srt/parser/beam.py)
    *(
        (
            family,
            f"<|channel|>analysis<|message|>Hm<|end|>{start} to=f<|channel|>analysis{kind}<|message|>"
            '<rfl:parameter name="n">\n1\n</rfl:parameter><|end|><|start|>assistant to=g<|channel|>analysis '
            "<|constrain|>xml<|message|><|call|>",
            [("R", "Hm"), F, G],
        )
        for family in ("harmony", "auto")
        for start, kind in (("<|start|>assistant", " <|constrain|>xml"), ("<|start|>assistant", ""))
    ),
    ("auto", write_beam({"n": 1}), [F]),
    ("harmony", " to=g<|channel|>analysis <|constrain|>xml<|message|>", [G]),
    # ggml-org/llama.cpp 17376, 27720
    ("harmony", "<|channel|>commentary to=assistant<|channel|>commentary?<|message|>x<|end|>", [("C", "x")]),
]


@each_case("seed", SEEDS)
@each_case(("family", "text", "want"), CALLS, ids=lambda value: str(value)[:60])
def test_a_call_is_read(family: str, text: str, want: list[tuple[str, ...]], seed: int | None) -> None:
    check_calls(family, text, want, seed)


NO_CALLS: list[tuple[str, str]] = [
    ("harmony", "<|channel|>final"),
    ("harmony", "<|channel|>commentary to=functions.f<|message|>no JSON"),
]


@each_case("seed", SEEDS)
@each_case(("family", "text"), NO_CALLS, ids=lambda value: str(value)[:60])
def test_what_is_no_call_is_text_with_a_warning(family: str, text: str, seed: int | None) -> None:
    check_text(family, text, seed)


def test_without_tools_a_call_of_a_channel_is_text() -> None:
    stage = tool_parser_stage("harmony", (), "chat-1")
    found = run([stage], texts('<|channel|>commentary to=functions.f<|message|>{"a": 1}<|call|>'))
    assert found.short() == [("C", '{"a": 1}')]
