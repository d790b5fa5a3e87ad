"""What `bench/quick` makes of counted instructions: figures for a request or a chunk, and whether they keep their
bounds."""

import platform
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MARGIN = 1.05
"""A bound is the figure that was counted when it was set, and 5 %: machines differ a little in what libc does."""


@dataclass(frozen=True, slots=True)
class Figure:
    """Instructions of one request of `case`; or, with `base`, what one part more costs: a request of `case` has `parts`
    more of them than one of `base`."""

    label: str
    case: str
    base: str | None = None
    parts: int = 1


CHUNKS = 200
PAIRS = (
    ("/v1/chat/completions", "chat"),
    ("/v1/chat/completions", "responses"),
    ("/v1/chat/completions", "messages"),
    ("/v1/responses", "chat"),
    ("/v1/responses", "responses"),
    ("/v1/messages", "chat"),
    ("/v1/messages", "messages"),
    ("/v1/chat/completions", "gemini"),
    ("/v1beta/models", "chat"),
    ("/v1beta/models", "gemini"),
)
"""What clients speak, and the API of their server, for which its model is named. Whole turns are counted of these."""
LANGUAGES = (
    *("/v1/chat", "/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1beta/models"),
    *("autogen", "agentscope"),
)
"""Paths, and formats that only `/v1/chat` has."""
CHUNK_PAIRS = tuple((language, api) for language in LANGUAGES for api in ("chat", "responses", "messages", "gemini"))
"""Every language with every API: of these, chunks are counted."""
FIGURES = (
    Figure("short whole reply, no-store", "whole bypass"),
    Figure("the same at /v1/chat/completions", "completions bypass"),
    Figure("short stream of 3 chunks, no-store", "stream bypass"),
    Figure("short whole reply, default cache, a miss", "whole miss"),
    Figure("short whole reply, default cache, a hit", "whole hit"),
    Figure("stream of 300 chunks, default cache, a hit", "stream hit"),
    Figure("each further message", "21 messages", "1 messages", 20),
    Figure("each further function", "21 functions", "1 functions", 20),
    Figure("chunk, many in a read", "210 chunks at once", "10 chunks at once", CHUNKS),
    Figure("chunk, one in a read: qwen, default cache, a miss", "210 chunks miss", "10 chunks miss", CHUNKS),
    Figure("chunk, one in a read: qwen", "210 chunks qwen", "10 chunks qwen", CHUNKS),
    Figure("chunk, one in a read: qwen snapshot", "210 chunks snapshot", "10 chunks snapshot", CHUNKS),
    Figure("chunk, one in a read: openai", "210 chunks openai", "10 chunks openai", CHUNKS),
    Figure("chunk, one in a read: autogen", "210 chunks autogen", "10 chunks autogen", CHUNKS),
    Figure("chunk, one in a read: autogen compat", "210 chunks autogen compat", "10 chunks autogen compat", CHUNKS),
    Figure("chunk, one in a read: autogen model", "210 chunks autogen model", "10 chunks autogen model", CHUNKS),
    Figure("chunk, one in a read: agentscope", "210 chunks agentscope", "10 chunks agentscope", CHUNKS),
    Figure("chunk, one in a read: agentscope2", "210 chunks agentscope2", "10 chunks agentscope2", CHUNKS),
    Figure("chunk, one in a read: anthropic", "210 chunks anthropic", "10 chunks anthropic", CHUNKS),
    Figure("chunk, one in a read: responses", "210 chunks responses", "10 chunks responses", CHUNKS),
    Figure("chunk, one in a read: gemini", "210 chunks gemini", "10 chunks gemini", CHUNKS),
    Figure("agent turn of 20 rounds, the first: qwen", "first turn /v1/chat"),
    Figure("agent turn of 20 rounds, the first: openai", "first turn /v1/chat/completions"),
    Figure("agent turn of 20 rounds, the first: anthropic", "first turn /v1/messages"),
    Figure("agent turn of 20 rounds, the first: responses", "first turn /v1/responses"),
    Figure("agent turn of 20 rounds, the first: gemini", "first turn /v1beta/models"),
    Figure("agent turn of 20 rounds, continued: qwen", "continued turn /v1/chat"),
    Figure("agent turn of 20 rounds, continued: openai", "continued turn /v1/chat/completions"),
    Figure("agent turn of 20 rounds, continued: anthropic", "continued turn /v1/messages"),
    Figure("agent turn of 20 rounds, continued: responses", "continued turn /v1/responses"),
    Figure("agent turn of 20 rounds, continued: gemini", "continued turn /v1beta/models"),
    Figure("short whole reply, no-store, a service as guard", "whole service"),
    Figure("agent turn of 20 rounds, the first: anthropic, a service as guard", "first turn service"),
    Figure("agent turn of 20 rounds, continued: anthropic, a service as guard", "continued turn service"),
    Figure("short whole reply, no-store, values masked", "whole masking"),
    Figure("agent turn of 20 rounds, the first: anthropic, values masked", "first turn masking"),
    Figure("agent turn of 20 rounds, continued: anthropic, values masked", "continued turn masking"),
    *(
        Figure(f"chunk, one in a read: {path} to {api}", f"210 chunks {path} {api}", f"10 chunks {path} {api}", CHUNKS)
        for path, api in CHUNK_PAIRS
    ),
    *(Figure(f"streamed agent turn of 20 rounds: {path} to {api}", f"turn {path} {api}") for path, api in PAIRS),
)


@dataclass(frozen=True, slots=True)
class Verdict:
    label: str
    counted: int
    bound: int | None
    """None: there is none for this build of Python."""

    @property
    def exceeded(self) -> bool:
        return self.bound is not None and self.counted > self.bound


def read_dump(text: str) -> tuple[str, int]:
    """The name that a dump of callgrind was given, "" if it has none, and the instructions in it."""
    name, total = "", None
    for line in text.splitlines():
        if line.startswith("desc: Trigger: Client Request:"):
            name = line.partition("Client Request:")[2].strip()
        elif line.startswith("totals:"):
            total = int(line.partition(":")[2])
    if total is None:
        raise ValueError("a dump of callgrind has no totals")
    return name, total


def figures(per_request: Mapping[str, float]) -> dict[str, int]:
    """Of each figure, the instructions, from those of a request of each case."""
    return {
        figure.label: round((per_request[figure.case] - per_request.get(figure.base or "", 0.0)) / figure.parts)
        for figure in FIGURES
    }


def python_build() -> str:
    """The interpreter that counts are of: another one runs other instructions for the same program."""
    optimized = "--enable-optimizations" in (sysconfig.get_config_var("CONFIG_ARGS") or "")
    return (
        f"{platform.python_implementation()} {platform.python_version()}, {platform.python_compiler()}, "
        f"{platform.machine()}, configured {'with' if optimized else 'without'} --enable-optimizations"
    )


def judge(counted: Mapping[str, int], bounds: Mapping[str, Any], build: str) -> list[Verdict]:
    """`bounds` is the content of bounds.json. Bounds of another build of Python do not count."""
    own: Mapping[str, int] = bounds.get(build, {})
    return [Verdict(label, number, own.get(label)) for label, number in counted.items()]


def with_bounds(bounds: Mapping[str, Any], counted: Mapping[str, int], build: str) -> dict[str, Any]:
    """`bounds` with those of this build of Python set again, from what was counted."""
    return {**bounds, build: {label: round(number * MARGIN) for label, number in counted.items()}}


def table(verdicts: list[Verdict]) -> str:
    width = max(len(verdict.label) for verdict in verdicts)
    lines = [f"{'instructions':{width}} {'counted':>12} {'bound':>12}"]
    for verdict in verdicts:
        bound = "-" if verdict.bound is None else f"{verdict.bound:,}"
        mark = "  ABOVE ITS BOUND" if verdict.exceeded else ""
        lines.append(f"{verdict.label:{width}} {verdict.counted:>12,} {bound:>12}{mark}")
    return "\n".join(lines)
