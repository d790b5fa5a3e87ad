"""One reader decides what JSON is."""

import pytest
from app.formats.json_reader import read_json

from tests.each_case import each_case


@each_case(
    "text",
    [
        *(b"NaN", b"Infinity", b"-Infinity", b'{"a": [NaN]}', b"nan", b"+1", b"01", b"1.", b".5", b"--1"),
        *(
            b'"\\ud800"',
            b'"\\udc00"',
            b'{"\\ud800": 1}',
            b'"\xff"',
            b'{"\xff": 1}',
            b'"\xed\xa0\x80"',
            b"\xef\xbb\xbf{}",
        ),
        *(
            b"[1,]",
            b'{"a": 1,}',
            b"{}{}",
            b"1\x00",
            b"\x0b1",
            b'"\x01"',
            b'"\\x"',
            b"",
            b"[" * 250 + b"]" * 250,
            b"9" * 5000,
        ),
    ],
)
def test_what_is_no_json_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match="line 1"):
        read_json(text)


def test_of_a_key_that_is_repeated_the_last_value_counts_at_the_first_place() -> None:
    assert [*read_json(b'{"a": 1, "b": 2, "a": 3}').items()] == [("a", 3), ("b", 2)]


def test_numbers_keep_their_kind() -> None:
    assert repr(read_json(bytearray(b"[1, 1.0, true, -0.0, 0, 1e999, 10000000000000000000000]"))) == (
        "[1, 1.0, True, -0.0, 0, inf, 10000000000000000000000]"
    )
