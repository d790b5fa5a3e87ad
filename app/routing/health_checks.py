"""Request the `health_path` of upstreams at intervals, and report the results to their states."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace

import httpx
from msgspec import Struct

from app.routing.pool import UpstreamStates
from app.upstream.http.client import Target, UpstreamClient

log = logging.getLogger("parley.routing")

MAX_WAIT_SECONDS = 5.0
"""An upstream that takes longer to answer a health check has failed it."""


class HealthCheck(Struct, frozen=True):
    target: Target
    path: str
    """The path on the server, without that of its base_url."""
    interval_seconds: float


class HealthChecks:
    """One task for each check, from `start` to `aclose`."""

    def __init__(self, client: UpstreamClient, states: UpstreamStates) -> None:
        self._client = client
        self._states = states
        self._waiting: list[HealthCheck] = []
        """The checks that begin with `start`."""
        self._running: list[tuple[HealthCheck, asyncio.Task[None]]] | None = None
        """None before `start`."""

    def set_checks(self, checks: Sequence[HealthCheck]) -> None:
        """Make these checks from now on. Those that are made already go on undisturbed. An upstream without a check is
        taken to be healthy, whatever the last one found."""
        if self._running is None:
            self._waiting = [*checks]
            return
        kept = [(check, task) for check, task in self._running if check in checks]
        for check, task in self._running:
            if check not in checks:
                task.cancel()
        known = [check for check, _ in kept]
        self._running = kept + [self._begin(check) for check in checks if check not in known]
        checked = {check.target.name for check in checks}
        for state in self._states:
            if state.name not in checked:
                state.on_health_check(healthy=True, now=asyncio.get_running_loop().time())

    def _begin(self, check: HealthCheck) -> tuple[HealthCheck, asyncio.Task[None]]:
        return check, asyncio.get_running_loop().create_task(self._repeat(check))

    def start(self) -> None:
        self._running = [self._begin(check) for check in self._waiting]

    async def aclose(self) -> None:
        tasks = [task for _, task in self._running or ()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _repeat(self, check: HealthCheck) -> None:
        server = replace(check.target, base_url=str(httpx.URL(check.target.base_url).copy_with(path="/")).rstrip("/"))
        seconds = min(check.interval_seconds, MAX_WAIT_SECONDS)
        while True:
            status = await self._client.status(server, "GET", check.path, seconds)
            state = self._states.get(check.target)
            healthy = status is not None and 200 <= status < 300
            if healthy is not state.healthy:
                result = "without an answer" if status is None else f"with status {status}"
                log.warning("the health check of upstream %s ended %s", state.name, result)
            state.on_health_check(healthy, asyncio.get_running_loop().time())
            await asyncio.sleep(check.interval_seconds)
