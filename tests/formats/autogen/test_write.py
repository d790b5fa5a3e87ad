"""A conversation of any format as AutoGen's items."""

from app.chat.messages import Reasoning, Text, ToolCall
from app.formats.autogen import AUTOGEN
from app.formats.autogen.schema import all_items
from app.formats.autogen.sidecar import normalize_message
from app.formats.base import Options
from msgspec.structs import replace

from tests.formats.autogen.recorded_cases import read, written
from tests.formats.autogen.sample_messages import answer, kinds, make_message, result

TURN = (
    make_message("system", Text("be kind")),
    make_message("user", Text("q"), name="user"),
    answer(Reasoning("hm")),
    answer(Text("now")),
    answer(ToolCall("f", "{}", "1")),
    answer(ToolCall("f", "{}", "2")),
    result("1", Text("r1")),
    result("2", Text("r2")),
    answer(Text("done")),
)


def test_a_turn_is_written_as_autogens_agents_write_it() -> None:
    items = written(TURN)
    assert kinds(items) == [
        *("SystemMessage", "TextMessage", "ThoughtEvent", "ThoughtEvent"),
        *("ToolCallRequestEvent", "ToolCallExecutionEvent", "TextMessage"),
    ]
    assert items[0] == {"content": "be kind", "type": "SystemMessage"}
    assert [one["metadata"] for one in items[1:]] == [{}, {"kind": "reasoning"}, {"kind": "content"}, {}, {}, {}]
    assert [one["id"] for one in items[4]["content"]] == ["1", "2"]
    assert [one["call_id"] for one in items[5]["content"]] == ["1", "2"]
    assert items[5]["source"] == "a"
    all_items.validate_python(items)
    assert [normalize_message(one) for one in read(items)] == [normalize_message(one) for one in TURN]


def test_equal_histories_are_written_equally_with_ids_of_their_own() -> None:
    once, again = written((*TURN, TURN[-1])), written((*TURN, TURN[-1]))
    assert once == again
    ids = [one["id"] for one in once if "id" in one]
    assert len(set(ids)) == len(ids)


def test_a_message_without_a_name_gets_user_or_agent_and_comes_back_without() -> None:
    messages = (make_message("user", Text("q")), make_message("assistant", Text("x")))
    items = AUTOGEN.write(messages, Options(agent_name="Friday")).messages
    assert [one["source"] for one in items] == ["user", "Friday"]
    assert [one.name for one in read(items)] == [None, None]


def test_calls_of_two_turns_are_two_events() -> None:
    messages = (answer(ToolCall("f", "{}", "1"), turn="t1"), answer(ToolCall("f", "{}", "2"), turn="t2"))
    items = written(messages)
    assert kinds(items) == ["ToolCallRequestEvent"] * 2
    assert [one.turn for one in read(items)] == ["t1", "t2"]


def test_messages_of_several_payloads_are_split() -> None:
    message = answer(Reasoning("hm"), Text("now"), ToolCall("f", "", "1"), turn="t", extra={"k": "v"})
    items = written((message, result("1")))
    assert kinds(items) == ["ThoughtEvent", "ThoughtEvent", "ToolCallRequestEvent", "ToolCallExecutionEvent"]
    assert items[2]["content"] == [{"id": "1", "arguments": "{}", "name": "f"}]
    parsed = read(items)
    assert [part for one in parsed[:3] for part in one.parts] == list(message.parts)
    assert all((one.turn, one.extra["k"]) == ("t", "v") for one in parsed[:3])


def test_asides_between_results_keep_their_place() -> None:
    aside = {"type": "SelectorEvent", "source": "m", "content": "x"}
    first, second = result("1", Text("r")), result("2", Text("r"))
    messages = (answer(ToolCall("f", "{}", "1")), first, replace(second, extra={"autogen_before": [aside]}))
    assert kinds(written(messages)) == [
        "ToolCallRequestEvent",
        "ToolCallExecutionEvent",
        "SelectorEvent",
        "ToolCallExecutionEvent",
    ]
