from collections.abc import Sequence
from typing import Any

from app.chat.messages import Media, Text
from app.chat.server_tools import ToolError
from app.tools.process.protocol import CallEnded, encode_frame
from app.tools.process.results import MAX_MEDIA, fail, read_result

from tests.each_case import each_case
from tests.linear_time import linear

PIXEL = "iVBORw0KGgo="


def read(result: dict[str, Any], most: int = 1000, media: int = 1000) -> str:
    """The content as one text, in which media are in angle brackets."""
    return text_of(read_result(result, most, media).content)


def text_of(parts: Sequence[Text | Media]) -> str:
    return "|".join(part.text if isinstance(part, Text) else f"<{part.urls[0]}>" for part in parts)


@each_case(
    ("blocks", "expected"),
    [
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a\nb"),
        ([{"type": "resource", "resource": {"uri": "file:///a", "text": "A"}}], "A"),
        (
            [{"type": "resource", "resource": {"uri": "file:///b", "mimeType": "x/y", "blob": "AAAA"}}],
            "[resource: file:///b, x/y, 3 bytes]",
        ),
        (
            [{"type": "resource", "resource": {"uri": "u:b", "blob": "AA=="}}],
            "[resource: u:b, application/octet-stream, 1 bytes]",
        ),
        ([{"type": "resource_link", "uri": "file:///c", "name": "c"}], "[resource: c, file:///c]"),
        (
            [{"type": "text", "text": "m:"}, {"type": "image", "data": PIXEL, "mimeType": "image/png"}],
            f"m:|<data:image/png;base64,{PIXEL}>",
        ),
        ([{"type": "hologram"}], "[content of the unknown type 'hologram']"),
        ([7, None, "x"], ""),
        ({"not": "a list"}, ""),
        ([], ""),
    ],
)
def test_each_block_becomes_text_or_a_medium(blocks: Any, expected: str) -> None:
    assert read({"content": blocks}) == expected


@each_case(
    ("result", "expected"),
    [
        ({"content": [], "structuredContent": {"ü": 1}}, '{"ü": 1}'),
        ({"content": [{"type": "text", "text": ""}], "structuredContent": [1]}, "[1]"),
        ({"content": [{"type": "text", "text": "t"}], "structuredContent": {"a": 1}}, "t"),
        ({"structuredContent": {"a": 1}}, '{"a": 1}'),
        ({"content": [], "isError": True}, "Error"),
        ({}, ""),
    ],
)
def test_structured_content_counts_only_without_text_and_media(result: Any, expected: str) -> None:
    assert read(result) == expected


def test_an_error_of_the_tool_keeps_its_text_and_is_marked() -> None:
    answer = read_result({"content": [{"type": "text", "text": "no such city"}], "isError": True}, 100, 100)
    assert answer.content == (Text("no such city"),)
    assert (answer.error, answer.outcome) == (ToolError("execution", 0, "no such city"), "error")


@each_case(
    ("text", "most", "expected"),
    [
        ("éééé", 8, "éééé"),
        ("éééé", 7, "ééé\n[… 2 of 8 bytes left out]"),
        ("abcdef", 3, "abc\n[… 3 of 6 bytes left out]"),
        ("𝄞𝄞", 7, "𝄞\n[… 4 of 8 bytes left out]"),
        ("a\x00b", 2, "a\x00\n[… 1 of 3 bytes left out]"),
    ],
)
def test_a_long_text_is_cut_between_characters_and_says_so(text: str, most: int, expected: str) -> None:
    assert read({"content": [{"type": "text", "text": text}]}, most) == expected


def test_what_is_behind_the_cut_is_left_out_but_media_stay() -> None:
    image = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
    blocks = [{"type": "text", "text": "abc"}, image, {"type": "text", "text": "def"}]
    assert read({"content": blocks}, 3) == f"abc|<data:image/png;base64,{PIXEL}>|[… 3 of 6 bytes left out]"


def test_the_line_breaks_between_texts_count() -> None:
    texts = [{"type": "text", "text": text} for text in ("ab", "", "cd")]
    assert read({"content": texts}, 6) == "ab\n\ncd"
    assert read({"content": texts}, 5) == "ab\n\nc\n[… 1 of 6 bytes left out]"
    assert read({"content": texts}, 2) == "ab\n[… 4 of 6 bytes left out]"


def test_many_texts_are_joined_in_linear_time() -> None:
    assert linear(lambda count: read({"content": [{"type": "text", "text": "x" * 50}] * count}, 10**8), 5000)
    assert linear(lambda count: read({"content": [{"type": "text", "text": "x" * 50}] * count}, 10**5), 5000)


def test_only_so_many_media_become_parts() -> None:
    image = {"type": "image", "data": "", "mimeType": "image/png"}
    answer = read_result({"content": [image] * 5000}, 100, 10**6)
    assert len(answer.content) == MAX_MEDIA + 1
    assert text_of(answer.content[-1:]).startswith("[image: left out because the result has more than 100 media]")


@each_case(
    ("block", "expected"),
    [
        ({"type": "image", "data": PIXEL, "mimeType": "IMAGE/PNG; q=1"}, f"<data:image/png;base64,{PIXEL}>"),
        ({"type": "image", "data": PIXEL, "mimeType": "text/html"}, f"<data:image/*;base64,{PIXEL}>"),
        ({"type": "image", "data": PIXEL, "mimeType": "image/png,<b>"}, f"<data:image/*;base64,{PIXEL}>"),
        ({"type": "image", "data": PIXEL, "mimeType": "image/a\nb"}, f"<data:image/*;base64,{PIXEL}>"),
        ({"type": "image", "data": PIXEL, "mimeType": ["image/png"]}, f"<data:image/*;base64,{PIXEL}>"),
        ({"type": "image", "data": PIXEL, "mimeType": "image/" + "x" * 200}, f"<data:image/*;base64,{PIXEL}>"),
        ({"type": "audio", "data": PIXEL}, f"<data:audio/*;base64,{PIXEL}>"),
        (
            {"type": "image", "data": "<script>", "mimeType": "image/png"},
            "[image: image/png, left out because its data is not base64]",
        ),
        (
            {"type": "resource", "resource": {"uri": "u:b", "blob": "AA==", "mimeType": {"a": 1}}},
            "[resource: u:b, application/octet-stream, 1 bytes]",
        ),
    ],
)
def test_a_media_type_is_one_or_is_replaced(block: dict[str, Any], expected: str) -> None:
    assert read({"content": [block]}) == expected


@each_case(("code", "told"), [(-32000, -32000), (10**30, -32603), (-(10**30), -32603), (2**53 - 1, 2**53 - 1)])
def test_an_error_code_is_one_that_every_client_can_read(code: int, told: int) -> None:
    answer = fail("x", code)
    assert answer.error == ToolError("protocol", told, "x")
    assert encode_frame(CallEnded(1, answer))


def test_a_medium_that_is_too_large_is_named_instead() -> None:
    image = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
    expected = f"<data:image/png;base64,{PIXEL}>|[image: image/png, 8 bytes, left out because it is too large]"
    assert read({"content": [image, image]}, 100, 15) == expected


def test_audio_has_its_format() -> None:
    answer = read_result({"content": [{"type": "audio", "data": "AAAA", "mimeType": "audio/mpeg"}]}, 9, 9)
    assert answer.content == (Media("audio", ("data:audio/mpeg;base64,AAAA",), format="mp3"),)
    assert answer.size == 3


def test_a_request_for_more_input_is_an_error() -> None:
    assert read({"resultType": "input_required"}).startswith("Error: the tool asked for more input")


def test_a_failure_says_error_and_its_message_is_bounded() -> None:
    answer = fail("x" * 5000, -32602)
    assert answer.content == (Text("Error: " + "x" * 2000),)
    assert answer.error == ToolError("protocol", -32602, "x" * 2000)
