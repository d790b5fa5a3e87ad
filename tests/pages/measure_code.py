"""Prints the figures of the code of a checkout, or of several side by side, and compares them with their bounds.

`python -m tests.pages.measure_code [FOLDER…]` prints; `--check` fails where a figure of this checkout is more
than `ROOM` above its bound in `code_bounds.json`, `--update` writes the figures there as bounds, and `--files` names
the files that each path enters.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

from tests.pages.code_size import measure_size, measure_structure, read_modules

ROOT = Path(__file__).parents[2]
BOUNDS = Path(__file__).with_name("code_bounds.json")
TRACER = Path(__file__).with_name("code_paths.py")
UNBOUNDED = {"functions", "functions with docstring, %"}
ROOM = 0.05
"""How far a figure may be above its bound, as a part of it: a small change needs no new bound."""
REPEATS = 2
"""How often paths above their bound are traced again: a busy machine runs timers that a quiet one does not."""
Figures: TypeAlias = dict[str, int]


def measure(checkout: Path) -> Figures:
    modules = read_modules(checkout)
    return measure_size(modules) | measure_structure(modules) | measure_paths(checkout)


def measure_paths(checkout: Path) -> Figures:
    figures: Figures = {}
    for name, files in list_calls(checkout).items():
        figures[f"calls of a {name}"] = len(files)
        figures[f"switches of file of a {name}"] = count_switches(files)
    return figures


def count_switches(files: Sequence[str]) -> int:
    """How often a call is of another file than the call before it."""
    return sum(one != other for one, other in pairwise(files))


def list_calls(checkout: Path) -> dict[str, list[str]]:
    """The file of each function that each path calls, in order."""
    command = [sys.executable, "-P", str(TRACER)]
    environment = os.environ | {"PYTHONPATH": str(checkout.resolve())}
    ended = subprocess.run(command, cwd=checkout, env=environment, stdout=subprocess.PIPE, check=True)
    found: dict[str, list[str]] = json.loads(ended.stdout)
    return found


def table(columns: Mapping[str, Figures]) -> list[str]:
    """A row for each figure, a column for each checkout."""
    names = list(dict.fromkeys(name for figures in columns.values() for name in figures))
    width = max(map(len, names))
    widths = {column: max(len(column), 7) for column in columns}
    head = [" " * width, *(column.rjust(widths[column]) for column in columns)]
    rows = [
        [name.ljust(width), *(str(figures.get(name, "-")).rjust(widths[column]) for column, figures in columns.items())]
        for name in names
    ]
    return ["  ".join(cells) for cells in [head, *rows]]


def list_excesses(figures: Figures, bounds: Figures) -> list[str]:
    """What is more than `ROOM` above its bound, and what has none."""
    limits = {name: int(bound * (1 + ROOM)) for name, bound in bounds.items()}
    return [
        f"{name}: {value}, at most {limits[name]}" if name in bounds else f"{name}: {value}, without a bound"
        for name, value in figures.items()
        if name not in UNBOUNDED and value > limits.get(name, -1)
    ]


def measure_within(bounds: Figures, checkout: Path) -> Figures:
    """The figures of a checkout. A path above its bound is traced again: a busy machine delays timers into it."""
    figures = measure(checkout)
    for _ in range(REPEATS):
        if not list_excesses(figures, bounds):
            break
        figures |= {name: min(value, figures[name]) for name, value in measure_paths(checkout).items()}
    return figures


def check() -> int:
    bounds = json.loads(BOUNDS.read_text("utf-8"))
    excesses = list_excesses(measure_within(bounds, ROOT), bounds)
    for line in excesses:
        print(f"measure-code: {line}", file=sys.stderr)
    if excesses:
        print("measure-code: if the change is worth it, run: scripts/measure-code --update", file=sys.stderr)
    return 1 if excesses else 0


def update() -> None:
    figures = {name: value for name, value in measure(ROOT).items() if name not in UNBOUNDED}
    BOUNDS.write_text(json.dumps(figures, indent=2) + "\n", "utf-8")


def main(arguments: list[str]) -> int:
    if arguments == ["--check"]:
        return check()
    if arguments == ["--update"]:
        update()
        return 0
    if arguments == ["--files"]:
        for name, calls in list_calls(ROOT).items():
            files = sorted(set(calls))
            print(f"{name}: {len(files)}", *files, sep="\n  ")
        return 0
    print("\n".join(table({folder: measure(Path(folder)) for folder in arguments or ["."]})))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
