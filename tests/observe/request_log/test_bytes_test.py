"""What is looked for in bytes before they are read."""

import json
from collections.abc import Sequence

from app.observe.request_log.bytes_test import make_bytes_test
from app.observe.request_log.redaction import find_edits, make_finder
from hypothesis import given
from hypothesis import strategies as st

from tests.each_case import each_case

FORMS = ['the-key/of the "server"']
FIND = make_finder(FORMS, personal=True)
MAY_HOLD = make_bytes_test(FORMS, personal=True)


@each_case(
    "text",
    [
        "alice@example.com",
        "card\n4111 1111 1111 1111",
        "。4111 1111 1111 1111",
        "DE89 3704 0044 0532 0130 00",
        *FORMS,
        "sk-proj-abcdefghijklmnop",
        "a ghp_" + "a" * 36,
        "https://me:secret@host/x",
        '{"Authorization": "Bearer abcdefghijklmnop1"}',
        '{"api_key": "opaque"}',
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEow",
        "data:image/png;base64," + "QUJD" * 9,
        "QUJD" * 2000,
    ],
)
def test_what_is_found_in_a_string_may_be_in_its_bytes_however_they_are_escaped(text: str) -> None:
    for ascii_only in (True, False):
        assert MAY_HOLD(json.dumps({"a": text}, ensure_ascii=ascii_only).encode())
    assert MAY_HOLD(b'{"a":"%b"}' % "".join(f"\\u{ord(char):04x}" for char in text).encode())
    assert MAY_HOLD(json.dumps({"a": text}).replace("/", "\\/").encode())


@each_case(
    "text",
    [
        "call_00000005000000000000 and http://json-schema.org/draft-07/schema",
        "words " * 2000,
        "é <a href='x'> & more",
        "a card 4111 and @decorator",
        "1760000000",
    ],
)
def test_usual_texts_need_not_be_read(text: str) -> None:
    assert not MAY_HOLD(json.dumps({"a": text}, ensure_ascii=False).encode())


def test_bytes_that_are_no_text_are_read() -> None:
    assert MAY_HOLD(b'{"a":"\xff"}')


def test_without_personal_data_keys_alone_are_looked_for() -> None:
    keys_only = make_bytes_test([], personal=False)
    assert not keys_only(b'"alice@example.com 4111 1111 1111 1111"')
    assert keys_only(b'"sk-proj-abcdefghijklmnop"')


PARTS: Sequence[str] = (
    *("alice", "@", "example.com", "4111 1111 ", "1111 1111", "4111111111111111", "DE89370400440532013000", " ", "\n"),
    *('"', "\\", "n", "é", "中", "sk-", "proj-abcdefghijklmnop", "://me:pw", "@host", "authorization", ": ", "Bearer "),
    *("abcdefghijklmnop1", "/", "<", "\t", "。", "password", "api_key", ":"),
)


@given(st.lists(st.sampled_from(PARTS), max_size=8).map("".join), st.booleans())
def test_what_is_found_is_never_missed(text: str, ascii_only: bool) -> None:
    body = json.dumps({"a": text, text: 1}, ensure_ascii=ascii_only).encode()
    assert not find_edits(body, FIND) or MAY_HOLD(body)
