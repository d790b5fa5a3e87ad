"""The page on the API says what the description of the API says."""

from pathlib import Path

from tests.pages.api_reference import document


def test_the_page_is_what_the_description_says() -> None:
    page = Path(__file__).parents[2] / "docs/reference/api.md"
    assert page.read_text("utf-8") == document(), "stale: run make openapi and scripts/api-reference"
