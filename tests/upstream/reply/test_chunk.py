"""The usual chunk, which has one text and nothing else, and the limit on nesting."""

from typing import Any

from app.chat.events import ReasoningDelta, TextDelta
from app.upstream.reply.chunk import (
    MAX_NESTING,
    Chunk,
    ChunkChoice,
    ChunkDelta,
    ChunkText,
    FunctionFragment,
    ToolCallFragment,
    get_text,
    is_too_deep,
    make_chunk,
)

from tests.each_case import each_case

CALL = ToolCallFragment(index=0, function=FunctionFragment(arguments="{"))
USUAL: list[ChunkText] = [TextDelta("t"), ReasoningDelta("r"), CALL]


@each_case("text", USUAL)
def test_the_only_text_of_a_chunk_is_found(text: ChunkText) -> None:
    assert get_text(make_chunk(text)) == text


def test_usage_beside_the_text_makes_no_difference() -> None:
    chunk = Chunk([ChunkChoice(delta=ChunkDelta(role="assistant", content="t"))], usage={"total_tokens": 1})
    assert get_text(chunk) == TextDelta("t")


@each_case(
    "fields",
    [
        {"ragged": True},
        {"error": "e"},
        {"object": "error"},
        {"base_resp": {"status_code": 1}},
        {"x_groq": {"id": "1"}},
        {"citations": ["c"]},
        {"search_results": ["s"]},
        {"choices": []},
        {"choices": [ChunkChoice(delta=ChunkDelta(content="t")), ChunkChoice(delta=ChunkDelta(content="t"))]},
    ],
)
def test_a_chunk_with_more_is_not_the_usual_one(fields: dict[str, Any]) -> None:
    assert get_text(Chunk(**{"choices": [ChunkChoice(delta=ChunkDelta(content="t"))]} | fields)) is None


@each_case(
    "fields",
    [
        {"delta": None},
        {"index": 1},
        {"message": ChunkDelta(content="t")},
        {"finish_reason": "stop"},
        {"usage": {"total_tokens": 1}},
        {"error": "e"},
    ],
)
def test_a_choice_with_more_is_not_the_usual_one(fields: dict[str, Any]) -> None:
    assert get_text(Chunk([ChunkChoice(**{"delta": ChunkDelta(content="t")} | fields)])) is None


@each_case(
    "fields",
    [
        {"content": None},
        {"reasoning_content": "r"},
        {"content": None, "reasoning_content": "r", "tool_calls": [CALL]},
        {"content": None, "tool_calls": [CALL, CALL]},
        *({"tool_calls": [CALL]}, {"reasoning": "r"}, {"reasoning_text": "r"}, {"reasoning_details": [{}]}),
        *({"refusal": "no"}, {"is_odd": True}, {"audio": {"id": "1"}}, {"annotations": [{}]}, {"images": [{}]}),
        *({"extra_content": {}}, {"function_call": FunctionFragment()}),
    ],
)
def test_a_delta_with_more_is_not_the_usual_one(fields: dict[str, Any]) -> None:
    assert get_text(Chunk([ChunkChoice(delta=ChunkDelta(**{"content": "t"} | fields))])) is None


@each_case(
    ("data", "deep"),
    [
        (b"[" * MAX_NESTING + b"]" * MAX_NESTING, False),
        (b"[" * (MAX_NESTING + 1) + b"]" * (MAX_NESTING + 1), True),
        (b'{"a":' * (MAX_NESTING + 1), True),
        (b"[]" * (MAX_NESTING + 1), False),
        (b'"' + b"[" * (MAX_NESTING + 1) + b'"', False),
        (b'"\\"' + b"[" * (MAX_NESTING + 1) + b'"', False),
        (b'["a"' * (MAX_NESTING + 1), True),
    ],
)
def test_only_brackets_outside_of_strings_nest(data: bytes, deep: bool) -> None:
    assert is_too_deep(data) is deep
