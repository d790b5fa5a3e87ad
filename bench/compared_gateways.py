"""What `bench/request-log` and `bench/guards` share: gateways with different settings that are asked the same in turn,
and the CPU time of a request of each."""

import http.client
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

import measure
import processes
from agent_bodies import WRITERS, make_conversation
from agent_turn import FUNCTIONS, ROUNDS, TurnServer
from scenarios import BYPASS, QUESTION, SCENARIOS, Scenario

FORMATS = ("/v1/chat", "/v1/chat/completions", "/v1/messages", "/v1/responses")
SHORT, STREAM = "mock-3-1-0", "mock-60-1-2"
"""A short reply, and one of 60 chunks, each of them a read of its own."""
SETTLE_SECONDS = 1.2
"""Work that a gateway does a second later is counted, too: the request log writes the entries of a second together."""
BASE = "none"
"""The gateway with which the others are compared."""
_CONFIGURATION = """
[cache]
apply = "on_request"

[upstreams.mock]
base_url = "http://127.0.0.1:{mock}/v1"

[upstreams.fixed]
base_url = "http://127.0.0.1:{fixed}/v1"

[models.mock]
upstreams = ["mock"]

[models.fixed]
upstreams = ["fixed"]
"""
Requests = Iterator[tuple[str, bytes]]


@dataclass(frozen=True, slots=True)
class Load:
    name: str
    count: int
    """How many requests are sent together."""
    make: Callable[[int], Requests]
    """Makes them from a number that is another one each time."""
    prepare: int = 0
    """So many of the first ones are not counted."""
    is_repeated = False


@dataclass(frozen=True, slots=True)
class LoadAtOnce:
    """A load of many clients. One alone costs more: the gateway sleeps and wakes for each read."""

    name: str
    scenario: Scenario
    figure: str
    """The name under which `load` prints the CPU time."""
    is_repeated = True
    """All requests are the same."""


def _ask(path: str, text: str, stream: bool, model: str) -> tuple[str, bytes]:
    question = f"{text}: {QUESTION}"
    if path == "/v1/responses":
        return path, json.dumps({"model": model, "stream": stream, "input": question}).encode()
    body = {"model": model, "stream": stream, "messages": [{"role": "user", "content": question}]}
    if path == "/v1/messages":
        body["max_tokens"] = 1000
    return path, json.dumps(body).encode()


def _repeat(path: str, text: str, stream: bool, count: int) -> Callable[[int], Requests]:
    return lambda number: (_ask(path, f"{text} {number} {each}", stream, "mock") for each in range(count))


def _first_turns(path: str, count: int) -> Callable[[int], Requests]:
    def make(number: int) -> Requests:
        for each in range(count):
            yield path, WRITERS[path](make_conversation(ROUNDS, FUNCTIONS, 1000 * number + each), "fixed")

    return make


def _session(path: str, prepare: int, count: int) -> Callable[[int], Requests]:
    def make(number: int) -> Requests:
        conversation = make_conversation(ROUNDS, FUNCTIONS, 1000 * number + 999)
        for each in range(ROUNDS - prepare - count + 1, ROUNDS + 1):
            yield path, WRITERS[path](conversation.until(each), "fixed")

    return make


def list_loads() -> Iterator[Load | LoadAtOnce]:
    many = next(replace(each, seconds=2.0, warmup_seconds=0.3) for each in SCENARIOS if each.name == "json")
    yield LoadAtOnce("short whole replies, 64 clients", many, "cpu_us_req")
    yield Load("short whole reply /v1/chat", 200, _repeat("/v1/chat", SHORT, False, 200))
    for path in FORMATS:
        yield Load(f"stream of 60 chunks {path}", 40, _repeat(path, STREAM, True, 40))
    for path in FORMATS[1:]:
        yield Load(f"agent's first turn {path}", 6, _first_turns(path, 6))
        yield Load(f"agent's continued turn {path}", 20, _session(path, 3, 20), 3)


class Gateway:
    def __init__(self, server: processes.Server, rig: measure.Rig) -> None:
        self._server = server
        self._rig = rig
        self.turns = TurnServer(server.name, server)
        self._connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)

    def measure(self, load: Load | LoadAtOnce, number: int) -> float:
        """Return the CPU-µs of one request."""
        if isinstance(load, LoadAtOnce):
            self._rig.servers["gateway"] = self._server
            row = measure.run(self._rig, load.scenario, BYPASS)
            if row["invalid"]:
                raise processes.RigError(f"{load.name}: {'; '.join(row['invalid'])}")
            return float(row[load.figure])
        requests = list(load.make(number))
        self._send(requests[: load.prepare])
        time.sleep(SETTLE_SECONDS)
        began = self.turns.cpu_ms()
        self._send(requests[load.prepare :])
        time.sleep(SETTLE_SECONDS)
        return (self.turns.cpu_ms() - began) * 1000 / load.count

    def _send(self, requests: Sequence[tuple[str, bytes]]) -> None:
        for path, body in requests:
            self._connection.request("POST", path, body, {"content-type": "application/json"})
            response = self._connection.getresponse()
            reply = response.read()
            if response.status != 200:
                raise processes.RigError(f"{path}: status {response.status}: {reply[:300]!r}")


def start(stack: ExitStack, settings: Mapping[str, str], *, compiled: bool) -> dict[str, Gateway]:
    """Start a gateway with each of these settings, in which `{fixed}` is the port of a server of fixed replies, and
    `{folder}` a folder."""
    rig = measure.start_rig(stack)
    port = processes.free_port()
    command = [sys.executable, str(processes.ROOT / "bench/fixed_replies.py"), str(port)]
    stack.enter_context(processes.serve("fixed", command, port, processes.LOAD_CORE, rig.folder))
    gateways = {}
    for name, more in settings.items():
        path = rig.folder / f"{name}.toml"
        path.write_text((_CONFIGURATION + more).format(mock=rig.mock.port, fixed=port, folder=rig.folder))
        environment = {"PARLEY_CONFIG": str(path), "PARLEY_UPSTREAM_URL": ""}
        started = processes.gateway(None, rig.mock, rig.folder, environment, compiled=compiled)
        gateways[name] = Gateway(stack.enter_context(started), rig)
    return gateways


def compare(load: Load | LoadAtOnce, gateways: Mapping[str, Gateway], pairs: int) -> Iterator[str]:
    """Yield for each gateway what a request costs more than at `BASE`: the median, and the middle half."""
    taken: dict[str, list[float]] = {each: [] for each in gateways}
    for pair in range(-1, pairs):
        for each in sorted(gateways, reverse=bool(pair % 2)):
            cost = gateways[each].measure(load, pair + 1)
            if pair >= 0:
                taken[each].append(cost)
    base = statistics.median(taken[BASE])
    for name in gateways.keys() - {BASE}:
        more = [a - b for a, b in zip(taken[name], taken[BASE], strict=True)]
        low, middle, high = statistics.quantiles(more, n=4)
        share = f"{middle / base:+.1%} (half of the pairs: {low / base:+.1%} to {high / base:+.1%})"
        yield f"{load.name:40} without {base:8.0f} CPU-µs, {name} {middle:+8.0f}: {share}"
