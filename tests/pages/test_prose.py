"""`make check` finds spelling mistakes and words to avoid in every kind of file, and no code."""

from pathlib import Path

import pytest

from tests.each_case import each_case
from tests.pages.prose import ROOT, WORDS, Paragraph, find_mistakes, main, read_prose

PYTHON = '''
"""Answers equal
requests."""
# Replies to whoever
# asks.
ERROR = f"{1} has no thoughts"
NAME = "whoever"
def whoever() -> None:
    """Takes a `whoever`."""
'''
PAGE = """
# Whoever

A reply to equal
requests. `whoever` and [text](https://example.com/whoever).

| for ever | [pictures](whoever.md) |
|---|---|
- one
- anew

```py
whoever = 1
```
"""


@each_case(
    ("path", "content", "mistakes"),
    [
        ("app/a.py", PYTHON, ["2: equal requests", "4: whoever", "6: thoughts"]),
        ("scripts/a", "#!/usr/bin/env python3" + PYTHON, ["2: equal requests", "4: whoever"]),
        ("docs/a.md", PAGE, ["2: Whoever", "4: equal requests", "7: for ever", "7: pictures", "10: anew"]),
        ("app/playground/site/strings/en.json", '{"whoever": "A picture"}', ["1: picture"]),
        (
            "app/a.js",
            "/** Whoever. */ f(1 * whoever);\n\n// a\n// teh b\n\nconst c = `whoever`; // anew",
            ["1: Whoever", "3: teh", "6: anew"],
        ),
        ("a.yaml", "whoever: 1 # teh\n", ["1: teh"]),
    ],
)
def test_mistakes_are_found_where_people_read_and_not_in_code(path: str, content: str, mistakes: list[str]) -> None:
    found = [mistake.partition(" ==>")[0] for mistake in find_mistakes(read_prose(path, content))]
    assert sorted(found) == sorted(f"{path}:{mistake}" for mistake in mistakes)


def test_every_entry_of_the_list_is_found_and_its_replacements_are_not() -> None:
    entries = [line.partition("->") for line in WORDS.read_text("utf-8").splitlines()]
    found = find_mistakes([Paragraph("a", 1, f"Now {avoid} here") for avoid, _, _ in entries])
    assert len(found) == len(entries)
    assert find_mistakes([Paragraph("a", 1, instead) for _, _, instead in entries]) == []


def test_the_check_fails_for_a_mistake_and_says_what_to_write(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    page = tmp_path / "a.md"
    page.write_text("The same.\n\nThe reply is stored anew.\n")
    assert main([str(page)]) == 1
    assert capsys.readouterr().out == f"{page}:3: anew ==> again\n"
    page.write_text("The reply is stored again.\n")
    assert main([str(page)]) == 0


def test_the_script_of_make_check_runs_it() -> None:
    assert "-m tests.pages.prose ||" in (ROOT / "scripts/check-words").read_text("utf-8")
