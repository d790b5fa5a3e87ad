"""The page of faults is that of the present code."""

from pathlib import Path

from tests.faults.page import document

PAGE = Path(__file__).parents[2] / "docs/evidence/fault-model.md"


def test_the_page_is_what_the_table_gives() -> None:
    assert PAGE.read_text("utf-8") == document(), "stale: run scripts/fault-model"
