"""Random texts with tags of calls and thoughts in them, and where they are cut."""

from app.chat.messages import Tool
from hypothesis import strategies as st

TOOLS = (
    Tool("f", {"name": "f", "parameters": {"properties": {"a": {"type": "integer"}, "s": {"type": "string"}}}}),
    Tool("g", {"name": "g"}),
)

TAGS = {
    "json": ["<tool_call>", "</tool_call>", "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "<|python_tag|>", ";"],
    "more": ["[TOOL_REQUEST]", "[END_TOOL_REQUEST]", "[f(a=1)", ", g(s='x')", "]", "[", "<|python_start|>"],
    "xml": ["<function=f>", "<parameter=s>", "</parameter>", "</function>", "<arg_key>a</arg_key>", "<arg_value>"],
    "mini": ["<minimax:tool_call>", '<invoke name="f">', '<parameter name="s">', "</invoke>", "</minimax:tool_call>"],
    "dsml": ["<｜DSML｜function_calls>", '<｜DSML｜invoke name="f">', "</｜DSML｜invoke>", "</｜DSML｜function_calls>"],
    "args": ['<｜DSML｜parameter name="s" string="true">', "</｜DSML｜parameter>", "</arg_value>", "</s>"],
    "deep": ["<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>", "```json\n"],
    "kimi": ["<|tool_calls_section_begin|>", "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "functions.f:0"],
    "kend": ["<|tool_call_end|>", "<|tool_calls_section_end|>", "<｜tool▁calls▁end｜>", "```", "function"],
    "harm": ["<|start|>assistant", "<|channel|>", "analysis", "commentary to=functions.f ", "<|message|>", "<|end|>"],
    "think": ["<think>", "</think>", "\n", "\r\n", " ", "\t", ": "],
    "qwen": ["✿FUNCTION✿", "✿ARGS✿", "✿RESULT✿", "✿FUNCTION✿: f\n✿ARGS✿: ", "✿"],
    "whole": ['{"name": "f", "arguments": {"a": 1}}', '{"name": "g", "arguments": "{}"}', "{'name': 'f', a: [1,],}"],
    "parts": [
        '{"name": "f", ',
        '"arguments": ',
        '{"a": "',
        '"}',
        "}",
        "{",
        '"',
        "'",
        "\\",
        "\\u00e9",
        "\\x41",
        "1.5e3",
    ],
    "costly": ["9" * 4_400, "0x" + "f" * 4_400, "[" * 1_200, "]" * 1_200, "+1e999", "Infinity", "\\ud800", "NaN"],
    "odd": ["f", "g", "true", "None", ",", ":", "/* c */", "// c\n", "é", "北京", "word ", "<", "</", "<tool", "0x1F"],
}

PIECES = st.one_of(*(st.sampled_from(tags) for tags in TAGS.values()), st.text(max_size=4))

TEXTS = st.lists(PIECES, max_size=14).map("".join)

CUTS = st.lists(st.integers(0, 400), max_size=30)
