"""The package map in docs/architecture.md and the tree of `app/`."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROWS = re.findall(r"^\| `(app/\S*)` \|.*\|(.*)\|$", (ROOT / "docs/architecture.md").read_text("utf-8"), re.MULTILINE)
MAP = {folder.rstrip("/"): sorted(re.findall(r"`(\w+)`", re.sub(r"\(.*?\)", "", names))) for folder, names in ROWS}
"""The modules of each package; what stands in brackets describes them."""
PACKAGES = {str(path.parent.relative_to(ROOT)): path.parent for path in ROOT.glob("app/**/__init__.py")}


def test_the_map_has_a_row_for_every_package_and_for_no_other() -> None:
    assert sorted(MAP) == sorted(PACKAGES)


@pytest.mark.parametrize("package", sorted(PACKAGES))
def test_the_map_names_every_module_of_a_package_and_no_other(package: str) -> None:
    modules = sorted(path.stem for path in PACKAGES[package].glob("*.py") if path.stem != "__init__")
    assert MAP[package] == modules
