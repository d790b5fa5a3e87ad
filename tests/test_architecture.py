"""The package map in docs/architecture.md and the tree of `app/`."""

import ast
import re
from collections.abc import Iterator
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


def test_a_sentence_about_a_value_stands_behind_it() -> None:
    modules = sorted(path for folder in ("app", "tests", "bench") for path in (ROOT / folder).rglob("*.py"))
    assert [f"{path.relative_to(ROOT)}:{line}" for path in modules for line in _find_lost_docstrings(path)] == []


def _find_lost_docstrings(path: Path) -> Iterator[int]:
    """Yield the lines of texts in a module or class that describe neither it nor the value before them."""
    for scope in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(scope, ast.Module | ast.ClassDef):
            for before, node in zip(scope.body, scope.body[1:], strict=False):
                if _is_text(node) and not isinstance(before, ast.Assign | ast.AnnAssign | ast.AugAssign):
                    yield node.lineno


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
