import json
from typing import Any

import pytest
from app.endpoints.body import read_fields
from app.errors import BadRequest

from tests.each_case import each_case


def test_only_the_name_of_the_model_is_changed() -> None:
    body = read_fields(b'{"model": "e", "input": [1.0, 1, true], "future": {"a": -0.0}}')
    assert body.encode("up", {"input": 1, "dimensions": 2}, {}) == (
        b'{"model":"up","input":[1.0, 1, true],"future":{"a": -0.0},"dimensions":2}'
    )


def test_the_options_of_a_stream_are_kept_beside_the_question_for_its_usage() -> None:
    body = read_fields(b'{"model": "e", "stream": true, "stream_options": {"a": 1}}')
    assert not body.names_usage
    assert json.loads(body.encode("e", {}, {"include_usage": True}))["stream_options"] == {
        "a": 1,
        "include_usage": True,
    }


@each_case("options", ['{"include_usage": true}', '{"include_usage": false}'])
def test_a_request_says_whether_its_stream_has_a_usage(options: str) -> None:
    assert read_fields(f'{{"model": "e", "stream_options": {options}}}'.encode()).names_usage


@each_case(
    ("raw", "param"),
    [(b'{"model":', None), (b"[]", None), (b"", None), (b'{"model": 1}', "model"), (b'{"model": ""}', "model")],
)
def test_a_body_without_a_readable_top_level_is_refused(raw: bytes, param: str | None) -> None:
    with pytest.raises(BadRequest) as caught:
        read_fields(raw)
    assert caught.value.param == param


@each_case(
    ("body", "tokens"),
    [
        ('{"input": "abcdefgh"}', 2),
        ('{"input": ["abcd", "ab\\""], "user": "abcdefghijk"}', 2),
        ('{"input": [[1, 22, 333], [4]]}', 4),
        ('{"query": "abcd", "documents": ["abcd"]}', 2),
        ("{}", 0),
    ],
)
def test_a_prompt_is_estimated_by_its_texts_and_its_numbers(body: str, tokens: int) -> None:
    assert read_fields(body.encode()).estimate_tokens() == tokens


def test_the_characters_of_a_text_that_is_spoken_are_counted() -> None:
    assert read_fields('{"input": "äöü"}'.encode()).count_characters() == 3
    assert read_fields(b'{"input": [1]}').count_characters() == 0


def test_what_a_model_reads_is_no_option() -> None:
    body = read_fields(b'{"model": "e", "input": "a", "future": [1.0], "n": 2}')
    assert body.list_options() == {"future": [1.0], "n": 2}


PRIVATE = "http://169.254.169.254/latest"


@each_case(
    ("fields", "paths"),
    [
        ({"input": [PRIVATE], "query": PRIVATE}, []),
        ({"documents": [{"text": PRIVATE}], "encoding_format": "a/b"}, []),
        ({"input": [{"image": PRIVATE}, {"text": "a"}]}, ["input[0].image"]),
        ({"documents": [{"image": PRIVATE}]}, ["documents[0].image"]),
        ({"messages": [{"content": [{"type": "image_url", "image_url": {"url": PRIVATE}}]}]}, None),
        ({"image": ["data:image/png;base64,//8=", "//8AAAA=", PRIVATE]}, ["image[2]"]),
        ({"modality": "image", "input": [PRIVATE]}, ["input[0]"]),
        ({"modality": ["image"], "input": [PRIVATE]}, []),
        ({"ref_audio": "file:///etc/passwd", "webhook_url": PRIVATE}, ["ref_audio", "webhook_url"]),
    ],
)
def test_what_a_server_may_fetch_is_found_and_a_text_is_none(fields: dict[str, Any], paths: list[str] | None) -> None:
    body = read_fields(json.dumps({"model": "e", **fields}).replace("//", "\\/\\/").encode())
    expected = ["messages[0].content[0].image_url.url"] if paths is None else paths
    assert [path for path, _ in body.find_urls()] == expected


@each_case("value", ["1e999", "9" * 5000])
def test_a_value_that_cannot_be_read_is_named(value: str) -> None:
    body = read_fields(b'{"model": "e", "x": %b}' % value.encode())
    with pytest.raises(BadRequest, match="`x` has a value that cannot be read"):
        body.list_options()
