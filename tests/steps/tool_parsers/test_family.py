"""The reader of all families: calls that have lost their openings or closers, and blocks without a call."""

from app.chat.events import Finish
from app.chat.messages import Tool
from app.steps.tool_parsers import tool_parser_stage

from tests.each_case import each_case
from tests.steps.stage_runner import run, texts

SCHEMA = {"properties": {"n": {"type": "integer"}}}
TOOLS = (Tool("f", {"name": "f", "parameters": SCHEMA}), Tool("g", {"name": "g"}))
DSML_41 = (
    '<｜DSML｜ calls>\n<｜DSML｜ invoke name="f">\n<｜DSML｜ parameter name="n" string="false">1</｜DSML｜ parameter>\n'
    "</｜DSML｜ invoke>\n</｜DSML｜ calls>"
)
K3_OBJECT = (
    '<|open|>call tool="f" index="1"<|sep|><|open|>json type="object"<|sep|>{"n": 1}<|close|>json<|sep|>'
    "<|close|>call<|sep|>"
)
F1 = ("F", "f", '{"n": 1}')
CASES: list[tuple[str, str, list[tuple[str, ...]]]] = [
    ("kimi_k3", K3_OBJECT, [F1]),
    ("dsml", '<｜DSML｜invoke name="f">{"n": 1}</｜DSML｜invoke>', [F1]),
    ("dsml", DSML_41, [F1]),
    ("pythonic", "<function_calls>\nf(n=1)\ng()\n</function_calls>", [F1, ("F", "g", "{}")]),
    ("mistral_args", 'functions.f:0[ARGS]{"n": 1}', [F1]),
    ("mistral_args", "functional programs", [("C", "functional programs")]),
    ("mistral_json", '[{"name": "f", "arguments": {"n": 1}}, {"name": "g", "arguments": {}}]', [F1, ("F", "g", "{}")]),
    ("mistral_json", '[{"name": "Ada", "arguments": {}}]', [("C", '[{"name": "Ada", "arguments": {}}]')]),
    ("mistral_json", '[{"name": "f", "arguments": {}} and]', [("C", '[{"name": "f", "arguments": {}} and]')]),
    ("glm45", '<tool_call>f\n{"n": 1}\n</tool_call>', [F1]),
    ("hermes", '{"name": "f", "arguments": {"n": 1}}\nso', [("C", '{"name": "f", "arguments": {"n": 1}}\nso')]),
    ("kimi_k2", '<|tool_call_begin|>functions.f:0{"n": 1}<|tool_call_end|>', [F1]),
    ("harmony", 'analysisWe look.assistantcommentary to=functions.f json{"n": 1}', [("R", "We look."), F1]),
    ("harmony", "analysisWe look.assistantanalysisAgain.assistantfinalYes", [("R", "We look.Again."), ("C", "Yes")]),
    ("harmony", 'assistant<|channel|>commentary to=functions.f<|message|>{"n": 1}<|call|>', [F1]),
    ("llama_json", '{"name": "f", "parameters": {"n": 1}}; {"name": "g", "parameters": {}}', [F1, ("F", "g", "{}")]),
    ("auto", "<|end|> and <|call|> end it.", [("C", "<|end|> and <|call|> end it.")]),
    ("auto", "<tool_call>g<arg_key>a</arg_key><arg_value>b", [("C", "<tool_call>g<arg_key>a</arg_key><arg_value>b")]),
    ("auto", '<tool_call>{"name": "f", "arguments": "run"}', [("C", '<tool_call>{"name": "f", "arguments": "run"}')]),
    ("auto", "<tool_call><function=f><parameter=n>1</parameter>", [F1]),
    (
        "auto",
        "<tool_call><function=f><parameter=n>1</parameter> so",
        [("C", "<tool_call><function=f><parameter=n>1</parameter> so")],
    ),
    ("qwen3_coder", "<tool_call><function=f><parameter=n>1</parameter>\n\nSo.", [F1, ("C", "\n\nSo.")]),
    ("deepseek_v3", '<｜tool▁calls▁begin｜>{"name": "f"}', [("C", '<｜tool▁calls▁begin｜>{"name": "f"}')]),
    ("harmony", "analysis of it", [("C", "analysis of it")]),
    ("harmony", "analysisWe", [("R", "We")]),
    ("harmony", 'to=functions.h {"n": 1}', [("C", 'to=functions.h {"n": 1}')]),
    ("harmony", "to=functions." + "h" * 300, [("C", "to=functions." + "h" * 300)]),
]


@each_case("seed", [None, 0, 1])
@each_case(("family", "text", "want"), CASES, ids=lambda value: str(value)[:60])
def test_a_call_is_read(family: str, text: str, want: list[tuple[str, ...]], seed: int | None) -> None:
    assert run([tool_parser_stage(family, TOOLS, "chat-1")], texts(text, seed)).short() == want


@each_case("family", ["auto", "qwen3_coder"])
def test_a_call_at_the_end_of_a_reply_that_was_cut_off_is_not_complete(family: str) -> None:
    text = "<tool_call><function=f><parameter=n>1</parameter>"
    found = run([tool_parser_stage(family, TOOLS, "chat-1")], texts(text), Finish("length")).short()
    assert found == ([("C", text)] if family == "auto" else [("F", "f", '{"n": 1')])


@each_case("seed", [None, 0, 1])
def test_what_a_family_writes_between_a_block_and_a_call_is_skipped(seed: int | None) -> None:
    text = '<tool_calls>\n<tool_call>\n{"name": "f", "arguments": {"n": 1}}\n</tool_call>\n</tool_calls>'
    assert run([tool_parser_stage("tool_calls", TOOLS, "chat-1")], texts(text, seed)).short() == [F1]


def test_a_block_without_a_call_is_left_out_with_a_warning() -> None:
    reply = run([tool_parser_stage("hermes", TOOLS, "chat-1")], texts("So.<tool_call></tool_call>"))
    assert reply.short() == [("C", "So.")]
    assert reply.warnings == ["a block of tool calls without a call is left out"]
