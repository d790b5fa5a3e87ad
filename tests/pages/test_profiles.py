"""The page on profiles says what the profiles are."""

from pathlib import Path

from app.profiles import KINDS, Profile

from tests.each_case import each_case
from tests.pages.profiles import document, meanings


def test_the_page_is_what_the_profiles_are() -> None:
    page = Path(__file__).parents[2] / "docs/reference/profiles.md"
    assert page.read_text("utf-8") == document(), "stale: run scripts/profiles"


@each_case("name", Profile.model_fields)
def test_every_field_says_what_it_means(name: str) -> None:
    assert meanings()[name]


@each_case("kind", KINDS)
def test_a_profile_survives_the_way_through_a_file(kind: str) -> None:
    written = KINDS[kind].model_dump(mode="json", exclude_none=True)
    assert Profile.model_validate(Profile().model_dump() | written).lacks == KINDS[kind].lacks
