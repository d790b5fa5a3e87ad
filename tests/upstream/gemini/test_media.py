"""Media as parts of the Gemini API."""

import pytest
from app.chat.messages import Media, Message
from app.errors import InvalidInput

from tests.each_case import each_case
from tests.upstream.gemini.requests import Json, list_contents, send


@each_case(
    ("media", "part"),
    [
        (Media("image", ("data:;base64,AA",)), {"inlineData": {"mimeType": "image/png", "data": "AA=="}}),
        (Media("audio", ("data:audio/mpeg;base64,AAAA",)), {"inlineData": {"mimeType": "audio/mp3", "data": "AAAA"}}),
        (Media("audio", ("AAAA",), format="flac"), {"inlineData": {"mimeType": "audio/flac", "data": "AAAA"}}),
        (Media("audio", ("AAAA",)), {"inlineData": {"mimeType": "audio/wav", "data": "AAAA"}}),
        (Media("file", ("data:text/plain,a",)), {"inlineData": {"mimeType": "text/plain", "data": "YQ=="}}),
        (
            Media("file", ("data:application/json;base64,e30=",)),
            {"inlineData": {"mimeType": "text/plain", "data": "e30="}},
        ),
        (Media("video", ("https://a.test/v",)), {"fileData": {"mimeType": "video/mp4", "fileUri": "https://a.test/v"}}),
        (
            Media("audio", ("https://a.test/v",), format="ogg"),
            {"fileData": {"mimeType": "audio/ogg", "fileUri": "https://a.test/v"}},
        ),
    ],
)
def test_media_are_parts_with_their_type(media: Media, part: Json) -> None:
    assert list_contents(Message("user", (media,)), change={"inline_media": ()})[0]["parts"] == [part]


def test_frames_of_a_video_are_images() -> None:
    frames = Media("video", ("data:image/png;base64,AAAA", "data:;base64,BBBB"), frames=True)
    types = [part["inlineData"]["mimeType"] for part in list_contents(Message("user", (frames,)))[0]["parts"]]
    assert types == ["image/png", "image/jpeg"]


@each_case(
    ("media", "problem"),
    [
        (Media("file", ("data:application/zip;base64,AAAA",)), "takes PDF, text and media files"),
        (Media("image", ("data:image/png;base64,!!",)), "is not base64"),
        (Media("image", ("data:image/png",)), "comma"),
        (Media("image", ("/etc/passwd",)), "must be an HTTP"),
    ],
)
def test_media_that_cannot_be_sent_are_refused(media: Media, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        send(Message("user", (media,)))


def test_a_detail_of_an_image_is_not_sent() -> None:
    _, warnings = send(Message("user", (Media("image", ("data:;base64,AAAA",), detail="high", path="p"),)))
    assert warnings == ["p: `detail` was not sent: this model's server has no such parameter"]
