import json
from typing import Any

import pytest
from app.upstream.reply.odd_json import clean, join_surrogates, load

from tests.each_case import each_case


@each_case(
    ("data", "value"),
    [
        (b'{"a": [NaN, Infinity, -Infinity, 1e999]}', {"a": [None, None, None, None]}),
        (b"[1.5, -0.0, 7]", [1.5, -0.0, 7]),
        (b'"\xff"', "\N{REPLACEMENT CHARACTER}"),
        (b"18446744073709551616", 2**64),
        (b"1" + b"0" * 3999, 10**3999),
        (b"1" + b"0" * 4000, 0),
    ],
)
def test_what_is_no_number_in_json_is_none(data: bytes, value: Any) -> None:
    assert repr(load(data)) == repr(value)


@each_case("data", [b"", b"{", b"[1] 2", b"nan"])
def test_what_is_not_one_whole_value_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        load(data)


@each_case(
    ("text", "joined"),
    [("\ud83d\ude00", "\N{GRINNING FACE}"), ("a\ud83d", "a\N{REPLACEMENT CHARACTER}"), ("ä", "ä")],
)
def test_half_a_surrogate_pair_is_replaced_and_a_whole_one_joined(text: str, joined: str) -> None:
    assert join_surrogates(text) == joined


@each_case(
    ("value", "cleaned"),
    [
        ({"\ud83d": ["\ude00", "a"]}, {"\N{REPLACEMENT CHARACTER}": ["\N{REPLACEMENT CHARACTER}", "a"]}),
        ([2**64, 2**64 - 1, -(2**63), -(2**63) - 1], [str(2**64), 2**64 - 1, -(2**63), str(-(2**63) - 1)]),
        ([True, None, 1.5], [True, None, 1.5]),
    ],
)
def test_a_cleaned_value_can_be_written_as_json(value: Any, cleaned: Any) -> None:
    assert repr(clean(value)) == repr(cleaned)
    assert json.dumps(clean(value), ensure_ascii=False).encode()
