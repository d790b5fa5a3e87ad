"""Fields that only a server can read travel as details and come back as fields."""

from typing import Any

from app.chat.message_fields import complete_blocks, make_field_details, split_fields

from tests.each_case import each_case


def test_a_field_comes_back_as_it_was_and_other_details_stay() -> None:
    details = [{"type": "reasoning.text"}, *make_field_details({"reasoning_opaque": "x"}), 5]
    assert split_fields(details) == ({"reasoning_opaque": "x"}, [{"type": "reasoning.text"}, 5])


@each_case("name", ["content", "role", "tool_calls", ["reasoning_opaque"], None])
def test_a_detail_of_another_field_is_not_sent(name: Any) -> None:
    assert split_fields([{"type": "provider.field", "name": name, "value": "x"}]) == ({}, [])


@each_case(
    ("values", "joined"),
    [
        ([[{"text": "a"}], [{"text": "b", "signature": "s"}]], [{"text": "ab", "signature": "s"}]),
        ([[{"text": "a"}], [{"signature": "s"}]], [{"text": "a", "signature": "s"}]),
        (
            [[{"text": "a", "signature": "s"}], [{"text": "b", "signature": "t"}]],
            [{"text": "a", "signature": "s"}, {"text": "b", "signature": "t"}],
        ),
        ([[{"text": "a"}], [5], [{"signature": "s"}]], [{"text": "a"}, 5, {"signature": "s"}]),
        (
            [[{"type": "t", "text": "a"}], [{"type": "t", "signature": "s"}]],
            [{"type": "t", "text": "a", "signature": "s"}],
        ),
    ],
)
def test_the_items_of_a_streamed_list_are_joined_to_those_that_were_signed(
    values: list[Any], joined: list[Any]
) -> None:
    details = [one for value in values for one in make_field_details({"reasoning_content": value})]
    assert split_fields(details) == ({"reasoning_content": joined}, [])


def test_a_list_that_is_not_signed_is_not_sent() -> None:
    assert split_fields(make_field_details({"reasoning": [{"text": "a"}]})) == ({}, [])


SIGNED = {"type": "thinking", "thinking": "b", "signature": "s"}
SEALED = {"type": "redacted_thinking", "data": "x"}


def test_signed_blocks_come_back_and_other_signed_parts_do_not() -> None:
    part = {"type": "thinking", "thinking": [{"type": "text", "text": "a"}], "signature": "s"}
    odd: list[Any] = [part, {"type": "reasoning", "signature": "s"}, {"type": ["thinking"]}, 5]
    details = [
        *make_field_details({"thinking_blocks": [SIGNED, *odd]}),
        *make_field_details({"thinking_blocks": [SEALED]}),
    ]
    assert split_fields(details) == ({"thinking_blocks": [SIGNED, SEALED]}, [])
    assert split_fields(make_field_details({"thinking_blocks": odd})) == ({}, [])


@each_case(
    ("blocks", "completed"),
    [
        ([SIGNED, SEALED], [{**SIGNED, "thinking": "ab"}, SEALED]),
        ([SEALED, SIGNED], [SEALED, SIGNED]),
        ([5], [5]),
    ],
)
def test_the_text_before_a_signature_is_of_its_block(blocks: list[Any], completed: list[Any]) -> None:
    assert complete_blocks(blocks, "a") == completed
    assert complete_blocks(blocks, "") == blocks
