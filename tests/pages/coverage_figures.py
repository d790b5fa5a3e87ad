"""The share of branches and lines that the tests run of each pure package."""

import json
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PURE_CONTRACT = "pure modules"
PURE_SHARE = 0.985  # to be 0.995 again, when it has been measured with the features of this version
"""The pure packages need no network, no clock and no second process to be run. What no unit test of them runs are
branches for what cannot happen today: `scripts/check-coverage` names the lines."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What coverage counted in some files."""

    ran: int = 0
    countable: int = 0
    missing: tuple[str, ...] = ()
    """Lines and branches that did not run, by file."""

    @property
    def share(self) -> float:
        return self.ran / self.countable if self.countable else 1.0

    def __add__(self, other: "Figures") -> "Figures":
        return Figures(self.ran + other.ran, self.countable + other.countable, self.missing + other.missing)


def pure_modules(root: Path = ROOT) -> list[str]:
    """The modules and packages that the import contract calls pure."""
    contracts = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    (contract,) = (contract for contract in contracts if contract["name"].startswith(PURE_CONTRACT))
    return list(contract["source_modules"])


def list_files(modules: list[str], root: Path = ROOT) -> list[str]:
    """The patterns of the files of these modules and packages, as coverage takes them."""
    paths = (module.replace(".", "/") for module in modules)
    return [f"{path}/*" if (root / path).is_dir() else f"{path}.py" for path in paths]


def list_tests(modules: list[str], root: Path = ROOT) -> list[str]:
    """The files and folders of the tests of these modules and packages, where there are any."""
    paths = (Path("tests", *module.split(".")[1:]) for module in modules)
    tests = (path if (root / path).is_dir() else path.with_name(f"test_{path.name}.py") for path in paths)
    return [str(path) for path in tests if (root / path).exists()]


def add_up(report: dict[str, Any], modules: list[str]) -> dict[str, Figures]:
    """The figures of each of the modules, from coverage's report in JSON."""
    by_module = dict.fromkeys(modules, Figures())
    for file, row in report["files"].items():
        figures = _figures(file, row)
        name = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for module in modules:
            if name == module or name.startswith(f"{module}."):
                by_module[module] += figures
    return by_module


def _figures(file: str, row: dict[str, Any]) -> Figures:
    counts = row["summary"]
    lines = [str(line) for line in row["missing_lines"]]
    branches = [f"{begin}->{end if end > 0 else 'exit'}" for begin, end in row["missing_branches"]]
    missing = (f"{file}: {', '.join([*lines, *branches])}",) if lines or branches else ()
    return Figures(
        counts["covered_lines"] + counts["covered_branches"], counts["num_statements"] + counts["num_branches"], missing
    )


def describe_pure(by_module: dict[str, Figures]) -> tuple[list[str], bool]:
    """What is printed of the pure modules, and whether the tests run as much of them as they must."""
    rows = [f"{figures.share:7.1%}  {module}" for module, figures in by_module.items()]
    pure = sum(by_module.values(), Figures())
    rows += [
        f"{pure.share:7.1%}  all pure modules (at least {PURE_SHARE:.1%})",
        *(f"         {line}" for line in pure.missing),
    ]
    return rows, pure.share >= PURE_SHARE


def main(report: Path) -> int:
    rows, enough = describe_pure(add_up(json.loads(report.read_text("utf-8")), pure_modules()))
    print("\n".join(rows))
    return 0 if enough else 1


if __name__ == "__main__":
    if sys.argv[1] == "--files":
        print(",".join(list_files(pure_modules())))
    elif sys.argv[1] == "--tests":
        print(" ".join(list_tests(pure_modules())))
    else:
        sys.exit(main(Path(sys.argv[1])))
