"""The queue of requests that wait for a place."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from app.errors import Busy
from app.limits.admission import Admission, ClientLeft

pytestmark = pytest.mark.anyio


async def never() -> None:
    await asyncio.Event().wait()


class Gate:
    """An admission with requests that run until the test ends them."""

    def __init__(self, places: int = 1, max_queued: int = 100, seconds: float = 5.0) -> None:
        self.places = places
        self.admission = Admission(lambda running: running >= self.places, max_queued, seconds)
        self.order: list[str] = []
        """The names of the requests that were admitted."""
        self._ends: dict[str, asyncio.Event] = {}

    async def request(self, name: str, left: Callable[[], Awaitable[Any]] = never) -> asyncio.Task[None]:
        """Start a request; the first letter of its name is its caller."""
        task = asyncio.create_task(self._run(name, left))
        await asyncio.sleep(0)
        return task

    async def _run(self, name: str, left: Callable[[], Awaitable[Any]]) -> None:
        end = self._ends[name] = asyncio.Event()
        with self.admission.try_enter() or await self.admission.wait(name[0], left):
            self.order.append(name)
            await end.wait()

    async def end(self, name: str) -> None:
        self._ends[name].set()
        for _ in range(5):
            await asyncio.sleep(0)

    @property
    def state(self) -> tuple[int, int]:
        return self.admission.in_progress, self.admission.queued


async def test_below_the_limit_no_request_waits() -> None:
    gate = Gate(places=2)
    tasks = [await gate.request(name) for name in ("a1", "b1")]
    assert (gate.order, gate.state) == (["a1", "b1"], (2, 0))
    for name in gate.order:
        await gate.end(name)
    await asyncio.gather(*tasks)
    assert gate.state == (0, 0)


async def test_callers_take_turns_and_the_requests_of_one_caller_keep_their_order() -> None:
    gate = Gate()
    tasks = [await gate.request(name) for name in ("a1", "a2", "a3", "a4", "b1", "c1", "b2")]
    assert (gate.order, gate.state) == (["a1"], (1, 6))
    for number in range(7):
        assert len(gate.order) == number + 1
        await gate.end(gate.order[number])
    await asyncio.gather(*tasks)
    assert gate.order == ["a1", "a2", "b1", "c1", "a3", "b2", "a4"]
    assert gate.state == (0, 0)


async def test_a_new_request_does_not_overtake_those_that_wait() -> None:
    gate = Gate()
    tasks = [await gate.request(name) for name in ("a1", "a2")]
    gate.places = 2
    tasks.append(await gate.request("b1"))
    await gate.end("a1")
    assert gate.order == ["a1", "a2", "b1"]
    for name in ("a2", "b1"):
        await gate.end(name)
    await asyncio.gather(*tasks)


async def test_a_place_that_becomes_free_unnoticed_is_found() -> None:
    gate = Gate()
    tasks = [await gate.request(name) for name in ("a1", "a2")]
    gate.places = 2  # as when a call without a caller ends
    async with asyncio.timeout(2):
        while len(gate.order) < 2:
            await asyncio.sleep(0.01)
    for name in ("a1", "a2"):
        await gate.end(name)
    await asyncio.gather(*tasks)


async def test_a_full_queue_and_a_long_wait_are_refused() -> None:
    gate = Gate(max_queued=1, seconds=0.05)
    first, second, third = [await gate.request(name) for name in ("a1", "a2", "a3")]
    with pytest.raises(Busy, match="maximum number of requests"):
        await third
    with pytest.raises(Busy, match=r"no place became free within 0.05 s") as caught:
        await second
    assert caught.value.headers["retry-after"] == "1"
    assert gate.state == (1, 0)
    await gate.end("a1")
    await first


async def test_a_client_that_leaves_or_a_request_that_is_cancelled_gives_its_place_in_the_queue_up() -> None:
    gate, left = Gate(), asyncio.Event()
    first, second, third, fourth = [
        await gate.request("a1"),
        await gate.request("a2", left.wait),
        await gate.request("a3"),
        await gate.request("a4"),
    ]
    left.set()
    with pytest.raises(ClientLeft):
        await second
    third.cancel()
    await asyncio.gather(third, return_exceptions=True)
    assert gate.state == (1, 1)
    await gate.end("a1")
    assert gate.order == ["a1", "a4"]
    await gate.end("a4")
    await asyncio.gather(first, fourth)
    assert gate.state == (0, 0)


async def test_a_request_that_is_cancelled_as_its_turn_comes_gives_the_place_on() -> None:
    gate = Gate()
    first, second, third = [await gate.request(name) for name in ("a1", "a2", "a3")]
    with gate.admission:  # frees a place in the same turn of the loop
        second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    await gate.end("a1")
    assert "a3" in gate.order
    await gate.end("a3")
    await asyncio.gather(first, third)
