"""What the runs say: medians with their range, the ratios of each round, and whether the targets are met."""

from dataclasses import dataclass
from statistics import median

from measure import Row
from scenarios import VARIANTS, Figure, Scenario, Target, Variant

QUIET = 0.1
Runs = dict[str, dict[Variant, list[Row]]]
"""Scenario → variant → one row per round."""


@dataclass(frozen=True, slots=True)
class Spread:
    median: float
    lowest: float
    highest: float

    def shown(self) -> str:
        if self.lowest == self.highest:
            return _short(self.median)
        return f"{_short(self.median)} ({_short(self.lowest)}–{_short(self.highest)})"


@dataclass(frozen=True, slots=True)
class Verdict:
    """How the gateway stands to one target; `met` is None where there is no bound."""

    target: Target
    spread: Spread
    met: bool | None


def value(row: Row, figure: Figure) -> float:
    found = row
    for key in figure.path:
        found = found[key]
    return float(found) * figure.scale  # type: ignore[arg-type]  # the last key leads to a number


def spread(values: list[float]) -> Spread:
    return Spread(median(values), min(values), max(values))


def judge(runs: dict[Variant, list[Row]], target: Target) -> Verdict:
    """Compare within each round, for a machine drifts between rounds; the median of the rounds decides."""
    pairs = [
        (value(ours, target.figure), value(floor, target.figure))
        for ours, floor in zip(runs["gateway"], runs[target.floor], strict=True)
    ]
    found = spread([_compare(ours, floor, target) for ours, floor in pairs])
    return Verdict(target, found, _met(found.median, target))


def _compare(ours: float, floor: float, target: Target) -> float:
    if target.compare == "difference":
        return ours - floor
    return ours / floor if floor else 0.0


def _met(found: float, target: Target) -> bool | None:
    if target.bound == "no bound":
        return None
    return found >= target.limit if target.bound == "at least" else found <= target.limit


def doubts(runs: dict[Variant, list[Row]]) -> list[str]:
    """Every reason not to believe a row, with the round and the variant."""
    return [
        f"round {number} {variant}: {reason}"
        for variant, rows in runs.items()
        for number, row in enumerate(rows, 1)
        for reason in row["invalid"]
    ]


def markdown(scenarios: list[Scenario], runs: Runs) -> str:
    lines = [
        "| scenario | figure | direct | nginx | gateway | gateway beside | target | |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for scenario in scenarios:
        lines += [_line(scenario, runs[scenario.name], figure) for figure in scenario.figures]
    notes = [f"- {scenario.name}, {doubt}" for scenario in scenarios for doubt in doubts(runs[scenario.name])]
    noisy = max(row["strangers"] for each in runs.values() for rows in each.values() for row in rows)
    if noisy > QUIET:
        lines += ["", f"Not a quiet machine: other programs took up to {noisy:.0%} of the gateway's core."]
    if notes:
        lines += ["", "Invalid rows:", *notes]
    return "\n".join(lines)


def _line(scenario: Scenario, runs: dict[Variant, list[Row]], figure: Figure) -> str:
    cells = [scenario.name, figure.label, *(_cell(runs[variant], variant, figure) for variant in VARIANTS)]
    target = next((target for target in scenario.targets if target.figure == figure), None)
    return "| " + " | ".join([*cells, *(_verdict_cells(runs, target) if target else ("", "", ""))]) + " |"


def _cell(rows: list[Row], variant: Variant, figure: Figure) -> str:
    if variant == "direct" and figure.path[0] in ("cpu_us_chunk", "cpu_us_req", "rss_kb"):
        return "–"
    mark = " **invalid**" if any(row["invalid"] for row in rows) else ""
    return spread([value(row, figure) for row in rows]).shown() + mark


def _verdict_cells(runs: dict[Variant, list[Row]], target: Target) -> tuple[str, str, str]:
    verdict = judge(runs, target)
    sign = "×" if target.compare == "ratio" else "+"
    word = {True: "met", False: "**missed**", None: ""}[verdict.met]
    if any(row["invalid"] for variant in ("gateway", target.floor) for row in runs[variant]):
        word = "**invalid**"
    bound = "" if verdict.met is None else f"{target.bound} {target.limit:g}"
    return f"{target.floor} {sign} {verdict.spread.shown()}", bound, word


def _short(number: float) -> str:
    """Three digits, thousands separated: more would pretend."""
    if abs(number) >= 100:
        return f"{float(f'{number:.3g}'):,.0f}"
    return f"{number:.3g}"
