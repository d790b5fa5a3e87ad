"""Media as each kind of server takes them, and with which word and place they are refused."""

from typing import Any

import pytest
from app.profiles import KINDS

from tests.each_case import each_case
from tests.upstream.sample_histories import Json, refused, sent, user

URL, URI, SOUND = "https://h/x", "data:image/png;base64,AA==", "data:audio/mpeg;base64,AAAA"
BARE = {"data": "A" * 16, "format": "wav"}


def parts(kind: str, **item: Any) -> Any:
    return sent(user([{"text": "look"}, item]), **KINDS[kind].model_dump())[0]["content"][1:]


def problem(kind: str, **item: Any) -> str:
    [(path, message)] = refused(user([{"text": "look"}, item]), **KINDS[kind].model_dump())
    assert path == f"messages[0].content[1].{next(iter(item))}"
    return message


def image(url: str) -> Json:
    return {"type": "image_url", "image_url": {"url": url}}


def sound(**audio: str) -> Json:
    return {"type": "input_audio", "input_audio": audio}


def audio_url(url: str) -> Json:
    return {"type": "audio_url", "audio_url": {"url": url}}


TAKES = {
    "openai_compatible": "image audio video file",
    "vllm": "image audio video",
    "sglang": "image audio video",
    "llamacpp": "image audio",
    "ollama": "image audio",
    "lmstudio": "image",
    "llamacpp_python": "image",
    "transformers": "image video",
    "dashscope": "image audio video",
    "deepseek": "image",
    "moonshot": "image video",
    "zhipu": "image video",
    "minimax": "",
    "siliconflow": "image audio video",
    "openrouter": "image audio video file",
    "groq": "image",
    "mistral": "image",
    "xai": "image",
    "gemini": "image audio",
    "vertex": "image audio",
    "openai": "image audio file",
}


def test_every_kind_has_its_row() -> None:
    assert set(TAKES) == set(KINDS) - {"anthropic", "anthropic_compatible"}  # these have another API


@each_case("kind", TAKES)
@each_case("medium", ["image", "audio", "video", "file"])
def test_a_kind_takes_its_media_and_refuses_the_others_with_their_place(kind: str, medium: str) -> None:
    data = SOUND if medium == "audio" else URI
    if medium in TAKES[kind].split():
        assert len(parts(kind, **{medium: data})) == 1
    else:
        assert problem(kind, **{medium: data}) == f"this model does not accept {medium} input"


@each_case(
    ("kind", "item", "want"),
    [
        ("openai_compatible", {"image": URL}, [image(URL)]),
        ("openai_compatible", {"image": URI}, [image(URI)]),
        ("ollama", {"image": URI}, [image(URI)]),
        ("openai_compatible", {"video": URL}, [{"type": "video_url", "video_url": {"url": URL}}]),
        ("dashscope", {"video": [URL, URI]}, [{"type": "video", "video": [URL, URI]}]),
        ("openai", {"file": URI}, [{"type": "file", "file": {"filename": "file", "file_data": URI}}]),
        ("dashscope", {"audio": URL}, [sound(data=URL)]),
        ("dashscope", {"audio": {"data": URL, "format": "mp3"}}, [sound(data=URL, format="mp3")]),
        ("dashscope", {"audio": SOUND}, [sound(data=SOUND)]),
        ("dashscope", {"audio": BARE}, [sound(data="data:;base64," + "A" * 16, format="wav")]),
        ("vllm", {"audio": URL}, [audio_url(URL)]),
        ("sglang", {"audio": SOUND}, [audio_url(SOUND)]),
        ("siliconflow", {"audio": SOUND}, [audio_url(SOUND)]),
        ("vllm", {"audio": BARE}, [audio_url("data:audio/wav;base64," + "A" * 16)]),
        ("openai", {"audio": SOUND}, [sound(data="AAAA", format="mp3")]),
        ("openai", {"audio": "DATA:Audio/X-Wav;BASE64,AAAA"}, [sound(data="AAAA", format="wav")]),
        ("openai", {"audio": {"data": SOUND, "format": "wav"}}, [sound(data="AAAA", format="wav")]),
        ("openai", {"audio": "data:audio/aac;base64,AAAA"}, [sound(data="AAAA", format="aac")]),
        ("llamacpp", {"audio": BARE}, [sound(data="A" * 16, format="wav")]),
    ],
)
def test_media_have_the_form_of_the_server(kind: str, item: Json, want: list[Json]) -> None:
    assert parts(kind, **item) == want


def test_frames_are_images_where_a_server_takes_no_list_of_them() -> None:
    got = sent(user([{"video": [URL, URI]}]), video_frames="images")[0]["content"]
    assert got == [image(URL), image(URI)]


@pytest.mark.parametrize(
    ("kind", "item", "word"),
    [
        ("ollama", {"image": URL}, "must be a data URI: this model's server does not fetch image URLs"),
        ("moonshot", {"video": [URI, URL]}, "must be a data URI"),
        ("openai", {"file": URL}, "must be a data URI"),
        ("openai", {"audio": URL}, "must be a data URI"),
        ("openai", {"audio": {"data": "A" * 16}}, "must have a format"),
        ("openai", {"audio": "data:;base64,AAAA"}, "must have a format"),
        ("openai", {"audio": "data:application/octet-stream;base64,AAAA"}, "must have a format"),
        ("openai", {"audio": "data:audio/wav,%00"}, "must be a data URI in base64"),
    ],
)
def test_media_that_a_server_cannot_read_are_refused_with_their_place(kind: str, item: Json, word: str) -> None:
    assert word in problem(kind, **item)


def test_all_violations_are_reported_at_once() -> None:
    found = refused(user([{"image": URL}, {"file": URI}]), user([{"video": URL}]), media=("file",))
    assert [path for path, _ in found] == ["messages[0].content[0].image", "messages[1].content[0].video"]


def test_an_empty_text_beside_media_is_no_part() -> None:
    assert sent(user([{"text": ""}, {"image": URL}]))[0]["content"] == [image(URL)]
