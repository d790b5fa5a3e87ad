"""The package map in README.md and the packages of `app/`."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
APP = ROOT / "app"
MAP = (ROOT / "README.md").read_text("utf-8").partition("```\napp/\n")[2].partition("```")[0]


def test_the_package_map_names_every_module_of_the_application_and_of_its_packages() -> None:
    named = set(re.findall(r"\w+", MAP))
    modules = {path.stem for folder in (APP, *_packages(APP)) for path in folder.glob("*.py")} - {"__init__"}
    assert modules - named == set()


def test_the_package_map_names_every_package_and_no_package_that_does_not_exist() -> None:
    packages = _packages(APP)
    inner = [inside.name for package in packages for inside in _packages(package)]
    assert set(re.findall(r"(\w+)/", MAP)) == {*(package.name for package in packages), *inner}


def _packages(folder: Path) -> list[Path]:
    return [path.parent for path in sorted(folder.glob("*/__init__.py"))]
