"""Calls that are JSON objects, or JSON arguments behind a name."""

import json

from tests.each_case import each_case
from tests.steps.tool_parsers.family_replies import SEEDS, F, G, check_calls, check_text, reply

CALLS: list[tuple[str, str, list[tuple[str, ...]]]] = [
    ("mistral_json", '[TOOL_CALLS]{"name": "f", "arguments": {"n": 1}}</s>', [F]),
    ("mistral_args", '[TOOL_CALLS]f[CALL_ID]abc123def[ARGS]{"n": 1}', [F]),
    (
        "llama_json",
        '<|python_tag|>{"name": "f", "parameters": {"n": 1}}; {"name": "g", "parameters": {}}<|eom_id|>',
        [F, G],
    ),
    ("llama_json", ' {"name": "f", "parameters": {"n": 1}}', [F]),
    ("llama_json", '{"name": "Ada", "parameters": {}}', [("C", '{"name": "Ada", "parameters": {}}')]),
    ("llama_json", '{"city": "Paris"}', [("C", '{"city": "Paris"}')]),
    ("llama_json", '<|python_tag|>{"name": "f", "parameters": {"n": 1}} Done', [F, ("C", " Done")]),
    # Mistral's servers may leave out special tokens: vllm-project/vllm 19425, waybarrios/vllm-mlx 631
    ("mistral_args", '[TOOL_CALLS]f{"n": 1}[TOOL_CALLS]g{}', [F, G]),
    ("mistral_args", '[TOOL_CALLS] f {"n": 1}\n\nSo.', [F, ("C", "\n\nSo.")]),
]


OTHER_KEYS = [
    '{"tool": "f", "args": {"n": 1}}',
    '{"function": "f", "input": {"n": 1}}',
    '{"type": "function", "id": 7, "function": {"name": "f", "arguments": {"n": 1}}}',
    '{"recipient_name": "functions.f", "parameters": {"n": 1}}',
    '{"f": {"n": 1}}',
    '{"name": "f", "n": 1}',
    '{"n": 1, "name": "f"}',
]


@each_case("seed", SEEDS)
@each_case("family", ["hermes", "auto"])
@each_case("text", OTHER_KEYS)
def test_keys_that_models_write_instead_are_known(text: str, family: str, seed: int | None) -> None:
    check_calls(family, f"<tool_call>{text}</tool_call>", [F], seed)


@each_case("seed", SEEDS)
@each_case(("family", "text", "want"), CALLS, ids=lambda value: str(value)[:60])
def test_a_call_is_read(family: str, text: str, want: list[tuple[str, ...]], seed: int | None) -> None:
    check_calls(family, text, want, seed)


NO_CALLS: list[tuple[str, str]] = [
    ("auto", '<tool_call>{"name": "g", "unknown": 1}</tool_call>'),
    ("auto", '<tool_call>{"f": 1}</tool_call>'),
    ("auto", '<|tools_prefix|>[{"f" {"n": 1}}]'),
    ("mistral_args", '[TOOL_CALLS]a set of {"n": 1}'),
    ("mistral_args", "[TOOL_CALLS]" + "so " * 200 + "[ARGS]{}"),
    ("llama_json", "<|python_tag|>search('x')"),
]


@each_case("seed", SEEDS)
@each_case(("family", "text"), NO_CALLS, ids=lambda value: str(value)[:60])
def test_what_is_no_call_is_text_with_a_warning(family: str, text: str, seed: int | None) -> None:
    check_text(family, text, seed)


def test_arguments_that_are_encoded_too_often_stay_encoded() -> None:
    encoded = ['{"n": 1}']
    for _ in range(5):
        encoded.append(json.dumps(encoded[-1]))
    for often, expected in ((3, encoded[0]), (5, encoded[4])):
        call = f'<tool_call>{{"name":"f","arguments":{encoded[often]}}}</tool_call>'
        assert reply("hermes", call).short() == [("F", "f", expected)]


def stays(text: str) -> tuple[str, list[tuple[str, ...]]]:
    return text, [("C", text)]


NOTED = '[Calling tool: f({"n": 1})]'
NOTED_CASES: list[tuple[str, list[tuple[str, ...]]]] = [
    (NOTED, [F]),
    (f"I look.\n{NOTED}\n", [("C", "I look.\n"), F]),
    (f"{NOTED}\n[Calling tool: g()]", [F, ("F", "g", "{}")]),
    ('[Calling tool: f( {"n": 1} ) ]', [F]),
    *map(
        stays,
        (
            f"{NOTED}\nThat is how.",
            '[Calling tool: other({"n": 1})]',
            "[Calling tool: f(n)]",
            '[Calling tool: f("n")]',
            '[Calling tool: f({"n": 1}]',
            '[Calling tool: f({"n": 1})',
            "[Calling tool:",
        ),
    ),
]


@each_case("seed", [None, 0, 1, 2])
@each_case("family", ["auto", "hermes", "qwen3_coder"])
@each_case(("text", "want"), NOTED_CASES)
def test_a_noted_call_ends_a_reply(family: str, text: str, want: list[tuple[str, ...]], seed: int | None) -> None:
    assert reply(family, text, seed).short() == want
