"""Fields that only a server can read travel as details and come back as fields."""

from typing import Any

from app.chat.message_fields import make_field_details, split_fields

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
