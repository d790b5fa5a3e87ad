from typing import Any

import mcp_types
import pytest
from app.tools.process.messages import parse_message, refuse_long, repair_halves

from tests.each_case import each_case


def parse(text: bytes) -> dict[str, Any] | None:
    message = parse_message(text)
    return None if message is None else message.model_dump(exclude_none=True)


@each_case(
    ("escaped", "text"),
    [
        (rb"a\ud800b", "a?b"),
        (rb"caf\udce9.txt \ud83d\ude00", "caf?.txt \U0001f600"),
        (rb"\uD83D\uDE00", "\U0001f600"),
        (rb"\\ud800", "\\ud800"),
        (b"caf\xe9", "caf\ufffd"),
        (b"caf\xe9 \\ud800", "caf\ufffd ?"),
    ],
)
def test_characters_that_are_not_valid_do_not_lose_the_result(escaped: bytes, text: str) -> None:
    message = parse(b'{"jsonrpc":"2.0","id":1,"result":{"text":"%b"}}' % escaped)
    assert message is not None and message["result"] == {"text": text}


@each_case(
    ("line", "reason"),
    [
        (
            b'{"jsonrpc":"2.0","id":"parley-3","result":{"a":%b}}' % (b"[" * 5000 + b"]" * 5000),
            "deeper than 200 levels",
        ),
        (b'{"result":{"a":%b},"id" : "parley-3"}' % (b"[" * 300 + b"]" * 300), "deeper than 200 levels"),
        (b'{"jsonrpc":"2.0","id":"parley-3","result":{', "is not a valid message"),
    ],
)
def test_an_answer_that_cannot_be_read_is_an_error_of_its_call(line: bytes, reason: str) -> None:
    message = parse_message(line)
    assert isinstance(message, mcp_types.JSONRPCError)
    assert message.id == "parley-3"
    assert reason in message.error.message


@each_case(
    "line",
    [
        b"hello",
        b"",
        b'sent {"jsonrpc":"2.0","id":"parley-3","result":{}}',
        b'{"jsonrpc":"2.0","id":"parley-3","method":"tools/call",',
        b'{"jsonrpc":"2.0","id":"other-3","result":{',
        b"[" * 5000,
        rb'{"a":"\ud800"}',
    ],
)
def test_what_answers_no_request_of_ours_is_no_message(line: bytes) -> None:
    assert parse_message(line) is None


def test_what_cannot_be_mended_keeps_its_halves() -> None:
    assert repair_halves(rb'{"a":"\ud800"') == rb'{"a":"\ud800"'
    deep = b"[" * 5000 + rb'"\ud800"' + b"]" * 5000
    assert repair_halves(deep) == deep


@pytest.mark.parametrize("start", [b"x" * 300, b'{"result":"' + b"x" * 300 + b'","id":"parley-3"'])
def test_a_long_line_whose_request_is_not_known_has_no_error(start: bytes) -> None:
    assert refuse_long(start) is None
