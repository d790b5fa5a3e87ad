"""Media types of AgentScope's blocks."""

import pytest
from app.formats.agentscope.media import choose_media_type, guess_type


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("https://h/a.PNG?x=1", "image/png"),
        ("https://h/a", None),
        ("https://[h/a.png", None),
        ("data:audio/wav;base64,AAAA", "audio/wav"),
        ("data:text/plain,hello", None),
    ],
)
def test_a_media_type_is_guessed_from_the_path_alone(url: str, found: str | None) -> None:
    assert guess_type(url) == found


def test_a_media_type_is_always_of_its_kind() -> None:
    assert choose_media_type("image", "https://h/a.mp4") == "image/png"
    assert choose_media_type("audio", "https://h/a") == "audio/wav"
    assert choose_media_type("video", "https://h/a.webm") == "video/webm"
    assert choose_media_type("file", "https://h/a.png") == "application/octet-stream"
