"""Which choice is the reply, and what belongs to it of the others."""

import itertools
import json
from collections.abc import Iterator
from typing import Any

from app.chat.events import Event, Failed, Finish, TextDelta, ToolCallDelta
from app.upstream.chat_completions import chunk_decoder
from app.upstream.chat_completions.assembler import Assembler
from app.upstream.chat_completions.other_choices import MAX_HELD
from app.upstream.reply.sse import EventReader
from app.upstream.reply.tool_calls import MAX_CALLS

from tests.each_case import each_case
from tests.upstream.reply.assembled_events import events


def text(index: int | None, content: str, **more: Any) -> dict[str, Any]:
    return {"index": index, "delta": {"content": content}, **more}


def call(index: int, arguments: str, *, id_: str = "", at: int = 0, **more: Any) -> dict[str, Any]:
    function = {"arguments": arguments, **({"name": "f"} if id_ else {})}
    fragment = {"index": at, "function": function, **({"id": id_} if id_ else {})}
    return {"index": index, "delta": {"tool_calls": [fragment]}, **more}


def read(*chunks: list[dict[str, Any]], end: bytes = b"[DONE]") -> list[Event]:
    return events(*(json.dumps({"choices": choices}).encode() for choices in chunks), end)


def joined(found: list[Event]) -> tuple[str, list[tuple[str, str]], Event]:
    """The text, the calls and the end of a reply."""
    calls: dict[int, list[str]] = {}
    for event in found:
        if isinstance(event, ToolCallDelta):
            calls.setdefault(event.index, [event.id, ""])[1] += event.arguments
    content = "".join(event.text for event in found if isinstance(event, TextDelta))
    return content, [(id_, arguments) for id_, arguments in calls.values()], found[-1]


def interleaved(left: list[Any], right: list[Any]) -> Iterator[list[Any]]:
    """Every order of both lists in which each keeps its own."""
    size = len(left) + len(right)
    for places in itertools.combinations(range(size), len(left)):
        first, second = iter(left), iter(right)
        yield [next(first) if place in places else next(second) for place in range(size)]


STOP = {"index": 0, "delta": {}, "finish_reason": "stop"}


def test_calls_of_another_choice_belong_to_the_reply_in_any_order_of_the_chunks() -> None:
    own = [text(0, "I "), text(0, "look."), STOP]
    other = [call(1, "", id_="c1"), call(1, '{"a"'), call(1, ":1}"), text(1, "not read", finish_reason="tool_calls")]
    for order in interleaved(own, other):
        assert joined(read(*([choice] for choice in order))) == (
            "I look.",
            [("c1", '{"a":1}')],
            Finish("tool_calls"),
        )


def test_choice_0_is_the_reply_in_any_order_of_the_chunks_if_both_are_whole_answers() -> None:
    own = [text(0, "Yes."), call(0, '{"a":1}', id_="c1"), {**STOP, "finish_reason": "tool_calls"}]
    other = [text(1, "No."), call(1, '{"a":2}', id_="c2"), {"index": 1, "delta": {}, "finish_reason": "length"}]
    for order in interleaved(own, other):
        assert joined(read(*([choice] for choice in order))) == ("Yes.", [("c1", '{"a":1}')], Finish("tool_calls"))


@each_case("count", [1, MAX_HELD - 1, MAX_HELD, MAX_HELD + 1, 3 * MAX_HELD])
def test_the_only_choice_is_the_reply_whatever_its_index(count: int) -> None:
    chunks = [[text(3, f"{number} ")] for number in range(count)]
    last = [{"index": 3, "delta": {}, "finish_reason": "length"}]
    assert joined(read(*chunks, last)) == ("".join(f"{number} " for number in range(count)), [], Finish("length"))
    assert joined(read(*chunks, last, end=b"")) == joined(read(*chunks, last))


def test_a_choice_that_comes_after_the_reply_has_begun_is_not_read() -> None:
    begun = [[text(2, "a")]] * MAX_HELD
    last = [{"index": 2, "delta": {}, "finish_reason": "stop"}]
    found = read(*begun, [text(0, "b")], [text(0, "b")], [text(2, "c")], last)
    assert joined(found) == ("a" * MAX_HELD + "c", [], Finish("stop"))


def test_a_long_reply_of_another_choice_is_not_held_back() -> None:
    reader, assembler = EventReader(chunk_decoder.decode), Assembler("chat-1")
    came = []
    for _ in range(MAX_HELD + 1):
        data = json.dumps({"choices": [text(1, "a")]}).encode()
        came.append(len(assembler.feed(reader.feed(b"data: " + data + b"\n\n"))))
        assert assembler.started and assembler.check_progress() or came[-1]
    assert came == [0] * (MAX_HELD - 1) + [MAX_HELD, 1]


def test_calls_of_several_choices_are_several_calls_although_their_indices_are_equal() -> None:
    chunks = [
        [text(0, "I look.")],
        [call(2, '{"b"', id_="c2"), call(1, '{"a"', id_="c1")],
        [call(1, ":1}"), call(2, ":2}")],
        [call(1, "{}", id_="c3", at=1)],
        [STOP],
    ]
    found = joined(read(*chunks))
    assert found == ("I look.", [("c1", '{"a":1}'), ("c3", "{}"), ("c2", '{"b":2}')], Finish("tool_calls"))


def test_half_a_surrogate_pair_in_a_call_of_another_choice_is_joined() -> None:
    chunks = (text(0, "I look."), call(1, '{"a":"\ud83d', id_="c1"), call(1, '\ude00"}'), STOP)
    assert joined(read(*([choice] for choice in chunks)))[1] == [("c1", '{"a":"\U0001f600"}')]


def test_a_second_choice_of_the_same_index_brings_calls_also_in_fragments() -> None:
    first = [text(0, "I look."), call(0, '{"a"', id_="c1")]
    found = read(first, [text(0, ""), call(0, ":1}")], [STOP])
    assert joined(found) == ("I look.", [("c1", '{"a":1}')], Finish("tool_calls"))


def test_whole_choices_of_the_same_index_bring_several_calls() -> None:
    calls = [{"id": id_, "function": {"name": "f", "arguments": "{}"}} for id_ in ("c1", "c2")]
    choices = [{"index": 0, "message": {"content": "I look."}, "finish_reason": "tool_calls"}]
    choices += [{"index": 0, "message": {"tool_calls": [call]}, "finish_reason": "tool_calls"} for call in calls]
    found = joined(events(json.dumps({"choices": choices}).encode()))
    assert found == ("I look.", [("c1", "{}"), ("c2", "{}")], Finish("tool_calls"))


def test_the_finish_reason_of_the_choice_with_the_calls_ends_a_body_without_done() -> None:
    last = call(1, "{}", id_="c1", finish_reason="tool_calls")
    assert joined(read([text(0, "I look.")], [last], end=b""))[2] == Finish("tool_calls")
    cut = joined(read([text(0, "I look.")], [text(1, "No.", finish_reason="stop")], end=b""))
    assert isinstance(cut[2], Failed)


def test_what_came_before_a_failure_is_kept_of_other_choices_too() -> None:
    error = b'{"error":{"message":"no"}}'
    assert joined(read([text(1, "Half")], end=error))[:2] == ("Half", [])
    assert joined(read([text(0, "Half")], [call(1, '{"a"', id_="c1")], end=error))[:2] == ("Half", [("c1", '{"a"')])


def test_a_call_of_another_choice_that_no_format_has_fails_the_reply_once() -> None:
    custom = {"index": 1, "delta": {"tool_calls": [{"type": "custom", "custom": {"name": "f"}}]}}
    for end in (b"[DONE]", b"", b'{"error":{"message":"no"}}'):
        found = read([text(0, "I look.")], [custom], end=end)
        assert [type(event) for event in found] == [TextDelta, Failed]


def custom(index: int) -> dict[str, Any]:
    return {"index": index, "delta": {"tool_calls": [{"type": "custom", "custom": {"name": "g"}}]}}


def test_a_choice_of_the_same_index_is_left_out_if_the_first_has_calls() -> None:
    found = read([call(0, "{}", id_="c1"), call(0, "{}", id_="c2", at=1)], [STOP])
    assert joined(found) == ("", [("c1", "{}")], Finish("tool_calls"))


def test_a_second_choice_of_the_same_index_may_have_only_the_finish_reason() -> None:
    last = {"index": 0, "delta": {}, "finish_reason": "length"}
    assert joined(read([text(0, "Yes."), last], end=b""))[2] == Finish("length")


def test_nothing_is_read_behind_what_fails_the_choice_that_became_the_reply() -> None:
    found = read([custom(1)], [text(1, "not read")])
    assert [type(event) for event in found] == [Failed]


def test_no_call_is_taken_behind_one_that_fails_the_reply() -> None:
    found = read([text(0, "I look.")], [custom(1)], [call(1, "{}", id_="c1")])
    assert [type(event) for event in found] == [TextDelta, Failed]


def test_too_many_calls_of_another_choice_fail_the_reply() -> None:
    calls = [{"index": at, "id": f"c{at}", "function": {"name": "f", "arguments": "{}"}} for at in range(MAX_CALLS + 2)]
    failed = read([text(0, "I look.")], [{"index": 1, "delta": {"tool_calls": calls}}])[-1]
    assert isinstance(failed, Failed)
    assert failed.fault.cause == "reply_too_large"


def test_a_failure_of_the_reply_is_left_out_behind_one_of_another_choice() -> None:
    failing = {"index": 0, "delta": {}, "error": {"message": "overloaded"}, "finish_reason": "error"}
    assert "overloaded" in repr(read([text(0, "I look.")], [failing])[-1])
    found = read([text(0, "I look.")], [custom(1)], [failing])
    assert [type(event) for event in found] == [TextDelta, Failed]
    assert "type 'custom'" in repr(found[-1]) and "overloaded" not in repr(found[-1])


def test_another_choice_without_a_delta_has_no_calls() -> None:
    found = read([text(0, "Yes.")], [{"index": 1, "text": "No."}], [STOP])
    assert joined(found) == ("Yes.", [], Finish("stop"))


def test_a_function_call_of_another_choice_belongs_to_the_reply() -> None:
    function = {"index": 1, "delta": {"function_call": {"name": "f", "arguments": '{"a":1}'}}}
    found = joined(read([text(0, "I look.")], [function], [STOP]))
    assert [arguments for _, arguments in found[1]] == ['{"a":1}']
    assert found[2] == Finish("tool_calls")
