"""Calls with special tokens around a name and arguments."""

from tests.each_case import each_case
from tests.steps.tool_parsers.family_replies import SEEDS, F, G, check_calls, check_text, reply

SEP = "<｜tool▁sep｜>"
BEGIN, END = "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"

CALLS: list[tuple[str, str, list[tuple[str, ...]]]] = [
    ("deepseek_v3", f"{BEGIN}function{SEP}g\n```json\n{{}}\n```{END} Wait.", [G, ("C", " Wait.")]),
    ("deepseek_v31", f'{BEGIN}f{SEP}{{"n": 1}}{END}', [F]),
    ("deepseek_v31", f'<｜tool▁calls▁begin｜>{BEGIN}f{SEP}{{"n": 1}}{END} so<｜tool▁calls▁end｜>', [F, ("C", " so")]),
    ("kimi_k2", "<|tool_call_begin|>g:1<|tool_call_argument_begin|>{}<|tool_call_end|>", [G]),
    # servers also leave out the note on JSON
    (
        "plamo3",
        "<|plamo:begin_tool_requests:plamo|><|plamo:begin_tool_request:plamo|><|plamo:begin_tool_name:plamo|>f"
        '<|plamo:end_tool_name:plamo|><|plamo:begin_tool_arguments:plamo|><|plamo:msg|>{"n": 1}'
        "<|plamo:end_tool_arguments:plamo|><|plamo:end_tool_request:plamo|><|plamo:begin_tool_request:plamo|>"
        "<|plamo:begin_tool_name:plamo|>g<|plamo:end_tool_name:plamo|><|plamo:begin_tool_arguments:plamo|>"
        "<|plamo:msg|>{}<|plamo:end_tool_arguments:plamo|><|plamo:end_tool_request:plamo|>"
        "<|plamo:end_tool_requests:plamo|><|plamo:tag|>",
        [F, G],
    ),
    # ggml-org/llama.cpp 17376, 27720
    (
        "kimi_k2",
        "<|tool_call_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>"
        '{"n": 1}<|tool_call_end|><|tool_call_section_end|>',
        [F],
    ),
]


@each_case("seed", SEEDS)
@each_case(("family", "text", "want"), CALLS, ids=lambda value: str(value)[:60])
def test_a_call_is_read(family: str, text: str, want: list[tuple[str, ...]], seed: int | None) -> None:
    check_calls(family, text, want, seed)


NO_CALLS: list[tuple[str, str]] = [
    ("deepseek_v3", "<｜tool▁calls▁begin｜>none"),
    ("deepseek_v3", f"{BEGIN}{SEP}x"),
    ("kimi_k2", "<|tool_call_begin|><|tool_call_argument_begin|>{}"),
]


@each_case("seed", SEEDS)
@each_case(("family", "text"), NO_CALLS, ids=lambda value: str(value)[:60])
def test_what_is_no_call_is_text_with_a_warning(family: str, text: str, seed: int | None) -> None:
    check_text(family, text, seed)


def test_ids_in_the_text_are_kept_and_unique() -> None:
    one = "<|tool_call_begin|>functions.g:0<|tool_call_argument_begin|>{}<|tool_call_end|>"
    ids = [message["extra"]["function_id"] for message in reply("kimi_k2", one + one).messages()]
    assert ids[0] == "functions.g:0"
    assert ids[1].startswith("call_")
    assert len(ids[1]) == 29
