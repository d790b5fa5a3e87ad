"""Embeddings in the words of Gemini's API and of `/v1/embeddings`."""

from typing import Any

import pytest
from app.errors import InvalidInput
from app.formats.gemini.embeddings import is_own_answer, parse_embed_body, write_embeddings

from tests.each_case import each_case

Json = dict[str, Any]
TEXT: Json = {"parts": [{"text": "a"}, {"text": "b"}]}
IMAGE: Json = {"inline_data": {"mimeType": "image/png", "data": ""}}


def parse(body: Any, *, batch: bool = False) -> Json:
    return parse_embed_body(body, "m", batch=batch)


@each_case(
    ("fields", "dimensions"),
    [
        ({}, {}),
        ({"outputDimensionality": 3.0}, {"dimensions": 3}),
        ({"embed_content_config": {"output_dimensionality": 4}}, {"dimensions": 4}),
        ({"taskType": "x", "title": "y", "model": "models/m"}, {}),
    ],
)
def test_the_texts_of_a_content_are_one_input(fields: Json, dimensions: Json) -> None:
    wanted = {"model": "m", "input": ["ab"], "encoding_format": "float", **dimensions}
    assert parse({"content": TEXT, **fields}) == wanted


@each_case(
    ("body", "batch", "paths"),
    [
        ({}, False, ["content"]),
        ({"content": {"parts": []}}, False, ["content"]),
        ({"content": {"parts": [{"text": "a"}, IMAGE]}}, False, ["content.parts[1].inline_data"]),
        ({"content": TEXT, "outputDimensionality": 0}, False, ["outputDimensionality"]),
        ({"requests": []}, True, ["requests"]),
        (
            {"requests": [{"content": TEXT}, {"content": TEXT, "output_dimensionality": 3}]},
            True,
            ["requests[1].output_dimensionality"],
        ),
    ],
)
def test_what_is_wrong_is_said_at_its_place(body: Json, batch: bool, paths: list[str]) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse(body, batch=batch)
    assert [one.path for one in caught.value.violations] == paths


def test_vectors_come_in_the_order_of_their_numbers() -> None:
    rows = [{"index": 1, "embedding": [2]}, {"index": 0, "embedding": [1]}]
    usage = {"total_tokens": 5}
    assert write_embeddings({"data": rows, "usage": usage}, 2, batch=True) == {
        "embeddings": [{"values": [1]}, {"values": [2]}],
        "usageMetadata": {"promptTokenCount": 5, "totalTokenCount": 5},
    }
    alone = {"data": [{"embedding": [1]}], "usage": {}}
    assert write_embeddings(alone, 1, batch=False) == {"embedding": {"values": [1]}}
    half = {"data": [{"embedding": [1]}], "usage": {"prompt_tokens": 3}}
    assert write_embeddings(half, 1, batch=False)["usageMetadata"] == {"promptTokenCount": 3, "totalTokenCount": 3}


@each_case("answer", [[], {}, {"data": []}, {"data": [1]}, {"data": [{"embedding": "x"}]}])
def test_another_answer_is_an_error(answer: Any) -> None:
    with pytest.raises(ValueError, match="the answer has"):
        write_embeddings(answer, 1, batch=False)


@each_case(
    "indices",
    [(0, 0), (0, 2), (-1, 0), ("0", "1"), (0,), (0, 1, 2), (True, False), (1, None), (0.0, 1.0)],
)
def test_vectors_whose_texts_are_not_known_are_an_error(indices: tuple[Any, ...]) -> None:
    rows = [{"index": index, "embedding": [0.5]} for index in indices]
    with pytest.raises(ValueError, match="index|embeddings for 2 texts"):
        write_embeddings({"data": rows}, 2, batch=True)


def test_vectors_without_numbers_are_in_the_order_of_the_texts() -> None:
    rows = [{"embedding": [1]}, {"embedding": [2], "index": None}]
    assert write_embeddings({"data": rows}, 2, batch=True) == {"embeddings": [{"values": [1]}, {"values": [2]}]}


@each_case(
    ("answer", "is_own"),
    [
        ({"embedding": {"values": [1]}}, True),
        ({"embeddings": []}, True),
        ({"data": [], "embeddings": []}, False),
        ({"embedding": [1]}, False),
        ({"embeddings": [[1]]}, False),
        ({"data": []}, False),
        ([], False),
    ],
)
def test_an_answer_of_the_api_itself_is_known(answer: Any, is_own: bool) -> None:
    assert is_own_answer(answer) is is_own
