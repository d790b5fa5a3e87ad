"""The package map in docs/architecture.md and the tree of `app/`."""

import re
from pathlib import Path

from tests.each_case import each_case

ROOT = Path(__file__).parent.parent
ROWS = re.findall(r"^\| `(app/\S*)` \|.*\|(.*)\|$", (ROOT / "docs/architecture.md").read_text("utf-8"), re.MULTILINE)
MAP = {folder.rstrip("/"): re.findall(r"`([\w/]+)`", names) for folder, names in ROWS}
"""The modules of each package that are read first."""
PACKAGES = {str(path.parent.relative_to(ROOT)): path.parent for path in ROOT.glob("app/**/__init__.py")}


def test_the_map_has_a_row_for_every_package_of_app() -> None:
    assert {folder for folder in PACKAGES if folder.count("/") < 2} <= MAP.keys() <= PACKAGES.keys()


@each_case("package", sorted(MAP))
def test_the_map_names_modules_that_are_there(package: str) -> None:
    assert MAP[package]
    assert all((ROOT / package / f"{name}.py").exists() for name in MAP[package])


def test_what_two_test_modules_need_is_in_a_module_that_holds_no_tests() -> None:
    importing = re.compile(
        r"^ *(?:from tests\.\S*\btest_\w+ import|from tests\S* import .*\btest_|import tests\S*\btest_)", re.M
    )
    modules = (ROOT / "tests").rglob("*.py")
    assert [str(path.relative_to(ROOT)) for path in modules if importing.search(path.read_text("utf-8"))] == []
