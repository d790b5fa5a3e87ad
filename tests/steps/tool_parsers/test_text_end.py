"""Tokens of a template at the beginning and the end of texts, and an answer inside reasoning."""

from app.chat.events import Event, Extra, Finish, ReasoningDelta, TextDelta
from app.chat.messages import Tool
from app.steps.call_watch import CallWatch
from app.steps.tool_parsers import tool_parser_stage

from tests.each_case import each_case
from tests.steps.stage_runner import Reply, run

CASES: list[tuple[str, list[tuple[str, ...]]]] = [
    ("Four.<|im_end|>", [("C", "Four.")]),
    ("Four.<|im_end|>\n<|endoftext|>", [("C", "Four.")]),
    ("It ends with <|im_end|>", [("C", "It ends with <|im_end|>")]),
    ("<|im_end|> ends it.", [("C", "<|im_end|> ends it.")]),
    ("So <|im_", [("C", "So <|im_")]),
    ("<|open|>response<|sep|>Hi<|close|>response<|sep|><|close|>message<|sep|>", [("C", "Hi")]),
    ("<|open|>resp", [("C", "<|open|>resp")]),
    ("<s>10</s>", [("C", "<s>10</s>")]),
    ("a < b", [("C", "a < b")]),
    ("I look.<|function_call|>", [("C", "I look.")]),
    ("Hello there.\n</answer>", [("C", "Hello there.\n")]),
    ("<answer>Hello</answer>", [("C", "<answer>Hello</answer>")]),
    (
        "So: <answer>\nHello there, and so on, for more than sixty characters.\n</answer>\n",
        [("C", "So: <answer>\nHello there, and so on, for more than sixty characters.\n</answer>\n")],
    ),
    ("It ends with </answer>", [("C", "It ends with </answer>")]),
    ("</answer> ends it.", [("C", "</answer> ends it.")]),
    ("Calls begin with <|tool_call>", [("C", "Calls begin with <|tool_call>")]),
]


def read(kind: type[TextDelta] | type[ReasoningDelta], text: str, size: int) -> Reply:
    parts: list[list[Event]] = [[kind(text[at : at + size])] for at in range(0, len(text), size)]
    return run([tool_parser_stage("auto", (), "chat-1")], parts)


@each_case("size", [1, 3, 100])
@each_case(("text", "want"), CASES)
def test_tokens_at_the_end_of_a_text_are_left_out(text: str, want: list[tuple[str, ...]], size: int) -> None:
    assert read(TextDelta, text, size).short() == want


THOUGHTS: list[tuple[str, list[tuple[str, ...]]]] = [
    ("Hm<|close|>think<|sep|><|open|>response<|sep|>Yes", [("R", "Hm"), ("C", "Yes")]),
    ("<|close|>think<|open|>response<|sep|>Yes", [("C", "Yes")]),
    ("Hm<|close|>response<|sep|>Yes", [("R", "Hm"), ("C", "Yes")]),
    ("Hm<|open|>response<|sep|>Yes", [("R", "Hm"), ("C", "Yes")]),
    ("Hm <b> <|close|> <|cl", [("R", "Hm <b> <|close|> <|cl")]),
]


@each_case("size", [1, 3, 100])
@each_case(("text", "want"), THOUGHTS)
def test_an_answer_in_the_reasoning_is_text(text: str, want: list[tuple[str, ...]], size: int) -> None:
    assert read(ReasoningDelta, text, size).short() == want


def test_what_reasoning_holds_comes_before_the_text_behind_it() -> None:
    stage = tool_parser_stage("auto", (), "chat-1")
    given: list[Event] = [ReasoningDelta("a<"), Extra({"b": 1}), TextDelta("c"), Finish("stop")]
    assert [type(event) for event in stage.feed(given)] == [ReasoningDelta, Extra, ReasoningDelta, TextDelta, Finish]


K3_CALL = (
    '<|open|>tools<|sep|><|open|>call tool="f" index="1"<|sep|><|open|>argument key="a" type="string"<|sep|>b'
    "<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>"
)
K2_CALL = (
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>"
    '{"a": "b"}<|tool_call_end|><|tool_calls_section_end|>'
)

M3_CALL = (
    ']<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name="f">\n]<]minimax[>[<a>b]<]minimax[>[</a>\n'
    "]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>"
)


@each_case("size", [1, 3, 100])
@each_case("text", [f"Hm<|close|>response<|sep|>{K3_CALL}", f"Hm{K3_CALL}", f"Hm{K2_CALL}", f"Hm{M3_CALL}"])
def test_a_call_ends_reasoning_that_was_not_closed(text: str, size: int) -> None:
    function = Tool("f", {"name": "f", "parameters": {"properties": {"a": {"type": "string"}}}})
    parts: list[list[Event]] = [[ReasoningDelta(text[at : at + size])] for at in range(0, len(text), size)]
    reply = run([CallWatch(tool_parser_stage("auto", (function,), "chat-1"))], parts)
    assert reply.short() == [("R", "Hm"), ("F", "f", '{"a": "b"}')]


def test_a_special_token_that_closes_calls_is_told_without_functions_too() -> None:
    reply = read(TextDelta, f"Hm.{K3_CALL}", 7)
    assert reply.short() == [("C", f"Hm.{K3_CALL}")]
    assert isinstance(reply.end, Finish)
    assert reply.end.warnings == ("a text ends with a marker that closes tool calls",)


def test_a_closer_that_comes_in_pieces_is_told() -> None:
    stage = tool_parser_stage("hermes", (Tool("f", {"name": "f"}),), "chat-1")
    reply = run([stage], [[TextDelta(piece)] for piece in "It is [END_TOOL_REQUEST]"])
    assert isinstance(reply.end, Finish)
    assert reply.end.warnings == ("a text ends with a marker that closes tool calls",)


@each_case("size", [1, 3, 100])
@each_case(
    "text",
    [
        *("I look first.\n</think>\n\nIt is done.", "I look.\n</seed:think>Done.", "I look.\n</think>"),
        *("I look first.</think>It is done.", "Hm</mm:think>\n\nDone.", "Hm.<channel|>Done."),
    ],
)
def test_a_closing_tag_of_reasoning_that_nothing_has_opened_is_told(text: str, size: int) -> None:
    reply = read(TextDelta, text, size)
    assert reply.short() == [("C", text)]
    assert isinstance(reply.end, Finish)
    assert "closing tag of reasoning" in reply.end.warnings[0]


@each_case(
    "text",
    [
        *("Close it with </think>.", "`</think>` closes it.", "</thing>", "a\n</thi"),
        *("So <think>a</think>b is it.", "Write <mm:think> before, x</mm:think> behind."),
    ],
)
def test_a_closing_tag_of_reasoning_that_a_text_names_or_has_opened_is_not_told(text: str) -> None:
    reply = read(TextDelta, text, 1)
    assert isinstance(reply.end, Finish)
    assert reply.end.warnings == ()


def test_a_closer_with_a_number_is_told() -> None:
    stage = tool_parser_stage("auto", (Tool("f", {"name": "f"}),), "chat-1")
    reply = run([stage], [[TextDelta(piece)] for piece in "It is done.\n</arg_value:6124c78e>"])
    assert isinstance(reply.end, Finish)
    assert reply.end.warnings == ("a text ends with a marker that closes tool calls",)


@each_case("size", [1, 3, 100])
@each_case("text", [f"Hm{K3_CALL}", f"Hm{K2_CALL}", f"Hm{M3_CALL}"])
def test_such_a_call_is_one_before_a_text_too(text: str, size: int) -> None:
    function = Tool("f", {"name": "f", "parameters": {"properties": {"a": {"type": "string"}}}})
    parts: list[list[Event]] = [[ReasoningDelta(text[at : at + size])] for at in range(0, len(text), size)]
    reply = run([tool_parser_stage("auto", (function,), "chat-1")], [*parts, [TextDelta("Done.")]])
    assert reply.short() == [("R", "Hm"), ("F", "f", '{"a": "b"}'), ("C", "Done.")]
