"""What passes without the stage of calls gives what the stage itself gives."""

from app.chat.events import Event, Extra, Finish, ReasoningDelta, TextDelta, ToolCallDelta
from app.chat.messages import Tool
from app.steps.call_watch import CallWatch
from app.steps.tool_parsers import tool_parser_stage
from hypothesis import given
from hypothesis import strategies as st

from tests.each_case import each_case
from tests.effort import examples
from tests.steps.stage_runner import joined

TOOLS = (Tool("f", {"name": "f", "parameters": {"properties": {"a": {"type": "string"}}}}),)
EVENTS: list[Event] = [
    *map(
        TextDelta, ["a ", "word", "<", "`", "\n", '<tool_call>{"name": "f", "arguments": {}}</tool_call>', "<|im_end|>"]
    ),
    *map(ReasoningDelta, ["r", "<|close|>think", "<", "a]", "<]minimax[>[<tool_call>"]),
    *(ToolCallDelta(0, text) for text in ('{"a": "', "x", "<", '"}', "\\", "</tool_call>")),
    TextDelta("no", refusal=True),
    Extra({"a": 1}),
]


@each_case("family", ["auto", "hermes", "mistral_args", None])
@each_case("tools", [TOOLS, ()])
def test_the_watch_changes_nothing(family: str | None, tools: tuple[Tool, ...]) -> None:
    @examples(60)
    @given(st.lists(st.lists(st.sampled_from(EVENTS), max_size=3), max_size=9), st.booleans())
    def compare(reads: list[list[Event]], calls: bool) -> None:
        first: list[list[Event]] = [[ToolCallDelta(0, "", "c1", "f")]] if calls else []
        given_reads: list[list[Event]] = [*first, *reads, [Finish("stop")]]
        alone = tool_parser_stage(family, tools, "chat-1")
        watched = CallWatch(tool_parser_stage(family, tools, "chat-1"))
        found = [event for read in given_reads for event in watched.feed(read[:])]
        assert joined(found) == joined([event for read in given_reads for event in alone.feed(read[:])])

    compare()


def test_a_text_that_has_nothing_is_passed_on_as_it_is() -> None:
    watch = CallWatch(tool_parser_stage("auto", TOOLS, "chat-1"))
    watch.feed([TextDelta("Hello ")])
    for count in range(1_200):
        given_events: list[Event] = [TextDelta(f"word {count} ")]
        assert watch.feed(given_events)[0] is given_events[0]


def test_many_arguments_pass_and_what_is_behind_them_is_left_out() -> None:
    watch = CallWatch(tool_parser_stage("auto", TOOLS, "chat-1"))
    out = watch.feed([ToolCallDelta(0, '{"a": "', "c1", "f")])
    for _ in range(1_100):
        out += watch.feed([ToolCallDelta(0, "word ")])
    out += watch.feed([ToolCallDelta(0, '"}</tool_call>'), Finish("tool_calls")])
    assert (
        "".join(event.arguments for event in out if isinstance(event, ToolCallDelta))
        == '{"a": "' + "word " * 1_100 + '"}'
    )
