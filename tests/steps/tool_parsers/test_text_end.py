"""Tokens of a template at the beginning and the end of texts, and an answer inside reasoning."""

from app.chat.events import Event, Extra, Finish, ReasoningDelta, TextDelta
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
