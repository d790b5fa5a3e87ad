"""The JSON object of a body, and the message for a body that is none."""

import pytest
from app.errors import BadRequest, InvalidInput
from app.formats.json_object import invalid_json, parse_object
from app.formats.request_limits import MAX_WARNINGS

from tests.each_case import each_case

NOT_JSON = "the request body is not valid JSON: "


def test_the_object_of_a_body_is_read() -> None:
    assert parse_object(b' {"a": [1, "\xc3\xa9"]} ') == {"a": [1, "é"]}
    assert parse_object(bytearray(b"{}")) == {}


@each_case(
    ("text", "read"),
    [
        (rb"\ud83d", "\ufffd"),
        (rb"\uDE00 end", "\ufffd end"),
        (rb"\ud83d\ud83d\ude00", "\ufffd😀"),
        (rb"\\ud83d\ud83d\n\u00e4", "\\ud83d\ufffd\nä"),
        (rb"\uD83D\\uDE00", "\ufffd\\uDE00"),
    ],
)
def test_half_of_a_surrogate_pair_is_replaced(text: bytes, read: str) -> None:
    """litellm 24196: a client cut a text in the middle of an emoji, and each of its turns was refused."""
    assert parse_object(b'{"a":"%b"}' % text) == {"a": read}
    assert parse_object(bytearray(b'{"a":"%b"}' % text)) == {"a": read}


def test_an_escape_that_is_cut_off_is_refused() -> None:
    with pytest.raises(BadRequest, match="it ends inside a string"):
        parse_object(rb'{"a":"\ud83d')


@each_case(
    ("raw", "message"),
    [
        (b"", "the request body is empty: send a JSON object"),
        (b" \n", "the request body is empty: send a JSON object"),
        (b"[1]", "the request body must be a JSON object, not a list"),
        (b"1", "the request body must be a JSON object, not a single value"),
        (b'"text"', "the request body must be a JSON object, not a string"),
        (
            b'"{\\"a\\": 1}"',
            "the request body must be a JSON object, not a string: it was encoded as JSON twice (with requests and "
            "httpx, pass json=body, not json=json.dumps(body))",
        ),
        (b"\xef\xbb\xbf{}", f"{NOT_JSON}it begins with a byte order mark (BOM): send UTF-8 without it"),
        (b"\xff\xfe{\0}\0", f"{NOT_JSON}it is UTF-16: send UTF-8"),
        (b"a=1&b=2", "the request body is a form (name=value), not JSON: send a JSON object"),
        (b'{"a":', f"{NOT_JSON}it ends where a value must follow at line 1, column 5"),
        (b'{"a": 1', f"{NOT_JSON}it ends inside an object at line 1, column 7"),
        (b"{a: 1}", f"{NOT_JSON}a key must be a string in double quotes at line 1, column 2"),
        (b'{"a": True}', f"{NOT_JSON}`True` is Python: write true (json.dumps writes JSON) at line 1, column 7"),
        (b'{"a":\n None}', f"{NOT_JSON}`None` is Python: write null (json.dumps writes JSON) at line 2, column 2"),
        (b'{"a": nope}', f"{NOT_JSON}expected true, false or null at line 1, column 8"),
        (b"{\"a\": 'b'}", f"{NOT_JSON}a text must be in double quotes at line 1, column 7"),
        (b'{"a": // b\n1}', f"{NOT_JSON}JSON has no comments at line 1, column 7"),
        (b"{'a': 1}", f"{NOT_JSON}a key must be a string in double quotes at line 1, column 2"),
        (b"{} x", f"{NOT_JSON}something follows the JSON value at line 1, column 4"),
    ],
)
def test_a_body_that_is_no_object_gives_the_reason_and_its_place(raw: bytes, message: str) -> None:
    with pytest.raises(BadRequest) as refused:
        parse_object(raw)
    assert str(refused.value) == message


@each_case(
    ("raw", "paths"),
    [
        (b'{"a": NaN}', ["a"]),
        (b'{"a": {"b c": [1, -Infinity, {"d": Infinity}]}, "e": NaN}', ['a["b c"][1]', 'a["b c"][2].d', "e"]),
        (b"[NaN]", ["[0]"]),
        (b"NaN", [""]),
    ],
)
def test_a_number_that_json_does_not_have_is_refused_with_its_place(raw: bytes, paths: list[str]) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_object(raw)
    assert [violation.path for violation in refused.value.violations] == paths
    assert {violation.message for violation in refused.value.violations} == {"must be a finite number"}


def test_not_all_of_many_numbers_that_json_does_not_have_are_listed() -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_object(b'{"a": [%b1]}' % (b"NaN, " * 10_000))
    assert len(refused.value.violations) == MAX_WARNINGS


@each_case(
    ("raw", "problem"),
    [
        (b'{"a": NaN, b}', "JSON has no `NaN`: write a number or null (Python: json.dumps with allow_nan=False)"),
        (
            b'{"a": -Infinity',
            "JSON has no `-Infinity`: write a number or null (Python: json.dumps with allow_nan=False)",
        ),
        (b'{"a": "NaN", "b": -x}', "invalid number"),
    ],
)
def test_a_body_that_is_no_json_for_another_reason_too_says_what_comes_first(raw: bytes, problem: str) -> None:
    with pytest.raises(BadRequest, match="not valid JSON") as refused:
        parse_object(raw)
    assert problem in refused.value.message


def test_a_body_that_is_nested_too_deeply_may_be_valid() -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_object(b'{"a":' + b"[" * 1000 + b"]" * 1000 + b"}")
    [violation] = refused.value.violations
    assert violation.message.startswith("is nested too deeply at line 1, column ")


def test_an_error_of_the_json_parser_without_a_place_is_passed_on() -> None:
    assert invalid_json(b"{", ValueError("unknown")).message == f"{NOT_JSON}unknown"
