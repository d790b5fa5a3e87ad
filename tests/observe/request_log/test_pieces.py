"""Bodies of requests, cut where conversations grow."""

import json
from typing import Any

from app.observe.request_log.pieces import GROUPED, cut
from hypothesis import given
from hypothesis import strategies as st

from tests.each_case import each_case

LONG = "x" * 600


def join(groups: list[list[bytes]]) -> bytes:
    return b"".join(piece for group in groups for piece in group)


def make_body(rounds: int, **more: Any) -> bytes:
    messages = [{"role": "user", "content": f"{number} {LONG}"} for number in range(rounds)]
    return json.dumps({"model": "m", "messages": messages, **more}).encode()


def test_a_round_more_adds_one_message_and_keeps_all_groups_that_were_full() -> None:
    before, after = cut(make_body(3 * GROUPED)), cut(make_body(3 * GROUPED + 1))
    assert after[:4] == before[:4]
    pieces = {piece for group in before for piece in group}
    assert len([piece for group in after for piece in group if piece not in pieces]) == 1


def test_tools_behind_the_messages_are_the_same_groups_in_each_round() -> None:
    tools = [{"name": f"tool{number}", "description": LONG} for number in range(20)]
    before, after = cut(make_body(5, tools=tools)), cut(make_body(6, tools=tools))
    assert [group for group in after if b"tool3" in b"".join(group)] == [
        group for group in before if b"tool3" in b"".join(group)
    ]


@each_case(
    "body",
    [
        b"{}",
        b'{"messages": []}',
        b'{"messages":[1,2 , 3],"n":1}',
        make_body(0),
        make_body(1, system=LONG),
        make_body(40, tools=[{"name": LONG}], input=LONG),
        b'{"a": "' + LONG.encode() + b'", "b": ["' + LONG.encode() + b'"], "a": "' + LONG.encode() + b'!"}',
        ('{"é": "' + "é" * 600 + '", "l": ["' + "ü" * 600 + '"]}').encode(),
    ],
)
def test_the_pieces_joined_are_the_body(body: bytes) -> None:
    assert join(cut(body)) == body


@each_case("body", [b"", b"[1]", b"nothing", b'{"a": ', b'"text"', b"\xff{}"])
def test_what_is_no_object_has_no_pieces(body: bytes) -> None:
    assert cut(body) == []


VALUES = st.recursive(st.none() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=4), max_leaves=8)


@given(st.dictionaries(st.text(), VALUES | st.text(min_size=520), max_size=6), st.booleans())
def test_the_pieces_of_any_object_joined_are_the_body(value: dict[str, Any], spaced: bool) -> None:
    padded = {name: [item, LONG, item] if isinstance(item, list) else item for name, item in value.items()}
    body = json.dumps(padded, indent=1 if spaced else None).encode()
    assert join(cut(body)) == body
