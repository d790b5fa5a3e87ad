"""The processes of a chaos run: four model servers, a server of tools, Redis, two gateways and nginx, each killed and
started at will."""

import asyncio
import hashlib
import json
import os
import random
import shutil
import signal
import socket
import sys
import time
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from chaos_apis import APIS
from chaos_loops import MAX_RESULT_BYTES
from processes import ROOT, RigError, clean_environment, compiled_environment, ending_signals, find_nginx

START_SECONDS = 120.0
DRAIN_SECONDS = 8.0
TOOL_SECONDS = 2.0
ADMIN_KEY = "the-admin-of-the-chaos-run"
SCOPES = {"one": "pair", "two": "pair", "three": "three", "limited": "limited"}
"""The cache scope of each API key."""
T = TypeVar("T")


@dataclass(slots=True)
class Program:
    """One process, which keeps its port from one start to the next."""

    name: str
    command: list[str]
    folder: Path
    port: int
    environment: dict[str, str] = field(default_factory=dict)
    process: asyncio.subprocess.Process | None = None
    starts: int = 0

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}.log"

    async def start(self) -> None:
        """Returns when it listens. Raises: RigError."""
        self.starts += 1
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *(word.format(starts=self.starts) for word in self.command),
                cwd=ROOT,
                env=clean_environment() | self.environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_SECONDS
        while self.process.returncode is None and time.monotonic() < deadline:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", self.port)
            except OSError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                return
        tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])
        raise RigError(f"{self.name} does not listen on port {self.port}; the end of its log:\n{tail}")

    def signal(self, number: signal.Signals) -> None:
        if self.process is not None and self.process.returncode is None:
            self.process.send_signal(number)

    async def kill(self) -> None:
        """Kill it and the processes that it has started: without nginx's first process, its workers would go on."""
        if self.process is not None:
            if not _is_id_reused(self.process):
                with suppress(ProcessLookupError):
                    os.killpg(self.process.pid, signal.SIGKILL)
            await self.process.wait()

    async def stop(self, seconds: float) -> int | None:
        """The exit status after SIGTERM; None if it does not end in time (it is killed then)."""
        self.signal(signal.SIGTERM)
        assert self.process is not None
        try:
            return await asyncio.wait_for(self.process.wait(), seconds)
        except TimeoutError:
            await self.kill()
            return None


def _is_id_reused(process: asyncio.subprocess.Process) -> bool:
    """Return whether another process has the id of this one, which has ended.

    As long as the group of the ended process has members, the kernel gives its id to no other process.
    """
    return process.returncode is not None and Path(f"/proc/{process.pid}").exists()


async def cancel_on_signals(work: Coroutine[Any, Any, T]) -> T:
    """Return what `work` returns. SIGTERM and SIGHUP cancel it, so that its `finally` runs and kills its programs: a
    signal to this process's group does not reach them, because each has a session of its own.

    Raises: SystemExit, when a signal ended the work; the exit status is 128 + the number.
    """
    task = asyncio.ensure_future(work)
    received: list[int] = []

    def cancel(number: int) -> None:
        # timeout(1) sends its signal to the process and to the group: the second one must not interrupt a `finally`.
        if not received:
            task.cancel()
        received.append(number)

    for number in ending_signals():
        asyncio.get_running_loop().add_signal_handler(number, cancel, number)
    try:
        return await task
    except asyncio.CancelledError:
        if received:
            raise SystemExit(128 + received[0]) from None
        raise


@dataclass(slots=True)
class Rig:
    folder: Path
    models: list[Program]
    tools: Program
    """The server of tools that speaks HTTP; the others are started by the gateways."""
    redis: Program
    gateways: list[Program]
    nginx: Program
    keys: dict[str, str]
    """The API key of each name."""

    @property
    def programs(self) -> list[Program]:
        return [*self.models, self.tools, self.redis, *self.gateways, self.nginx]

    @property
    def config(self) -> Path:
        return self.folder / "parley.toml"

    def write_config(self, text: str) -> None:
        """Replace the file in one step, so that no gateway reads half of it."""
        new = self.config.with_suffix(".new")
        new.write_text(text)
        new.replace(self.config)


def make_rig(folder: Path, seed: str, *, compiled: bool = False) -> Rig:
    """Raises: RigError, if a program is not installed."""
    nginx_path = find_nginx()
    redis_path = shutil.which("redis-server")
    if nginx_path is None or redis_path is None:
        raise RigError("nginx and redis-server are both needed (Debian: apt-get install nginx-light redis-server)")
    models = []
    for name in ("a", "b", "c", "d"):
        port = free_port()
        command = [sys.executable, str(ROOT / "bench" / "chaos_model_server.py"), "--port", str(port)]
        command += ["--name", name, "--seed", f"{seed}/{{starts}}"]
        models.append(Program(f"model-{name}", command, folder, port))
    tools_port = free_port()
    tools_command = [*tool_server_command(folder), "--port", str(tools_port)]
    tools = Program("tools", tools_command, folder, tools_port)
    redis_port = free_port()
    redis_command = [redis_path, "--port", str(redis_port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
    redis = Program("redis", redis_command, folder, redis_port)
    gateways = []
    for name in ("gateway-1", "gateway-2"):
        port = free_port()
        command = [sys.executable, "-m", "app.cli", "serve", "--config", str(folder / "parley.toml")]
        environment = compiled_environment() if compiled else {}
        gateways.append(Program(name, command, folder, port, environment | {"PARLEY_SERVER__PORT": str(port)}))
    nginx_port = free_port()
    conf = folder / "nginx.conf"
    conf.write_text(nginx_conf(folder, nginx_port, [gateway.port for gateway in gateways]))
    options = "daemon off;" + (" user root;" if os.geteuid() == 0 else "")
    nginx = Program("nginx", [nginx_path, "-c", str(conf), "-p", str(folder), "-g", options], folder, nginx_port)
    keys = {name: f"the-key-of-{name}-in-the-chaos-run" for name in SCOPES}
    return Rig(folder, models, tools, redis, gateways, nginx, keys)


def tool_log(folder: Path) -> Path:
    """The calls that servers of tools have run, a token a line."""
    return folder / "tool-calls.log"


def tool_server_command(folder: Path) -> list[str]:
    return [sys.executable, str(ROOT / "bench" / "chaos_tool_server.py"), "--log", str(tool_log(folder))]


def free_port() -> int:
    """One that the system gives to no connection: it must still be free when its server has been killed."""
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.SystemRandom().randrange(10_000, max(lowest, 11_000))
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def nginx_conf(folder: Path, port: int, gateways: list[int]) -> str:
    """The file that the project ships, with other ports and folders."""
    text = (ROOT / "deploy" / "nginx.conf").read_text()
    for old, new in {
        "worker_processes auto;": "worker_processes 1;",
        "/tmp/": f"{folder}/nginx-",
        "listen 8080;": f"listen 127.0.0.1:{port} backlog=4096;",
        "server gateway-1:8000": f"server 127.0.0.1:{gateways[0]}",
        "server gateway-2:8000": f"server 127.0.0.1:{gateways[1]}",
    }.items():
        if old not in text:
            raise RigError(f"deploy/nginx.conf no longer has {old!r}, which the chaos run replaces")
        text = text.replace(old, new)
    return text


def gateway_config(rig: Rig, version: int) -> str:
    """The configuration; each version has other weights, retries and limits, and every fifth one more upstream. Each
    upstream speaks another API, so that a retry, a hedge or a fallback goes to a server of another one."""
    lines = [
        "[server]",
        'log_level = "info"',
        'log_format = "json"',
        f"drain_seconds = {DRAIN_SECONDS}",
        "max_concurrent_requests = 80",
        "queue_seconds = 4",
        "commit_seconds = 1",
        "heartbeat_seconds = 1",
        f"admin_key = {json.dumps(ADMIN_KEY)}",
        "[cache]",
        f'url = "redis://127.0.0.1:{rig.redis.port}/0"',
        "ttl_seconds = 60",
        "resume_seconds = 20",
        "[usage]",
        f'url = "sqlite:///{rig.folder}/usage.db"',
    ]
    for name, scope in SCOPES.items():
        digest = hashlib.sha256(rig.keys[name].encode()).hexdigest()
        lines += [f"[keys.{name}]", f'sha256 = "{digest}"', f'cache_scope = "{scope}"']
    lines += ["[keys.limited.limits]", "concurrent_streams = 8", f"requests_per_minute = {600 + version % 3}"]
    upstreams = [model.name[-1] for model in rig.models]
    apis = list(APIS)
    for model, api in zip(rig.models, apis, strict=True):
        lines += _upstream(model.name[-1], model.port, api)
    if version % 5 == 4:
        upstreams.append("again")
        lines += _upstream("again", rig.models[version % len(apis)].port, apis[version // 5 % len(apis)])
    named = ", ".join(f'{{name = "{name}", weight = {(version + at) % 3 + 1}}}' for at, name in enumerate(upstreams))
    for model_name, more in {
        "plain": [f"max_retries = {version % 3}", 'fallbacks = ["prefix"]'],
        "hedged": ["hedge_after_seconds = 0.5", "max_retries = 1"],
        "prefix": ['strategy = "prefix"'],
    }.items():
        lines += [f"[models.{model_name}]", f"upstreams = [{named}]", "deadline_seconds = 10", *more]
        lines.append("price = {input = 1, output = 2}")
    return "\n".join([*lines, *_tool_servers(rig, version), ""])


def _tool_servers(rig: Rig, version: int) -> list[str]:
    """Some versions of the configuration change a server, so that it ends once no reply uses it."""
    lines = ["[tools]", "max_seconds = 60", "[fetch]", "max_bytes = 1000000"]
    program, *arguments = tool_server_command(rig.folder)
    started = [f"command = {json.dumps(program)}", f"args = {json.dumps(arguments)}"]
    for name, how in {
        "stdio": [*started, f'env = {{VERSION = "{version // 3}"}}'],
        "alone": [*started, 'session = "reply"'],
        "http": [f'url = "http://127.0.0.1:{rig.tools.port}/mcp"'],
    }.items():
        lines += [f"[mcp_servers.{name}]", *how, f"tool_timeout_sec = {TOOL_SECONDS}"]
        lines.append(f"max_result_bytes = {MAX_RESULT_BYTES}")
    return lines


def _upstream(name: str, port: int, api: str) -> list[str]:
    return [
        f"[upstreams.{name}]",
        f'api = "{api}"',
        f'base_url = "http://127.0.0.1:{port}/v1"',
        "connect_seconds = 1",
        "first_token_seconds = 2",
        "idle_seconds = 2",
        "whole_reply_seconds = 20",
        'health_path = "/health"',
        "health_seconds = 2",
    ]
