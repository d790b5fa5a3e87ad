"""Pydantic's errors become paths that exist in what was refused."""

from typing import Any

import pytest
from app.formats.violations import MAX_JUDGED, json_path, violations
from app.params import GenerateCfg
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError


class Thing(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    words: dict[str, str] | None = None
    stop: str | list[str] | None = None
    cfg: GenerateCfg | None = None
    name: str


def paths(value: Any) -> list[str]:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(list[Thing]).validate_python(value)
    return [found.path for found in violations(caught.value, value, "things")]


@pytest.mark.parametrize(
    ("thing", "path"),
    [
        ({}, "things[0].name"),
        ({"name": 1}, "things[0].name"),
        ({"name": "x", "stop": 3}, "things[0].stop"),
        ({"name": "x", "words": {"str": 1}}, "things[0].words.str"),
        ({"name": "x", "words": {"a.b": 1}}, 'things[0].words["a.b"]'),
        ({"name": "x", "<foo>": 1}, 'things[0]["<foo>"]'),
        ({"name": "x", "cfg": {"int": 1}}, "things[0].cfg.int"),
        ({"name": "x", 'say "x"': 1}, 'things[0]["say \\"x\\""]'),
    ],
)
def test_a_path_leads_to_the_place_of_the_violation(thing: dict[str, Any], path: str) -> None:
    assert paths([thing]) == [path]


def test_every_violation_is_found_and_every_place_is_named_once() -> None:
    assert paths([{"stop": 3}, 1]) == ["things[0].stop", "things[0].name", "things[1]"]


def test_of_very_many_mistakes_enough_are_told() -> None:
    assert paths([1] * 2 * MAX_JUDGED) == [f"things[{place}]" for place in range(MAX_JUDGED)]


def test_a_path_needs_no_prefix() -> None:
    assert json_path(["messages", 2, "content", 0, "image"]) == "messages[2].content[0].image"
