"""A value that several tasks need is read once for all of them."""

import asyncio

import pytest
from app.runtime.shared_reading import SharedReading

pytestmark = pytest.mark.anyio


class Source:
    def __init__(self) -> None:
        self.reads = 0

    async def read(self) -> int:
        self.reads += 1
        number = self.reads
        await asyncio.sleep(0)
        return number


async def test_those_who_need_it_at_the_same_time_get_the_same_value() -> None:
    source, reading = Source(), SharedReading[int](60.0)
    assert await asyncio.gather(*[reading.get(source.read) for _ in range(5)]) == [1] * 5
    assert await reading.get(source.read) == 1
    assert source.reads == 1


async def test_it_is_read_again_when_its_time_is_over() -> None:
    source, reading = Source(), SharedReading[int](0.01)
    assert await reading.get(source.read) == 1
    await asyncio.sleep(0.02)
    assert await reading.get(source.read) == 2


async def test_a_failed_or_cancelled_read_is_none() -> None:
    source, reading = Source(), SharedReading[int](60.0)

    async def fail() -> int:
        raise ValueError

    with pytest.raises(ValueError):
        await reading.get(fail)
    cancelled = asyncio.create_task(reading.get(source.read))
    await asyncio.sleep(0)
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    assert await reading.get(source.read) == 2
