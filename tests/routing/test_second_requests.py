"""Of two requests for a reply, all but the one that wins are closed, whenever the caller leaves."""

import asyncio
from typing import Any

import pytest
from app.routing import RetryBudget, UpstreamCaller
from typing_extensions import override

pytestmark = pytest.mark.anyio


class Opened:
    """A reply that has begun."""

    def __init__(self) -> None:
        self.closed = False

    def cancel(self) -> None:
        self.closed = True


class Racing(UpstreamCaller):
    """Sends two requests. The second one wins, and the first takes some turns of the event loop to be cancelled."""

    def __init__(self, on_won: Any) -> None:
        unused: Any = None
        super().__init__(unused, unused, unused, unused, budget=RetryBudget())
        self.reply = Opened()
        self._on_won = on_won

    @override
    def _hedge_delay(self, call: Any) -> float:
        return 0.001

    @override
    def _choose_second(self, call: Any, first: Any) -> Any:
        return "second"

    @override
    async def _send_to(self, call: Any, member: Any, *, wait: bool) -> Any:
        if member == "first":
            try:
                await asyncio.Event().wait()
            finally:
                for _ in range(3):
                    await asyncio.sleep(0)
        self._on_won()
        return self.reply


async def race(turns: int) -> tuple[Opened, Any]:
    """Let the caller leave so many turns after the second request won. Returns its reply and what the caller got."""
    loop = asyncio.get_running_loop()

    def leave(left: int) -> None:
        if left:
            loop.call_soon(leave, left - 1)
        else:
            sending.cancel()

    unused: Any = None
    member: Any = "first"
    caller = Racing(lambda: leave(turns))
    sending = asyncio.ensure_future(caller._send_with_hedge(unused, member, [], wait=True))
    (outcome,) = await asyncio.gather(sending, return_exceptions=True)
    return caller.reply, outcome


async def test_the_reply_that_won_is_closed_if_its_caller_leaves_meanwhile() -> None:
    outcomes = [await race(turns) for turns in range(10)]
    assert [reply.closed for reply, _ in outcomes] == [outcome is not reply for reply, outcome in outcomes]
    assert {reply.closed for reply, _ in outcomes} == {True, False}
