"""Commands of many requests share the round trips to Redis."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from app.redis.connection import BATCHES_AT_ONCE, MAX_BYTES, MAX_COMMANDS, Command, CommandBatcher

pytestmark = pytest.mark.anyio


class Server:
    """Answers a batch when it is let go, each command with its last part."""

    def __init__(self) -> None:
        self.batches: list[list[Command]] = []
        self.arrived = asyncio.Semaphore(0)
        self.gate = asyncio.Event()
        self.failure: Exception | None = None

    async def send(self, commands: Sequence[Command]) -> list[Any]:
        self.batches.append(list(commands))
        self.arrived.release()
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        return [ValueError(name) if verb == "FAIL" else name for verb, name in commands]


def begin(batcher: CommandBatcher, *commands: Command) -> list[asyncio.Task[Any]]:
    return [asyncio.create_task(batcher.execute(command)) for command in commands]


async def test_commands_of_the_same_moment_are_one_batch_and_each_gets_its_result() -> None:
    server = Server()
    server.gate.set()
    results = await asyncio.gather(*begin(CommandBatcher(server.send), ("GET", "a"), ("GET", "b"), ("GET", "c")))
    assert results == ["a", "b", "c"]
    assert server.batches == [[("GET", "a"), ("GET", "b"), ("GET", "c")]]


async def test_commands_wait_while_batches_are_on_their_way_and_are_the_next_ones() -> None:
    server = Server()
    batcher = CommandBatcher(server.send)
    tasks = []
    for number in range(BATCHES_AT_ONCE):
        tasks += begin(batcher, ("GET", f"early {number}"))
        await server.arrived.acquire()
    late: list[Command] = [("GET", f"late {number}") for number in range(MAX_COMMANDS + 1)]
    tasks += begin(batcher, *late)
    for _ in range(5):
        await asyncio.sleep(0)
    assert len(server.batches) == BATCHES_AT_ONCE
    server.gate.set()
    assert await asyncio.gather(*tasks[BATCHES_AT_ONCE:]) == [name for _, name in late]
    assert server.batches[BATCHES_AT_ONCE:] == [late[:MAX_COMMANDS], late[MAX_COMMANDS:]]


async def test_a_command_is_sent_that_comes_at_the_moment_when_all_batches_are_answered() -> None:
    server = Server()
    batcher = CommandBatcher(server.send)

    async def ask_twice() -> list[str]:
        return [await batcher.execute(("GET", "first")), await batcher.execute(("GET", "second"))]

    twice = asyncio.create_task(ask_twice())
    await server.arrived.acquire()
    others = []
    for number in range(1, BATCHES_AT_ONCE):
        others += begin(batcher, ("GET", f"other {number}"))
        await server.arrived.acquire()
    server.gate.set()
    async with asyncio.timeout(5):
        await asyncio.gather(*others)
        assert await twice == ["first", "second"]


async def test_a_batch_has_a_limit_in_bytes() -> None:
    server = Server()
    server.gate.set()
    half = "x" * (MAX_BYTES // 2)
    await asyncio.gather(*begin(CommandBatcher(server.send), ("SET", half), ("SET", half), ("SET", "small")))
    assert [len(batch) for batch in server.batches] == [2, 1]


async def test_a_command_that_fails_fails_alone() -> None:
    server = Server()
    server.gate.set()
    tasks = begin(CommandBatcher(server.send), ("GET", "a"), ("FAIL", "b"), ("GET", "c"))
    a, b, c = await asyncio.gather(*tasks, return_exceptions=True)
    assert (a, str(b), c) == ("a", "b", "c")
    assert isinstance(b, ValueError)


async def test_a_batch_that_fails_fails_for_each_of_its_requests_and_the_next_is_sent() -> None:
    server = Server()
    server.gate.set()
    batcher = CommandBatcher(server.send)
    server.failure = OSError("gone")
    results = await asyncio.gather(*begin(batcher, ("GET", "a"), ("GET", "b")), return_exceptions=True)
    assert [str(result) for result in results] == ["gone", "gone"]
    server.failure = None
    assert await batcher.execute(("GET", "c")) == "c"


async def test_a_request_that_leaves_disturbs_no_other() -> None:
    server = Server()
    batcher = CommandBatcher(server.send)
    sent = begin(batcher, ("GET", "sent"), ("GET", "other"))
    await server.arrived.acquire()
    sent += begin(batcher, ("GET", "second"))
    await server.arrived.acquire()
    waiting = begin(batcher, ("GET", "waiting"), ("GET", "last"))
    await asyncio.sleep(0)
    left = [sent.pop(0), waiting.pop(0)]
    for task in left:
        task.cancel()
    await asyncio.wait(left)
    server.gate.set()
    assert await asyncio.gather(*sent, *waiting) == ["other", "second", "last"]
    assert [name for batch in server.batches for _, name in batch] == ["sent", "other", "second", "last"]
