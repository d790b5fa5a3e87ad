"""The page on formats says what the formats do."""

from pathlib import Path

from app.formats import FORMATS

from tests.pages.formats import SIGNS, TITLES, document

PAGE = Path(__file__).parents[2] / "docs" / "formats.md"


def test_the_page_is_what_the_formats_do() -> None:
    assert PAGE.read_text("utf-8") == document(), "stale: run scripts/formats"


def test_every_format_stands_on_the_page() -> None:
    assert TITLES.keys() == FORMATS.keys()
    assert {form for form, _, _ in SIGNS} == FORMATS.keys()
