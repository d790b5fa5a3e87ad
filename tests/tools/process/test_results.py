from typing import Any

from app.chat.messages import Media, Text
from app.chat.server_tools import ToolError
from app.tools.process.results import fail, read_result

from tests.each_case import each_case

PIXEL = "iVBORw0KGgo="


def read(result: dict[str, Any], most: int = 1000, media: int = 1000) -> str:
    """The content as one text, in which media are in angle brackets."""
    answer = read_result(result, most, media)
    return "|".join(part.text if isinstance(part, Text) else f"<{part.urls[0]}>" for part in answer.content)


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
    ],
)
def test_a_long_text_is_cut_between_characters_and_says_so(text: str, most: int, expected: str) -> None:
    assert read({"content": [{"type": "text", "text": text}]}, most) == expected


def test_what_is_behind_the_cut_is_left_out_but_media_stay() -> None:
    image = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
    blocks = [{"type": "text", "text": "abc"}, image, {"type": "text", "text": "def"}]
    assert read({"content": blocks}, 3) == f"abc|<data:image/png;base64,{PIXEL}>|[… 3 of 6 bytes left out]"


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
