"""Characters whose two halves arrive in two chunks."""

from app.upstream.reply.chunk import ChunkDelta, FunctionFragment, ToolCallFragment
from app.upstream.reply.surrogates import SurrogateJoiner, split_half

from tests.each_case import each_case

FIRST, SECOND = "\ud83d", "\ude00"
FIELDS = ("content", "reasoning_content", "reasoning", "reasoning_text", "refusal")


def call(arguments: str, index: int = 0) -> ToolCallFragment:
    return ToolCallFragment(index=index, function=FunctionFragment(arguments=arguments))


@each_case("field", FIELDS)
def test_a_first_half_waits_for_the_second_in_the_same_field(field: str) -> None:
    joiner = SurrogateJoiner()
    first, other, second = ChunkDelta(), ChunkDelta(), ChunkDelta()
    setattr(first, field, f"a{FIRST}")
    setattr(second, field, f"{SECOND}b")
    for delta in (first, other, second):
        joiner.join(delta)
    assert [getattr(delta, field) for delta in (first, second)] == ["a", "😀b"]
    assert joiner.close() == ChunkDelta()


def test_halves_of_different_fields_are_not_joined() -> None:
    joiner = SurrogateJoiner()
    joiner.join(ChunkDelta(content=FIRST))
    delta = ChunkDelta(reasoning=f"{SECOND}r")
    joiner.join(delta)
    assert delta.reasoning == "\ufffdr"
    assert joiner.close() == ChunkDelta(content="\ufffd")
    assert joiner.close() == ChunkDelta()


def test_the_halves_of_arguments_are_those_of_one_call() -> None:
    joiner = SurrogateJoiner()
    joiner.join(ChunkDelta(tool_calls=[call(f"0{FIRST}", 0), call(f"1{FIRST}", 1)]))
    delta = ChunkDelta(tool_calls=[call(SECOND, 0)])
    joiner.join(delta)
    assert delta.tool_calls == [call("😀", 0)]
    assert joiner.close() == ChunkDelta(tool_calls=[call("\ufffd", 1)])


def test_the_function_call_of_the_old_form_has_halves_too() -> None:
    joiner = SurrogateJoiner()
    joiner.join(ChunkDelta(function_call=FunctionFragment(arguments=FIRST)))
    delta = ChunkDelta(function_call=FunctionFragment(arguments=SECOND))
    joiner.join(delta)
    assert delta.function_call == FunctionFragment(arguments="😀")


def test_the_parts_of_reasoning_are_joined_by_their_text() -> None:
    joiner = SurrogateJoiner()
    joiner.join(ChunkDelta(reasoning_details=[{"text": FIRST}, None, {"text": 1}]))
    delta = ChunkDelta(reasoning_details=[{"summary": SECOND, "text": ""}])
    joiner.join(delta)
    assert delta.reasoning_details == [{"summary": "😀", "text": ""}]


def test_no_half_of_a_whole_message_waits() -> None:
    joiner = SurrogateJoiner()
    message = ChunkDelta(content=f"{FIRST}{SECOND}{FIRST}")
    joiner.join_whole(message)
    assert message.content == "😀\ufffd"
    assert joiner.close() == ChunkDelta()


def test_a_first_half_at_the_end_of_a_text_is_split_off_and_any_other_half_is_replaced() -> None:
    assert split_half(f"a{FIRST}{SECOND}{FIRST}") == ("a😀", FIRST)
    assert split_half(f"{SECOND}a") == ("\ufffda", "")
    assert split_half("") == ("", "")
