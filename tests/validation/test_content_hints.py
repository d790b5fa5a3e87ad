"""How a part of another API is written."""

from typing import Any

from app.validation.content_hints import suggest_part

from tests.each_case import each_case


@each_case(
    ("error_type", "part", "start"),
    [
        ("openai_part_type", {"image": "x"}, ""),
        ("openai_part_type", {"type": "image"}, '; here an image is {"type": "image_url"'),
        ("anthropic_block_type", {"image": "x"}, '; here an image is {"type": "image", "source"'),
        ("responses_part_type", {"video": "x"}, '; here a video is {"type": "input_video"'),
        ("responses_part_type", {"text": "x"}, '; a text is {"type": "input_text"'),
        ("openai_part_type", "x", '; a text is {"type": "text"'),
    ],
)
def test_a_part_is_suggested_in_the_form_of_the_api(error_type: str, part: Any, start: str) -> None:
    assert suggest_part(error_type, part).startswith(start)


@each_case(
    ("error_type", "part"),
    [("string_type", "x"), ("openai_part_type", 1), ("openai_part_type", {"type": 1}), ("openai_part_type", {})],
)
def test_nothing_is_suggested_for_what_is_not_known(error_type: str, part: Any) -> None:
    assert suggest_part(error_type, part) == ""
