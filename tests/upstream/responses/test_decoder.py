"""Decoding the events of a Responses server: those like an earlier one give the same as any other."""

import itertools
import json
from collections.abc import Iterable
from typing import Any

import pytest
from app.upstream.reply.usual_decoder import MIN_WAIT, RepeatedEvent
from app.upstream.responses.assembler import ResponsesAssembler
from app.upstream.responses.decoder import EventDecoder, decode, decode_kept
from app.upstream.responses.event import ResponseEvent
from app.upstream.responses.passing import PassingAssembler
from hypothesis import given
from hypothesis import strategies as st

from tests.each_case import each_case


def test_an_event_has_the_fields_that_are_read_and_no_others() -> None:
    event = decode(
        b'{"type":"response.output_text.delta","delta":"a","output_index":1,"obfuscation":"xx","logprobs":[]}'
    )
    assert event == ResponseEvent("response.output_text.delta", "a", 1)


@each_case(
    ("data", "delta", "ragged"),
    [
        (b'{"type":"t","delta":"\\ud83d"}', "\ud83d", True),
        (b'{"type":"t","delta":"a\xff"}', "a\ufffd", False),
        (b'{"type":"t","delta":{"a":1}}', None, False),
    ],
)
def test_what_the_strict_decoder_refuses_is_read_leniently(data: bytes, delta: str | None, ragged: bool) -> None:
    event = decode(data)
    assert event is not None and (event.type, event.delta, event.ragged) == ("t", delta, ragged)


def test_an_item_keeps_no_half_of_a_surrogate_pair() -> None:
    event = decode(b'{"type":"t","output_index":2.0,"item":{"a":["\\ud83d"]}}')
    assert event is not None and event.item == {"a": ["\ufffd"]} and event.output_index == 2


def test_an_object_without_a_type_and_an_error_are_kept_whole() -> None:
    whole, error = decode(b'{"output":[],"a":1}'), decode(b'{"type":"error","code":"x"}')
    assert whole is not None and whole.whole == {"output": [], "a": 1}
    assert error is not None and error.whole == {"type": "error", "code": "x"}


def test_json_that_is_no_object_is_nothing_and_too_deep_json_is_an_error() -> None:
    assert decode(b"[1]") is None and decode(b"7") is None
    with pytest.raises(ValueError, match="nested"):
        decode(b'{"type":"t","item":' + b'{"a":' * 300 + b"1" + b"}" * 301)


def test_an_event_is_kept_as_one_line_that_can_be_encoded() -> None:
    kept = decode_kept(b' {"type":\r\n"t","delta":"\\ud83d"} ')
    assert kept.text.encode() == b'{"type": "t", "delta": "\\ud83d"}'
    assert decode_kept(b' {"type":"\xc3\xa9"}\n').text == '{"type":"é"}'


Json = dict[str, Any]
NAMES = ("output_text", "refusal", "reasoning_summary_text", "reasoning_text", "function_call_arguments", "other")
ITEMS: tuple[Json, ...] = (
    {"type": "message", "id": "i0"},
    {"type": "reasoning", "id": "i1", "encrypted_content": "E"},
    {"type": "function_call", "id": "i2", "call_id": "c", "name": "f"},
    {"type": "function_call", "id": "i0"},
    {"type": "function_call", "id": "i3", "call_id": "d", "name": "g"},
)
places = st.fixed_dictionaries(
    {"output_index": st.sampled_from([0, 0, 1, None]), "item_id": st.sampled_from(["i0", "i1", None])},
    optional={"content_index": st.integers(0, 1), "summary_index": st.integers(0, 1), "logprobs": st.just([])},
)
deltas = st.builds(
    lambda name, place, texts: [{"type": f"response.{name}.delta", **place, "delta": text} for text in texts],
    st.sampled_from(NAMES),
    places,
    st.lists(st.sampled_from(["a", "b", " ", "", "{", "}", "\ud83d", "\ude00"]), min_size=1, max_size=12),
)
others = st.builds(
    lambda name, place, item: [{"type": f"response.{name}", **place, "item": item, "text": "ab"}],
    st.sampled_from(["output_item.added", "output_item.added", "output_item.done", "output_text.done"]),
    places,
    st.sampled_from(ITEMS),
)
END: Json = {"type": "response.completed", "response": {"status": "completed", "output": []}}


@given(st.lists(deltas | deltas | others, max_size=9), st.sampled_from(["", "number", "filling", "id"]))
def test_a_reply_is_the_same_whether_its_deltas_are_found_to_be_like_others_or_not(
    parts: list[list[Json]], changing: str
) -> None:
    events = [*itertools.chain(*parts), END]
    for place, event in enumerate(events):
        if changing == "number":
            event["sequence_number"] = place
        if changing == "filling":
            event["obfuscation"] = "x" * (place % 7)
        if changing == "id" and event.get("item_id"):
            event["item_id"] = f"{event['item_id']}+{place}="
    compare(events)


def compare(events: list[Json]) -> None:
    """Check that events give the same in every way, whether those are found that are like others or not."""
    bodies = [json.dumps(event).encode() for event in events]
    for make, general in ((decode, ResponsesAssembler("r")), (decode_kept, PassingAssembler("r"))):
        decoder = EventDecoder(make)
        quick = type(general)("r")
        for data in bodies:
            assert quick.feed([decoder.decode(data)]) == general.feed([make(data)])
            assert quick.check_progress() == general.check_progress()
        assert quick.close() == general.close()


def say(name: str, index: int, words: Iterable[str]) -> list[Json]:
    place = {"output_index": index, "item_id": f"i{index}"}
    return [{"type": f"response.{name}.delta", **place, "delta": word} for word in words]


def begin(index: int, item: Json) -> list[Json]:
    return [{"type": "response.output_item.added", "output_index": index, "item": item}]


WORDS = "abcdefghijkl"
SPACES = [" " * size for size in range(1, 12)]


@each_case(
    "events",
    [
        [*say("output_text", 0, WORDS), *say("output_text", 1, WORDS), *say("output_text", 0, WORDS)],
        [*say("reasoning_text", 0, WORDS), *say("reasoning_summary_text", 0, WORDS), *say("output_text", 1, WORDS)],
        [*begin(2, ITEMS[2]), *say("function_call_arguments", 2, f"{{{WORDS}}}")],
        [*begin(2, ITEMS[2]), *begin(3, ITEMS[4]), *say("function_call_arguments", 2, WORDS)],
        [*begin(2, ITEMS[2]), *say("function_call_arguments", 2, WORDS), *begin(3, ITEMS[3])]
        + say("function_call_arguments", 2, WORDS),
        say("function_call_arguments", 2, WORDS),
        [*say("output_text", 1, ["\ud83d"]), *say("output_text", 0, WORDS), *say("output_text", 1, ["\ude00"])],
        [*begin(0, ITEMS[0] | {"phase": "p"}), *say("refusal", 0, "no")]
        + say("output_text", 0, [*(" " * size for size in range(1, 12)), *WORDS]),
        [
            *begin(0, ITEMS[0] | {"phase": "p"}),
            *say("output_text", 0, [*(" " * size for size in range(1, 12)), *WORDS]),
        ],
        [*say("output_text", 0, WORDS), {"type": "error", "message": "m"}, *say("output_text", 0, "mn")],
    ],
)
def test_texts_go_on_where_they_were_whatever_comes_between_them(events: list[Json]) -> None:
    compare([*events, END])


@each_case(
    ("fields", "is_repeated"),
    [
        ({"type": "response.output_text.delta", "output_index": 1, "logprobs": []}, True),
        ({"type": "response.output_text.delta", "output_index": 1, "item_id": "NUMBER"}, True),
        ({"type": "response.output_text.delta", "item_id": "one"}, True),
        ({"type": "response.output_text.delta", "item_id": "NUMBER"}, False),
        ({"type": "response.code_interpreter_call_code.delta", "output_index": 1}, False),
    ],
)
def test_only_a_delta_of_a_known_place_is_found_to_be_like_others(fields: Json, is_repeated: bool) -> None:
    for make in (decode, decode_kept):
        decoder = EventDecoder(make)
        for number in range(MIN_WAIT + 1):
            event = {**fields, "delta": f"t{number}", "sequence_number": number}
            data = json.dumps(event).replace("NUMBER", f"id{number}").encode()
            found = decoder.decode(data)
        assert (type(found) is RepeatedEvent) is is_repeated
        assert not isinstance(found, RepeatedEvent) or found.get_json() == data


def test_a_value_that_is_the_probe_itself_says_nothing_of_others() -> None:
    decoder = EventDecoder(decode)
    for number in range(2 * MIN_WAIT):
        place = "another" if number == MIN_WAIT - 1 else f"id{number}"
        event = {"type": "response.output_text.delta", "item_id": place, "delta": f"t{number}"}
        found = decoder.decode(json.dumps(event).encode())
        assert isinstance(found, ResponseEvent) and found.item_id == place


def test_json_that_is_no_object_is_like_nothing() -> None:
    decoder = EventDecoder(decode)
    assert [decoder.decode(b'[{"delta":"%d"}]' % number) for number in range(9)] == [None] * 9
