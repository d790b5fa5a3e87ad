"""Calls that Qwen-Agent reads from text, and where ours differ on purpose."""

from typing import Any

from tests.steps.recorded_conversations import load

Json = dict[str, Any]

Short = list[tuple[str, ...]]

F = ("F", "f", '{"a": 1}')

G = ("F", "g", '{"b": "é中"}')

ONE = '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'

NOUS: dict[str, tuple[Short, str]] = {
    "tail": ([F, ("C", " tail text")], "text behind a call is kept"),
    "between": ([F, ("C", " mid "), G, ("C", " end")], "text behind a call is kept"),
    "open_only": ([("C", "x <tool_call>")], "text that is not a call stays text"),
    "open_nl": ([("C", "<tool_call>\n")], "text that is not a call stays text"),
    "partial_name_done": ([("C", '<tool_call>\n{"name": "get_x"')], "no call is invented"),
    "partial_name_sep": ([("C", '<tool_call>\n{"name": "get_x", "')], "no call is invented"),
    "partial_args_1": ([("F", "get_x", '{"a": "b')], "arguments that were cut off lose nothing"),
    "partial_close": ([("F", "get_x", '{"a": "b"}')], "a tag that was cut off is no argument"),
    "args_first": ([F], "the order of the keys is free"),
    "args_first_partial": ([F], "the order of the keys is free"),
    "no_space_json": ([("F", "f", '{"a":1}')], "arguments are the model's own text"),
    "no_space_partial": ([("F", "f", '{"a":1')], "arguments are the model's own text"),
    "bad_json_nofields": ([("C", "<tool_call>\nfoo\n</tool_call>")], "no call without a name"),
    "no_args": ([("F", "f", "{}")], "missing arguments are none"),
    "null_args": ([("F", "f", "{}")], "missing arguments are none"),
    "str_args": ([("F", "f", "{}")], "arguments are not encoded twice"),
    "number_json": ([("C", "<tool_call>\n5\n</tool_call>")], "text that is not a call stays text"),
    "name_number": (
        [("C", '<tool_call>\n{"name": 5, "arguments": {}}\n</tool_call>')],
        "text that is not a call stays text",
    ),
    "nested_tag_in_args": ([("F", "f", '{"a": "<tool_call>x</tool_call>"}')], "a tag in a string is a string"),
    "think_then_call": ([("C", f"<think>\nt {ONE}\n</think>\n\n"), G], "white space behind a thought is kept"),
    "think_after_call-False": ([F, ("C", "<think>x</think> y")], "what was told is not taken back"),
    "xml_coder": ([F], "the XML form is read"),
    "unicode_escape": ([("F", "f", '{"a": "\\u4e2d"}')], "arguments are the model's own text"),
    "missing_brace": ([F], "the arguments are whole"),
    "extra_brace": ([F], "a brace too many is passed over"),
    "empty_tag": ([("C", "<tool_call>\n</tool_call>")], "no call without a name"),
    "empty_tag_strict": ([("C", "<tool_call></tool_call>")], "no call without a name"),
    "newline_in_str": ([("F", "f", '{"a": "x\\ny"}')], "a raw line break in a string is escaped"),
    "big_number": ([("F", "f", '{"a": 1e400, "b": 12345678901234567890}')], "JSON has no Infinity"),
    # Thoughts that were said to be in the content, but never ended: the calls are read.
    "two": ([F, G], "calls inside reasoning that never ends are read"),
    "pre": ([("C", "pre "), F], "calls inside reasoning that never ends are read"),
}


def golden_short(unit: Json) -> Short | None:
    """None where the original fails."""
    found: Short = []
    if not unit["ok"]:
        return None
    for message in unit["result"]:
        content = message["content"]
        text = content if isinstance(content, str) else "".join(item["text"] for item in content)
        call = message.get("function_call")
        if call or text:
            found.append(("F", call["name"], call["arguments"]) if call else ("C", text))
    return found


def expected(unit: Json) -> tuple[Short, str]:
    """(what is read, why it is not what the original reads)."""
    entry = NOUS.get(f"{unit['name']}-{unit['thought_in_content']}") or NOUS.get(unit["name"])
    golden = golden_short(unit)
    if entry is None or entry[0] == golden:
        assert golden is not None
        return golden, ""
    return entry


ALL_UNITS: list[Json] = load("unit_nous_parse")

QWEN: dict[str, tuple[Short, str]] = {
    "hi ✿": ([("C", "hi ✿")], "what only begins like a command is text"),
    "hi ✿FUNC": ([("C", "hi ✿FUNC")], "what only begins like a command is text"),
    "hi ✿FUNCTION✿": ([("C", "hi ✿FUNCTION✿")], "a command without a name is text"),
    "x ✿RESULT✿ y": ([("C", "x")], "a server may not know the stop words"),
}

QWEN_UNITS: list[Json] = load("unit_qwen_parse")

BLANK = "blank arguments are `{}`"


def expected_by_qwen(unit: Json) -> tuple[Short, str]:
    golden = golden_short(unit)
    if unit["text"] in QWEN:
        return QWEN[unit["text"]]
    assert golden is not None
    filled = [(*one[:2], one[2] or "{}") if one[0] == "F" else one for one in golden]
    return filled, "" if filled == golden else BLANK
