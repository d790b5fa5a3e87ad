"""Frames hold nothing at which a line reader would split them."""

import pytest
from app.formats.sse import encode_json, escape_line_separators, write_frame

SEPARATORS = ["\u2028", "\u2029", "\u0085"]


@pytest.mark.parametrize("separator", SEPARATORS)
@pytest.mark.parametrize("around", ["", "a", "é", "“…”", "¡", "天气", "😀", "".join(SEPARATORS)])
def test_line_separators_are_escaped_wherever_they_are(separator: str, around: str) -> None:
    text = around + separator + around
    written = escape_line_separators(encode_json(text)).decode()
    expected = text
    for one in SEPARATORS:
        expected = expected.replace(one, f"\\u{ord(one):04x}")
    assert written == f'"{expected}"'
    assert write_frame(text) == f"data: {written}\n\n".encode()


@pytest.mark.parametrize("text", ["plain", "é", "“…” ¡", "天气", "😀", "\u2027\u202a\u0084\u0086"])
def test_other_characters_stay_as_they_are(text: str) -> None:
    assert escape_line_separators(encode_json(text)) == encode_json(text)
