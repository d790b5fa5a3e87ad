"""Every row of a table in the documents has as many cells as its heading."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "examples/README.md"]


def find_broken_rows(text: str) -> Iterator[str]:
    """Yield the rows that have another number of cells than the heading, those of dashes that are not the second one,
    and the lines that a table runs into."""
    expected: int | None = None
    number = 0
    for line in re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE).split("\n"):
        if not line.startswith("|"):
            if expected is not None and line.strip() and not line.startswith("<!--"):
                yield line
            expected, number = None, 0
            continue
        number += 1
        cells = line.replace("\\|", "").rstrip().removesuffix("|").count("|")
        expected = expected or cells
        if cells != expected or (number != 2 and re.fullmatch(r"[|: ]*-[-|: ]*", line)):
            yield line


def test_no_table_is_broken() -> None:
    broken = {page.relative_to(ROOT).as_posix(): [*find_broken_rows(page.read_text("utf-8"))] for page in PAGES}
    assert not {page: rows for page, rows in broken.items() if rows}


def test_a_row_that_is_broken_over_two_lines_is_found() -> None:
    assert [*find_broken_rows("| a | b |\n|---|---|\n| 1 |\n2 |\n\n| c |\n|---|\n| `\\|` |\n")] == ["| 1 |", "2 |"]
    assert [*find_broken_rows("| a |\n|---|\n|---|\n| 1 |\n")] == ["|---|"]
