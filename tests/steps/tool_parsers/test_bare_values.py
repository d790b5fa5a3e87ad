"""Gemma 4's and MiniMax-M3's arguments, which are no JSON, and calls that have lost their openings."""

from app.chat.events import Finish
from app.chat.messages import Tool
from app.steps.tool_parsers import tool_parser_stage

from tests.each_case import each_case
from tests.steps.stage_runner import run, texts

SCHEMA = {
    "properties": {
        "s": {"type": "string"},
        "n": {"type": "integer"},
        "l": {"type": "array", "items": {"type": "integer"}},
        "o": {"type": "object", "properties": {"x": {"type": "string"}}},
    }
}
TOOLS = (Tool("f", {"name": "f", "parameters": SCHEMA}), Tool("g", {"name": "g"}))
M3 = "]<]minimax[>["


def m3(inner: str, end: str = f"{M3}</invoke>") -> str:
    return f'{M3}<tool_call>{M3}<invoke name="f">{inner.replace("@", M3)}{end}{M3}</tool_call>'


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
    ("gemma4", '<|tool_call>call:f{s:<|"|>a, {b}<|"|>,n:3}<tool_call|>', [("F", "f", '{"s": "a, {b}", "n": 3}')]),
    (
        "gemma4",
        '<|tool_call>call:f{l:[1,<|"|>x<|"|>,{a:true}],o:{x:y z}}',
        [("F", "f", '{"l": [1, "x", {"a": true}], "o": {"x": "y z"}}')],
    ),
    ("gemma4", "<|tool_call>call:g{}<tool_call|>", [("F", "g", "{}")]),
    ("gemma4", "<start_function_call>call:f{s:<escape>a<escape>}<end_function_call>", [("F", "f", '{"s": "a"}')]),
    ("gemma4", '<|tool_call>call:f(s: "a)b", n: 3)<tool_call|>', [("F", "f", '{"s": "a)b", "n": 3}')]),
    ("gemma4", "call:f{n:1}<tool_call|>", [F1]),
    ("gemma4", "call:h{n:1}", [("C", "call:h{n:1}")]),
    ("minimax_m3", m3("@<n>1@</n>"), [F1]),
    ("minimax_m3", m3(""), [("F", "f", "{}")]),
    ("minimax_m3", m3("@<s>\na\n@</s>@</s>"), [("F", "f", '{"s": "a"}')]),
    ("minimax_m3", m3("@<l>@<item>1@</item>@<item>2@</item>@</l>"), [("F", "f", '{"l": [1, 2]}')]),
    ("minimax_m3", m3("@<o>@<x>1@</x>@</o>"), [("F", "f", '{"o": {"x": "1"}}')]),
    ("minimax_m3", m3("@<n>1@</n>@<n>2@</n>"), [("F", "f", '{"n": [1, 2]}')]),
    ("minimax_m3", m3("@<n>1", ""), [F1]),
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


NO_CALLS = [
    ("gemma4", "<|tool_call>call:f{" + "[" * 200 + "]" * 200 + "}"),
    ("gemma4", "<|tool_call>call:f{:}"),
    ("gemma4", "<|tool_call>call:f{a:[1}"),
    ("gemma4", "<|tool_call>call:f{a:[1}]"),
    ("minimax_m3", f'{M3}<invoke name="f">{M3}<n>1'),
    ("minimax_m3", m3("@<o>" * 200)),
]


@each_case(("family", "text"), NO_CALLS, ids=lambda value: str(value)[:60])
def test_what_is_no_call_is_text_with_a_warning(family: str, text: str) -> None:
    reply = run([tool_parser_stage(family, TOOLS, "chat-1")], texts(text, 1))
    assert reply.short() == [("C", text)]
    assert reply.warnings
