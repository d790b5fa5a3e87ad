"""Events like an earlier one are decoded the quick way only where that gives what the slow way gives."""

import json
import re
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from app.upstream.reply.sse import EventReader
from app.upstream.reply.usual_decoder import (
    MAX_PATTERN_BYTES,
    MIN_WAIT,
    PROBE,
    STRING,
    UsualDecoder,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.each_case import each_case

Json = dict[str, Any]
pytestmark = pytest.mark.interpreted  # a compiled class has subclasses in its own group only
CHANGES = re.compile(
    rb'"t(?:ext)?":' + STRING % b"text" + rb'|"n":(?P<number>\d{1,15})'
    rb'|"s":' + STRING % b"string" + rb"|\}(?P<spaces> *)(?=\}\Z)"
)


def load(data: bytes) -> Json:
    value: Json = msgspec.json.decode(data, type=dict)
    return value


class Decoder(UsualDecoder[Json, tuple[Json, str]]):
    """Decodes objects whose text is `text`."""

    def __init__(self) -> None:
        super().__init__(load, CHANGES)
        self.known: list[Json] = []

    def _is_like(self, value: Json, data: bytes) -> bool:
        other = load(data)
        self.known = [value]
        unread: Json = {key: other[key] for key in ("n", "s") if key in other}
        return "text" in value and other == value | {"text": PROBE} | unread

    def decode_event(self, event: bytes) -> tuple[Json, str] | None:
        text = self._read_text(event)
        return (self.known[0], text) if text else None

    def decode_run(self, frames: Sequence[bytes], start: int) -> tuple[list[tuple[Json, str]], int]:
        texts, size = self._read_texts(frames, start)
        return [(self.known[0], text) for text in texts], size


def write(text: str, form: str = '{"x":1,"text":%s}') -> bytes:
    return (form % json.dumps(text, ensure_ascii=False)).encode()


def learn(form: str, **more: str) -> Decoder:
    """Return a decoder of events of this form, in which each `%s` is another value each time."""
    decoder = Decoder()
    for number in range(MIN_WAIT):
        decoder.decode(fill(form, number))
    return decoder


def fill(form: str, number: int) -> bytes:
    """Fill in a text, and numbers, strings and spaces at `N`, `S` and `_`."""
    text = form % json.dumps(f"t{number}")
    return (
        text.replace("N", str(95 + number)).replace("S", "abcdefgh"[:number]).replace("_", " " * (number % 20)).encode()
    )


FORMS = (
    '{"text":%s}',
    '{"n":N,"text":%s,"a":"b"}',
    '{"text":%s,"s":"S","n":N}',
    '{"s":"S","a":1,"text":%s}',
    '{"a":{"b":1},"text":%s,"s":"S","c":{"d":1}_}',
    '{"s":"S","n":N,"text":%s,"c":{"d":1}_}',
)


@each_case("form", FORMS)
def test_an_event_like_earlier_ones_gives_its_text(form: str) -> None:
    decoder = learn(form)
    for number in (7, 20, 900):
        data = fill(form, number)
        assert decoder.decode(data) == (decoder.known[0], f"t{number}")
        assert decoder.decode_event(b"data: %b\n\n" % data) == (decoder.known[0], f"t{number}")
    frames = [b"data: %b" % fill(form, number) for number in range(5)]
    assert decoder.decode_run([*frames, b"data: {}"], 1) == ([(decoder.known[0], f"t{n}") for n in range(1, 5)], 4)


@each_case("form", FORMS)
def test_texts_with_quotes_and_backslashes_are_found(form: str) -> None:
    decoder = learn(form)
    for text in ('a"b', '","n":5,"s":"', "\\", '\\"', "é\u2028", "\n", "}", ""):
        data = (form % json.dumps(text)).replace("N", "5").replace("S", "q").replace("_", " ").encode()
        found = decoder.decode(data)
        assert found == (decoder.known[0], text) or found == load(data)
        assert isinstance(found, tuple) or text in ("", "\\") or form == FORMS[0]


@each_case(
    "changed",
    [
        '{"n":05,"text":"a","s":"q"}',
        '{"n":-5,"text":"a","s":"q"}',
        '{"n":5.5,"text":"a","s":"q"}',
        '{"n":,"text":"a","s":"q"}',
        '{"n":"5","text":"a","s":"q"}',
        '{"n":5,"text":"a","s":"\\x"}',
        '{"n":5,"text":"a","s":"\t"}',
        '{"n":5,"text":"\\x","s":"q"}',
        '{"n":5,"text":5,"s":"q"}',
        '{"n":5,"text":"a","s":"q","b":1}',
        '{"n":5,"text":"a"}',
        '{"n":5,"text":"a","s":"q',
        '{"n":5,"text":"',
    ],
)
def test_an_event_with_anything_else_is_decoded_whole(changed: str) -> None:
    decoder = learn('{"n":N,"text":%s,"s":"S"}')
    data = changed.encode()
    assert decoder.decode_event(b"data: %b\n\n" % data) is None
    assert decoder.decode_run([b"data: %b" % data] * 3, 0) == ([], 0) or b"\\x" in data
    try:
        assert decoder.decode(data) == load(data)
    except msgspec.DecodeError:
        with pytest.raises(msgspec.DecodeError):
            load(data)


def test_only_spaces_may_be_where_spaces_were() -> None:
    decoder = learn('{"text":%s,"c":{"d":1}_}')
    assert decoder.decode(b'{"text":"a","c":{"d":1}         }') == (decoder.known[0], "a")
    assert decoder.decode(b'{"text":"a","c":{"d":1}\t}') == load(b'{"text":"a","c":{"d":1}}')
    assert decoder.decode_event(b'data: {"text":"a","c":{"d":1}\n\n') is None


@each_case(
    "form",
    [
        '{"text":"same","n":N,"x":%s}',
        '{"text":%s,"t":"S"}',
        '{"text":%s,"a":{"n":N}}',
        '{"text":%s,\n"n":1}',
        '{"text":%s,"x":"' + "y" * MAX_PATTERN_BYTES + '"}',
        '{"x":N,"text":%s}',
        '{"a":1,"t":%s}',
    ],
    ids=["no other text", "two texts", "a number that counts", "two lines", "long", "another change", "not a text"],
)
def test_nothing_is_remembered_of_events_that_differ_in_more(form: str) -> None:
    decoder = learn(form)
    assert decoder.decode_event(b"data: %b\n\n" % fill(form, MIN_WAIT)) is None
    assert decoder.decode_run([b"data: %b" % fill(form, MIN_WAIT)] * 3, 0) == ([], 0)


def test_events_of_other_fields_are_not_compared() -> None:
    decoder = Decoder()
    for number in range(4 * MIN_WAIT):
        data = fill('{"text":%s}' if number % 2 else '{"text":%s,"n":N}', number)
        assert decoder.decode(data) == load(data)


def test_each_vain_search_doubles_the_wait() -> None:
    searches: list[int] = []

    class Counting(Decoder):
        def _is_like(self, value: Json, data: bytes) -> bool:
            searches.append(value["x"])
            return False

    decoder = Counting()
    for number in range(100):
        decoder.decode(b'{"x":%d,"text":"t%d"}' % (number // 50, number))
    assert len(searches) == 4


def test_the_lines_before_the_json_are_remembered() -> None:
    decoder = Decoder()
    reader: EventReader[Json | tuple[Json, str]] = EventReader(decoder.decode, decoder)
    bodies = [b"event: x.delta\ndata: %b\n\n" % fill('{"text":%s,"n":N}', number) for number in range(20)]
    items = [item for body in bodies for item in reader.feed(body)]
    assert items[MIN_WAIT + 1 :] == [(decoder.known[0], f"t{number}") for number in range(MIN_WAIT + 1, 20)]
    assert reader.feed(bodies[0] + bodies[1] + bodies[2] + bodies[3])[1:] == [
        (decoder.known[0], f"t{n}") for n in (1, 2, 3)
    ]
    other = bodies[0].replace(b"x.delta", b"y.delta")
    assert decoder.decode_event(other) is None
    assert decoder.decode_event(bodies[5]) == (decoder.known[0], "t5")


@given(st.sampled_from(FORMS), st.text(), st.text(max_size=3), st.integers(0, 200), st.integers(0, 3))
def test_any_values_give_what_the_slow_way_gives(form: str, text: str, filling: str, number: int, spaces: int) -> None:
    if any("\ud800" <= char <= "\udfff" for char in text + filling):
        return
    decoder = learn(form)
    string = json.dumps(filling)[1:-1]
    data = form.replace("N", str(number)).replace("S", "\0").replace("_", " " * spaces) % json.dumps(text)
    data = data.replace("\0", string)
    found = decoder.decode(data.encode())
    value = load(data.encode())
    assert found == (value if isinstance(found, dict) else (decoder.known[0], value["text"]))
