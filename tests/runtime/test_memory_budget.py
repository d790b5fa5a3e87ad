"""The one budget of what requests hold in memory."""

import asyncio
import random
from typing import Any

import pytest
from app.errors import Busy
from app.runtime.memory_budget import Lease, MemoryBudget

from tests.each_case import each_case


@pytest.mark.anyio
async def test_bytes_that_are_taken_leave_half_of_the_budget_to_those_that_wait() -> None:
    budget = MemoryBudget(100)
    one, two = budget.lease(), budget.lease()
    one.take(50)
    with pytest.raises(Busy) as refused:
        two.take(1)
    assert refused.value.headers == {"retry-after": "1"}
    await two.wait(1000, 1)
    assert (two.held_bytes, budget.held_bytes) == (50, 100)


@pytest.mark.anyio
async def test_the_first_to_wait_gets_its_bytes_first_also_where_less_would_fit() -> None:
    budget = MemoryBudget(100)
    holder, large, small = budget.lease(), budget.lease(), budget.lease()
    holder.change(70)
    order: list[str] = []

    async def stand(lease: Lease, size: int, name: str) -> None:
        await lease.wait(size, 5)
        order.append(name)

    tasks = [asyncio.create_task(stand(large, 40, "large")), asyncio.create_task(stand(small, 10, "small"))]
    await asyncio.sleep(0.01)
    assert order == []
    holder.release()
    await asyncio.gather(*tasks)
    assert order == ["large", "small"]


@pytest.mark.anyio
async def test_a_wait_ends_when_exactly_as_much_is_free() -> None:
    budget = MemoryBudget(100)
    holder, one, other = budget.lease(), budget.lease(), budget.lease()
    holder.change(70)
    await one.wait(30, 1)
    waiting = asyncio.create_task(other.wait(20, 1))
    await asyncio.sleep(0)
    holder.change(50)
    await waiting
    assert budget.held_bytes == 100


@pytest.mark.anyio
async def test_a_wait_that_times_out_is_refused_and_delays_no_other() -> None:
    budget = MemoryBudget(100)
    holder, large, small = budget.lease(), budget.lease(), budget.lease()
    holder.change(70)
    behind = asyncio.ensure_future(_after(0.001, small.wait(20, 5)))
    with pytest.raises(Busy):
        await large.wait(50, 0.02)
    await behind
    assert (large.held_bytes, small.held_bytes, budget.held_bytes) == (0, 20, 90)


async def _after(seconds: float, waiting: Any) -> None:
    await asyncio.sleep(seconds)
    await waiting


@pytest.mark.anyio
async def test_a_lease_that_is_left_holds_nothing_whatever_happened() -> None:
    budget = MemoryBudget(100)
    with pytest.raises(ZeroDivisionError), budget.lease() as lease:
        lease.take(40)
        raise ZeroDivisionError
    lease.release()
    assert budget.held_bytes == 0


@pytest.mark.anyio
async def test_what_is_moved_is_released_by_its_new_holder_alone() -> None:
    budget = MemoryBudget(100)
    with budget.lease() as lease:
        lease.take(40)
        with lease.move() as moved:
            lease.release()
            assert (moved.held_bytes, budget.held_bytes) == (40, 40)
        assert budget.held_bytes == 0


class Request:
    """Takes, waits, changes and moves as chance has it, and may be cancelled anywhere."""

    def __init__(self, budget: MemoryBudget, chance: random.Random) -> None:
        self.budget, self.chance = budget, chance

    async def run(self) -> None:
        chance, budget = self.chance, self.budget
        with budget.lease() as lease:
            for _ in range(chance.randint(1, 4)):
                assert budget.held_bytes >= 0
                match chance.randint(0, 4):
                    case 0:
                        before = budget.held_bytes
                        size = chance.randint(0, 60)
                        lease.take(size)
                        assert before + size <= budget.max_bytes // 2
                    case 1:
                        await lease.wait(chance.randint(0, 90), chance.choice([0.0, 0.001, 5]))
                    case 2:
                        lease.change(chance.randint(0, lease.held_bytes))
                    case 3:
                        with lease.move():
                            await asyncio.sleep(0)
                    case _:
                        await asyncio.sleep(0)


@each_case("seed", range(150))
def test_however_requests_end_all_memory_is_released_and_no_wait_is_forgotten(seed: int) -> None:
    async def lease_many() -> None:
        chance = random.Random(seed)
        number = chance.randint(1, 25)
        budget = MemoryBudget(100)
        tasks = [asyncio.create_task(Request(budget, chance).run()) for _ in range(number)]
        while not all(task.done() for task in tasks):
            assert budget.held_bytes <= budget.max_bytes
            if chance.random() < 0.3:
                chance.choice(tasks).cancel()
            await asyncio.sleep(0)
        for task in tasks:
            if not task.cancelled() and task.exception() is not None:
                assert isinstance(task.exception(), Busy), task.exception()
        assert budget.held_bytes == 0
        assert budget.waiting == 0

    asyncio.run(asyncio.wait_for(lease_many(), 20))
