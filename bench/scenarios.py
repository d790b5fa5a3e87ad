"""What is measured: the loads, the figures read from each of them, and the targets they are held to."""

import json
from dataclasses import dataclass
from typing import Any, Literal

Variant = Literal["direct", "nginx", "gateway"]
VARIANTS: tuple[Variant, ...] = ("direct", "nginx", "gateway")
PATHS: dict[Variant, str] = {
    "direct": "/v1/chat/completions",
    "nginx": "/v1/chat/completions",
    "gateway": "/v1/chat",
}
QUESTION = "What is the weather in Paris? Think first, then call the tool."


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of a run: where `load` prints it, and what to multiply it by to get the unit that is shown."""

    label: str
    path: tuple[str, ...]
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class Target:
    """What the gateway's figure must be beside the same figure of a floor, in the same round."""

    figure: Figure
    floor: Variant
    compare: Literal["ratio", "difference"]
    bound: Literal["at least", "at most", "no bound"]
    limit: float = 0.0


@dataclass(frozen=True, slots=True)
class Scenario:
    """One load, the same for every variant."""

    name: str
    model: str
    """`mock-N-K-T`: N chunks, K of them each T milliseconds."""
    concurrency: int
    figures: tuple[Figure, ...]
    targets: tuple[Target, ...]
    seconds: float = 3.0
    """How long is measured, after the warm-up."""
    warmup_seconds: float = 0.5
    stream: bool = True
    ramp: bool = False
    """Open one connection per millisecond, so that paced streams do not all tick at the same instant."""
    hold: bool = False
    """Only open the streams and read the memory; nothing is timed."""

    @property
    def group(self) -> str:
        return self.name.partition("-")[0]

    @property
    def chunks_per_stream(self) -> int:
        return int(self.model.split("-")[1]) if self.stream else 0


CHUNKS = Figure("chunks/s", ("chunks_s",))
REQUESTS = Figure("requests/s", ("rps",))
CPU_CHUNK = Figure("CPU-µs/chunk", ("cpu_us_chunk",))
CPU_REQUEST = Figure("CPU-µs/request", ("cpu_us_req",))
CHUNK_P50 = Figure("chunk latency p50, ms", ("lat_us", "p50"), 1e-3)
CHUNK_P99 = Figure("chunk latency p99, ms", ("lat_us", "p99"), 1e-3)
FIRST_P50 = Figure("first token p50, ms", ("ttft_us", "p50"), 1e-3)
MEMORY = Figure("RSS, MB", ("rss_kb",), 1e-3)

BURST = Target(CHUNKS, "nginx", "ratio", "at least", 0.06)
SATURATED = Target(CHUNKS, "direct", "ratio", "at least", 0.75)
JSON = Target(REQUESTS, "nginx", "ratio", "at least", 0.05)
FIRST_ADDED = Target(FIRST_P50, "direct", "difference", "no bound")
PACED = (
    Target(CPU_CHUNK, "nginx", "ratio", "at most", 4.5),
    Target(CHUNK_P99, "direct", "difference", "at most", 2.0),
)
PACED_FIGURES = (CPU_CHUNK, CHUNK_P50, CHUNK_P99)

# Memory comes first, before the other loads have stretched anybody's heap. The paced loads run longer than one
# whole stream (300 chunks of 20 ms are 6 s), else no reply would be there to be checked.
SCENARIOS = (
    Scenario("rss", "mock-300-1-100", 1000, (MEMORY,), (), seconds=1, warmup_seconds=0, ramp=True, hold=True),
    Scenario("burst", "mock-300-1-0", 64, (CHUNKS, CPU_CHUNK), (BURST,)),
    Scenario(
        "saturated", "mock-300-1-15", 1000, (CHUNKS, CPU_CHUNK), (SATURATED,), seconds=8, warmup_seconds=2, ramp=True
    ),
    Scenario("paced-64", "mock-300-1-20", 64, PACED_FIGURES, PACED, seconds=6, warmup_seconds=1, ramp=True),
    Scenario("paced-256", "mock-300-1-20", 256, PACED_FIGURES, PACED, seconds=6, warmup_seconds=1, ramp=True),
    Scenario("json", "mock-3-1-0", 64, (REQUESTS, CPU_REQUEST), (JSON,), stream=False),
    Scenario("ttft", "mock-3-1-5", 1, (FIRST_P50,), (FIRST_ADDED,), seconds=4),
)
GROUPS = tuple(dict.fromkeys(scenario.group for scenario in SCENARIOS))


def body(variant: Variant, model: str, stream: bool) -> bytes:
    """The request that `variant` is sent: the gateway gets its own form, the floors the model server's."""
    request: dict[str, Any] = {"model": model, "messages": [{"role": "user", "content": QUESTION}]}
    if variant == "gateway":
        request["stream"] = stream
    elif stream:
        request |= {"stream": True, "stream_options": {"include_usage": True}}
    return json.dumps(request).encode()
