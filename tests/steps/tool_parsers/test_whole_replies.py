"""Calls without any marker of a family: they are calls only as the whole reply."""

import pytest
from app.chat.events import Finish
from app.steps.tool_parsers import tool_parser_stage

from tests.each_case import each_case
from tests.steps.stage_runner import run, texts
from tests.steps.tool_parsers.family_replies import SEEDS, TOOLS, F, G, check_calls, reply

OBJECT = '{"name": "f", "arguments": {"n": 1}}'
CALLS: list[tuple[str, list[tuple[str, ...]]]] = [
    (OBJECT, [F]),
    (f"```json\n{OBJECT}\n```", [F]),
    (f"\n```\n{OBJECT}\n```\n", [F]),
    (f"```tool_call\r\n{OBJECT}```", [F]),
    (f'```json\n[{OBJECT}, {{"name": "g"}}]\n```', [F, G]),
    (f'```json\n{OBJECT}\n{{"name": "g"}}\n```', [F, G]),
    (f'```json\n{OBJECT}\n```\n\n```json\n{{"name": "g"}}\n```', [F, G]),
    ('f {"n": 1}', [F]),
    ('\nf\n{"n": 1}\n', [F]),
    ('f: {"n": 1}', [F]),
    ("g{}", [G]),
]


@pytest.mark.parametrize("seed", SEEDS)
@each_case(("text", "calls"), CALLS)
def test_a_call_without_a_marker_is_the_whole_reply(text: str, calls: list[tuple[str, ...]], seed: int | None) -> None:
    check_calls("auto", text, calls, seed)
    for around in (f"{text}\nThat is the call.", f"I call:\n{text}"):
        assert reply("auto", around, seed).short() == [("C", around)]
    stage = tool_parser_stage("auto", TOOLS, "chat-1")
    assert run([stage], texts(text, seed), Finish("length")).short() == [("C", text)]


@pytest.mark.parametrize("seed", SEEDS)
@each_case(
    "text",
    [
        '```json\n{"name": "other", "arguments": {}}\n```',
        '```json\n{"name": "f", "age": 3}\n```',
        '```json\n{"name": "f", "arguments": "n"}\n```',
        f'```json\n{OBJECT}\n{{"a": 1}}\n```',
        f"```json\n{OBJECT}",
        f"```python\n{OBJECT}\n```",
        "```json\n```",
        "```json\n[]\n```",
        "```\n```",
        'other {"n": 1}',
        'f {"n": 1',
        "f {n}",
        "f [1]",
        "f",
    ],
)
def test_anything_else_is_the_text_that_it_is(text: str, seed: int | None) -> None:
    found = reply("auto", text, seed)
    assert found.short() == [("C", text)] and found.reason == "stop"


@each_case(("family", "text"), [("llama_json", f"```json\n{OBJECT}\n```"), ("mistral_args", 'f{"n": 1}')])
def test_the_family_that_a_warning_names_reads_them(family: str, text: str) -> None:
    check_calls(family, text, [F], None)
    assert reply("hermes", text).short() == [("C", text)]
