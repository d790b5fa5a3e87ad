"""Arguments of calls that come piece by piece."""

from typing import Any

import pytest
from app.upstream.gemini.partial_arguments import MAX_GAP, MAX_STEPS, PartialArguments, PathRefused, parse_path

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
    arguments = PartialArguments({"given": 1})
    pieces: list[tuple[str, Json]] = [
        ("$.text", {"stringValue": "a"}),
        ("$.text", {"stringValue": "b"}),
        ("$.list[1].n", {"numberValue": 1.5}),
        ("$.text", {"stringValue": "c"}),
        ("$.list[0]", {"boolValue": True}),
        ("$.none", {"nullValue": "NULL_VALUE"}),
        ("$.other", {"stringValue": ""}),
        ("$.text", {}),
    ]
    for path, value in pieces:
        arguments.add({"jsonPath": path, **value})
    expected = {"given": 1, "text": "abc", "list": [True, {"n": 1.5}], "none": None, "other": ""}
    assert arguments.finish() == expected


@each_case(
    "piece",
    [
        {"stringValue": "a"},
        {"jsonPath": "$", "stringValue": "a"},
        {"jsonPath": "$.text.a", "stringValue": "a"},
        {"jsonPath": "$.text[0]", "numberValue": 1},
        {"jsonPath": "$[0]", "stringValue": "a"},
        {"jsonPath": f"$.list[{MAX_GAP + 1}]", "boolValue": True},
    ],
)
def test_a_piece_that_does_not_fit_is_refused(piece: Json) -> None:
    arguments = PartialArguments({"text": "x", "list": []})
    with pytest.raises(PathRefused):  # a text is set when it has ended
        arguments.add(piece)
        arguments.finish()
