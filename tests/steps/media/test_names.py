"""Names of media: those of their URLs, or numbered ones."""

from typing import Any

import pytest
from app.chat.messages import Media, Text
from app.steps.media import basename, rewrite_media

from tests.steps.media.recorded_media import UNITS, why_different
from tests.steps.media.sample_requests import PNG, TEXT, recorded_alike, single_message


@pytest.mark.parametrize("row", recorded_alike("get_basename_from_url"), ids=lambda row: row["input"])
def test_a_name_is_that_of_qwen_agent(row: Any) -> None:
    assert basename(row["input"]) == row["result"]


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://h/d/a.pdf?x=1/2#f", "a.pdf"),
        ("https://h/?x=1", "h"),
        ("https://h/%E6%8A%A5%E5%91%8A.docx", "报告.docx"),
        ("C:\\docs\\a b.pdf", "a b.pdf"),
        ("https://h/a%0Ab.png", "a b.png"),
        ("https://[broken/x.png", "x.png"),
        ("", ""),
    ],
)
def test_a_name_is_the_last_one_of_the_path(url: str, name: str) -> None:
    assert basename(url) == name


def test_a_data_uri_has_no_name_and_nothing_has_none() -> None:
    [nothing] = [row["input"] for row in UNITS if why_different(row).endswith("no crash")]
    assert basename(nothing) == ""
    image = single_message(Text("look"), Media("image", (PNG,)))
    assert rewrite_media(image, TEXT, {}, "en")[0].messages[0].parts == (
        Text("(Uploaded ![image](image.png)) "),
        Text("look"),
    )


def test_data_uris_of_one_type_have_names_of_their_own_that_do_not_depend_on_what_follows() -> None:
    picture = Media("image", (PNG,))
    frames = Media("video", ("data:image/jpeg;base64,AA", "data:image/jpeg;base64,AB"), frames=True)
    sound = Media("audio", ("UklGRg==UklGRg==UklGRg==",), format="wav")
    request = single_message(
        picture, Media("image", (PNG + "=",)), frames, sound, Media("file", ("data:,x",), name="notes.txt")
    )
    [prefix] = rewrite_media(request, TEXT, {}, "en")[0].messages[0].parts
    names = "![image](image.png) ![image](image-2.png) ![video](video.jpg) ![video](video-2.jpg) ![audio](audio.wav)"
    assert prefix == Text(f"(Uploaded {names} [file](notes.txt)) ")
