"""What runs while something is measured: the mock model server, nginx and the gateway, each pinned to its core."""

import os
import resource
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parent.parent
_PARLEY = ROOT / ".venv" / "bin" / "parley"
COMPILED = ROOT / "build" / "compiled"
"""Where `make compile` puts the gateway whose hot path is compiled to C. It is what the container runs."""
GATEWAY_CORE, LOAD_CORE = 0, 1
START_SECONDS, STOP_SECONDS = 60.0, 5.0
MIN_OPEN_FILES = 12_000
"""Two for each of 5,000 streams, and some more."""
IDLE_SECONDS = 30.0
"""How long a server that was measured may go on before the next one is."""
IDLE_SHARE, IDLE_INTERVAL = 0.1, 0.3
"""A server is idle when it takes a smaller share of a core than this, in seconds of this length."""

# master_process off: one process whose CPU and memory are the whole of nginx.
NGINX_CONF = """
daemon off; master_process off; worker_processes 1;
pid {folder}/nginx.pid; error_log stderr error;
events {{ worker_connections 16384; }}
http {{
  access_log off; tcp_nodelay on; keepalive_requests 1000000000; keepalive_timeout 600s;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  upstream mock {{ server 127.0.0.1:{upstream}; keepalive 1024; keepalive_requests 1000000000; }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{
      proxy_pass http://mock; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;
      proxy_buffer_size 64k; proxy_buffers 8 64k; proxy_busy_buffers_size 128k;
    }}
  }}
}}
"""


class RigError(Exception):
    """The rig cannot measure; the text says why."""


@dataclass(frozen=True, slots=True)
class Server:
    name: str
    port: int
    pid: int


def raise_file_limit() -> None:
    """Lift the soft limit of open files to the hard one: 5,000 streams are 10,000 sockets in a proxy."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard != resource.RLIM_INFINITY and hard < MIN_OPEN_FILES:
        raise RigError(f"the limit of open files is {hard}; at least {MIN_OPEN_FILES} are needed (ulimit -n)")


def require_tools() -> None:
    """Raises: RigError, naming what is missing."""
    if len(os.sched_getaffinity(0) & {GATEWAY_CORE, LOAD_CORE}) < 2:
        raise RigError("cores 0 and 1 are both needed: one for the gateway, one for the load")
    missing = [tool for tool in ("gcc", "taskset") if not shutil.which(tool)]
    if missing:
        raise RigError(f"not found: {', '.join(missing)} (Debian: apt-get install gcc libc6-dev util-linux)")
    if not find_nginx():
        _install_nginx()


def require_flames(folder: Path) -> None:
    """Raises: RigError where py-spy is missing, which records flame graphs."""
    if not shutil.which("py-spy"):
        raise RigError("py-spy is missing: pip install py-spy, in an environment that is in PATH")
    folder.mkdir(parents=True, exist_ok=True)


def clean_environment() -> dict[str, str]:
    """Return the environment of this process without the gateway's settings."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PARLEY_")}


def ending_signals() -> list[signal.Signals]:
    """Return SIGTERM and SIGHUP, without one that this process ignores: under nohup it ignores SIGHUP."""
    return [each for each in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(each) is not signal.SIG_IGN]


def _handle_ending_signals(handler: Callable[[int, FrameType | None], object]) -> None:
    for number in ending_signals():
        signal.signal(number, handler)


def _exit(number: int, _frame: FrameType | None) -> None:
    """Raise SystemExit with 128 + the number of the signal, so that every `finally` runs."""
    # timeout(1) sends its signal to the process and to the group: the second one must not interrupt a `finally`.
    for each in ending_signals():
        signal.signal(each, signal.SIG_IGN)
    sys.exit(128 + number)


@contextmanager
def record(pid: int, output: Path, folder: Path, *options: str, wait_seconds: float = 0.0) -> Iterator[None]:
    """Let py-spy sample a process meanwhile, but for the first `wait_seconds`. It costs the process some of its speed.
    `folder` gets py-spy's log."""
    command = ["taskset", "-c", str(LOAD_CORE), "py-spy", "record", *options]
    command += ["--pid", str(pid), "--output", str(output)]
    with (folder / "py-spy.log").open("ab") as log:
        waiting = ["sh", "-c", 'sleep "$0" && exec "$@"', str(wait_seconds), *command]
        recorder = subprocess.Popen(waiting, stdout=log, stderr=log)
    try:
        yield
    finally:
        recorder.send_signal(signal.SIGINT)
        recorder.wait(60)


def find_nginx() -> str | None:
    """Return its path, even where the PATH of a user has no folder of the system's servers; None if it is missing."""
    return shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


def _install_nginx() -> None:
    if os.geteuid() == 0 and shutil.which("apt-get"):
        print("nginx is missing: installing nginx-light", file=sys.stderr)
        # RUNLEVEL=1 keeps the package from starting its own service.
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
        install = ["apt-get", "install", "-y", "-q", "--no-install-recommends", "nginx-light"]
        subprocess.run(install, env=environment, stdout=sys.stderr, check=False)
    if not find_nginx():
        raise RigError("nginx is the floor that ratios are taken against: install it (apt-get install nginx-light)")


def build(source: str, folder: Path) -> Path:
    program = folder / source
    command = ["gcc", "-O2", "-w", "-o", str(program), str(ROOT / "bench" / f"{source}.c")]
    if subprocess.run(command, check=False).returncode:
        raise RigError(f"{source}.c does not compile")
    return program


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def mock(program: Path, folder: Path) -> Iterator[Server]:
    port = free_port()
    with serve("mock", [str(program), str(port)], port, LOAD_CORE, folder) as server:
        yield server


@contextmanager
def nginx(upstream: Server, folder: Path) -> Iterator[Server]:
    port, conf = free_port(), folder / "nginx.conf"
    conf.write_text(NGINX_CONF.format(folder=folder, upstream=upstream.port, port=port))
    command = [find_nginx() or "nginx", "-c", str(conf), "-p", str(folder)]
    with serve("nginx", command, port, GATEWAY_CORE, folder) as server:
        yield server


@contextmanager
def gateway(
    command: str | None, upstream: Server, folder: Path, extra: dict[str, str], *, compiled: bool = False
) -> Iterator[Server]:
    """The gateway under test, told by its environment where to listen and whom to ask.

    `extra` is set on top of that; an empty value takes the variable away. `compiled` runs the one in COMPILED.
    """
    port = free_port()
    environment_of_gateway = {
        "PARLEY_UPSTREAM_URL": f"http://127.0.0.1:{upstream.port}/v1",
        "PARLEY_SERVER__PORT": str(port),
        "PARLEY_SERVER__WORKERS": "1",
        "PARLEY_SERVER__LOG_LEVEL": "warning",
    }
    if compiled:
        environment_of_gateway |= compiled_environment()
    own = clean_environment() | environment_of_gateway | extra
    environment = {key: value for key, value in own.items() if value}
    words = shlex.split(command) if command else _default_command()
    with serve("gateway", words, port, GATEWAY_CORE, folder, environment) as server:
        yield server


def find_compiled() -> Path:
    """Return the folder that holds the compiled app/. Raises RigError if there is none."""
    if not COMPILED.exists():
        raise RigError("there is no build/compiled: run `make compile`")
    return COMPILED


def compiled_environment() -> dict[str, str]:
    """What a program needs to load the compiled app/. Raises RigError if there is none."""
    # PYTHONSAFEPATH keeps Python from looking for app/ in the current folder first.
    return {"PYTHONPATH": str(find_compiled()), "PYTHONSAFEPATH": "1"}


def _default_command() -> list[str]:
    return [str(_PARLEY), "serve"] if _PARLEY.exists() else [sys.executable, "-m", "app.cli", "serve"]


def default_python() -> str:
    """The Python of the default command, such as "CPython 3.11.2". The rig may run on another one."""
    program = str(_PARLEY.with_name("python")) if _PARLEY.exists() else sys.executable
    code = "import platform; print(platform.python_implementation(), platform.python_version())"
    return subprocess.run([program, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


@contextmanager
def redis_server(folder: Path) -> Iterator[str | None]:
    """The URL of a server that runs meanwhile; None where it is not installed."""
    if shutil.which("redis-server") is None:
        print("bench: redis-server is not installed; Redis is left out", file=sys.stderr)
        yield None
        return
    port = free_port()
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
    with serve("redis", command, port, LOAD_CORE, folder):
        yield f"redis://127.0.0.1:{port}/0"


@contextmanager
def serve(
    name: str, command: list[str], port: int, core: int, folder: Path, environment: dict[str, str] | None = None
) -> Iterator[Server]:
    """Run a server on one core meanwhile.

    It has a session of its own, so a signal to this process's group does not reach it. From now on SIGTERM and SIGHUP
    raise SystemExit in this process, so that the server is stopped.
    """
    log = folder / f"{name}.log"
    pinned = ["taskset", "-c", str(core), *command]
    received: list[int] = []
    # An exception within Popen would leave the server running.
    _handle_ending_signals(lambda number, _: received.append(number))
    with log.open("wb") as output:
        process = subprocess.Popen(
            pinned, cwd=ROOT, env=environment, stdout=output, stderr=output, start_new_session=True
        )
    try:
        _handle_ending_signals(_exit)
        if received:
            _exit(received[0], None)
        _await_port(name, process, port, log)
        yield Server(name, port, process.pid)
    finally:
        _stop(process)


def _await_port(name: str, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
    tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
    raise RigError(f"{name} does not listen on port {port}; the end of what it said:\n{tail}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the whole session of `process`, workers included, kindly at first."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(STOP_SECONDS)
        except ProcessLookupError:
            break
        except subprocess.TimeoutExpired:
            continue
    process.wait()


@contextmanager
def paused(servers: Sequence[Server]) -> Iterator[None]:
    """Let the servers do nothing meanwhile."""
    for server in servers:
        os.killpg(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for server in servers:
            os.killpg(server.pid, signal.SIGCONT)


def wait_until_idle(server: Server) -> None:
    """Wait until the server takes next to no CPU time, but not longer than IDLE_SECONDS."""
    deadline = time.monotonic() + IDLE_SECONDS
    before, now = -1.0, _cpu_seconds(server)
    while now - before > IDLE_SHARE * IDLE_INTERVAL and time.monotonic() < deadline:
        time.sleep(IDLE_INTERVAL)
        before, now = now, _cpu_seconds(server)


def _cpu_seconds(server: Server) -> float:
    """The CPU time that the server's processes have taken."""
    ticks = 0
    for pid in family(server):
        with suppress(FileNotFoundError, ProcessLookupError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def family(server: Server) -> list[int]:
    """The server's process and all it has started: a gateway may keep its workers in processes of their own."""
    running = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [pid for pid in running if _session(pid) == server.pid]


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return 0
