"""The programs that the rig of `bench/` starts: none is left when the rig ends."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import cast

import pytest
from chaos_processes import Program, Rig, free_port
from chaos_run import ChaosRun
from processes import GATEWAY_CORE, LOAD_CORE, RigError, ending_signals, find_nginx

from tests.redis_server import require_redis

pytestmark = pytest.mark.anyio
BENCH = Path(__file__).parent.parent.parent / "bench"
DEADLINE_SECONDS = 60.0
LEADER = """
import os, socket, sys, time
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
if os.fork():
    listener.accept()
else:
    time.sleep(60)
"""
"""A program that starts a worker, and ends at the first connection."""
SLOW_START = """
import sys
from pathlib import Path
from processes import LOAD_CORE, free_port, serve
with serve("server", ["sleep", "60"], free_port(), LOAD_CORE, Path(sys.argv[1])):
    pass
"""
"""A program whose server never listens."""
SLOW_END = {
    "coroutine": """
import asyncio
from chaos_processes import cancel_on_signals
async def work():
    try:
        print("begun", flush=True)
        await asyncio.sleep(600)
    finally:
        print("ending", flush=True)
        await asyncio.sleep(0.3)
        print("ended")
asyncio.run(cancel_on_signals(work()))
""",
    "server": """
import sys, time
from pathlib import Path
from processes import LOAD_CORE, free_port, serve
port = free_port()
command = ["timeout", "60", sys.executable, "-m", "http.server", str(port)]
with serve("server", command, port, LOAD_CORE, Path(sys.argv[1])):
    try:
        print("begun", flush=True)
        time.sleep(600)
    finally:
        print("ending", flush=True)
        time.sleep(0.3)
        print("ended")
""",
}
"""Programs that a signal ends, and that need a moment for it."""


@pytest.mark.parametrize(
    ("command", "count"),
    [(("chaos", "--seconds", "600", "--clients", "1"), 6), (("stores", "--rounds", "10000"), 1)],
    ids=["chaos", "stores"],
)
def test_sigterm_ends_the_rig_and_its_programs(command: tuple[str, ...], count: int, tmp_path: Path) -> None:
    require_redis()
    if command[0] == "chaos" and find_nginx() is None:
        pytest.skip("nginx is not installed (Debian: apt-get install nginx-light)")
    require_cores()
    log = tmp_path / "log"
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with log.open("wb") as output:
        words = [sys.executable, str(BENCH / command[0]), *command[1:]]
        rig = subprocess.Popen(words, env=environment, stdout=output, stderr=output)
    started: set[int] = set()
    try:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while len(started) < count:
            assert rig.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.02)
            started |= find_children(rig.pid)
        rig.send_signal(signal.SIGTERM)
        assert rig.wait(DEADLINE_SECONDS) == 128 + signal.SIGTERM, log.read_text()
        wait_until_ended(started)
    finally:
        rig.kill()
        rig.wait()
        for session in started:
            if find_members(session):
                os.killpg(session, signal.SIGKILL)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("kind", SLOW_END)
def test_a_second_signal_does_not_interrupt_the_end(kind: str, number: signal.Signals, tmp_path: Path) -> None:
    """`timeout` sends two: one to the process and one to its group."""
    require_cores()
    command = [sys.executable, "-c", SLOW_END[kind], str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": str(BENCH)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in ("begun\n", "ending\n"):
            assert process.stdout.readline() == line
            process.send_signal(number)
        assert process.stdout.read() == "ended\n"
    assert process.returncode == 128 + number


def test_a_signal_ends_a_server_that_is_just_starting(tmp_path: Path) -> None:
    require_cores()
    command = [sys.executable, "-c", SLOW_START, str(tmp_path)]
    rig = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": str(BENCH)})
    started: set[int] = set()
    deadline = time.monotonic() + DEADLINE_SECONDS
    # Without a pause: the signal must come before the server's program runs.
    while not started and time.monotonic() < deadline:
        started = find_children(rig.pid)
    rig.send_signal(signal.SIGTERM)
    assert rig.wait(DEADLINE_SECONDS) == 128 + signal.SIGTERM
    assert started
    wait_until_ended(started)


def test_a_signal_that_is_ignored_ends_nothing() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert ending_signals() == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGHUP, before)


async def test_kill_ends_the_workers_of_a_program_that_has_ended(tmp_path: Path) -> None:
    port = free_port()
    program = Program("leader", [sys.executable, "-c", LEADER, str(port)], tmp_path, port)
    await program.start()
    assert program.process is not None and await program.process.wait() == 0
    assert len(find_members(program.pid)) == 1
    await program.kill()
    wait_until_ended({program.pid})


async def test_kill_spares_another_process_that_has_got_the_id(tmp_path: Path) -> None:
    other = await asyncio.create_subprocess_exec("sleep", "600", start_new_session=True)
    process = cast(asyncio.subprocess.Process, EndedProcess(other.pid))
    await Program("ended", [], tmp_path, 0, process=process).kill()
    other.terminate()
    assert await other.wait() == -signal.SIGTERM


@pytest.mark.parametrize("last_start", [0, 1], ids=["at first", "again"])
async def test_a_run_in_which_a_program_does_not_start_leaves_no_task(last_start: int, tmp_path: Path) -> None:
    """A task that is left may start a program when the others have been killed."""
    models = [FakeProgram(f"model-{name}", [], tmp_path, 0) for name in "abcd"]
    others = ("tools", "redis", "gateway-2", "nginx")
    tools, redis, other, nginx = (FakeProgram(name, [], tmp_path, 0) for name in others)
    gateways = [FakeProgram("gateway-1", [], tmp_path, 0, last_start=last_start), other]
    keys = dict.fromkeys(("one", "two", "three", "limited"), "key")
    rig = Rig(tmp_path, [*models], tools, redis, [*gateways], nginx, keys)
    before = asyncio.all_tasks()
    with pytest.raises(RigError, match="gateway-1"):
        await ChaosRun(rig, "seed", clients=0, seconds=4).run()
    assert asyncio.all_tasks() == before


def require_cores() -> None:
    if not {GATEWAY_CORE, LOAD_CORE} <= os.sched_getaffinity(0):
        pytest.skip("the rig needs cores 0 and 1")


class EndedProcess:
    """What is left of a process of asyncio's that was reaped."""

    returncode = 0

    def __init__(self, pid: int) -> None:
        self.pid = pid

    async def wait(self) -> int:
        return self.returncode


class FakeProgram(Program):
    """A program without a process, which can be started `last_start` times."""

    def __init__(self, name: str, command: list[str], folder: Path, port: int, last_start: int = 1000) -> None:
        super().__init__(name, command, folder, port)
        self.last_start = last_start

    @property
    def pid(self) -> int:
        """No process has this id."""
        return 2**31 - 1

    async def start(self) -> None:
        self.starts += 1
        await asyncio.sleep(0.01 if self.name == "gateway-1" else 0.05)
        if self.starts > self.last_start:
            raise RigError(f"{self.name} does not start")

    async def stop(self, seconds: float) -> int | None:
        return 0


def find_children(pid: int) -> set[int]:
    return {int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


def find_members(session: int) -> list[int]:
    """Return the processes of the session, without those that have ended and wait for their parent to notice."""
    members = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(FileNotFoundError, ProcessLookupError):
                state, _parent, _group, own = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
                if int(own) == session and state != "Z":
                    members.append(int(entry.name))
    return members


def wait_until_ended(sessions: set[int]) -> None:
    """A killed process is gone a moment later."""
    deadline = time.monotonic() + 5
    while left := [pid for session in sessions for pid in find_members(session)]:
        assert time.monotonic() < deadline, left
        time.sleep(0.01)
