"""What health checks find holds as long as they are made."""

import asyncio
from typing import Any

import pytest
from app.routing import HealthCheck, HealthChecks, UpstreamStates

from tests.default_limits import upstream_target

pytestmark = pytest.mark.anyio

A, B = (upstream_target(name, f"http://{name}.test/v1") for name in "ab")


class NotFound:
    """An HTTP client to servers that know no path."""

    async def status(self, target: Any, method: str, path: str, seconds: float) -> int:
        return 404


async def test_an_upstream_whose_check_is_removed_is_healthy_again() -> None:
    states = UpstreamStates((A, B))
    client: Any = NotFound()
    checks = HealthChecks(client, states)
    rows = [HealthCheck(target, "/wrong", 60.0) for target in (A, B)]
    checks.set_checks(rows)
    checks.start()
    try:
        await asyncio.sleep(0.01)
        assert {state.name: state.healthy for state in states} == {"a": False, "b": False}
        checks.set_checks(rows[1:])
        assert {state.name: state.healthy for state in states} == {"a": True, "b": False}
        states.set_targets([B])
        checks.set_checks([])
        assert {state.name: state.healthy for state in states} == {"b": True}
    finally:
        await checks.aclose()
