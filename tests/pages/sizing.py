"""The page on sizing: what is computed from the measured figures. Run as a module, it writes the page to stdout."""

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "bench/results.json"
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


AGENT_PATH = "/v1/messages"
"""The endpoint of the agents that the page computes with."""
SESSION_MEGABYTES = 4.1
"""What `RequestMemory` counts of a session of half a megabyte; a test counts it again."""
REMEMBERED_MEGABYTES = 64 * 1024 * 1024 / 1e6
"""The default of `server.remembered_request_bytes`."""
TURN_SECONDS = 10
"""How long a coding agent takes for a turn: a model's reply of some hundred tokens, and the tools that it calls."""

Row = dict[str, Any]
"""One figure of one server, as bench/run writes it."""


class NoFigureError(Exception):
    """The results lack a figure; the text says which."""


def read_figure(rows: Sequence[Row], scenario: str, figure: str, server: str, endpoint: str = "") -> float:
    """Return the median of a figure."""
    wanted = {"scenario": scenario, "figure": figure, "server": server, "endpoint": endpoint, "valid": True}
    for row in rows:
        if wanted.items() <= row.items():
            return float(median(row["values"]))
    raise NoFigureError(f"{RESULTS.name} has no {figure} of {scenario} for {server}")


def compute(rows: Sequence[Row]) -> dict[str, str]:
    """Return the numbers of the page as it shows them. Raises NoFigureError."""

    def cpu(scenario: str, unit: str, variant: str = "gateway") -> float:
        return read_figure(rows, scenario, f"CPU-µs/{unit}", variant)

    def turn(figure: str, server: str = "gateway") -> float:
        return read_figure(rows, "agent-turn", figure, server, AGENT_PATH)

    first, following = turn("first, 100 rounds, 60 functions, CPU ms"), turn("last of 100 rounds, CPU ms")
    after = "memory after 200 sessions, MB"
    sessions = int(REMEMBERED_MEGABYTES / SESSION_MEGABYTES)
    turns = SHARE * 1000 / following
    miss, hit = cpu("json", "request"), cpu("json", "request", "gateway, hits")
    chunk = cpu("paced-256", "chunk")
    limit_chunks = read_figure(rows, "saturated", "chunks/s", "gateway")
    megabytes = read_figure(rows, "rss", "RSS, MB", "gateway")
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
    small_cores = 10 * reply / planned
    small_scripts = 10 * TOKENS / TOKENS_PER_SECOND * stream_scripts
    return {
        "turn_first": show(first),
        "turn_next": show(following),
        "turns_first": show(SHARE * 1000 / first),
        "turns_next": show(turns),
        "agents": show(math.floor(turns * TURN_SECONDS)),
        "agents_first": show(math.floor(SHARE * 1000 / first * TURN_SECONDS)),
        "turn_seconds": str(TURN_SECONDS),
        "sessions": str(sessions),
        "session_mb": show(SESSION_MEGABYTES),
        "agents_mb": show(turns * TURN_SECONDS * SESSION_MEGABYTES),
        "memory_start": show(turn("memory at the start, MB")),
        "memory_sessions": show(turn(after)),
        "memory_without": show(turn(after, "gateway, remembering nothing")),
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
        "redis_servers": f"{redis_servers:,}",
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
    return TEMPLATE.read_text("utf-8").format(**compute(json.loads(RESULTS.read_text("utf-8"))["rows"]))


if __name__ == "__main__":
    sys.stdout.write(document())
