"""Calls between an opening and a closing marker."""

import json

from app.steps.tool_parsers import tool_parser_stage

from tests.each_case import each_case
from tests.steps.stage_runner import run, texts
from tests.steps.tool_parsers.family_replies import SEEDS, TOOLS, F, G, check_calls, check_text, reply

DSML = "<｜DSML｜"


def xml(key: str, value: str) -> str:
    return f"<tool_call>\n<function=f>\n<parameter={key}>\n{value}\n</parameter>\n</function>\n</tool_call>"


M3 = "]<]minimax[>["
# a break before the closing tag is a part of a text, if the template writes none and none follows the opening
KEPT_BREAKS: list[tuple[str, str, list[tuple[str, ...]]]] = [
    (family, template.replace("VALUE", value), [("F", "f", json.dumps({"s": want}))])
    for value, want in (("a\nb\n", "a\nb\n"), ("\na\n", "a"), ("\r\na\r\n", "a"), ("a", "a"), ("\n", ""))
    for family, template in (
        ("minimax_m2", '<minimax:tool_call><invoke name="f"><parameter name="s">VALUE</parameter></invoke>'),
        ("atem", '<atem:invoke name="f"><atem:parameter name="s">VALUE</atem:parameter></atem:invoke>'),
        ("minicpm5", '<function name="f"><param name="s">VALUE</param></function>'),
    )
]
# a parameter that is closed by nothing but what closes calls of another family
CLOSED_BY_OTHERS: list[tuple[str, str, list[tuple[str, ...]]]] = [
    (family, f"{head}1{closers}", [F])
    for closers in ("</tool_call>", "</function_calls>\n", "</invoke></tool_call><|im_end|>")
    for family, head in (
        ("minicpm5", '<function name="f"><param name="n">'),
        ("k2_horizon", "<ifm|tool_calls><ifm|tool_call>f<ifm|arg_key>n</ifm|arg_key><ifm|arg_value>"),
    )
]
CALLS: list[tuple[str, str, list[tuple[str, ...]]]] = [
    # the schema says the type of `n`; of `u` it leaves two open, and of `z` all
    (
        "k2_horizon",
        "<ifm|tool_calls>\n<ifm|tool_call>f\n<ifm|arg_key>n</ifm|arg_key>\n<ifm|arg_type>string</ifm|arg_type>\n"
        "<ifm|arg_value>1</ifm|arg_value>\n<ifm|arg_key>u</ifm|arg_key><ifm|arg_type>string</ifm|arg_type>"
        "<ifm|arg_value>2</ifm|arg_value><ifm|arg_key>z</ifm|arg_key><ifm|arg_type>any</ifm|arg_type>"
        "<ifm|arg_value>3</ifm|arg_value><ifm|arg_key>y</ifm|arg_key><ifm|arg_value>4</ifm|arg_value>"
        "</ifm|tool_call>\n</ifm|tool_calls>",
        [("F", "f", '{"n": 1, "u": "2", "z": "3", "y": 4}')],
    ),
    ("k2_horizon", '<ifm|tool_call>{"name": "f", "arguments": {"n": 1}}</ifm|tool_call>', [F]),
    *CLOSED_BY_OTHERS,
    *KEPT_BREAKS,
    ("minimax_m3", f'{M3}<tool_call>{M3}<invoke name="f">{M3}<l>{M3}</l>{M3}</invoke>', [("F", "f", '{"l": []}')]),
    (
        "minicpm5",
        '<function name="f"><param name="s">a</tool_call> b</b></tool_call>',
        [("F", "f", '{"s": "a</tool_call> b</b>"}')],
    ),
    (
        "minicpm5",
        '<function name="f"><param name="s">a</tool_call></param></function>',
        [("F", "f", '{"s": "a</tool_call>"}')],
    ),
    ("hermes", '<tool_call>{"name":"f","arguments":{"n": 1}}\n{"name":"g"}</tool_call>', [F, G]),
    ("hermes", '<tool_call>{"name":"f","arguments":{"n": 1}}<tool_call>{"name":"g"}', [F, G]),
    ("hermes", '<tool_call>{"name":"f","arguments":{"n": 1}} so </tool_call>.', [F, ("C", " so .")]),
    ("hermes", "<tool_call><function=f><parameter=n>1</parameter></function></tool_call>", [F]),
    ("hermes", '<tool_call>{"type": "function", "name":"f","arguments":{"n": 1}, "id": [1]}</tool_call>', [F]),
    ("hermes", '<tool_call>{"name":"f","name":"g","arguments":{"n": 1}}</tool_call>', [F]),
    ("hermes", '<tool_call>{"name":"f","arguments":[1]}</tool_call>', [("F", "f", "[1]")]),
    ("hermes", '<tool_call>{"name":"f","arguments":"run it"}</tool_call>', [("F", "f", "run it")]),
    ("hermes", '<tool_call>{"name":"f","arguments":""}</tool_call>', [("F", "f", "{}")]),
    ("hermes", '<tool_call>{"name":"f","arguments":"{\'n\': 1}"}</tool_call>', [F]),
    ("hermes", '<tool_call>{"name":"f","arguments":"[1]"}</tool_call>', [("F", "f", "[1]")]),
    ("hermes", '<tool_call>{"name":"f","arguments":{"n": 1}, ?}</tool_call>!', [F, ("C", "?}!")]),
    ("hermes", '<tool_call>{"name":"f","arguments":{"n": 1}, "b" 2}</tool_call>!', [F, ("C", "!")]),
    ("hermes", '<tool_call>{"name":"f","arguments":{"n": 1}, "b" 2', [F]),
    ("hermes", '<tool_call>{"name":"f","arguments":{"n": 1 2}}</tool_call>!', [("F", "f", '{"n": 1 2}'), ("C", "!")]),
    ("hermes", '<tool_call>{"name":"f","arguments":{"s": "a</tool_call> b', [("F", "f", '{"s": "a'), ("C", " b")]),
    (
        "hermes",
        '<tool_call>{"name":"f","arguments":{"s":"</tool_call>"}}</tool_call>',
        [("F", "f", '{"s":"</tool_call>"}')],
    ),
    ("hermes", '<tool_call>{"name":"f","arguments":{"s":"</tool_call>"} oh', [("F", "f", '{"s":"'), ("C", '"} oh')]),
    ("hermes", '<tool_call>{"name":"f","arguments":{"s":"</tool_call>" x', [("F", "f", '{"s":"'), ("C", '" x')]),
    ("hermes", '<tool_call>{"name":"f","arguments":{"s":"</tool_call>"}', [("F", "f", '{"s":"'), ("C", '"}')]),
    ("qwen3_coder", xml("s", "3"), [("F", "f", '{"s": "3"}')]),
    ("qwen3_coder", xml("s", "a\nb\n"), [("F", "f", '{"s": "a\\nb\\n"}')]),
    ("qwen3_coder", xml("s", 'say "é"\r'), [("F", "f", '{"s": "say \\"é\\""}')]),
    ("qwen3_coder", xml("n", "3"), [("F", "f", '{"n": 3}')]),
    ("qwen3_coder", xml("n", "three"), [("F", "f", '{"n": "three"}')]),
    ("qwen3_coder", xml("x", "3"), [("F", "f", '{"x": 3}')]),
    ("qwen3_coder", xml("n", "3.0"), [("F", "f", '{"n": 3.0}')]),
    ("qwen3_coder", xml("b", "True"), [("F", "f", '{"b": true}')]),
    ("qwen3_coder", xml("n", "true"), [("F", "f", '{"n": "true"}')]),
    ("qwen3_coder", xml("l", "['a', 1]"), [("F", "f", '{"l": ["a", 1]}')]),
    ("qwen3_coder", xml("l", "{1, 2}"), [("F", "f", '{"l": "{1, 2}"}')]),
    ("qwen3_coder", xml("l", "(1, 2)"), [("F", "f", '{"l": [1, 2]}')]),
    ("qwen3_coder", xml("o", "{a: 1}"), [("F", "f", '{"o": {"a": 1}}')]),
    ("qwen3_coder", xml("o", "null"), [("F", "f", '{"o": null}')]),
    ("qwen3_coder", xml("e", "1"), [("F", "f", '{"e": "1"}')]),
    ("qwen3_coder", xml("u", "1"), [("F", "f", '{"u": 1}')]),
    ("qwen3_coder", xml("w", "NaN"), [("F", "f", '{"w": "NaN"}')]),
    ("qwen3_coder", xml("t", '"q"'), [("F", "f", '{"t": "\\"q\\""}')]),
    ("qwen3_coder", "<function=f><parameter=n>1</parameter></function></tool_call>.", [F, ("C", ".")]),
    ("qwen3_coder", "<function=f><parameter=n>1</parameter></function> so</tool_call>.", [F, ("C", " so.")]),
    (
        "qwen3_coder",
        "<tool_call><function=f><parameter=n>1<parameter=s>\nx</function></tool_call>",
        [("F", "f", '{"n": 1, "s": "x"}')],
    ),
    ("qwen3_coder", "<tool_call><function=f><parameter=n>1</tool_call>", [F]),
    ("qwen3_coder", "<tool_call><function=g></function></tool_call>", [G]),
    (
        "qwen3_coder",
        "<tool_call><function=f><parameter=n>1</parameter></function><function=g></function></tool_call>",
        [F, G],
    ),
    ("qwen3_coder", '<tool_call>{"name": "f", "arguments": {"n": 1}}</tool_call>', [F]),
    ("qwen3_coder", "<tool_call><function=f><parameter=s>\nab", [("F", "f", '{"s": "ab')]),
    (
        "qwen3_coder",
        "<tool_call><function=f><parameter=n>1</parameter><parameter=s>\r\nx\r</parameter>",
        [("F", "f", '{"n": 1, "s": "x\\r"}')],
    ),
    ("glm45", "<tool_call>g</tool_call>", [G]),
    ("glm45", "<tool_call>g<arg_key>k</arg_key><arg_value>a\n</arg_value></tool_call>", [("F", "g", '{"k": "a\\n"}')]),
    ("glm45", "<tool_call>f<arg_key>n</arg_key><arg_value>1</arg_value></tool_call>\n", [F]),
    ("glm45", "<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>1\n</arg_value>", [("F", "f", '{"s": "1\\n"}')]),
    (
        "minimax_m2",
        '<minimax:tool_call><invoke name="f"><parameter name="n">1</parameter></invoke>\n<invoke name="g">'
        "</invoke></minimax:tool_call>",
        [F, G],
    ),
    (
        "dsml",
        f'{DSML}tool_calls>{DSML}invoke name="f">{DSML}parameter name="s" string="false">7</｜DSML｜parameter>'
        "</｜DSML｜invoke></｜DSML｜tool_calls>ok",
        [("F", "f", '{"s": 7}'), ("C", "ok")],
    ),
    ("lmstudio", '[TOOL_REQUEST]{"name": "g"}[END_TOOL_REQUEST]\nDone', [G, ("C", "\nDone")]),
    # vllm-project/vllm 21544, 45167, 51649
    (
        "hermes",
        '<tool_call>{"name":"f","arguments":{"s":"mkdir {a,b"}}</tool_call>',
        [("F", "f", '{"s":"mkdir {a,b"}')],
    ),
    (
        "hermes",
        '<tool_call>{"name":"g","arguments":{"s":"</tool_call>"}}</tool_call>',
        [("F", "g", '{"s":"</tool_call>"}')],
    ),
    # sgl-project/sglang 7863
    ("hermes", '<tool_call>{"name":"f","arguments":"\\"{\\\\\\"n\\\\\\": 1}\\""}</tool_call>', [F]),
    # raullenchai/Rapid-MLX 1515
    ("qwen3_coder", xml("s", "ends with </parameter> here"), [("F", "f", '{"s": "ends with </parameter> here"}')]),
    ("qwen3_coder", xml("u", "a\n</parameter>\nb"), [("F", "f", '{"u": "a\\n</parameter>\\nb"}')]),
    ("qwen3_coder", xml("n", "1</parameter> so"), [F]),
    ("qwen3_coder", xml("s", "a </tool_call> b"), [("F", "f", '{"s": "a </tool_call> b"}')]),
    (
        "qwen3_coder",
        xml("s", "a</function> </parameter> c\n</tool_call>\nb"),
        [("F", "f", '{"s": "a</function> </parameter> c\\n</tool_call>\\nb"}')],
    ),
    (
        "qwen3_coder",
        "<tool_call><function=f><parameter=s>x</function></tool_call> so <tool_call><function=g></function>",
        [("F", "f", '{"s": "x"}'), ("C", " so "), G],
    ),
    (
        "qwen3_coder",
        "<function=f><parameter=s>x</function> </parameter> so",
        [("F", "f", '{"s": "x"}'), ("C", " so")],
    ),
    ("qwen3_coder", "<function=f><parameter=s>x</parameter>", [("F", "f", '{"s": "x"}')]),
    (
        "glm45",
        "<tool_call>f<arg_key>s</arg_key><arg_value></arg_value> ends</arg_value></tool_call>",
        [("F", "f", '{"s": "</arg_value> ends"}')],
    ),
]


@each_case("seed", SEEDS)
@each_case(("family", "text", "want"), CALLS, ids=lambda value: str(value)[:60])
def test_a_call_is_read(family: str, text: str, want: list[tuple[str, ...]], seed: int | None) -> None:
    check_calls(family, text, want, seed)


NO_CALLS: list[tuple[str, str]] = [
    ("hermes", "<tool_call>{'name': 'f', 'arguments'"),
    ("hermes", '<tool_call>{"name": "", "arguments": {}}</tool_call>'),
    ("hermes", '<tool_call>{"arguments": {"n": 1}}</tool_call>'),
    ("hermes", '<tool_call>{"arguments": {"n": 1 1}, "name": "f"}</tool_call>'),
    ("hermes", '<tool_call>{"name" "f"}</tool_call>'),
    ("hermes", "<tool_call>{my-key: 1}</tool_call>"),
    ("hermes", '<tool_call>{"name": NaN}</tool_call>'),
    ("hermes", '<tool_call>{"name": {"a": 01}}</tool_call>'),
    ("hermes", f'<tool_call>{{"name": {"[" * 5000}{"]" * 5000}}}</tool_call>'),
    ("qwen3_coder", "<tool_call><function=></function></tool_call>"),
    ("qwen3_coder", "<tool_call><function=f> then what</function></tool_call>"),
    ("minimax_m2", "<minimax:tool_call>nothing</minimax:tool_call>"),
    ("glm45", "<tool_call>two\nlines</tool_call>"),
]


@each_case("seed", SEEDS)
@each_case(("family", "text"), NO_CALLS, ids=lambda value: str(value)[:60])
def test_what_is_no_call_is_text_with_a_warning(family: str, text: str, seed: int | None) -> None:
    check_text(family, text, seed)


def test_ids_follow_from_the_reply_alone() -> None:
    text = '[TOOL_REQUEST]{"name": "g"}[END_TOOL_REQUEST]'
    first, second = (reply("lmstudio", text).messages()[0]["extra"]["function_id"] for _ in range(2))
    assert first == second


def test_broken_arguments_are_marked() -> None:
    found = reply("hermes", '<tool_call>{"name": "f", "arguments": {"a": "x"y"}}</tool_call>').messages()
    assert found[0]["function_call"]["arguments"] == '{"a": "x"y"}'
    assert found[0]["extra"]["arguments_valid"] is False


def test_text_is_not_held_longer_than_it_must() -> None:
    stage = tool_parser_stage("qwen3_coder", TOOLS, "chat-1")
    found = run([stage], texts("<tool_call><function=f><parameter=s>\none two", 0), end=None)
    assert json.loads(found.messages()[0]["function_call"]["arguments"] + '"}') == {"s": "one two"}


def test_a_call_that_breaks_off_keeps_what_was_emitted_and_the_rest_is_text() -> None:
    reply_text = (
        "<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>Rome</arg_value>\n<arg_key>n</arg_ey>\n<arg_value>2</arg_value>"
    )
    stage = tool_parser_stage("glm45", TOOLS, "chat-1")
    call, rest = run([stage], texts(reply_text)).messages()
    assert (call["function_call"]["arguments"], call["extra"]["arguments_valid"]) == ('{"s": "Rome"', False)
    assert rest["content"] == "2</arg_value>"
