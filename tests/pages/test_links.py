"""Every relative link and every anchor in the project's pages leads somewhere."""

import re
from functools import cache
from pathlib import Path

import pytest

from tests.each_case import each_case

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")]
PAGES += sorted((ROOT / "docs").rglob("*.md"))
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")


def prose(page: Path) -> str:
    """The page without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)


@cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return frozenset(anchor(heading) for heading in headings)


def anchor(heading: str) -> str:
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")


def broken_links(page: Path) -> list[str]:
    return [target for target in LINK.findall(prose(page)) if not leads_somewhere(page, target)]


def leads_somewhere(page: Path, target: str) -> bool:
    if re.match(r"[a-z]+:", target):
        return True
    path, _, fragment = target.partition("#")
    goal = (page.parent / path).resolve() if path else page
    return goal.exists() and (not fragment or fragment in anchors(goal))


@each_case("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    assert broken_links(page) == []


def test_every_page_of_the_documentation_is_linked_from_its_index_or_from_a_page_that_is() -> None:
    seen, waiting = set[Path](), [ROOT / "docs/README.md"]
    while waiting:
        page = waiting.pop()
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        paths = [target.partition("#")[0] for target in LINK.findall(prose(page)) if not re.match(r"[a-z]+:", target)]
        waiting += [(page.parent / path).resolve() for path in paths if path]
    assert [page for page in PAGES if page.is_relative_to(ROOT / "docs") and page not in seen] == []


def test_the_first_page_has_at_most_a_hundred_lines() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 100


@pytest.mark.parametrize(
    ("target", "found"),
    [
        ("../reference/errors.md#codes", True),
        ("../reference/errors.md#no-such-heading", False),
        ("../reference/nothing.md", False),
        ("#checklist", True),
        ("#no-such-heading", False),
        ("https://example.com", True),
    ],
)
def test_a_link_is_followed_to_its_page_and_its_heading(target: str, found: bool) -> None:
    assert leads_somewhere(ROOT / "docs/operate/security.md", target) is found


def test_a_heading_gets_the_anchor_that_github_gives_it() -> None:
    assert anchor("Fields of `POST /v1/chat/completions`") == "fields-of-post-v1chatcompletions"
    assert anchor("`[cache]`") == "cache"
    assert anchor("The header `x-parley-cache`") == "the-header-x-parley-cache"
