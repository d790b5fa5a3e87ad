"""Opaque parts of a reply as items and fields of the API."""

from typing import Any

from app.chat.accumulator import ReplyMessage
from app.chat.events import MediaOutput
from app.formats.responses.native import find_encrypted, has_native_image, make_native_item, read_native_fields
from app.formats.responses.parse import FORMAT

from tests.each_case import each_case

HIDDEN = {"type": "reasoning.encrypted", "data": "d", "format": FORMAT}
PICTURE = {"type": "provider.item", "item": {"type": "image_generation_call"}, "format": FORMAT}
REASONING = {"type": "reasoning", "summary": [], "encrypted_content": "d"}


@each_case(
    ("detail", "item"),
    [
        (HIDDEN, REASONING),
        ({**HIDDEN, "id": "rs_1"}, {"id": "rs_1", **REASONING}),
        (PICTURE, PICTURE["item"]),
        ({**HIDDEN, "data": None}, None),
        ({**HIDDEN, "format": "other"}, None),
        (1, None),
    ],
)
def test_a_detail_of_this_api_is_an_item(detail: Any, item: Any) -> None:
    assert make_native_item(detail) == item


def test_only_the_content_of_one_item_is_that_of_its_message() -> None:
    assert [find_encrypted(one) for one in ([HIDDEN], [HIDDEN, HIDDEN], [PICTURE], [])] == ["d", None, None, None]


def test_fields_of_messages_have_the_form_of_this_api() -> None:
    message = ReplyMessage(0, "function_call")
    assert read_native_fields(message) == {}
    message.extra = {"extra_content": {"openai": {"namespace": "n", "custom": True}}}
    assert read_native_fields(message) == {"namespace": "n"}


def test_an_image_is_in_the_item_of_the_server_that_comes_before_it() -> None:
    message = ReplyMessage(0, "media")
    message.media = MediaOutput("image", "data:image/png;base64,AAAA")
    assert not has_native_image(message)
    message.extra = {"reasoning_details": [HIDDEN, PICTURE]}
    assert has_native_image(message)
