"""Arguments of calls that come piece by piece."""

from typing import Any

import pytest
from app.upstream.gemini.partial_arguments import MAX_INDEX, MAX_STEPS, PathRefused, add_piece, parse_path

from tests.each_case import each_case

Json = dict[str, Any]


@each_case(
    ("path", "steps"),
    [
        ("$", []),
        ("$.a.b", ["a", "b"]),
        ("$['a.b'][2]", ["a.b", 2]),
        (r"$['it\'s']", ["it's"]),
        ('$["x"].y', ["x", "y"]),
    ],
)
def test_a_path_has_names_and_places(path: str, steps: list[Any]) -> None:
    assert parse_path(path) == steps


@each_case("path", ["", "a", "$a", "$.", "$[x]", "$.a[", "$" + ".a" * (MAX_STEPS + 1), "$." + "a" * 5000])
def test_a_path_that_cannot_be_read_is_refused(path: str) -> None:
    with pytest.raises(PathRefused):
        parse_path(path)


def test_pieces_make_the_arguments() -> None:
    arguments: Json = {}
    pieces: list[tuple[str, Json]] = [
        ("$.text", {"stringValue": "a"}),
        ("$.text", {"stringValue": "b"}),
        ("$.list[1].n", {"numberValue": 1.5}),
        ("$.list[0]", {"boolValue": True}),
        ("$.none", {"nullValue": "NULL_VALUE"}),
        ("$.text", {}),
    ]
    for path, value in pieces:
        add_piece(arguments, {"jsonPath": path, **value})
    assert arguments == {"text": "ab", "list": [True, {"n": 1.5}], "none": None}


@each_case(
    "piece",
    [
        {"stringValue": "a"},
        {"jsonPath": "$", "stringValue": "a"},
        {"jsonPath": "$.text.a", "stringValue": "a"},
        {"jsonPath": "$.text[0]", "stringValue": "a"},
        {"jsonPath": "$[0]", "stringValue": "a"},
        {"jsonPath": f"$.list[{MAX_INDEX + 1}]", "stringValue": "a"},
    ],
)
def test_a_piece_that_does_not_fit_is_refused(piece: Json) -> None:
    with pytest.raises(PathRefused):
        add_piece({"text": "x", "list": []}, piece)
