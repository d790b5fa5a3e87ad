"""What is measured: the loads, the figures read from each of them, and the targets they are held to."""

import json
from dataclasses import dataclass
from typing import Any, Literal

QUESTION = "What is the weather in Paris? Think first, then call the tool."
NO_STORE = "Cache-Control: no-store"


@dataclass(frozen=True, slots=True)
class Variant:
    """What answers the load, and how it is asked."""

    name: str
    server: str
    """The process: variants of the gateway share one."""
    path: str = "/v1/chat/completions"
    headers: tuple[str, ...] = ()
    cached: Literal["bypass", "miss", "hit"] = "bypass"
    """Of a hit, the model server must see no request but the first; of the others, each one."""

    @property
    def own(self) -> bool:
        """Whether it is a variant of the gateway."""
        return self.server == "gateway"


PEERS = ("litellm", "portkey", "smg", "vllm-router")
DIRECT, NGINX = Variant("direct", "mock"), Variant("nginx", "nginx")
BYPASS = Variant("gateway, no-store", "gateway", "/v1/chat", (NO_STORE,))
DEFAULT = Variant("gateway", "gateway", "/v1/chat", cached="miss")
"""The default configuration, where no two requests are alike: each is looked up, asked of the model and stored."""
HIT = Variant("gateway, hits", "gateway", "/v1/chat", cached="hit")
OURS = (BYPASS, DEFAULT, HIT)


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of a run: where `load` prints it, and what to multiply it by to get the unit that is shown."""

    label: str
    path: tuple[str, ...]
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class Target:
    """What a figure of the gateway must be beside the same figure of another variant, in the same round."""

    figure: Figure
    floor: str
    """The other variant's name."""
    compare: Literal["ratio", "difference"]
    bound: Literal["at least", "at most"]
    limit: float
    ours: str = DEFAULT.name


@dataclass(frozen=True, slots=True)
class Scenario:
    """One load, the same for every variant."""

    name: str
    title: str
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
    hits: bool = False
    """Measured for replies out of the cache too. A paced reply is not paced out of the cache."""

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
FIRST_P99 = Figure("first token p99, ms", ("ttft_us", "p99"), 1e-3)
MEMORY = Figure("RSS, MB", ("rss_kb",), 1e-3)


def _times(figure: Figure, **limits: float) -> tuple[Target, ...]:
    return tuple(Target(figure, name.replace("_", "-"), "ratio", "at least", limit) for name, limit in limits.items())


BURST = (
    *_times(CHUNKS, litellm=200, portkey=5, smg=3, vllm_router=3),
    Target(CHUNKS, DEFAULT.name, "ratio", "at least", 4, HIT.name),
)
SATURATED = (
    Target(CHUNKS, "direct", "ratio", "at least", 0.9),
    Target(CPU_CHUNK, "nginx", "ratio", "at most", 1.3),
)
PACED = (
    Target(CPU_CHUNK, "nginx", "ratio", "at most", 2),
    Target(CHUNK_P99, "direct", "difference", "at most", 1),
)
JSON = (
    *_times(REQUESTS, litellm=80, portkey=12),
    Target(CPU_REQUEST, BYPASS.name, "ratio", "at most", 1.15),
    Target(REQUESTS, DEFAULT.name, "ratio", "at least", 2, HIT.name),
)
FIRST = (
    Target(FIRST_P50, "direct", "difference", "at most", 0.3),
    Target(FIRST_P99, "direct", "difference", "at most", 2),
)
PACED_FIGURES = (CPU_CHUNK, CHUNK_P50, CHUNK_P99)

# Memory comes first, before the other loads have stretched anybody's heap. The paced loads run longer than one
# whole stream (300 chunks of 20 ms are 6 s), else no reply would be there to be checked.
SCENARIOS = (
    Scenario(
        *("rss", "1,000 open streams", "mock-300-1-100", 1000, (MEMORY,), ()),
        seconds=1,
        warmup_seconds=0,
        ramp=True,
        hold=True,
    ),
    Scenario("burst", "64 clients, 300 chunks at once", "mock-300-1-0", 64, (CHUNKS, CPU_CHUNK), BURST, hits=True),
    Scenario(
        *("saturated", "1,000 streams, a chunk each 15 ms", "mock-300-1-15", 1000, (CHUNKS, CPU_CHUNK), SATURATED),
        seconds=8,
        warmup_seconds=2,
        ramp=True,
    ),
    Scenario(
        *("paced-64", "64 streams, a chunk each 20 ms", "mock-300-1-20", 64, PACED_FIGURES, PACED),
        seconds=6,
        warmup_seconds=1,
        ramp=True,
    ),
    Scenario(
        *("paced-256", "256 streams, a chunk each 20 ms", "mock-300-1-20", 256, PACED_FIGURES, PACED),
        seconds=6,
        warmup_seconds=1,
        ramp=True,
    ),
    Scenario(
        *("json", "64 clients, short whole replies", "mock-3-1-0", 64, (REQUESTS, CPU_REQUEST), JSON),
        stream=False,
        hits=True,
    ),
    Scenario("ttft", "one client, first token", "mock-3-1-5", 1, (FIRST_P50, FIRST_P99), FIRST, seconds=4),
    Scenario(
        *("rss-5000", "5,000 open streams", "mock-60-1-1000", 5000, (MEMORY,), ()),
        seconds=1,
        warmup_seconds=0,
        ramp=True,
        hold=True,
    ),
)
GROUPS = tuple(dict.fromkeys(scenario.group for scenario in SCENARIOS))


def variants(scenario: Scenario, installed: tuple[Variant, ...]) -> tuple[Variant, ...]:
    """What the scenario is measured for, in the order of a round."""
    return tuple(variant for variant in installed if scenario.hits or variant.cached != "hit")


def body(variant: Variant, model: str, stream: bool, number: str = "") -> bytes:
    """The request that `variant` is sent: the gateway gets its own form, the others the model server's.

    The model server reads in the message what to reply: some gateways know but the one model that it lists.
    `number` tells requests of different runs apart. `load` puts the number of the request where #s stand.
    """
    text = f"{model}: {QUESTION}" + ("" if variant.cached == "bypass" else f" {number}")
    if variant.cached == "miss":
        text += " " + "#" * 12
    request: dict[str, Any] = {"model": "mock", "messages": [{"role": "user", "content": text}]}
    if variant.own:
        request["stream"] = stream
    elif stream:
        request |= {"stream": True, "stream_options": {"include_usage": True}}
    return json.dumps(request).encode()
