"""Writes what `results.json` says into docs/evidence/performance.md and the README."""

import os
import platform
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import agent_mix
import agent_turn_report
import peer_servers
import processes
from agent_turn import FIRST_CPU, GROUP, LAST_CPU, Results
from processes import ROOT
from report import short, spread
from results import Measured, ResultRow, Run
from scenarios import CHUNKS, CPU_CHUNK, MEMORY, REQUESTS, Figure

PAGE = ROOT / "docs" / "evidence" / "performance.md"
README = ROOT / "README.md"
BEGIN, END = "<!-- bench/run writes from here -->", "<!-- to here -->"
ENDPOINTS = ("/v1/messages", "/v1/responses", "/v1/chat/completions")
TITLES = {"gateway": "**Parley**", "gateway, hits": "Parley, from its cache", "nginx": "nginx"} | {
    peer.name: peer.title for peer in peer_servers.PEERS
}
AGENTS, MIX = "agents", "agent-mix"
"""The scenarios of `bench/agents` and `bench/agent-mix`."""
AGENT_REQUESTS, AGENT_LAST_KB = "requests", "last request, KB"
AGENT_REMEMBERED, AGENT_LAST = "remembered of all requests but the first, %", "remembered of the last one, %"
README_SERVERS = ("gateway", "litellm", "portkey", "claude-code-router")
README_ROW = "| CPU of an agent's [next request](docs/evidence/performance.md), half a megabyte |"
"""How the row of the README's table begins."""
README_SENTENCE = re.compile(
    r"A coding agent's request of half a\smegabyte takes\s.*?\(\[performance\]\(docs/evidence/performance\.md\)\)\.",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    scenario: str
    figures: tuple[tuple[str, str], ...]
    """Each a figure and an endpoint, or ""."""


def _loaded(title: str, scenario: str, figure: Figure) -> Column:
    return Column(title, scenario, ((figure.label, ""),))


COLUMNS = (
    Column("agent turn, first: CPU-ms", GROUP, tuple((FIRST_CPU, path) for path in ENDPOINTS)),
    Column("agent turn, next one: CPU-ms", GROUP, tuple((LAST_CPU, path) for path in ENDPOINTS)),
    _loaded("64 streams at once: chunks/s", "burst", CHUNKS),
    _loaded("64 paced streams: CPU-µs/chunk", "paced-64", CPU_CHUNK),
    _loaded("1,000 streams: CPU-µs/chunk", "saturated", CPU_CHUNK),
    _loaded("1,000 streams: memory, MB", "rss", MEMORY),
    _loaded("short whole replies/s", "json", REQUESTS),
)


def write(measured: Measured) -> None:
    """Replace what stands between the marks of the page and of the README."""
    PAGE.write_text(insert(PAGE.read_text("utf-8"), results_text(measured)), "utf-8")
    README.write_text(update_readme(README.read_text("utf-8"), measured), "utf-8")


def results_text(measured: Measured) -> str:
    """The table that a reader wants, the targets of agent turns, and where and when all of it was measured."""
    notes = {number: f"<sup>{number + 1}</sup>" for number in range(len(measured.runs))}
    lines = ["| | " + " | ".join(column.title for column in COLUMNS) + " |", "|---|" + "---|" * len(COLUMNS)]
    for server, title in TITLES.items():
        found = [[measured.find(each.scenario, server, *figure) for figure in each.figures] for each in COLUMNS]
        if any(row for rows in found for row in rows):
            cells = [_cell(rows, notes) for rows in found]
            lines.append(f"| {title}{_version(measured, server)} | " + " | ".join(cells) + " |")
    lines += ["", agent_turn_report.targets_table(turns(measured)), ""]
    lines += [*_agents_table(measured, notes), *mix_table(measured, notes)]
    lines += [f"{number + 1}. {describe(run)}" for number, run in enumerate(measured.runs)]
    return "\n".join(lines)


def _agents_table(measured: Measured, notes: dict[int, str]) -> list[str]:
    """What the gateway remembered of the requests of real agents."""
    figures = (AGENT_REQUESTS, AGENT_LAST_KB, AGENT_REMEMBERED, AGENT_LAST)
    agents = dict.fromkeys((row.server, row.endpoint) for row in measured.rows if row.scenario == AGENTS)
    if not agents:
        return []
    lines = ["| a session of | " + " | ".join(figures) + " |", "|---|" + "---|" * len(figures)]
    for name, endpoint in agents:
        cells = [_cell([measured.find(AGENTS, name, figure, endpoint)], notes) for figure in figures]
        lines.append(f"| {name}{_version(measured, name)}, `{endpoint}` | " + " | ".join(cells) + " |")
    return [*lines, ""]


def mix_table(measured: Measured, notes: dict[int, str]) -> list[str]:
    """What each server does for sessions of agents that work at a time, each figure with its range."""
    lines = [f"| sessions at a time | {' | '.join(agent_mix.FIGURES)} |", "|---|" + "---|" * len(agent_mix.FIGURES)]
    for server, title in {"direct": "no gateway", **TITLES}.items():
        for path in agent_mix.PATHS:
            found = [measured.find(MIX, server, figure, path) for figure in agent_mix.FIGURES]
            if any(found):
                cells = ["–" if row is None else spread(list(row.values)).shown() + notes[row.run] for row in found]
                version = "".join(f" {row.version}" for row in found[:1] if row and row.version)
                lines.append(f"| {title}{version}, `{path}` | {' | '.join(cells)} |")
    return [*lines, ""] if len(lines) > 2 else []


def _version(measured: Measured, server: str) -> str:
    versions = {row.version: None for row in measured.rows if row.server == server and row.version}
    return "".join(f" {version}" for version in versions)


def _cell(rows: list[ResultRow | None], notes: dict[int, str]) -> str:
    known = [row for row in rows if row is not None]
    if not known:
        return "–"
    shown = " · ".join("–" if row is None else short(spread(list(row.values)).median) for row in rows)
    return shown + "".join(dict.fromkeys(notes[row.run] for row in known))


def describe(run: Run) -> str:
    rounds = "one round" if run.rounds == 1 else f"{run.rounds} rounds"
    return f"{run.date}, commit {run.commit}, {rounds}, {run.machine}"


def turns(measured: Measured) -> Results:
    """Return the figures of agent turns by server, endpoint and figure."""
    rows = (row for row in measured.rows if row.scenario == GROUP)
    return {(row.server, row.endpoint, row.figure): list(row.values) for row in rows}


def insert(page: str, results: str, first: str = BEGIN, last: str = END) -> str:
    """The page with the results between two marks. Raises: ValueError where it has no marks."""
    before, begin, rest = page.partition(first)
    _, end, after = rest.partition(last)
    if not begin or not end:
        raise ValueError(f"the page has no marks {first} and {last}")
    return f"{before}{begin}\n\n{results.strip()}\n\n{end}{after}"


def update_readme(text: str, measured: Measured) -> str:
    """Return the README with three figures, and the row of its table. Raises: ValueError where it has no place for
    them."""
    path = ENDPOINTS[0]
    cells = [_milliseconds(measured, server) for server in README_SERVERS]
    text, count = re.subn(f"^{re.escape(README_ROW)}.*$", f"{README_ROW} {' | '.join(cells)} |", text, flags=re.M)
    if count != 1:
        raise ValueError(f"the README has no row {README_ROW}")
    first, last = (_median(measured, GROUP, "gateway", figure, path) for figure in (FIRST_CPU, LAST_CPU))
    chunks = _median(measured, "burst", "gateway", CHUNKS.label)
    sentence = (
        f"A coding agent's request of half a megabyte takes\n{first} ms of CPU time, and {last} ms when the session "
        f"goes on; one process streams {chunks} chunks a second\n([performance](docs/evidence/performance.md))."
    )
    text, count = README_SENTENCE.subn(sentence, text)
    if count != 1:
        raise ValueError(f"the README has no sentence {README_SENTENCE.pattern}")
    return text


def _milliseconds(measured: Measured, server: str) -> str:
    """Return the CPU time at `/v1/chat/completions`, or at another endpoint where it does not have that."""
    found = next(
        (row for path in reversed(ENDPOINTS) if (row := measured.find(GROUP, server, LAST_CPU, path)) is not None), None
    )
    return "not measured" if found is None else f"{short(spread(list(found.values)).median)} ms"


def _median(measured: Measured, scenario: str, server: str, figure: str, endpoint: str = "") -> str:
    found = measured.spread(scenario, server, figure, endpoint)
    if found is None:
        raise ValueError(f"there is no {figure} of {scenario} for {server}")
    return short(found.median)


def commit() -> str | None:
    command = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or None


def machine(python: str | None) -> str:
    """What the figures depend on: processor, cores, kernel, and the gateway's Python, if it is known."""
    rows = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((row.partition(":")[2].strip() for row in rows if row.startswith("model name")), platform.machine())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    parts = [model, f"{os.cpu_count()} cores", f"{memory:.0f} GB", f"Linux {platform.release()}"]
    return ", ".join(parts if python is None else [*parts, python])


def machine_of_run(*, command: str | None = None, interpreted: bool = False) -> str:
    """What the figures of a run depend on; of a gateway started by a command of one's own, its Python is not known."""
    if command:
        return machine(None)
    return machine(processes.default_python()) + (", not compiled" if interpreted else ", compiled")
