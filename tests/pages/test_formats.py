"""The pages on formats say what the formats do."""

import re
from pathlib import Path

import pytest
from app.formats import FORMATS

from tests.pages.formats import FORMAT_PARTS, PARTS, PROSE, SIGNS, TITLES, documents

PAGES = Path(__file__).parents[2] / "docs/reference/formats"


def test_there_is_a_page_for_every_piece_of_prose_and_no_other() -> None:
    assert {path.name for path in PAGES.iterdir()} == set(documents())


@pytest.mark.parametrize("name", sorted(path.name for path in PROSE.glob("*.md")))
def test_a_page_is_what_the_formats_do(name: str) -> None:
    assert (PAGES / name).read_text("utf-8") == documents()[name], "stale: run scripts/formats"


def test_the_pages_show_every_format() -> None:
    assert TITLES.keys() == FORMATS.keys()
    assert {form for form, _, _ in SIGNS} == FORMATS.keys()


@pytest.mark.parametrize("part", ["conversation", "whole", "streamed", "refused", "failed"])
def test_every_format_has_each_of_its_parts_on_a_page(part: str) -> None:
    prose = "".join(path.read_text("utf-8") for path in PROSE.glob("*.md"))
    assert set(re.findall(re.escape("{{" + part) + r":(\w+)", prose)) == FORMATS.keys()


def test_every_part_stands_on_a_page() -> None:
    prose = "".join(path.read_text("utf-8") for path in PROSE.glob("*.md"))
    assert set(re.findall(r"\{\{(\w+)", prose)) == PARTS.keys() | FORMAT_PARTS.keys()
