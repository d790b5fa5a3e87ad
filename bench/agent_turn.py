"""The scenario `agent-turn` of `bench/run`: what a turn of a coding agent costs, alone and beside paced streams.

A request has the whole conversation. *First* is one of which the gateway has seen nothing; a *session* sends its
conversation again with each round, as agents do. No reply is cached.
"""

import http.client
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import measure
import peer_servers
import processes
from agent_bodies import WRITERS, find_path, make_conversation
from report import short
from scenarios import BYPASS, NO_STORE, SCENARIOS, body

GROUP = "agent-turn"
FIRST, WARM_UP = 8, 3
ROUNDS, FUNCTIONS = 100, 60
"""Of the reference request: about half a megabyte."""
SIZES = ((20, 0), (20, 20), (100, 0), (100, 60), (300, 0), (300, 60))
"""Rounds and functions of first requests."""
LAST = 10
"""The requests at the end of a session whose cost is that of a continued one."""
RATES = (4, 10)
"""Turns a second beside the streams."""
STREAM_PATHS = ("/v1/messages", "/v1/responses", "/v1/chat/completions")
"""Where the turns beside the streams are sent. First turns are sent to the first alone."""
MEMORY_SESSIONS = 200
MEMORY_ROUNDS = (50, 100)
"""After how many rounds the sessions whose memory is measured send their conversation."""
MEMORY_PATH = "/v1/messages"
SESSIONS = 4
"""How many sessions send the turns beside the streams."""
SETTLE_SECONDS = 0.5
PATHS = {
    "gateway": tuple(WRITERS),
    "litellm": ("/v1/chat/completions", "/v1/messages", "/v1/responses"),
    "portkey": ("/v1/chat/completions",),
    "claude-code-router": ("/v1/messages",),
    "agentic-api": ("/v1/chat/completions", "/v1/messages", "/v1/responses"),
    "smg": ("/v1/chat/completions", "/v1/messages", "/v1/responses"),
}
"""The endpoints of each server that take such a request."""
MODEL_PREFIXES = {peer.name: peer.model_prefix for peer in peer_servers.PEERS}
STREAMS = replace(next(scenario for scenario in SCENARIOS if scenario.name == "paced-64"), seconds=4)
"""Shorter than a whole stream, as nothing but chunks is counted."""


def _first(rounds: int, functions: int, kind: str) -> str:
    return f"first, {rounds} rounds, {functions} functions, {kind} ms"


FIRST_CPU = _first(ROUNDS, FUNCTIONS, "CPU")
LAST_CPU = f"last of {ROUNDS} rounds, CPU ms"
GROWTH = f"session of {ROUNDS} rounds beside its first half"
ALONE = "streams alone, p99 ms"
AT_START, AT_END = "memory at the start, MB", f"memory after {MEMORY_SESSIONS} sessions, MB"
FORGETFUL = "gateway, remembering nothing"
Results = dict[tuple[str, str, str], list[float]]
"""Server, endpoint and figure → one number of each round."""


def beside(rate: int, kind: str = "") -> str:
    """The name of the figure of the streams beside so many turns a second."""
    return f"streams beside {rate} {kind}turns/s, p99 ms"


class TurnFailed(processes.RigError):
    """A server did not answer a turn with status 200."""


@dataclass(frozen=True, slots=True)
class TurnServer:
    """A server that is measured."""

    name: str
    server: processes.Server
    headers: tuple[str, ...] = ()

    def write(self, path: str, conversation: Any) -> bytes:
        return WRITERS[path](conversation, MODEL_PREFIXES.get(self.name, "") + "mock")

    def cpu_ms(self) -> float:
        return sum(_cpu_seconds(pid) for pid in processes.family(self.server)) * 1e3


def _cpu_seconds(pid: int) -> float:
    """The CPU time of a process and all its threads, in nanoseconds' resolution; 0 if it has ended."""
    try:
        return time.clock_gettime((~pid << 3) | 2)  # CPUCLOCK_SCHED of the process, as in clock_getcpuclockid(3)
    except OSError:
        return 0.0


class Client:
    """One connection that sends turns one after another."""

    def __init__(self, gateway: TurnServer) -> None:
        self._gateway = gateway
        self._connection = http.client.HTTPConnection("127.0.0.1", gateway.server.port, timeout=60)
        lines = (NO_STORE, "Content-Type: application/json", "anthropic-version: 2023-06-01", *gateway.headers)
        self._headers = {name: value for name, _, value in (line.partition(": ") for line in lines)}

    def send(self, path: str, request: bytes) -> float:
        """Return the milliseconds until the whole reply was there. Raises: TurnFailed."""
        began = time.perf_counter()
        try:
            self._connection.request("POST", find_path(path, "mock"), request, self._headers)
            response = self._connection.getresponse()
            reply = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise TurnFailed(f"{self._gateway.name} {path}: {error!r}") from error
        if response.status != 200:
            raise TurnFailed(f"{self._gateway.name} {path}: status {response.status}: {reply[:300]!r}")
        return (time.perf_counter() - began) * 1e3

    def close(self) -> None:
        self._connection.close()


def measure_first(gateway: TurnServer, path: str, rounds: int, functions: int, seed: int) -> tuple[float, float]:
    """Return the CPU ms of the gateway for a request of which it has seen nothing, and the wall ms of it."""
    requests = [
        gateway.write(path, make_conversation(rounds, functions, seed + number)) for number in range(WARM_UP + FIRST)
    ]
    client = Client(gateway)
    for request in requests[:WARM_UP]:
        client.send(path, request)
    before = gateway.cpu_ms()
    walls = [client.send(path, request) for request in requests[WARM_UP:]]
    cpu = gateway.cpu_ms() - before
    client.close()
    return cpu / FIRST, sum(walls) / FIRST


def measure_session(gateway: TurnServer, path: str, seed: int) -> tuple[float, float]:
    """Return the CPU ms of one of the last requests of a session of ROUNDS rounds, and how many times as much the whole
    session costs as its first half."""
    conversation = make_conversation(ROUNDS, FUNCTIONS, seed)
    requests = [gateway.write(path, conversation.until(count)) for count in range(1, ROUNDS + 1)]
    client = Client(gateway)
    marks = [gateway.cpu_ms()]
    for request in requests:
        client.send(path, request)
        marks.append(gateway.cpu_ms())
    client.close()
    return (marks[-1] - marks[-1 - LAST]) / LAST, (marks[-1] - marks[0]) / (marks[ROUNDS // 2] - marks[0])


@contextmanager
def turns_beside(gateway: TurnServer, path: str, per_second: float, seed: int, *, new: bool) -> Iterator[None]:
    """Send so many turns a second meanwhile: those of sessions near their end, or `new` ones."""
    conversations = [make_conversation(ROUNDS, FUNCTIONS, seed + number) for number in range(SESSIONS)]
    if new:
        conversations += [
            make_conversation(ROUNDS, FUNCTIONS, seed + number) for number in range(SESSIONS, 10 * SESSIONS)
        ]
        requests = [gateway.write(path, conversation) for conversation in conversations]
    else:
        requests = [
            gateway.write(path, conversation.until(count))
            for count in range(ROUNDS - 10, ROUNDS + 1)
            for conversation in conversations
        ]
    stopped = threading.Event()
    failed: list[TurnFailed] = []

    def send() -> None:
        clients = [Client(gateway) for _ in range(SESSIONS)]
        started, number = time.monotonic(), 0
        try:
            while not stopped.wait(max(0.0, started + number / per_second - time.monotonic())):
                clients[number % SESSIONS].send(path, requests[number % len(requests)])
                number += 1
        except TurnFailed as error:
            failed.append(error)
        for client in clients:
            client.close()

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()
    if failed:
        raise failed[0]


def measure_streams(rig: measure.Rig, gateway: TurnServer, path: str, seed: int) -> dict[str, float]:
    """Return the p99 of a chunk's latency in ms of 64 paced streams: alone, and beside so many turns a second."""
    found = {ALONE: _stream_p99(rig)}
    for rate in RATES:
        with turns_beside(gateway, path, rate, seed + rate, new=False):
            found[beside(rate)] = _stream_p99(rig)
    if path == STREAM_PATHS[0]:
        with turns_beside(gateway, path, RATES[0], seed, new=True):
            found[beside(RATES[0], "first ")] = _stream_p99(rig)
    return found


def _stream_p99(rig: measure.Rig) -> float:
    row = measure.load(rig, STREAMS, BYPASS, body(BYPASS, STREAMS.model, True), *rig.headers_of(BYPASS))
    return float(row["lat_us"]["p99"]) * 1e-3


def run(stack: ExitStack, rig: measure.Rig, options: Any, start_gateway: Callable[..., Any]) -> Results:
    """Measure everything `options.rounds` times. `start_gateway` is `processes.gateway` with the chosen command.

    The servers get a model server of their own, which answers at once and speaks three APIs. Streams pass through the
    gateway of `rig`, whose model server paces them. Memory is measured once, of gateways of their own."""
    port = processes.free_port()
    command = [sys.executable, str(processes.ROOT / "bench/fixed_replies.py"), str(port)]
    model_server = stack.enter_context(processes.serve("fixed", command, port, processes.LOAD_CORE, rig.folder))
    results: Results = {}
    for name, environment in (("gateway", {}), (FORGETFUL, {"PARLEY_SERVER__REMEMBERED_REQUEST_BYTES": "0"})):
        with start_gateway(model_server, environment) as server:
            for figure, value in measure_memory(TurnServer(name, server)).items():
                _add(results, (name, MEMORY_PATH, figure), value)
    servers = [TurnServer("gateway", stack.enter_context(start_gateway(model_server, {})))]
    for peer in peer_servers.PEERS:
        if peer.name not in PATHS or not peer.installed or peer.name in options.without:
            continue
        folder = rig.folder / f"turn-{peer.name}"
        folder.mkdir()
        try:
            server = stack.enter_context(peer_servers.running(peer, model_server, folder))
            found = TurnServer(peer.name, server, peer.headers(model_server.port))
            wait_until_ready(found)
        except processes.RigError as error:
            print(f"bench: {peer.name} is left out of {GROUP}: {error}", file=sys.stderr)
        else:
            servers.append(found)
    for number in range(1, options.rounds + 1):
        for measured in servers:
            with processes.paused([other.server for other in servers if other.name != measured.name]):
                for path in PATHS[measured.name]:
                    _measure_turns(results, measured, path, 1_000_000 * number)
                processes.wait_until_idle(measured.server)
        own = TurnServer("gateway", rig.servers["gateway"])
        with processes.paused([each.server for each in servers]):
            for path in STREAM_PATHS:
                for figure, value in measure_streams(rig, own, path, 2_000_000 * number).items():
                    _add(results, ("gateway", path, figure), value)
    return results


def measure_memory(gateway: TurnServer) -> dict[str, float]:
    """Return the MB of memory that the gateway takes after one short request, and after many sessions."""
    client = Client(gateway)
    client.send(MEMORY_PATH, gateway.write(MEMORY_PATH, make_conversation(1, 1, 3_000_000)))
    found = {AT_START: _rss_mb(gateway.server)}
    for number in range(MEMORY_SESSIONS):
        conversation = make_conversation(ROUNDS, FUNCTIONS, 3_000_001 + number)
        for count in MEMORY_ROUNDS:
            client.send(MEMORY_PATH, gateway.write(MEMORY_PATH, conversation.until(count)))
    found[AT_END] = _rss_mb(gateway.server)
    client.close()
    return found


def _rss_mb(server: processes.Server) -> float:
    pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in processes.family(server))
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def wait_until_ready(gateway: TurnServer) -> None:
    """A server may listen before it can answer. Raises: TurnFailed with what was answered last."""
    path = PATHS[gateway.name][0]
    request = gateway.write(path, make_conversation(1, 1))
    deadline = time.monotonic() + measure.READY_SECONDS
    while True:
        try:
            Client(gateway).send(path, request)
            return
        except TurnFailed:
            if time.monotonic() > deadline:
                raise
            time.sleep(SETTLE_SECONDS)


def _measure_turns(results: Results, gateway: TurnServer, path: str, seed: int) -> None:
    sizes: Sequence[tuple[int, int]] = SIZES if gateway.name == "gateway" else ((ROUNDS, FUNCTIONS),)
    for place, (rounds, functions) in enumerate(sizes):
        cpu, wall = measure_first(gateway, path, rounds, functions, seed + 1000 * place)
        _add(results, (gateway.name, path, _first(rounds, functions, "CPU")), cpu)
        _add(results, (gateway.name, path, _first(rounds, functions, "wall")), wall)
    cpu, growth = measure_session(gateway, path, seed + 100_000)
    _add(results, (gateway.name, path, LAST_CPU), cpu)
    _add(results, (gateway.name, path, GROWTH), growth)
    shown = ", ".join(
        f"{figure}: {short(values[-1])}"
        for (name, at, figure), values in results.items()
        if (name, at) == (gateway.name, path)
    )
    print(f"{GROUP} {gateway.name} {path}: {shown}", file=sys.stderr)


def _add(results: Results, key: tuple[str, str, str], value: float) -> None:
    results.setdefault(key, []).append(value)
