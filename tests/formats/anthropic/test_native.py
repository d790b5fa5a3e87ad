"""Opaque parts of a reply as blocks and fields of the API."""

from typing import Any

from app.chat.accumulator import ReplyMessage
from app.formats.anthropic.native import (
    FORMAT,
    choose_own_reason,
    count_leading,
    find_signature,
    get_caller,
    list_citations,
    make_native_block,
    split_details,
)

from tests.each_case import each_case

SIGNED = {"type": "reasoning.text", "signature": "s", "format": FORMAT}
WITH_TEXT = {**SIGNED, "text": "Hm"}
HIDDEN = {"type": "reasoning.encrypted", "data": "d", "format": FORMAT}
ITEM = {"type": "provider.item", "item": {"type": "x"}, "format": FORMAT}
FOREIGN = {**HIDDEN, "format": "other"}


@each_case(
    ("detail", "block"),
    [
        (WITH_TEXT, {"type": "thinking", "thinking": "Hm", "signature": "s"}),
        (HIDDEN, {"type": "redacted_thinking", "data": "d"}),
        (ITEM, {"type": "x"}),
        (SIGNED, None),
        (FOREIGN, None),
        ("text", None),
    ],
)
def test_a_detail_of_this_api_is_a_block(detail: Any, block: Any) -> None:
    assert make_native_block(detail) == block


def test_what_signs_a_part_of_the_thought_is_no_block() -> None:
    assert split_details([WITH_TEXT, HIDDEN, FOREIGN]) == (
        [make_native_block(WITH_TEXT), make_native_block(HIDDEN)],
        [FOREIGN],
    )
    assert split_details([WITH_TEXT, ITEM], "Well. Hm") == ([{"type": "x"}], [WITH_TEXT])
    assert [count_leading(one) for one in ([ITEM, HIDDEN], [ITEM, SIGNED], [WITH_TEXT])] == [2, 1, 0]


def test_only_the_signature_of_one_block_is_that_of_its_message() -> None:
    found = [find_signature(one) for one in ([SIGNED], [WITH_TEXT], [SIGNED, SIGNED], [FOREIGN], [])]
    assert found == ["s", None, None, None, None]


def test_fields_of_calls_and_texts_have_the_form_of_this_api() -> None:
    message = ReplyMessage(0, "function_call")
    assert (get_caller(message), list_citations(message)) == ({}, [])
    message.extra = {"extra_content": {"anthropic": {"caller": {"type": "x"}}}}
    assert get_caller(message) == {"caller": {"type": "x"}}
    message.extra = {"annotations": [{"cited_text": "a"}, {"type": "url_citation"}, 1]}
    assert list_citations(message) == [{"cited_text": "a"}]


@each_case(
    ("native", "reason", "own"),
    [
        ("pause_turn", "stop", "pause_turn"),
        ("pause_turn", "length", None),
        ("end_turn", "stop", None),
        (None, "stop", None),
    ],
)
def test_a_stop_reason_that_says_more_is_kept(native: str | None, reason: str, own: str | None) -> None:
    assert choose_own_reason(native, reason) == own
