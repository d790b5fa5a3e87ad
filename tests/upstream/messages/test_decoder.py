"""Deltas like an earlier one become a `RepeatedEvent`, and their reply is the same as that of any other objects."""

import itertools
import json
from collections.abc import Sequence

import pytest
from app.upstream.messages.assembler import MessageAssembler
from app.upstream.messages.decoder import ObjectDecoder, decode, decode_kept
from app.upstream.messages.passing import PassingAssembler
from app.upstream.reply.usual_decoder import MIN_WAIT, RepeatedEvent
from hypothesis import given
from hypothesis import strategies as st

from tests.each_case import each_case
from tests.upstream.messages.replies import Json, start, stop

DELTAS = (
    {"text": "a"},
    {"thinking": "b"},
    {"partial_json": '{"c":'},
    {"signature": "d"},
    {"text": None},
    {"text": " "},
)
TYPES = ("text_delta", "thinking_delta", "input_json_delta", "signature_delta", "other_delta", None)
BLOCKS = ("text", "thinking", "tool_use", "server_tool_use", "redacted_thinking")
delta = st.builds(
    lambda index, type_, fields: {"type": "content_block_delta", "index": index, "delta": {"type": type_, **fields}},
    st.integers(0, 2),
    st.sampled_from(TYPES),
    st.sampled_from(DELTAS),
)
begin = st.builds(
    lambda index, type_: {"type": "content_block_start", "index": index, "content_block": {"type": type_, "name": "f"}},
    st.integers(0, 2),
    st.sampled_from(BLOCKS),
)
end = st.builds(lambda index: {"type": "content_block_stop", "index": index}, st.integers(0, 2))


def _vary(one: Json, texts: Sequence[str | None]) -> list[Json]:
    """Return the delta with each of these texts."""
    names = one["delta"].keys() - {"type"}
    return [{**one, "delta": {**one["delta"], **dict.fromkeys(names, text)}} for text in texts]


values = st.sampled_from(["a", "b", " ", "", "{", "\ud83d", "\ude00", None])
run = st.builds(_vary, delta, st.lists(values, min_size=8, max_size=12))


@given(st.lists(begin.map(lambda one: [one]) | end.map(lambda one: [one]) | run | run, max_size=8), st.integers(0, 2))
def test_a_reply_is_the_same_whether_its_deltas_are_found_to_be_like_others_or_not(
    middle: list[list[Json]], spaces: int
) -> None:
    events = [json.dumps(one) for one in (start(), *itertools.chain(*middle), *stop())]
    compare([f"{one[:-1]}{' ' * (spaces * place % 5)}}}" for place, one in enumerate(events)])


def compare(events: list[str]) -> None:
    """Check that events give the same in every way, whether those are found that are like others or not."""
    for make, general in ((decode, MessageAssembler("r")), (decode_kept, PassingAssembler("r"))):
        decoder = ObjectDecoder(make)
        quick = type(general)("r")
        for data in map(str.encode, events):
            assert quick.feed([decoder.decode(data)]) == general.feed([make(data)])
            assert quick.check_progress() == general.check_progress()
        assert quick.close() == general.close()


WORDS = list("abcdefghijkl")
TEXTS = _vary({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": ""}}, WORDS)
THOUGHTS = _vary(
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": ""}}, WORDS
)
INPUTS = _vary(
    {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": ""}}, WORDS
)
SIGNATURE = {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "S"}}


def open_block(kind: str) -> Json:
    item = {"type": kind, "id": "c", "name": "f"} if "tool" in kind else {"type": kind}
    return {"type": "content_block_start", "index": 0, "content_block": item}


@each_case(
    "events",
    [
        [open_block("text"), *TEXTS],
        TEXTS,
        [open_block("thinking"), *THOUGHTS, open_block("text"), *TEXTS, open_block("thinking"), *THOUGHTS],
        [open_block("thinking"), *THOUGHTS, SIGNATURE, open_block("thinking"), *THOUGHTS, SIGNATURE],
        [open_block("tool_use"), *INPUTS],
        [open_block("server_tool_use"), *INPUTS, *TEXTS],
        [open_block("redacted_thinking"), *THOUGHTS],
        [open_block("text"), *_vary(TEXTS[0], ["\ud83d"]), *TEXTS],
        [open_block("text"), *TEXTS, {"type": "error", "error": {"message": "m"}}, *TEXTS],
    ],
)
def test_texts_go_on_where_they_were_whatever_comes_between_them(events: list[Json]) -> None:
    compare([json.dumps(one) for one in (start(), *events, *stop())])


@each_case(
    ("form", "is_repeated"),
    [
        ('{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":%s},"x":1}', True),
        ('{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":%s}  }', True),
        ('{"delta":{"thinking":%s,"type":"thinking_delta"},"index":0,"type":"content_block_delta"}', True),
        ('{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":%s}}', True),
        ('{"type":"content_block_delta","index":1,"delta":{"type":"signature_delta","signature":%s}}', False),
        ('{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"a","thinking":%s}}', False),
        ('{"type":"content_block_delta","index":1,"delta":{"text":%s}}', False),
        ('{"type":"content_block_delta","index":1,"delta":[],"text":%s}', False),
    ],
)
def test_only_a_delta_of_one_text_is_found_to_be_like_others(form: str, is_repeated: bool) -> None:
    decoder = ObjectDecoder(decode)
    for number in range(MIN_WAIT):
        assert decoder.decode((form % f'"{number}"').encode()) == json.loads(form % f'"{number}"')
    data = (form % '"a"').encode()
    found = decoder.decode(data)
    assert (type(found) is RepeatedEvent) is is_repeated
    assert (found.get_json() == data) if isinstance(found, RepeatedEvent) else (found == json.loads(data))


@pytest.mark.parametrize(("data", "value"), [(b"5", {}), (b"null", {}), (b'""', {}), (b'"busy"', {"message": "busy"})])
def test_what_is_no_object_says_nothing_or_is_a_message(data: bytes, value: Json) -> None:
    # caozhiyuan/copilot-api PR 88: `data: ""` as a ping
    assert decode(data) == value


@pytest.mark.parametrize("data", [b"[1]", b"{", b'{"a": %b}' % (b"[" * 300 + b"]" * 300)])
def test_a_list_and_what_is_too_deep_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        decode(data)


def test_an_object_is_kept_as_one_line() -> None:
    kept = decode_kept(b'{"a":\n "\xc3\xa9"}')
    assert kept.text == '{"a": "é"}'


def test_half_a_character_stays_only_in_the_text_of_a_delta() -> None:
    assert decode_kept(b'{"a":\n "\\ud83d"}').text == '{"a": "\ufffd"}'
    event = b'{"delta": {"type": "text_delta", "text": "\\ud83d", "b": NaN}}'
    assert decode_kept(event).text.encode() == event.replace(b"NaN", b"null")
