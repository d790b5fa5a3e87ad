"""One chaos run: what goes wrong when, the clients meanwhile, and what is checked in the end."""

import asyncio
import json
import os
import random
import signal
import time
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from typing import Any

from chaos_checks import (
    count_sockets,
    find_alive,
    find_busy_gauges,
    find_crashes,
    find_descendants,
    find_repeated,
    find_running_calls,
    find_using,
    get,
    resident_kb,
)
from chaos_client import Client
from chaos_processes import DRAIN_SECONDS, Program, Rig, gateway_config, tool_log
from chaos_results import Disturbance, Results

STORM_SHARE = 0.6
"""Gateways are stopped and killed in this part of the run; memory is compared in the rest."""
SETTLE_SHARE = 0.1
"""Then so much of the run is left to the gateways to warm up."""
CYCLE_SECONDS = 45.0
NGINX_SECONDS = 7.0
"""So long after a gateway is back, nginx may still leave it out (`fail_timeout`)."""
IDLE_SECONDS = 12.0
"""Within this time after the last reply, connections without a use are closed and all counters are back at 0."""
NOBODY = "no-such-upstream"
"""Named in configurations with a mistake, of which the log tells."""
ORPHAN_SECONDS = 5.0
"""Within this time after a gateway has ended, the processes that it has started have too."""
MEMORY_RUN_SECONDS = 300.0
"""A shorter run does not warm a gateway up, least of all on a busy machine: its memory is printed, not judged."""
MEMORY_FACTOR, MEMORY_KB = 1.15, 12_000
"""How much memory may grow in the last part of the run."""


class ChaosRun:
    def __init__(self, rig: Rig, seed: str, clients: int, seconds: float) -> None:
        self._rig, self._seed, self._clients, self._seconds = rig, seed, clients, seconds
        self._pick = random.Random(f"{self._seed} schedule")
        self._results = Results()
        self._version = 0
        self._memory: dict[str, tuple[int, int]] = {}
        self._ends_at = 0.0
        self._starting = asyncio.Lock()
        """Held while a gateway starts: it takes no signal yet, and needs a configuration without mistakes."""

    async def run(self) -> Results:
        rig = self._rig
        rig.write_config(gateway_config(rig, 0))
        await _run_together(program.start() for program in rig.programs if program is not rig.nginx)
        await rig.nginx.start()
        self._ends_at = time.monotonic() + self._seconds
        troubles = (
            *(self._trouble_models(), self._trouble_redis(), self._trouble_gateways(), self._trouble_config()),
            self._trouble_tools(),
        )
        keys = list(rig.keys.values())
        clients = [Client(n, self._seed, rig.nginx.port, keys, self._results) for n in range(self._clients)]
        await _run_together((*troubles, self._watch_memory(), *(client.run(self._ends_at) for client in clients)))
        await self._check_idle()
        await self._check_usage()
        await self._check_exits()
        self._check_logs()
        self._check_tools()
        return self._results

    @property
    def memory(self) -> dict[str, tuple[int, int]]:
        """Resident KB of each gateway, at the beginning and at the end of the last part of the run."""
        return self._memory

    def _left(self) -> float:
        return self._ends_at - time.monotonic()

    async def _sleep(self, seconds: float) -> bool:
        """Whether the run goes on after so many seconds."""
        await asyncio.sleep(max(0.0, min(seconds, self._left())))
        return self._left() > 0

    async def _trouble_models(self) -> None:
        while await self._sleep(self._pick.uniform(2, 8)):
            model = self._pick.choice(self._rig.models)
            await model.kill()
            await asyncio.sleep(self._pick.uniform(0.1, 3))
            await model.start()

    async def _trouble_tools(self) -> None:
        """Kill the server over HTTP, or one of the processes that a gateway has started for its tools."""
        while await self._sleep(self._pick.uniform(1, 4)):
            if self._pick.random() < 0.4:
                await self._rig.tools.kill()
                await asyncio.sleep(self._pick.uniform(0.1, 2))
                await self._rig.tools.start()
                continue
            started = sorted(find_descendants(self._pick.choice(self._rig.gateways).pid))
            if started:
                with suppress(ProcessLookupError):
                    os.kill(self._pick.choice(started)[0], signal.SIGKILL)

    async def _trouble_redis(self) -> None:
        while await self._sleep(min(self._seconds / 4, self._pick.uniform(10, 40))):
            disturbance = self._results.begin("redis")
            if self._pick.random() < 0.6:
                await self._rig.redis.kill()
                await asyncio.sleep(self._pick.uniform(0.1, 3))
                await self._rig.redis.start()
            else:
                self._rig.redis.signal(signal.SIGSTOP)
                await asyncio.sleep(self._pick.uniform(0.1, 2))
                self._rig.redis.signal(signal.SIGCONT)
            # Gateways look for it again after a while, and it does not have what was published meanwhile.
            asyncio.get_running_loop().call_later(10, _end, disturbance)

    async def _trouble_gateways(self) -> None:
        storm_ends = self._ends_at - self._seconds * (1 - STORM_SHARE)
        first, second = self._rig.gateways
        while time.monotonic() < storm_ends:
            began = time.monotonic()
            await self._sleep(min(self._seconds / 8, 8))
            disturbance = self._results.begin("stop")
            started = find_descendants(first.pid)
            status = await first.stop(DRAIN_SECONDS + 5)
            if status != 0:
                self._results.violation("", f"{first.name} ended with {status} after SIGTERM")
            await self._check_ended(first, started)
            await self._start_again(first, disturbance)
            await self._sleep(min(self._seconds / 12, 5))
            disturbance = self._results.begin("kill")
            started = find_descendants(second.pid)
            await second.kill()
            disturbance.ended = time.monotonic()
            await self._check_ended(second, started)
            await self._start_again(second, self._results.begin("stop"))
            if time.monotonic() + CYCLE_SECONDS > storm_ends:
                return
            await self._sleep(CYCLE_SECONDS - (time.monotonic() - began))

    async def _check_ended(self, gateway: Program, started: set[tuple[int, str]]) -> None:
        """The processes that a gateway has started end with it."""
        self._results.ended_processes += len(started)
        deadline = time.monotonic() + ORPHAN_SECONDS
        while True:
            left = find_alive(started)
            if not left or time.monotonic() > deadline:
                break
            await asyncio.sleep(0.1)
        if left:
            self._results.violation("", f"{gateway.name} has left processes behind: {sorted(pid for pid, _ in left)}")

    async def _start_again(self, gateway: Program, disturbance: Disturbance) -> None:
        await asyncio.sleep(self._pick.uniform(0.1, 1))
        async with self._starting:
            await gateway.start()
        asyncio.get_running_loop().call_later(NGINX_SECONDS, _end, disturbance)

    async def _trouble_config(self) -> None:
        """Write another configuration, or one with a mistake, and tell the gateways."""
        while await self._sleep(self._pick.uniform(3, 8)):
            self._version += 1
            text = gateway_config(self._rig, self._version)
            async with self._starting:
                if self._pick.random() < 0.3:
                    self._rig.write_config(f'{text}[models.wrong]\nupstreams = ["{NOBODY}"]\n')
                    await asyncio.sleep(1)
                self._rig.write_config(text)
                if self._pick.random() < 0.5:
                    for gateway in self._rig.gateways:
                        gateway.signal(signal.SIGHUP)

    async def _watch_memory(self) -> None:
        await self._sleep(self._left() - self._seconds * (1 - STORM_SHARE - SETTLE_SHARE))
        began = {gateway.name: (gateway.pid, resident_kb(gateway.pid)) for gateway in self._rig.gateways}
        while await self._sleep(2):
            pass
        for gateway in self._rig.gateways:
            pid, before = began[gateway.name]
            if pid == gateway.pid:
                self._memory[gateway.name] = (before, resident_kb(pid))
        for name, (before, after) in self._memory.items():
            if self._seconds >= MEMORY_RUN_SECONDS and after > max(before * MEMORY_FACTOR, before + MEMORY_KB):
                self._results.violation("", f"{name} had {before:,} KB and has {after:,} KB in the end")

    async def _check_idle(self) -> None:
        """No client asks anything: counters go back to 0, and connections are closed."""
        ports = {model.port: "model server" for model in self._rig.models}
        ports |= {gateway.port: "client" for gateway in self._rig.gateways} | {self._rig.redis.port: "redis"}
        for gateway in self._rig.gateways:
            deadline = time.monotonic() + IDLE_SECONDS
            while True:
                sockets = count_sockets(gateway.pid, ports)
                # Health checks keep a connection for each upstream; one more than the servers in some configurations.
                kept = {"redis": sockets.get("redis", 0), "model server": len(self._rig.models) + 1}
                left = {name: count for name, count in sockets.items() if count > kept.get(name, 0)}
                busy = await find_busy_gauges(gateway.port) | await find_running_calls(gateway.port)
                if (not left and not busy) or time.monotonic() > deadline:
                    break
                await asyncio.sleep(0.5)
            if left:
                self._results.violation("", f"{gateway.name} keeps connections: {left}")
            if busy:
                self._results.violation("", f"{gateway.name} is not idle: {busy}")

    async def _check_usage(self) -> None:
        """The ledger has every completed reply, but those of the last second of a killed gateway."""
        await asyncio.sleep(1.5)
        port = self._rig.gateways[0].port
        total = json.loads(await get(port, "/v1/usage"))["total"]["requests"]
        kills = [one.began for one in self._results.disturbances if one.kind == "kill"]
        sure = sum(not any(kill - 2.5 < at <= kill for kill in kills) for at in self._results.completed_at)
        asked = self._results.outcomes.total()
        if not sure <= total <= asked:
            self._results.violation("", f"the ledger has {total} requests; {sure} completed and {asked} were asked")

    async def _check_exits(self) -> None:
        for gateway in self._rig.gateways:
            began, started = time.monotonic(), find_descendants(gateway.pid)
            status = await gateway.stop(DRAIN_SECONDS + 5)
            await self._check_ended(gateway, started)
            if status != 0 or time.monotonic() - began > DRAIN_SECONDS:
                took = time.monotonic() - began
                self._results.violation("", f"{gateway.name}, idle, ended with {status} {took:.1f} s after SIGTERM")

    def _check_logs(self) -> None:
        for gateway in self._rig.gateways:
            for line in find_crashes(gateway.log.read_text(errors="replace"), NOBODY):
                self._results.violation("", f"{gateway.name} logs: {line}")

    def _check_tools(self) -> None:
        """No call has reached a tool twice, and no server of a gateway that has ended still runs."""
        calls = tool_log(self._rig.folder).read_text().split()
        self._results.tool_calls = len(calls)
        for token in find_repeated(calls):
            self._results.violation("", f"the call {token} was run more than once")
        left = set(find_using(str(tool_log(self._rig.folder)))) - {self._rig.tools.pid}
        if left:
            self._results.violation("", f"servers of tools still run after all gateways have ended: {sorted(left)}")


async def _run_together(works: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Await all of them. When one fails or the caller is cancelled, the others are cancelled, and have ended when this
    raises: none of them starts a program after that."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _end(disturbance: Disturbance) -> None:
    disturbance.ended = time.monotonic()
