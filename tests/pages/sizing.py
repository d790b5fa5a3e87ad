"""The page on sizing: what is computed from the measured figures. Run as a module, it writes the page to stdout."""

import math
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PERFORMANCE = ROOT / "docs/evidence/performance.md"
TEMPLATE = Path(__file__).with_name("sizing_page.md")

# Counted by bench/redis-commands, and what `ps` shows of a process that has just started.
SCRIPTS, SCRIPTS_LIMITED, REPLY_SECONDS, SCRIPT_MICROSECONDS = 6.6, 8.7, 1.2, 155
MEGABYTES_WITHOUT_STREAMS = 77

SHARE = 0.6
"""How much of a core is planned for."""
TOKENS, TOKENS_PER_SECOND = 500, 50
MILLION_A_MINUTE = 16_667
"""Requests per second."""
CELL_SERVERS, CELL_PROCESSES, CORES_OF_MACHINE = 8, 24, 64


class NoFigureError(Exception):
    """The page on performance lacks a figure; the text says which."""


def read_figure(performance: str, scenario: str, figure: str, variant: str) -> float:
    """Return the median of a figure from the table of results."""
    results = performance.partition("## Results")[2]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in results.splitlines() if line[:1] == "|"]
    column = rows[0].index(variant) if rows and variant in rows[0] else None
    for row in rows:
        if row[:2] == [scenario, figure] and column is not None and "invalid" not in row[column]:
            return float(re.sub(r"[ (].*", "", row[column]).replace(",", ""))
    raise NoFigureError(f"{PERFORMANCE.name} has no {figure} of {scenario} for {variant}")


def compute(performance: str) -> dict[str, str]:
    """Return the numbers of the page as it shows them. Raises NoFigureError."""

    def cpu(scenario: str, unit: str, variant: str = "gateway") -> float:
        return read_figure(performance, scenario, f"CPU-µs/{unit}", variant)

    miss, hit = cpu("json", "request"), cpu("json", "request", "gateway, hits")
    chunk = cpu("paced-256", "chunk")
    limit_chunks = read_figure(performance, "saturated", "chunks/s", "gateway")
    megabytes = read_figure(performance, "rss", "RSS, MB", "gateway")
    planned = SHARE * 1_000_000
    reply = miss + TOKENS * chunk
    streams = int(planned / chunk / TOKENS_PER_SECOND)
    stream_megabytes = (megabytes - MEGABYTES_WITHOUT_STREAMS) / 1000
    stream_scripts = SCRIPTS / REPLY_SECONDS
    limit_scripts = SCRIPTS_LIMITED - SCRIPTS
    redis_scripts = planned / SCRIPT_MICROSECONDS
    redis_streams = redis_scripts / stream_scripts

    open_streams = MILLION_A_MINUTE * TOKENS / TOKENS_PER_SECOND
    cores = MILLION_A_MINUTE * reply / 1_000_000
    processes = math.ceil(cores / SHARE)
    all_scripts = open_streams * stream_scripts + MILLION_A_MINUTE * limit_scripts
    redis_servers = math.ceil(all_scripts / redis_scripts)
    cores_missed, cores_hit = 0.8 * cores, 0.2 * MILLION_A_MINUTE * hit / 1_000_000
    small_cores = 10 * reply / planned
    small_scripts = 10 * TOKENS / TOKENS_PER_SECOND * stream_scripts
    return {
        "miss": show(miss),
        "hit": show(hit),
        "chunk_64": show(cpu("paced-64", "chunk")),
        "chunk_256": show(chunk),
        "chunk_1000": show(cpu("saturated", "chunk")),
        "chunk_burst": show(cpu("burst", "chunk")),
        "megabytes_1000": show(megabytes),
        "megabytes_0": show(MEGABYTES_WITHOUT_STREAMS),
        "limit_chunks": show(limit_chunks),
        "chunks": show(planned / chunk),
        "streams": str(streams),
        "misses": show(planned / miss),
        "hits": show(planned / hit),
        "reply_us": f"{reply:,.0f}",
        "reply_ms": show(reply / 1000),
        "reply_seconds": f"{reply / 1_000_000:.4f}",
        "replies": f"{planned / reply:.0f}",
        "stream_kb": f"{stream_megabytes * 1000:.0f}",
        "stream_mb": f"{stream_megabytes:.3f}",
        "process_mb": f"{MEGABYTES_WITHOUT_STREAMS + streams * stream_megabytes:.0f}",
        "share_of_300": f"{100 * 300 * TOKENS_PER_SECOND / limit_chunks:.0f}",
        "scripts": show(SCRIPTS),
        "scripts_limited": show(SCRIPTS_LIMITED),
        "script": str(SCRIPT_MICROSECONDS),
        "script_seconds": f"{SCRIPT_MICROSECONDS / 1_000_000:.6f}",
        "stream_scripts": show(stream_scripts),
        "limit_scripts": show(limit_scripts),
        "redis_scripts": show(redis_scripts),
        "redis_streams": show(math.floor(redis_streams / 100) * 100),
        "redis_processes": str(int(redis_streams / streams)),
        "small_cores": f"{small_cores:.2f}",
        "small_processes": "One process does; run two."
        if small_cores <= 1
        else f"{math.ceil(small_cores)} processes do; run one more.",
        "small_scripts": show(small_scripts),
        "small_redis": str(math.ceil(small_scripts * SCRIPT_MICROSECONDS / 10_000)),
        "cores": show(cores),
        "processes": f"{processes:,}",
        "all_scripts": show(all_scripts),
        "redis_servers": f"{redis_servers:,}",
        "cores_missed": show(cores_missed),
        "cores_hit": f"{cores_hit:.1f}",
        "processes_with_hits": f"{math.ceil((cores_missed + cores_hit) / SHARE):,}",
        "machines": str(math.ceil(processes / CORES_OF_MACHINE)),
        "few_streams": str(streams // 10 * 10),
        "nginx_share": f"{100 * cpu('paced-256', 'chunk', 'nginx') / chunk:.0f}",
        "cells": str(math.ceil(max(redis_servers / CELL_SERVERS, processes / CELL_PROCESSES))),
    }


def show(number: float) -> str:
    """Return a number with three significant digits."""
    if number <= 0:
        return "0"
    digits = 2 - math.floor(math.log10(number))
    text = f"{round(number, digits):,.{max(digits, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def document() -> str:
    """The whole page."""
    return TEMPLATE.read_text("utf-8").format(**compute(PERFORMANCE.read_text("utf-8")))


if __name__ == "__main__":
    sys.stdout.write(document())
