"""What the runs say: medians with their range, the ratios of each round, and whether the targets are met."""

from dataclasses import dataclass
from statistics import median

from measure import Row
from scenarios import Figure, Scenario, Target

QUIET = 0.1
Runs = dict[str, dict[str, list[Row]]]
"""Scenario → variant → one row per round."""


@dataclass(frozen=True, slots=True)
class Spread:
    median: float
    lowest: float
    highest: float

    def shown(self) -> str:
        if self.lowest == self.highest:
            return short(self.median)
        return f"{short(self.median)} ({short(self.lowest)}–{short(self.highest)})"


@dataclass(frozen=True, slots=True)
class Verdict:
    """How the gateway stands to one target."""

    target: Target
    spread: Spread
    met: bool
    valid: bool
    """Whether every row of both may be believed."""


def value(row: Row, figure: Figure) -> float:
    found = row
    for key in figure.path:
        found = found[key]
    return float(found) * figure.scale  # type: ignore[arg-type]  # the last key leads to a number


def spread(values: list[float]) -> Spread:
    return Spread(median(values), min(values), max(values))


def judge(scenario: Scenario, runs: dict[str, list[Row]]) -> list[Verdict]:
    """Of each target whose variants were measured. They are compared within each round, for a machine drifts between
    rounds; the median of the rounds decides."""
    return [_judge(runs, target) for target in scenario.targets if {target.ours, target.floor} <= runs.keys()]


def _judge(runs: dict[str, list[Row]], target: Target) -> Verdict:
    ours, floor = runs[target.ours], runs[target.floor]
    pairs = [(value(own, target.figure), value(other, target.figure)) for own, other in zip(ours, floor, strict=True)]
    found = spread([_compare(own, other, target) for own, other in pairs])
    met = found.median >= target.limit if target.bound == "at least" else found.median <= target.limit
    return Verdict(target, found, met, not any(row["invalid"] for row in (*ours, *floor)))


def _compare(ours: float, floor: float, target: Target) -> float:
    if target.compare == "difference":
        return ours - floor
    return ours / floor if floor else 0.0


def doubts(runs: dict[str, list[Row]]) -> list[str]:
    """Every reason not to believe a row, with the round and the variant."""
    return [
        f"round {number} {variant}: {reason}"
        for variant, rows in runs.items()
        for number, row in enumerate(rows, 1)
        for reason in row["invalid"]
    ]


def markdown(scenarios: list[Scenario], runs: Runs) -> str:
    """The table of all figures, the table of the targets, and what speaks against both."""
    names = list(dict.fromkeys(name for scenario in scenarios for name in runs[scenario.name]))
    lines = ["| scenario | figure | " + " | ".join(names) + " |", "|---|---|" + "---|" * len(names)]
    for scenario in scenarios:
        for figure in scenario.figures:
            cells = [_cell(runs[scenario.name].get(name, []), name, figure) for name in names]
            lines.append("| " + " | ".join([scenario.name, figure.label, *cells]) + " |")
    lines += ["", "| scenario | figure | beside | measured | target | |", "|---|---|---|---|---|---|"]
    for scenario in scenarios:
        lines += [_verdict_line(scenario, verdict) for verdict in judge(scenario, runs[scenario.name])]
    noisy = max(row["strangers"] for each in runs.values() for rows in each.values() for row in rows)
    if noisy > QUIET:
        lines += ["", f"Not a quiet machine: other programs took up to {noisy:.0%} of the gateway's core."]
    notes = [f"- {scenario.name}, {doubt}" for scenario in scenarios for doubt in doubts(runs[scenario.name])]
    if notes:
        lines += ["", "Invalid rows:", "", *notes]
    return "\n".join(lines)


def shows(name: str, figure: Figure) -> bool:
    """Whether the figure says anything of this variant: no CPU is counted where there is no gateway."""
    return name != "direct" or figure.path[0] not in ("cpu_us_chunk", "cpu_us_req", "rss_kb")


def _cell(rows: list[Row], name: str, figure: Figure) -> str:
    if not rows or not shows(name, figure):
        return "–"
    mark = " **invalid**" if any(row["invalid"] for row in rows) else ""
    return spread([value(row, figure) for row in rows]).shown() + mark


def _verdict_line(scenario: Scenario, verdict: Verdict) -> str:
    target = verdict.target
    sign = "×" if target.compare == "ratio" else "+"
    beside = target.floor if target.ours == "gateway" else f"{target.ours} beside {target.floor}"
    word = ("met" if verdict.met else "**missed**") if verdict.valid else "**invalid**"
    measured, bound = f"{sign} {verdict.spread.shown()}", f"{target.bound} {target.limit:g}"
    return "| " + " | ".join([scenario.name, target.figure.label, beside, measured, bound, word]) + " |"


def short(number: float) -> str:
    """Three digits, thousands separated: more would pretend."""
    if abs(number) >= 100:
        return f"{float(f'{number:.3g}'):,.0f}"
    return f"{number:.3g}"
