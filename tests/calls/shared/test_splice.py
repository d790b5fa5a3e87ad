"""A reply that goes on where another one broke off: never a character twice, never one lost."""

from app.calls.shared.splice import DIVERGED, Splice
from app.chat.accumulator import MessageAccumulator
from app.chat.events import (
    Event,
    Extra,
    Failed,
    Fault,
    Finish,
    MediaOutput,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.calls.shared.reply_strategies import DONE, cuts, flat, letters, replies
from tests.each_case import each_case


def spliced(delivered: list[list[Event]], new: list[list[Event]]) -> list[Event]:
    splice = Splice(delivered)
    return [event for events in new for event in splice.feed(events)]


def messages(events: list[Event]) -> list[tuple[object, ...]]:
    segmenter = MessageAccumulator()
    segmenter.feed(events)
    return [(one.kind, one.name, one.id, one.refusal, one.text, one.extra) for one in segmenter.messages]


@given(st.data(), replies())
def test_any_two_cuts_of_one_reply_splice_to_exactly_the_rest(data: st.DataObject, reply: list[Event]) -> None:
    whole = letters(reply)
    place = data.draw(st.integers(0, len(whole)))
    delivered, new = data.draw(cuts(whole[:place])), data.draw(cuts([*whole, DONE]))
    assert letters(spliced(delivered, new)) == [*whole[place:], DONE]


@given(st.data(), replies())
def test_one_that_was_spliced_can_be_spliced_again(data: st.DataObject, reply: list[Event]) -> None:
    whole = letters(reply)
    first = data.draw(st.integers(0, len(whole)))
    second = data.draw(st.integers(first, len(whole)))
    delivered = [whole[:first]]
    delivered.append(spliced(delivered, data.draw(cuts(whole[:second]))))
    assert letters(spliced(delivered, data.draw(cuts([*whole, DONE])))) == [*whole[second:], DONE]


@given(st.data(), replies(), replies())
def test_two_different_replies_are_never_mixed(data: st.DataObject, one: list[Event], two: list[Event]) -> None:
    """Either the rest makes the new reply's messages of what was delivered, or it ends with the fault."""
    delivered, new = data.draw(cuts(one)), data.draw(cuts([*two, DONE]))
    rest = spliced(delivered, new)
    received = [event for events in delivered for event in events] + rest
    if rest[-1] == DONE:
        assert [row[:2] + row[3:] for row in messages(received)] == [
            row[:2] + row[3:] for row in messages([*two, DONE])
        ]
    else:
        assert rest[-1] == Failed(DIVERGED)
        assert not any(isinstance(event, Finish) for event in rest)


CALL = ToolCallDelta(0, '{"a"', "call_1", "f")
DIVERGING: list[tuple[str, list[Event], list[Event]]] = [
    ("another letter", [TextDelta("abc")], [TextDelta("abd")]),
    ("a shorter reply", [TextDelta("abc")], [TextDelta("ab"), DONE]),
    ("no reply at all", [TextDelta("abc")], [DONE]),
    ("another kind", [TextDelta("abc")], [ReasoningDelta("abc")]),
    ("a refusal", [TextDelta("abc")], [TextDelta("abc", True)]),
    ("a shorter thought", [ReasoningDelta("ab"), TextDelta("c")], [ReasoningDelta("a"), TextDelta("c")]),
    ("a longer thought", [ReasoningDelta("ab"), TextDelta("c")], [ReasoningDelta("abc")]),
    ("a longer text before a call", [TextDelta("a"), CALL], [TextDelta("ab")]),
    ("another function", [CALL], [ToolCallDelta(0, "{", "call_1", "g")]),
    ("another argument", [CALL], [ToolCallDelta(0, '{"b"', "call_1", "f")]),
    ("another call", [CALL], [ToolCallDelta(1, '{"a"', "call_1", "f")]),
    ("a call that is missing", [CALL], [DONE]),
    ("another extra", [TextDelta("a"), Extra({"x": 1})], [TextDelta("a"), Extra({"x": 2})]),
    ("an extra that is missing", [TextDelta("a"), Extra({"x": 1})], [TextDelta("a"), DONE]),
    ("an extra more", [ReasoningDelta("a"), TextDelta("b")], [ReasoningDelta("a"), Extra({"x": 1})]),
]


@each_case(("delivered", "new"), [row[1:] for row in DIVERGING], ids=[row[0] for row in DIVERGING])
def test_a_reply_that_differs_is_a_fault_that_may_pass(delivered: list[Event], new: list[Event]) -> None:
    rest = spliced([delivered], [[event] for event in [*new, TextDelta("more"), DONE]])
    assert rest == [Failed(DIVERGED)]
    assert DIVERGED.code == "upstream_incomplete" and DIVERGED.transient


def test_a_call_keeps_its_id_and_a_new_call_never_takes_it() -> None:
    new: list[Event] = [ToolCallDelta(0, '{"a": 1}', "call_2", "f"), ToolCallDelta(1, "{}", "call_1", "g"), DONE]
    assert spliced([[CALL]], [new]) == [ToolCallDelta(0, ": 1}"), ToolCallDelta(1, "{}", "call_1_", "g"), DONE]


def test_an_empty_first_reply_lets_everything_pass() -> None:
    new: list[Event] = [ReasoningDelta("a"), CALL, DONE]
    assert spliced([[], []], [new]) == new


def test_late_fragments_of_calls_may_come_in_another_order() -> None:
    other = ToolCallDelta(1, "{", "call_2", "g")
    delivered: list[list[Event]] = [[CALL, other, ToolCallDelta(0, ":")]]
    new: list[Event] = [
        ToolCallDelta(0, '{"a":1', "x", "f"),
        ToolCallDelta(1, "{}", "y", "g"),
        ToolCallDelta(0, "}"),
        DONE,
    ]
    assert spliced(delivered, [new]) == [ToolCallDelta(0, "1"), ToolCallDelta(1, "}"), ToolCallDelta(0, "}"), DONE]


def test_a_failure_of_the_second_reply_is_passed_on_unchanged() -> None:
    fault = Failed(Fault("rate_limit", "too many", True))
    assert spliced([[TextDelta("abc")]], [[TextDelta("a"), fault, TextDelta("b")]]) == [fault]
    assert flat([[fault]]) == [fault]


PICTURE = MediaOutput("image", "https://a.test/x.png")


def test_media_are_emitted_once() -> None:
    reply: list[Event] = [TextDelta("a"), PICTURE, TextDelta("b"), PICTURE, DONE]
    for place in range(len(reply)):
        assert flat([spliced([reply[:place]], [reply])]) == flat([reply[place:]])


def test_other_media_are_a_fault() -> None:
    assert spliced([[PICTURE]], [[MediaOutput("image", "https://a.test/y.png"), DONE]]) == [Failed(DIVERGED)]
    assert spliced([[PICTURE]], [[MediaOutput("audio", PICTURE.url), DONE]]) == [Failed(DIVERGED)]
    for url in (PICTURE.url + "?more", PICTURE.url[:-1]):
        assert spliced([[PICTURE]], [[MediaOutput("image", url), DONE]]) == [Failed(DIVERGED)]


def test_a_reply_that_failed_before_is_repeated_to_its_failure() -> None:
    delivered: list[Event] = [TextDelta("a"), Failed(DIVERGED)]
    assert spliced([delivered], [[TextDelta("ab"), DONE]]) == [TextDelta("b"), DONE]


def test_a_further_extra_of_the_open_run_is_emitted() -> None:
    delivered: list[Event] = [TextDelta("ab"), Extra({"x": 1})]
    new: list[Event] = [TextDelta("ab"), Extra({"x": 1}), Extra({"y": 2}), DONE]
    assert spliced(
        [delivered, [TextDelta("c")]], [[TextDelta("ab"), Extra({"x": 1}), Extra({"y": 2}), TextDelta("cd"), DONE]]
    )
    assert spliced([delivered], [new]) == [Extra({"y": 2}), DONE]
    assert Splice([delivered]).close() == []


def test_a_call_that_only_the_second_reply_has_does_not_wait_for_the_others() -> None:
    new: list[Event] = [ToolCallDelta(0, '{"a', "x", "f"), ToolCallDelta(1, "{}", "y", "g"), ToolCallDelta(0, '": 1}')]
    assert spliced([[CALL]], [[*new, DONE]]) == [
        ToolCallDelta(1, "{}", "y", "g"),
        ToolCallDelta(0, ": 1}"),
        DONE,
    ]


def test_fields_that_came_before_their_text_may_come_after_it() -> None:
    new: list[Event] = [TextDelta("a"), Extra({"x": 1}), TextDelta("b"), DONE]
    assert spliced([[Extra({"x": 1})]], [new]) == [TextDelta("a"), TextDelta("b"), DONE]


def test_reasoning_goes_on_where_it_broke_off() -> None:
    assert spliced([[ReasoningDelta("ab")]], [[ReasoningDelta("abc"), DONE]]) == [ReasoningDelta("c"), DONE]
