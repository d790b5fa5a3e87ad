"""Items that can wait are handled in order, as many in a turn of the event loop as its budget allows."""

import asyncio

import pytest
from app.runtime.turn_queue import MANY, TURN_SECONDS, TURN_SHARE, TurnBudget, TurnQueue

from tests.work_clock import WorkClock

pytestmark = pytest.mark.anyio

TURN_OF_OTHERS = 0.1
"""What the event loop does besides in each turn, in seconds."""


async def handled_in_turns(count: int) -> list[int]:
    """How many items of this many are handled in each turn, if each takes what a turn has at least."""
    clock, handled = WorkClock(), list[int]()

    def handle(items: list[int]) -> None:
        handled.extend(items)
        clock.now += TURN_SECONDS

    queue = TurnQueue(handle, budget=TurnBudget(clock))
    for item in range(count):
        queue.add(item)
    turns: list[int] = []
    while queue:
        before = len(handled)
        clock.now += TURN_OF_OTHERS
        await asyncio.sleep(0)
        turns.append(len(handled) - before)
    assert handled == list(range(count))
    return turns


async def test_a_few_items_take_a_turn_each() -> None:
    assert await handled_in_turns(3) == [1, 1, 1]


async def test_many_items_take_more_of_a_turn() -> None:
    turns = await handled_in_turns(MANY + 1)
    share = TURN_SHARE * TURN_OF_OTHERS / TURN_SECONDS
    assert turns[0] == turns[-1] == 1
    assert share <= max(turns[1:4]) <= 2 * share


async def test_items_wait_for_the_next_turn_and_for_the_delay() -> None:
    at_once, later = list[list[str]](), list[list[str]]()
    queue, delayed = TurnQueue(at_once.append, together=2), TurnQueue(later.append, together=2, delay_seconds=0.05)
    for item in ("a", "b", "c"):
        queue.add(item)
        delayed.add(item)
    assert (at_once, later) == ([], [])
    await asyncio.sleep(0)
    assert (at_once, later) == ([["a", "b"], ["c"]], [])
    await asyncio.sleep(0.1)
    assert later == [["a", "b"], ["c"]]


async def test_all_items_can_be_handled_now() -> None:
    handled: list[list[str]] = []
    queue = TurnQueue(handled.append)
    queue.handle_all()
    for item in ("a", "b"):
        queue.add(item)
    queue.handle_all()
    assert (handled, len(queue)) == ([["a"], ["b"]], 0)
    await asyncio.sleep(0.01)
    assert handled == [["a"], ["b"]]
    queue.add("c")
    await asyncio.sleep(0.01)
    assert handled == [["a"], ["b"], ["c"]]


async def test_an_item_that_cannot_be_handled_takes_no_other_with_it() -> None:
    handled: list[str] = []

    def handle(items: list[str]) -> None:
        if items == ["b"]:
            raise RuntimeError("broken item")
        handled.extend(items)

    defects: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: defects.append(str(context["exception"])))
    queue = TurnQueue(handle)
    for item in ("a", "b", "c"):
        queue.add(item)
    while queue:
        await asyncio.sleep(0)
    assert (handled, defects) == (["a", "c"], ["broken item"])
