"""Which media the gateway must load, and what for."""

import base64

import pytest
from app.chat.messages import ChatRequest, Media, Message, Text
from app.profiles import KINDS, Profile
from app.steps.media import ImageLimits, media_requests
from app.steps.pipeline import accepts_uploads

from tests.each_case import each_case
from tests.steps.media.sample_requests import PNG, TEXT, VISION, single_message

WEBP = b"RIFF\x04\0\0\0WEBP"


def data_uri(media_type: str, data: bytes) -> str:
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


WEB = "https://h/a"


@each_case(
    ("media", "profile", "purposes"),
    [
        (Media("image", (WEB,)), VISION, ["check"]),
        (Media("image", (WEB,)), VISION.model_copy(update={"passed_urls": "resolved"}), ["resolve"]),
        (Media("image", (WEB,)), VISION.model_copy(update={"passed_urls": "any"}), []),
        (Media("image", (PNG,)), VISION, []),
        (Media("image", ("data:image/jpeg;base64,iVBORw0KGgoAAAANSUhEUg==",)), VISION, []),
        (Media("image", (data_uri("image/png", WEBP),)), VISION, []),
        (Media("image", (data_uri("image/webp", WEBP),)), KINDS["llamacpp"], ["picture"]),
        (Media("image", (data_uri("image/png", b"<svg/>"),)), VISION, ["picture"]),
        (Media("image", (WEB,)), KINDS["ollama"], ["picture"]),
        (Media("image", (WEB,)), Profile(max_image_short_side=1080), ["picture"]),
        (Media("image", (WEB,)), TEXT, []),
        (Media("image", (PNG,)), TEXT, []),
        (Media("video", (WEB, WEB + "2"), frames=True), KINDS["moonshot"], ["picture", "picture"]),
        (Media("video", (WEB,)), KINDS["vllm"], ["check"]),
        (Media("video", (WEB,)), KINDS["moonshot"], ["inline"]),
        (Media("audio", (WEB,)), KINDS["openai"], ["raw"]),
        (Media("audio", (WEB,)), KINDS["dashscope"], ["check"]),
        (Media("audio", ("UklGRg==UklGRg==UklGRg==",), format="wav"), KINDS["openai"], []),
        (Media("file", (WEB,)), KINDS["openai"], ["inline"]),
        (Media("file", (WEB,)), KINDS["vllm"], ["text"]),
        (Media("file", (WEB,)), TEXT, []),
    ],
)
def test_bytes_are_wanted_only_where_the_model_needs_them(media: Media, profile: Profile, purposes: list[str]) -> None:
    assert [need.purpose for need in media_requests(single_message(media), profile)] == purposes


def test_files_of_an_assistant_are_not_fetched_to_be_described() -> None:
    assert media_requests(single_message(Media("file", (WEB,)), role="assistant"), Profile(media=())) == []


def test_equal_media_are_wanted_once_and_placed_where_they_stood_first() -> None:
    profile = KINDS["ollama"].model_copy(update={"max_media_bytes": 9})
    first, second = (Media("image", (WEB,), path=f"messages[{at}].content[0].image") for at in range(2))
    [need] = media_requests(single_message(first, second), profile)
    assert (need.path, need.limits) == (
        "messages[0].content[0].image",
        ImageLimits(max_bytes=9, formats=("png", "jpeg")),
    )


@pytest.mark.parametrize("url", ["data:image/png;base64,@@@", "data:image/png,plain", "data:;base64,", "data:x"])
def test_data_that_is_not_what_it_declares_is_looked_at(url: str) -> None:
    asked = ChatRequest("m", (Message("user", (Media("image", (url,)),)),))
    (found,) = media_requests(asked, VISION)
    assert found.url == url


def test_the_addresses_that_the_server_fetches_itself_are_found_with_their_places() -> None:
    parts = (
        Media("image", ("https://a.test/x.png",), path="messages[0].content[0].image"),
        Media("video", ("HTTP://a.test/1", PNG), frames=True, path="messages[0].content[1].video"),
        Media("audio", ("https://a.test/x.wav",), path="messages[0].content[2].audio"),
    )
    own = VISION.model_copy(update={"passed_urls": "public", "inline_media": ()})
    assert [(need.purpose, need.url, need.path) for need in media_requests(single_message(*parts), own)] == [
        ("check", "https://a.test/x.png", "messages[0].content[0].image"),
        ("check", "HTTP://a.test/1", "messages[0].content[1].video[0]"),
    ]
    assert media_requests(single_message(*parts), own.model_copy(update={"passed_urls": "any"})) == []


def test_uploads_that_are_named_in_words_are_accepted() -> None:
    request = ChatRequest("m", (Message("user", (Media("image", (PNG,)),)),))
    assert accepts_uploads(request, TEXT.model_copy(update={"name_media": "untaken"}))
    assert not accepts_uploads(request, TEXT.model_copy(update={"name_media": "never"}))


def test_an_image_of_an_earlier_turn_is_loaded_if_its_base64_is_not_clean() -> None:
    clean = data_uri("image/png", b"\x89PNG\r\n\x1a\n" + bytes(300) + b"\0\0\0\0IEND\xaeB`\x82")
    unclean = f"{clean[:250]}\r\n\r\n{clean[250:]}"
    needs = []
    for url in (clean, unclean):
        turns = (
            Message("user", (Media("image", (url,)),)),
            Message("assistant", (Text("A"),)),
            Message("user", (Text("B"),)),
        )
        needs += media_requests(ChatRequest("m", turns), VISION)
    assert [(need.url, need.purpose, need.required) for need in needs] == [(unclean, "picture", False)]
