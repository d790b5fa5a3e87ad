"""One client against a running gateway: its checks, and what it asked for each."""

import asyncio
import contextlib
import json
import os
from dataclasses import dataclass, replace
from typing import Any

from interop.environments import Client, NotInstalled, install
from interop.gateway import Asked, Gateway

RUN_SECONDS = 1500
LINE_BYTES = 1 << 20
QUIET = {
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONIOENCODING": "utf-8",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "OTEL_SDK_DISABLED": "true",
}
"""No client sends telemetry while it is tried."""
UNSAFE = ("_API_KEY", "_BASE_URL", "_API_BASE", "PARLEY_", "_proxy", "_PROXY")


@dataclass(frozen=True, slots=True)
class Outcome:
    client: Client
    version: str
    check: str
    ok: bool
    detail: str
    asked: tuple[Asked, ...] = ()

    @property
    def fault(self) -> str | None:
        """Why the client, and not the gateway, is at fault."""
        return self.client.faults.get(self.check)

    @property
    def verdict(self) -> str:
        if self.ok:
            return "pass" if self.fault is None else "passes now: the fault is out of date"
        return "client" if self.fault is not None else "FAIL"

    @property
    def as_expected(self) -> bool:
        return self.verdict in ("pass", "client")


async def try_client(client: Client, gateway: Gateway) -> list[Outcome]:
    """Every check of the client; a client that cannot be tried is one check that fails."""
    try:
        await install(client)
    except NotInstalled as error:
        return [Outcome(client, "", "the packages can be installed", False, str(error))]
    running = await asyncio.create_subprocess_exec(
        *client.command,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=_environment(gateway.url),
        cwd=client.folder,
        limit=LINE_BYTES,
    )
    errors = asyncio.create_task(running.stderr.read())  # type: ignore[union-attr]  # it is a pipe
    outcomes: list[Outcome] = []
    why = f"not done within {RUN_SECONDS} seconds"
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(RUN_SECONDS):
            outcomes = [outcome async for outcome in _read_outcomes(client, running, gateway)]
            await running.wait()
            why = (await errors).decode("utf-8", "replace").strip()[-400:]
    if running.returncode is None:
        running.kill()
    if running.returncode != 0 or not outcomes:
        version = outcomes[0].version if outcomes else ""
        outcomes.append(Outcome(client, version, "the program runs to its end", False, why))
    return outcomes


def together(live: list[Outcome], kept: list[Outcome]) -> list[Outcome]:
    """A check holds when it holds with and without the cache."""
    failed = {outcome.check: outcome for outcome in kept if not outcome.ok}
    found = [_worse(outcome, failed.pop(outcome.check, outcome)) for outcome in live]
    return [*found, *failed.values()]


def _worse(live: Outcome, kept: Outcome) -> Outcome:
    return live if kept.ok or not live.ok else replace(kept, detail=f"with the cache: {kept.detail}")


def _environment(url: str) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not any(part in key for part in UNSAFE)}
    return {**kept, **QUIET, "PARLEY_URL": url}


async def _read_outcomes(client: Client, running: asyncio.subprocess.Process, gateway: Gateway) -> Any:
    gateway.asked.clear()
    async for raw in running.stdout:  # type: ignore[union-attr]  # it is a pipe
        line = _line(raw)
        if line is not None:
            asked = tuple(gateway.asked)
            gateway.asked.clear()
            yield Outcome(client, line["version"], line["check"], line["ok"], line["detail"], asked)


def _line(raw: bytes) -> dict[str, Any] | None:
    """Clients print things of their own in between."""
    try:
        value = json.loads(raw)
    except ValueError:
        return None
    return value if isinstance(value, dict) and "check" in value else None
