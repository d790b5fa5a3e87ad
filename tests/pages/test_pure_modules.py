"""Each module of the pure packages has tests in a file that is named for it."""

import ast
from pathlib import Path

from tests.pages.coverage_figures import ROOT, pure_modules

IN_THE_DOCUMENT = "openapi"
"""The modules of this name describe an API; `tests/test_openapi.py` tests them together."""


def files_of(module: str) -> list[Path]:
    path = ROOT / module.replace(".", "/")
    return sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]


def has_code(path: Path) -> bool:
    """Whether a module has functions, and so something that a test can run."""
    tree = ast.parse(path.read_text("utf-8"))
    return path.stem not in ("__init__", IN_THE_DOCUMENT) and any(
        isinstance(node, ast.FunctionDef) for node in ast.walk(tree)
    )


def test_every_pure_module_with_functions_has_a_test_file_of_its_name() -> None:
    paths = {path.relative_to(ROOT / "app") for module in pure_modules() for path in files_of(module) if has_code(path)}
    missing = {
        str(path.with_suffix("")) for path in paths if not (ROOT / "tests" / path.parent / f"test_{path.name}").exists()
    }
    assert missing == set()
