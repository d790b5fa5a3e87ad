"""Replies and faults that tests of the cache let the model give."""

import asyncio
from collections.abc import Awaitable, Callable

from app.cache import CacheRules
from app.chat.events import Event, Fault, Finish
from app.errors import UpstreamFailed
from app.stores import Store

from tests.cache.fake_calls import DONE, say
from tests.cache.fake_model import REPLY, Bench
from tests.cache.manual_clock import Clocked, run

Scenario = Callable[[Bench], Awaitable[None]]

CUT = Fault("upstream_incomplete", "cut off", transient=True)

BUSY = UpstreamFailed(Fault("overloaded", "busy", transient=True, status=503))

REFUSED = UpstreamFailed(Fault("invalid_request", "no", transient=False, status=400))

OTHER: list[list[Event]] = [*say("another"), [DONE]]

MARKED = [*REPLY[:-1], [Finish("stop", {"total_tokens": 3, "cached": True})]]


def play(scenario: Scenario, rules: CacheRules | None = None, store: Store | None = None) -> None:
    """When it is over, nothing of any call is left."""

    async def bounded(loop: Clocked) -> None:
        bench = Bench(rules, store)
        await scenario(bench)
        await bench.settled()
        assert not bench.ticker.live and not bench.cache.calls
        await bench.cache.aclose()
        assert len(asyncio.all_tasks()) == 2, "that of this test, and the one that bounds it"

    run(bounded)
