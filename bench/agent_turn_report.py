"""What the scenario `agent-turn` says: its tables, and whether its targets are met."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from agent_turn import ALONE, AT_END, FIRST_CPU, FORGETFUL, GROWTH, LAST_CPU, MEMORY_PATH, Results, beside
from report import Spread, spread

Compute = Callable[[Results], Iterator[list[float]]]
"""Yields the values of each round, for each endpoint that is measured."""


@dataclass(frozen=True, slots=True)
class TurnTarget:
    """What a figure may be at most. Of several endpoints, the worst decides."""

    title: str
    sign: str
    limit: float
    compute: Compute

    def measure(self, results: Results) -> Spread | None:
        """Return None if the servers that are compared were not measured."""
        return max((spread(values) for values in self.compute(results)), key=lambda each: each.median, default=None)


def _divided_by(name: str, path: str, figure: str) -> Compute:
    def compute(results: Results) -> Iterator[list[float]]:
        own, other = results.get(("gateway", path, figure)), results.get((name, path, figure))
        if own is not None and other is not None:
            yield divide(own, other)

    return compute


def _growth(results: Results) -> Iterator[list[float]]:
    return (values for (name, _, figure), values in results.items() if (name, figure) == ("gateway", GROWTH))


def _streams(rate: int) -> Compute:
    def compute(results: Results) -> Iterator[list[float]]:
        for (name, path, figure), values in results.items():
            if figure == beside(rate):
                yield [other - alone for other, alone in zip(values, results[name, path, ALONE], strict=True)]

    return compute


def _memory(results: Results) -> Iterator[list[float]]:
    own, other = (results.get((name, MEMORY_PATH, AT_END)) for name in ("gateway", FORGETFUL))
    if own is not None and other is not None:
        yield [one - without for one, without in zip(own, other, strict=True)]


AGENTIC, LITELLM, ROUTER = "agentic-api", "litellm", "claude-code-router"
RESPONSES, COMPLETIONS, MESSAGES = "/v1/responses", "/v1/chat/completions", "/v1/messages"
TARGETS = (
    TurnTarget(
        f"first request, CPU beside {AGENTIC}, `{RESPONSES}`", "×", 1.5, _divided_by(AGENTIC, RESPONSES, FIRST_CPU)
    ),
    TurnTarget(f"continued, CPU beside {AGENTIC}, `{RESPONSES}`", "×", 0.5, _divided_by(AGENTIC, RESPONSES, LAST_CPU)),
    TurnTarget(
        f"continued, CPU beside {LITELLM}, `{COMPLETIONS}`", "×", 1 / 20, _divided_by(LITELLM, COMPLETIONS, LAST_CPU)
    ),
    TurnTarget(f"continued, CPU beside {ROUTER}, `{MESSAGES}`", "×", 1 / 50, _divided_by(ROUTER, MESSAGES, LAST_CPU)),
    TurnTarget("CPU of a session of 100 rounds beside its first half, worst endpoint", "×", 2.2, _growth),
    TurnTarget("p99 of 64 paced streams beside 10 turns/s, ms above alone, worst endpoint", "+", 2, _streams(10)),
    TurnTarget("memory of 200 sessions beside remembering nothing, MB", "+", 67, _memory),
)
"""The last one is `server.remembered_request_bytes`."""


def all_met(results: Results) -> bool:
    found = [(target.limit, target.measure(results)) for target in TARGETS]
    return all(measured is None or measured.median <= limit for limit, measured in found)


def targets_table(results: Results) -> str:
    lines = ["| agent turn | measured | target, at most | |", "|---|---|---|---|"]
    for target in TARGETS:
        measured = target.measure(results)
        shown = "–" if measured is None else f"{target.sign} {measured.shown()}"
        word = "not measured" if measured is None else "met" if measured.median <= target.limit else "**missed**"
        lines.append(f"| {target.title} | {shown} | {target.sign} {target.limit:g} | {word} |")
    return "\n".join(lines)


def markdown(results: Results) -> str:
    """A table of the figures, a column for each server and endpoint; a table of `ratios`, and one of the targets."""
    columns = list(dict.fromkeys((name, path) for name, path, _ in results))
    figures = list(dict.fromkeys(figure for _, _, figure in results))
    lines = ["| agent turn | " + " | ".join(f"{name} `{path}`" for name, path in columns) + " |"]
    lines.append("|---|" + "---|" * len(columns))
    for figure in figures:
        cells = [_shown(results.get((name, path, figure))) for name, path in columns]
        lines.append(f"| {figure} | " + " | ".join(cells) + " |")
    rows = ratios(results)
    if rows:
        lines += ["", "| CPU of the gateway beside | endpoint | first | continued |", "|---|---|---|---|"]
        lines += [f"| {name} | `{path}` | × {first.shown()} | × {last.shown()} |" for name, path, first, last in rows]
    return "\n".join([*lines, "", targets_table(results)])


def _shown(values: list[float] | None) -> str:
    return "–" if values is None else spread(values).shown()


def ratios(results: Results) -> list[tuple[str, str, Spread, Spread]]:
    """Of each other server and endpoint: what the gateway's first and its continued request cost beside the other's, in
    the same round."""
    others = dict.fromkeys((name, path) for name, path, figure in results if name != "gateway" and figure == LAST_CPU)
    rows: list[tuple[str, str, Spread, Spread]] = []
    for name, path in others:
        first, last = (
            spread(divide(results["gateway", path, figure], results[name, path, figure]))
            for figure in (FIRST_CPU, LAST_CPU)
        )
        rows.append((name, path, first, last))
    return rows


def divide(own: list[float], others: list[float]) -> list[float]:
    return [each / other for each, other in zip(own, others, strict=True)]


def as_json(results: Results) -> list[dict[str, Any]]:
    return [
        {"server": name, "endpoint": path, "figure": figure, "rounds": values}
        for (name, path, figure), values in results.items()
    ]
