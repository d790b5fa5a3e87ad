"""Calls and tokens at the end of reasoning."""

from app.chat.events import Event, Finish, ReasoningDelta, TextDelta, ToolCallDelta
from app.chat.messages import Tool
from app.steps.tool_parsers import tool_parser_stage

from tests.each_case import each_case
from tests.steps.stage_runner import STOP, Reply, run

TOOLS = (Tool("f", {"name": "f", "parameters": {"properties": {"a": {"type": "string"}}}}),)
CALL = '<minimax:tool_call>\n<invoke name="f">\n<parameter name="a">b</parameter>\n</invoke>\n</minimax:tool_call>'
FOUND = ("F", "f", '{"a": "b"}')


def read(text: str, size: int, behind: list[Event], end: Event = STOP, tools: tuple[Tool, ...] = TOOLS) -> Reply:
    parts: list[list[Event]] = [[ReasoningDelta(text[at : at + size])] for at in range(0, len(text), size)]
    return run([tool_parser_stage("auto", tools, "chat-1")], [*parts, behind], end=end)


CALLS: list[tuple[str, list[tuple[str, ...]]]] = [
    (f"I list.\n{CALL}", [("R", "I list.\n"), FOUND]),
    (f"I list.\n{CALL}[e~[", [("R", "I list.\n"), FOUND]),
    (CALL, [FOUND]),
    (f"{CALL}\n{CALL}", [FOUND, FOUND]),
    ('So:\n<tool_call>\n{"name": "f", "arguments": {"a": "b"}}', [("R", "So:\n"), FOUND]),
    (
        "a < b\n<tool_call>\n<function=f>\n<parameter=a>\nb\n</parameter>\n</function>\n</tool_call>\n",
        [("R", "a < b\n"), FOUND],
    ),
]


@each_case("size", [1, 7, 1_000])
@each_case(("text", "want"), CALLS)
@each_case("behind", [[], [TextDelta("\n\n")]])
def test_a_call_that_ends_a_reply_of_reasoning_is_one(
    text: str, want: list[tuple[str, ...]], size: int, behind: list[Event]
) -> None:
    reply = read(text, size, behind)
    assert reply.short() == want
    assert reply.reason == "tool_calls"
    assert isinstance(reply.end, Finish) and reply.end.warnings


@each_case("size", [1, 7, 1_000])
@each_case(
    "text", [f"I could:\n{CALL}\nBut I need not.", f"I list `{CALL}`", f"{CALL.replace('f', 'g')}", "<tool_call>"]
)
def test_a_call_that_the_model_only_thinks_of_is_reasoning(text: str, size: int) -> None:
    reply = read(text, size, [])
    assert reply.short() == [("R", text)]
    assert reply.reason == "stop"


@each_case("size", [1, 7, 1_000])
@each_case(
    ("behind", "end", "want"),
    [
        ([TextDelta("\n"), TextDelta("Four.")], STOP, [("C", "\nFour.")]),
        ([ToolCallDelta(0, "{}", "c", "f")], STOP, [("F", "f", "{}")]),
        ([], Finish("length"), []),
    ],
)
def test_a_call_in_reasoning_before_anything_else_is_reasoning(
    behind: list[Event], end: Event, want: list[tuple[str, ...]], size: int
) -> None:
    reply = read(f"I list.\n{CALL}", size, behind, end)
    assert reply.short() == [("R", f"I list.\n{CALL}"), *want]
    assert reply.end is not None


def test_without_functions_no_call_is_looked_for() -> None:
    assert read(CALL, 9, [], tools=()).short() == [("R", CALL)]


ENDS: list[tuple[str, str]] = [
    ("Good morning!<｜end▁of▁sentence｜>", "Good morning!"),
    ("Good morning!<|im_end|>\n", "Good morning!"),
    ("It ends with <|im_end|>", "It ends with "),
    ("<|im_end|> ends it.", "<|im_end|> ends it."),
    ("So <|im_", "So <|im_"),
]


@each_case("size", [1, 3, 100])
@each_case(("text", "want"), ENDS)
@each_case("behind", [[], [TextDelta("Four.")]])
def test_tokens_at_the_end_of_reasoning_are_left_out(text: str, want: str, size: int, behind: list[Event]) -> None:
    reply = read(text, size, behind, tools=())
    assert reply.short() == [("R", want), *([("C", "Four.")] if behind else [])]
    assert isinstance(reply.end, Finish)
    assert bool(reply.end.warnings) == (text != want)
