"""What single items of a Responses server hold."""

from typing import Any

from app.chat.events import MediaOutput
from app.upstream.responses.items import (
    Slot,
    iter_annotations,
    iter_message_texts,
    iter_thoughts,
    make_detail,
    make_item_detail,
    read_arguments,
    read_picture,
)

from tests.each_case import each_case


def test_the_texts_of_a_message_are_named_by_kind_and_place() -> None:
    parts = [{"type": "output_text", "text": "a", "annotations": [1]}, 7, {"type": "refusal", "refusal": "b"}]
    assert list(iter_message_texts({"content": parts})) == [(("text", 0), "a"), (("refusal", 2), "b")]
    assert list(iter_message_texts({"content": "c"})) == [(("text", 0), "c")]
    assert list(iter_annotations({"content": parts})) == [1]
    assert list(iter_thoughts({"summary": [{"text": "d"}, {}]}, "summary")) == [(("summary", 0), "d")]


@each_case(
    ("item", "arguments"),
    [
        ({"type": "function_call", "arguments": "{}"}, "{}"),
        ({"type": "function_call", "arguments": {"a": 1}}, '{"a": 1}'),
        ({"type": "function_call"}, ""),
        ({"type": "custom_tool_call", "input": "é"}, '{"input": "é"}'),
    ],
)
def test_arguments_are_text_and_a_custom_input_is_an_object(item: dict[str, Any], arguments: str) -> None:
    assert read_arguments(item) == arguments


def test_encrypted_content_is_a_detail_unless_it_is_the_text_itself() -> None:
    item = {"id": "rs_1", "encrypted_content": "E"}
    detail = {"type": "reasoning.encrypted", "data": "E", "id": "rs_1", "format": "openai-responses-v1"}
    assert make_detail(item, "text") == detail
    assert make_detail(item, "E") is None and make_detail({"encrypted_content": None}, "") is None
    assert make_item_detail({"type": "x"}) == {
        "type": "provider.item",
        "item": {"type": "x"},
        "format": detail["format"],
    }


@each_case(
    ("item", "url"),
    [
        ({"result": "AA=="}, "data:image/png;base64,AA=="),
        ({"result": "AA==", "output_format": "webp"}, "data:image/webp;base64,AA=="),
        ({"result": "https://a.example/x.png"}, "https://a.example/x.png"),
        ({"result": None}, None),
        ({"result": "AA==", "type": "computer_call"}, None),
    ],
)
def test_a_generated_image_has_a_url(item: dict[str, Any], url: str | None) -> None:
    picture = read_picture({"type": "image_generation_call"} | item)
    assert picture == (MediaOutput("image", url) if url else None)


def test_opaque_fields_are_kept_whether_they_come_first_or_last() -> None:
    slot = Slot("function_call", 0, "fc")
    slot.read_fields({"namespace": "n"})
    slot.read_fields({"caller": {"type": "program"}, "namespace": None})
    assert slot.make_extra_content() == {"openai": {"namespace": "n", "caller": {"type": "program"}}}
    assert Slot("custom_tool_call", 0, "").make_extra_content() == {"openai": {"custom": True}}
    assert Slot("message", 0, "").make_extra_content() is None
