"""What is asked of a gateway at the end: that it is idle, keeps no sockets and no processes, and that its log tells of
no defect."""

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from chaos_processes import ADMIN_KEY

IDLE_GAUGES = (
    "parley_open_replies",
    "parley_requests_in_progress",
    "parley_queued_requests",
    "parley_upstream_calls",
    "parley_upstream_outstanding_requests",
    "parley_request_memory_bytes",
    "parley_requests_waiting_for_memory",
)
CRASH_SIGNS = ("Traceback", "never retrieved", "was destroyed but it is pending", "never awaited", "internal_error")


async def get(port: int, path: str) -> str:
    """The body of a response of a gateway, asked on a connection of its own."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"GET {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {ADMIN_KEY}\r\nconnection: close\r\n\r\n"
    writer.write(head.encode())
    try:
        raw = await asyncio.wait_for(reader.read(), 10)
    finally:
        writer.close()
    head, _, body = raw.decode().partition("\r\n\r\n")
    if not head.startswith("HTTP/1.1 200"):
        raise OSError(f"{path}: {head.splitlines()[:1]} {body[:200]}")
    return body


def read_gauges(text: str, names: tuple[str, ...]) -> dict[str, float]:
    """The values of these metrics, of all their labels together."""
    values: dict[str, float] = {}
    for line in text.splitlines():
        name, _, value = line.rpartition(" ")
        name = name.partition("{")[0]
        if name in names:
            values[name] = values.get(name, 0.0) + float(value)
    return values


async def find_busy_gauges(port: int) -> dict[str, float]:
    """The gauges that should be 0 and are not."""
    gauges = read_gauges(await get(port, "/metrics"), IDLE_GAUGES)
    missing = set(IDLE_GAUGES) - set(gauges)
    return {name: value for name, value in gauges.items() if value} | dict.fromkeys(missing, -1.0)


async def find_running_calls(port: int) -> dict[str, float]:
    """The servers of tools with calls in progress."""
    servers = json.loads(await get(port, "/v1/status"))["mcp_servers"]
    return {f"calls of {server['name']}": float(server["calls"]) for server in servers if server["calls"]}


def count_sockets(pid: int, ports: dict[int, str]) -> Counter[str]:
    """The TCP connections of a process by what is at the other end, or at its own: `ports` names them."""
    inodes = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = str(entry.readlink())
        except OSError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    counted: Counter[str] = Counter()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        own, other = int(fields[1].split(":")[1], 16), int(fields[2].split(":")[1], 16)
        if fields[9] in inodes and other:
            counted[ports.get(other) or ports.get(own) or f"port {other}"] += 1
    return counted


def find_descendants(pid: int) -> set[tuple[int, str]]:
    """The processes that a process has started, and those that these have: ids, and when they began."""
    parents = {child: (parent, began) for child, parent, began in _list_processes()}
    found: set[tuple[int, str]] = set()
    for child, (_, began) in parents.items():
        above, seen = child, {child}
        while above in parents and above != pid:
            above = parents[above][0]
            if above in seen:
                break
            seen.add(above)
        if above == pid and child != pid:
            found.add((child, began))
    return found


def find_alive(processes: set[tuple[int, str]]) -> set[tuple[int, str]]:
    """Those that still run; one that has ended and was not waited for does not."""
    return processes & {(pid, began) for pid, _, began in _list_processes()}


def find_using(text: str) -> list[int]:
    """The processes with this text in their command."""
    found = []
    for pid, _, _ in _list_processes():
        with contextlib.suppress(OSError):
            if text.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


def _list_processes() -> Iterator[tuple[int, int, str]]:
    """The id, parent and beginning of each process that runs."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if fields[0] != "Z":
                    yield int(entry.name), int(fields[1]), fields[19]


def find_repeated(lines: Iterable[str]) -> list[str]:
    """The lines that are there more than once."""
    return [line for line, count in Counter(lines).items() if count > 1]


def resident_kb(pid: int) -> int:
    """0 if the process has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")), 0)


def find_crashes(log: str, expected: str = "\0") -> list[str]:
    """The lines of a gateway's log that tell of a mistake of the gateway itself; not those with the `expected` text."""
    found = []
    for line in log.splitlines():
        try:
            level = json.loads(line).get("level", "")
        except (ValueError, AttributeError):
            level = ""
        if expected not in line and (level in ("error", "critical") or any(sign in line for sign in CRASH_SIGNS)):
            found.append(line[:1500])
    return found
