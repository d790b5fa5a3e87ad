"""One run of one load against one variant, and the checks that say whether its numbers may be believed."""

import http.client
import json
import os
import subprocess
import tempfile
import time
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from processes import GATEWAY_CORE, LOAD_CORE, RigError, Server, build, family, mock, paused, record, wait_until_idle
from scenarios import Scenario, Variant, body

Row = dict[str, Any]
SETTLE_SECONDS = 5.0
READY_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Rig:
    """The processes that stand ready: the load generator's program, and a server by each name that variants have."""

    load: Path
    folder: Path
    mock: Server
    servers: dict[str, Server]
    headers: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """What every request to a server must have besides, by its name."""
    flames: Path | None = None
    """Where py-spy writes flame graphs of the gateway, one for each run."""

    def pids(self, variant: Variant) -> list[int]:
        """Whose CPU and memory are counted; none when the load goes to the mock directly."""
        return [] if variant.server == "mock" else family(self.servers[variant.server])

    def others(self, variant: Variant) -> list[Server]:
        """The servers that have nothing to do while the variant is measured."""
        return [server for name, server in self.servers.items() if name not in ("mock", variant.server)]

    def headers_of(self, variant: Variant) -> tuple[str, ...]:
        return (*variant.headers, *self.headers.get(variant.server, ()))


def start_rig(stack: ExitStack, flames: Path | None = None) -> Rig:
    """Start the mock model server. Other servers are added to the rig. The stack stops it and removes its folder."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="parley-bench-")))
    programs = {source: build(source, folder) for source in ("mock", "load")}
    server = stack.enter_context(mock(programs["mock"], folder))
    return Rig(programs["load"], folder, server, {"mock": server}, flames=flames)


def probe(rig: Rig, variant: Variant) -> None:
    """Ask for one small stream and one whole reply. Raises: RigError with what was answered instead."""
    for stream in (True, False):
        connection = http.client.HTTPConnection("127.0.0.1", rig.servers[variant.server].port, timeout=30)
        headers = {"Content-Type": "application/json"}
        headers |= {name: value for name, _, value in (line.partition(": ") for line in rig.headers_of(variant))}
        try:
            connection.request("POST", variant.path, body(variant, "mock-3-1-0", stream, "probe"), headers)
            response = connection.getresponse()
            text = response.read().decode(errors="replace")
        except (OSError, http.client.HTTPException) as exc:
            raise RigError(f"{variant.name} did not answer one request (stream={stream}): {exc!r}") from exc
        finally:
            connection.close()
        if response.status != 200:
            raise RigError(
                f"{variant.name} answered one request (stream={stream}) with {response.status}: {text[:500]}"
            )


def probe_until_ready(rig: Rig, variant: Variant) -> None:
    """A server may listen before it can answer. Raises: RigError with what was answered last."""
    deadline = time.monotonic() + READY_SECONDS
    while True:
        try:
            return probe(rig, variant)
        except RigError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def run(rig: Rig, scenario: Scenario, variant: Variant, number: str = "") -> Row:
    """What `load` printed, with `invalid`, the reasons not to believe it, and `strangers`.

    `number` is another for each run. `strangers` is the share of the gateway's core that other programs took meanwhile.
    The other servers are paused: some go on with work that no client waits for any more.
    """
    with paused(rig.others(variant)):
        row = _run_alone(rig, scenario, variant, number)
        if variant.server != "mock":
            wait_until_idle(rig.servers[variant.server])
    return row


def _run_alone(rig: Rig, scenario: Scenario, variant: Variant, number: str) -> Row:
    before = mock_stats(rig)
    busy = _core_seconds(GATEWAY_CORE)
    started = time.monotonic()
    asked = body(variant, scenario.model, scenario.stream, number)
    with _recording(rig, variant, number):
        row = load(rig, scenario, variant, asked, *rig.headers_of(variant))
    elapsed = time.monotonic() - started
    share = (_core_seconds(GATEWAY_CORE) - busy) / elapsed
    row["strangers"] = round(max(0.0, share - row.get("cpu_util", share)), 3)
    after = settled(rig, before["open"])
    called = after["served"] + after["aborted"] - before["served"] - before["aborted"]
    row["invalid"] = _doubts(row, scenario, variant, called, after["open"] - before["open"])
    return row


def _recording(rig: Rig, variant: Variant, number: str) -> AbstractContextManager[None]:
    """With a flame graph of the gateway meanwhile, if one is wanted."""
    if rig.flames is None or not variant.own:
        return nullcontext()
    name = "".join(char if char.isalnum() else "-" for char in f"{number} {variant.name}")
    pid, output = rig.servers[variant.server].pid, rig.flames / f"{name}.svg"
    return record(pid, output, rig.folder, "--rate", "200", "--nonblocking")


def load(rig: Rig, scenario: Scenario, variant: Variant, asked: bytes, *headers: str) -> Row:
    """What `load` printed. Raises: RigError where it could not run."""
    request = rig.folder / "request.json"
    request.write_bytes(asked)
    command = ["taskset", "-c", str(LOAD_CORE), str(rig.load), "-P", str(rig.servers[variant.server].port)]
    command += ["-u", variant.path, "-b", str(request), "-c", str(scenario.concurrency)]
    command += ["-N", str(scenario.chunks_per_stream), *(word for header in headers for word in ("-H", header))]
    command += ["-p", ",".join(map(str, rig.pids(variant)))] if rig.pids(variant) else []
    command += ["-r", "1"] if scenario.ramp else []
    command += ["-I", f"{scenario.seconds:.0f}", "-t", "30"] if scenario.hold else _timed(scenario)
    done = subprocess.run(command, stdout=subprocess.PIPE, timeout=120, check=False)
    if done.returncode or not done.stdout:
        raise RigError(f"load ended with {done.returncode}: {' '.join(command)}")
    # When not every stream opens in time, load prints nothing about them.
    row: Row = {"held": 0, "errors": 0, "rss_kb": []} if scenario.hold else {}
    for line in done.stdout.splitlines():
        row |= json.loads(line)
    return row | {"rss_kb": sum(row["rss_kb"])} if scenario.hold else row


def _timed(scenario: Scenario) -> list[str]:
    whole = scenario.warmup_seconds + scenario.seconds
    return ["-n", "1000000000", "-W", str(scenario.warmup_seconds), "-t", str(whole)]


def _doubts(row: Row, scenario: Scenario, variant: Variant, called: int, still_open: int) -> list[str]:
    failed: int = row["errors" if scenario.hold else "err"]
    wrong: int = row.get("wrong", 0)
    ended: int = row["held" if scenario.hold else "ok"]
    doubts = {
        f"{failed} requests failed": failed > 0,
        f"{wrong} streams had not {scenario.chunks_per_stream} chunks": wrong > 0,
        "no reply ended while it was measured": ended == 0,
        f"{ended} of {scenario.concurrency} streams open": scenario.hold and ended < scenario.concurrency,
        f"the model server saw {called} of {ended} requests": called > 1 if variant.cached == "hit" else called < ended,
        f"{still_open} streams stayed open at the model server": still_open > 0,
    }
    return [reason for reason, true in doubts.items() if true]


def settled(rig: Rig, already_open: int = 0) -> dict[str, int]:
    """The mock's counters once no more than these streams are open and no request comes any more, so that a run leaves
    nothing to the next."""
    deadline = time.monotonic() + SETTLE_SECONDS
    before, stats = None, mock_stats(rig)
    while (stats["open"] > already_open or stats != before) and time.monotonic() < deadline:
        time.sleep(0.1)
        before, stats = stats, mock_stats(rig)
    return stats


def mock_stats(rig: Rig) -> dict[str, int]:
    connection = http.client.HTTPConnection("127.0.0.1", rig.mock.port, timeout=10)
    try:
        connection.request("GET", "/stats")
        stats: dict[str, int] = json.loads(connection.getresponse().read())
    finally:
        connection.close()
    return stats


def _core_seconds(core: int) -> float:
    """Seconds the core has worked for programs since boot, with what other machines took of it. The interrupts are left
    out: most of them are of the packets that the gateway itself sends and receives, and count for no program."""
    lines = Path("/proc/stat").read_text().splitlines()
    ticks = next([int(field) for field in line.split()[1:9]] for line in lines if line.startswith(f"cpu{core} "))
    user, nice, system, _idle, _waiting, _irq, _softirq, steal = ticks
    return (user + nice + system + steal) / os.sysconf("SC_CLK_TCK")
