"""Writes the results of `bench/run --write` into docs/evidence/performance.md, with plots beside it."""

import os
import platform
from collections.abc import Iterator
from math import ceil, floor, log10
from pathlib import Path
from xml.sax.saxutils import escape

import report
from processes import ROOT
from report import Runs
from scenarios import CHUNK_P99, CHUNKS, CPU_CHUNK, CPU_REQUEST, REQUESTS, Figure, Scenario

PAGE = ROOT / "docs" / "evidence" / "performance.md"
BEGIN, END = "<!-- make bench writes from here -->", "<!-- to here -->"
PLOTS: tuple[tuple[str, Figure], ...] = (
    ("burst", CHUNKS),
    ("saturated", CPU_CHUNK),
    ("paced-64", CPU_CHUNK),
    ("paced-64", CHUNK_P99),
    ("json", REQUESTS),
    ("json", CPU_REQUEST),
)
FLAMES = "performance-flames-"
"""How the names of flame graphs begin, which bench/profile writes."""
WIDTH, ROW, NAMES, VALUES = 640, 26, 150, 130
"""Of a plot in pixels: its width, the height of a bar with its space, and the room for names and for values."""


def write(scenarios: list[Scenario], runs: Runs, about: str) -> None:
    """Replace what stands between the marks of the page, and the plots. `about` says what was measured, and when."""
    plots = list(_plots(scenarios, runs))
    for old in PAGE.parent.glob("performance-*.svg"):
        if not old.name.startswith(FLAMES):
            old.unlink()
    for name, _, text in plots:
        (PAGE.parent / name).write_text(text)
    images = "\n".join(f"![{title}]({name})" for name, title, _ in plots)
    results = f"{about}\n\n{report.markdown(scenarios, runs)}\n\n{images}"
    PAGE.write_text(insert(PAGE.read_text(), results))


def insert(page: str, results: str, first: str = BEGIN, last: str = END) -> str:
    """The page with the results between two marks. Raises: ValueError where it has no marks."""
    before, begin, rest = page.partition(first)
    _, end, after = rest.partition(last)
    if not begin or not end:
        raise ValueError(f"the page has no marks {first} and {last}")
    return f"{before}{begin}\n\n{results.strip()}\n\n{end}{after}"


def machine(python: str | None) -> str:
    """What the figures depend on: processor, cores, kernel, and the gateway's Python, if it is known."""
    rows = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((row.partition(":")[2].strip() for row in rows if row.startswith("model name")), platform.machine())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    parts = [model, f"{os.cpu_count()} cores", f"{memory:.0f} GB", f"Linux {platform.release()}"]
    return ", ".join(parts if python is None else [*parts, python])


def _plots(scenarios: list[Scenario], runs: Runs) -> Iterator[tuple[str, str, str]]:
    """The name of each plot's file, its title and its text."""
    by_name = {scenario.name: scenario for scenario in scenarios}
    for name, figure in PLOTS:
        rows = {
            variant: report.spread([report.value(row, figure) for row in found]).median
            for variant, found in runs.get(name, {}).items()
            if report.shows(variant, figure)
        }
        if name in by_name and rows:
            title = f"{by_name[name].title}: {figure.label}"
            file = "".join(char if char.isalnum() else "-" for char in figure.label.lower()).strip("-")
            yield f"performance-{name}-{file}.svg".replace("µ", "u"), title, bars(title, rows)


def bars(title: str, rows: dict[str, float]) -> str:
    """An SVG of a bar for each row, on a logarithmic scale: the variants differ by a thousand times."""
    positive = [number for number in rows.values() if number > 0] or [1.0]
    low, high = floor(log10(min(positive))), ceil(log10(max(positive)))
    low -= low == log10(min(positive))  # else the smallest has no bar
    height = 34 + ROW * len(rows) + 24
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
        ' font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        f'<text x="8" y="20" font-size="14" font-weight="bold">{escape(title)}</text>',
    ]
    room = WIDTH - NAMES - VALUES
    for power in range(low, high + 1):
        x = NAMES + room * (power - low) / max(1, high - low)
        lines.append(f'<line x1="{x:.1f}" y1="30" x2="{x:.1f}" y2="{height - 22}" stroke="#ddd"/>')
        lines.append(f'<text x="{x:.1f}" y="{height - 8}" fill="#666" text-anchor="middle">{10**power:,g}</text>')
    for place, (name, number) in enumerate(rows.items()):
        y = 34 + ROW * place
        share = (log10(number) - low) / max(1, high - low) if number > 0 else 0.0
        color = "#2563eb" if name.startswith("gateway") else "#9ca3af"
        lines.append(f'<text x="{NAMES - 8}" y="{y + 15}" text-anchor="end">{escape(name)}</text>')
        lines.append(f'<rect x="{NAMES}" y="{y + 2}" width="{room * share:.1f}" height="{ROW - 8}" fill="{color}"/>')
        lines.append(f'<text x="{NAMES + room * share + 6:.1f}" y="{y + 15}">{report.short(number)}</text>')
    return "\n".join([*lines, "</svg>", ""])
