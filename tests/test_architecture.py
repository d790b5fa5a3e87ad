"""The package map in docs/architecture.md and the tree of `app/`."""

import re
from pathlib import Path

from tests.each_case import each_case

ROOT = Path(__file__).parent.parent
ROWS = re.findall(r"^\| `(app/\S*)` \|.*\|(.*)\|$", (ROOT / "docs/architecture.md").read_text("utf-8"), re.MULTILINE)
MAP = {folder.rstrip("/"): sorted(re.findall(r"`(\w+)`", re.sub(r"\(.*?\)", "", names))) for folder, names in ROWS}
"""The modules of each package; what stands in brackets describes them."""
PACKAGES = {str(path.parent.relative_to(ROOT)): path.parent for path in ROOT.glob("app/**/__init__.py")}


def test_the_map_has_a_row_for_every_package_and_for_no_other() -> None:
    assert sorted(MAP) == sorted(PACKAGES)


@each_case("package", sorted(PACKAGES))
def test_the_map_names_every_module_of_a_package_and_no_other(package: str) -> None:
    modules = sorted(path.stem for path in PACKAGES[package].glob("*.py") if path.stem != "__init__")
    assert MAP[package] == modules


def test_what_two_test_modules_need_is_in_a_module_that_holds_no_tests() -> None:
    importing = re.compile(
        r"^ *(?:from tests\.\S*\btest_\w+ import|from tests\S* import .*\btest_|import tests\S*\btest_)", re.M
    )
    modules = (ROOT / "tests").rglob("*.py")
    assert [str(path.relative_to(ROOT)) for path in modules if importing.search(path.read_text("utf-8"))] == []
