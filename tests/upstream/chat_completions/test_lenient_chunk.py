"""What the lenient decoder reads in unusual places and types."""

from typing import Any

from app.upstream.chat_completions.lenient_chunk import decode_leniently
from app.upstream.reply.chunk import ChunkChoice, ChunkDelta, FunctionFragment, ToolCallFragment

from tests.each_case import each_case

CALL = {"id": "c", "function": {"name": "f", "arguments": "{}"}}


def choice(value: dict[str, Any]) -> ChunkChoice:
    chunk = decode_leniently({"choices": [value]})
    assert chunk is not None and chunk.choices is not None
    return chunk.choices[0]


def delta(**fields: Any) -> ChunkDelta:
    found = choice({"index": 0, "delta": fields}).delta
    assert found is not None
    return found


def test_calls_beside_a_whole_message_are_of_the_message() -> None:
    found = choice({"message": {"content": "I look."}, "tool_calls": [CALL]})
    assert found.delta is None
    assert found.message is not None
    assert found.message.content == "I look."
    assert found.message.tool_calls == [ToolCallFragment(id="c", function=FunctionFragment("f", "{}"))]


def test_messages_without_one_of_the_model_have_no_answer() -> None:
    question = {"role": "user", "content": "Who?"}
    assert choice({"messages": [question, {"role": "tool", "content": "found"}]}).message is None
    found = choice({"messages": [question, {"role": "assistant", "content": "I."}, question]}).message
    assert found is not None and found.content == "I."


@each_case("content", [[None], [], [{"type": "text"}]], ids=["only null", "empty", "a part without its text"])
def test_a_list_that_holds_no_text_is_no_content(content: list[Any]) -> None:
    found = delta(content=content)
    assert found.content == ""
    assert found.unread is None


def test_thinking_blocks_that_are_no_objects_have_neither_thought_nor_signature() -> None:
    found = delta(thinking_blocks=["x", {"type": "thinking", "thinking": "hm", "signature": "s"}])
    assert found.reasoning_content == "hm"
    assert found.signed_blocks == [{"type": "thinking", "thinking": "hm", "signature": "s"}]


@each_case("refusal", [["I ", {"text": "cannot."}], {"type": "text", "text": "I cannot."}], ids=["list", "part"])
def test_a_refusal_in_parts_is_their_text(refusal: Any) -> None:
    assert delta(refusal=refusal).refusal == "I cannot."


def test_a_function_that_is_a_text_is_the_name() -> None:
    calls = delta(tool_calls=[{"id": "c", "function": "f", "arguments": {"a": 1}}]).tool_calls
    assert calls == [ToolCallFragment(id="c", function=FunctionFragment("f", '{"a": 1}'))]


@each_case(
    ("content", "text", "unread"),
    [
        ([{"type": "reference", "reference_ids": [0]}], "", ["a content part of type 'reference'"]),
        ([{"type": "widget", "id": 3}, "a"], "a", ["a content part of type 'widget'"]),
        ([{"type": ""}], '[{"type": ""}]', None),
        ([{"type": ["a"]}], '[{"type": ["a"]}]', None),
        ([{"city": "A"}], '[{"city": "A"}]', None),
        ({"type": "widget", "id": 3}, '{"type": "widget", "id": 3}', None),
    ],
)
def test_a_list_of_objects_with_a_type_is_parts_whatever_the_type(
    content: Any, text: str, unread: list[str] | None
) -> None:
    found = delta(content=content)
    assert (found.content or "", found.unread) == (text, unread)
