"""Figures that several pages name are those of the page that is generated from them, or of the settings."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hostile_schemas import list_cases

ROOT = Path(__file__).parents[2]
PAGES = sorted({ROOT / "README.md", *(ROOT / "docs").rglob("*.md")} - {ROOT / "docs/reference/api.md"})
SETTINGS = (ROOT / "docs/reference/settings.md").read_text("utf-8")  # tests/config/test_settings.py: it is true
DEFAULTS = re.findall(r"^\| `([\w.<>]+)` \| [^|]* \| `([\d.]+)` \|", SETTINGS, re.MULTILINE)
UNITS = {"MiB": 2**20, "GiB": 2**30, "MB": 10**6, "KB": 10**3, "minutes": 60, "minute": 60, "hours": 3600, "%": 0.01}
_SHOWN = re.compile(r"`(?:server\.)?([a-z_.]+)`[\w ]{0,6} \((?:default )?([\d,.]+) ?(\w+|%)?\)")


def find_defaults() -> Iterator[tuple[str, str, float]]:
    """Yield the page, the setting and the number, wherever a page names a setting with a number behind it."""
    names = {name.rpartition(".")[2] for name, _ in DEFAULTS}
    for page in PAGES:
        for name, number, unit in _SHOWN.findall(page.read_text("utf-8")):
            if name.rpartition(".")[2] in names:
                yield page.relative_to(ROOT).as_posix(), name, float(number.replace(",", "")) * UNITS.get(unit, 1)


@pytest.mark.parametrize(("page", "name", "number"), list(find_defaults()))
def test_a_number_behind_a_setting_is_its_default(page: str, name: str, number: float) -> None:
    defaults = {float(value) for setting, value in DEFAULTS if setting == name or setting.endswith(f".{name}")}
    # 64 MiB may be called 67 MB or 64 MB.
    assert any(abs(number - value) <= 0.05 * value for value in defaults), (page, defaults)


def test_the_defaults_of_pages_are_found() -> None:
    found = {(page, name) for page, name, _ in find_defaults()}
    assert ("docs/operate/limits.md", "max_concurrent_requests") in found
    assert len(found) > 10


@pytest.mark.parametrize(
    ("pattern", "source"),
    [
        (
            r"([\d,]+) recorded replies from (\d+) providers",
            r"^([\d,]+) replies of real servers.* from (\d+) providers",
        ),
        (r"recorded replies of (\d+) providers", r"replies of real .* from (\d+) providers"),
    ],
)
def test_the_numbers_of_recordings_are_those_of_the_generated_page(pattern: str, source: str) -> None:
    page = (ROOT / "docs/evidence/compatibility.md").read_text("utf-8")
    expected = re.findall(source, page, re.MULTILINE)
    _compare(pattern, expected)


def test_the_number_of_cases_of_qwen_agent_is_that_of_the_generated_page() -> None:
    page = (ROOT / "docs/evidence/qwen-agent-parity.md").read_text("utf-8")
    _compare(r"(\d+) cases (?:and every|compared)", re.findall(r"^(\d+) cases\.$", page, re.MULTILINE))


def test_the_first_page_has_the_figures_of_the_faults() -> None:
    page = (ROOT / "docs/evidence/faults.md").read_text("utf-8")
    counts = re.findall(r"(\d+) of (\d+)", next(line for line in page.split("\n") if line.startswith("| right")))
    readme = (ROOT / "README.md").read_text("utf-8")
    row = next(line for line in readme.split("\n") if line.startswith("| All ["))
    assert [f"{right} right" for right, _ in counts] == [cell.strip() for cell in row.split("|")[2:-1]]
    assert f"{counts[0][1]} faults" in row


def test_the_number_of_hostile_schemas_is_that_of_the_program() -> None:
    page = (ROOT / "docs/guides/structured-output.md").read_text("utf-8")
    assert re.findall(r"(\d+) hostile schemas", page) == [str(len([*list_cases()]))]


def test_the_examples_are_as_many_as_their_page_says() -> None:
    page = (ROOT / "examples/README.md").read_text("utf-8")
    tables = [part.split("\n\n")[0] for part in page.split("| Language | Program |")[1:]]
    words = re.findall(r"in (\w+) versions", page)
    numbers = {"five": 5, "eleven": 11}
    assert [numbers[word] for word in words] == [table.count("\n| ") for table in tables]


def _compare(pattern: str, expected: list[object]) -> None:
    """Every place of the pages where the pattern stands has what the generated page has."""
    assert len(expected) == 1
    said = [_plain(found) for page in PAGES for found in re.findall(pattern, page.read_text("utf-8"))]
    assert said and set(said) == {_plain(expected[0])}


def _plain(found: object) -> tuple[str, ...]:
    return tuple(text.replace(",", "") for text in (found if isinstance(found, tuple) else (str(found),)))
