"""The last results of `bench/run --write`, in `results.json`: what the pages on performance and sizing and the README
say is computed from this file.

A row has one figure of one server. A run replaces the rows of the servers and scenarios that it measured; the others
stay, with the run that they are from.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from report import Spread, spread

FILE = Path(__file__).with_name("results.json")


@dataclass(frozen=True, slots=True)
class Run:
    """What was measured, when and where."""

    date: str
    commit: str
    rounds: int
    machine: str


@dataclass(frozen=True, slots=True)
class ResultRow:
    scenario: str
    server: str
    version: str
    """Of the server; "" for the gateway, whose commit the run has."""
    endpoint: str
    """"" where the scenario has one for each server."""
    figure: str
    values: tuple[float, ...]
    """One of each round."""
    valid: bool = True
    run: int = 0
    """Its place in the list of runs."""


@dataclass(frozen=True, slots=True)
class Measured:
    runs: tuple[Run, ...]
    rows: tuple[ResultRow, ...]

    def find(self, scenario: str, server: str, figure: str, endpoint: str = "") -> ResultRow | None:
        """Return the row if its values may be believed."""
        wanted = (scenario, server, figure, endpoint)
        rows = (row for row in self.rows if (row.scenario, row.server, row.figure, row.endpoint) == wanted)
        return next((row for row in rows if row.valid), None)

    def spread(self, scenario: str, server: str, figure: str, endpoint: str = "") -> Spread | None:
        row = self.find(scenario, server, figure, endpoint)
        return None if row is None else spread(list(row.values))

    def add(self, run: Run, rows: Iterable[ResultRow]) -> "Measured":
        """Return the results with those of another run in the place of older ones."""
        added = [replace(row, run=len(self.runs)) for row in rows]
        measured = {(row.scenario, row.server) for row in added}
        kept = [row for row in self.rows if (row.scenario, row.server) not in measured]
        return _without_unused_runs((*self.runs, run), sorted([*kept, *added], key=lambda row: row.scenario))


def _without_unused_runs(runs: tuple[Run, ...], rows: list[ResultRow]) -> Measured:
    used = sorted({row.run for row in rows})
    return Measured(
        tuple(runs[number] for number in used), tuple(replace(row, run=used.index(row.run)) for row in rows)
    )


def load(file: Path = FILE) -> Measured:
    read = json.loads(file.read_text("utf-8"))
    rows = tuple(ResultRow(**{**row, "values": tuple(row["values"])}) for row in read["rows"])
    return Measured(tuple(Run(**run) for run in read["runs"]), rows)


def save(measured: Measured, file: Path = FILE) -> None:
    """Write a row on each line, so that a change of the file shows what was measured again."""
    lists = {"runs": [asdict(run) for run in measured.runs], "rows": [asdict(row) for row in measured.rows]}
    parts = (f' "{name}": [\n' + ",\n".join(map(_line, each)) + "\n ]" for name, each in lists.items())
    file.write_text("{\n" + ",\n".join(parts) + "\n}\n", "utf-8")


def _line(value: dict[str, Any]) -> str:
    return "  " + json.dumps(value, ensure_ascii=False)
