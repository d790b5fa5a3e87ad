"""What every store must do, on each of them: SQLite's file, memory, and a real Redis server."""

import asyncio
import contextlib
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from app.stores import EntryTotals, NotKept, Store, StoredValue, StoreError, StoreStats
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cache.stores import Rig, is_whole, url_of
from tests.fork_server import forked

KINDS = ("sqlite", "sqlite lingering", "memory", "redis")
TTL: dict[str, Any] = {"ttl_seconds": 60.0, "model": "m"}


@pytest.fixture(params=KINDS)
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    server: Any = request.getfixturevalue("shared_redis") if request.param == "redis" else None
    with asyncio.Runner() as runner:
        rig = Rig(request.param, url_of(request.param, tmp_path, server.url if server else ""), runner)
        yield rig
        rig.close()


KEYS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=80) | st.sampled_from("ab")
VALUES = st.binary(max_size=300) | st.sampled_from([b"", b"\x00", b"\xff" * 70_000])
MODELS = st.sampled_from(["m", "n", "Qwen/Qwen3-32B", "модель", "m*", "[m]"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), KEYS, VALUES, MODELS),
        st.tuples(st.just("get"), KEYS),
        st.tuples(st.just("delete"), KEYS),
        st.tuples(st.just("purge"), MODELS),
        st.tuples(st.just("stats")),
    ),
    max_size=20,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_a_store_behaves_as_a_dictionary_does(rig: Rig, steps: list[tuple[Any, ...]]) -> None:
    store = rig.opened[0] if rig.opened else rig.open()
    rig.clock.now += 1

    async def scenario() -> None:
        await store.purge()
        kept: dict[str, tuple[bytes, str]] = {}
        for step in steps:
            await compared(store, kept, step, rig.clock.now)
        assert {key: (found.value if (found := await store.get(key)) else None) for key in kept} == {
            key: value for key, (value, _) in kept.items()
        }

    rig.run(scenario)


async def compared(store: Store, kept: dict[str, tuple[bytes, str]], step: tuple[Any, ...], now: float) -> None:
    match step:
        case ("put", key, value, model):
            await store.put(key, value, ttl_seconds=60, model=model)
            kept[key] = (value, model)
        case ("get", key):
            assert await store.get(key) == (StoredValue(kept[key][0], now) if key in kept else None)
        case ("delete", key):
            await store.delete(key)
            kept.pop(key, None)
        case ("purge", model):
            gone = [key for key, (_, of) in kept.items() if of == model]
            assert await store.purge(model) == len(gone)
            for key in gone:
                del kept[key]
        case _:
            assert await store.stats() == counted(kept)


def counted(kept: dict[str, tuple[bytes, str]]) -> StoreStats:
    by_model: dict[str, EntryTotals] = {}
    for value, model in kept.values():
        held = by_model.get(model, EntryTotals(0, 0))
        by_model[model] = EntryTotals(held.entries + 1, held.bytes + len(value))
    return StoreStats(len(kept), sum(len(value) for value, _ in kept.values()), by_model)


def test_a_long_value_comes_back_as_it_was(rig: Rig) -> None:
    store, value = rig.open(), bytes(range(256)) * 20_000

    async def scenario() -> None:
        await store.put("key", value, **TTL)
        found = await store.get("key")
        assert found is not None
        assert found.value == value

    rig.run(scenario)


def test_a_value_over_the_limit_of_one_entry_is_refused(rig: Rig) -> None:
    store = rig.open(max_entry_bytes=1000)

    async def scenario() -> None:
        with pytest.raises(NotKept, match="1001 bytes are too many"):
            await store.put("long", bytes(1001), **TTL)
        await store.put("short", bytes(1000), **TTL)
        assert await store.get("long") is None
        assert await store.get("short") is not None

    rig.run(scenario)


def test_a_value_says_when_it_was_stored(rig: Rig) -> None:
    store = rig.open()

    async def scenario() -> None:
        await store.put("key", b"1", **TTL)
        rig.clock.now += 30
        assert await store.get("key") == StoredValue(b"1", rig.clock.now - 30)
        await store.put("key", b"2", **TTL)
        assert await store.get("key") == StoredValue(b"2", rig.clock.now)

    rig.run(scenario)


@pytest.mark.parametrize("rig", ["sqlite", "memory"], indirect=True)
def test_a_value_is_gone_when_its_time_is_over_and_not_before(rig: Rig) -> None:
    store = rig.open()

    async def scenario() -> None:
        await store.put("key", b"1", ttl_seconds=10, model="m")
        await store.put("other", b"2", ttl_seconds=20, model="n")
        rig.clock.now += 9.9
        assert await store.get("key") is not None
        rig.clock.now += 0.1
        assert await store.get("key") is None
        assert await store.stats() == StoreStats(1, 1, {"n": EntryTotals(1, 1)})
        await store.put("key", b"3", ttl_seconds=10, model="m")
        assert await store.get("key") is not None

    rig.run(scenario)


@pytest.mark.parametrize("rig", ["redis"], indirect=True)
def test_redis_forgets_by_its_own_clock(rig: Rig) -> None:
    store = rig.open()

    async def scenario() -> None:
        await store.put("key", b"1", ttl_seconds=0.05, model="m")
        await store.put("other", b"2", ttl_seconds=60, model="m")
        began = time.monotonic()
        while await store.get("key"):
            assert time.monotonic() < began + 5
        assert time.monotonic() > began + 0.03
        assert await store.get("other") is not None
        assert await store.stats() == StoreStats(1, 1, {"m": EntryTotals(1, 1)})

    rig.run(scenario)


@pytest.mark.parametrize("rig", ["sqlite", "memory"], indirect=True)
@pytest.mark.parametrize("size", [1_000, 9_000, 100_000])
def test_the_least_recently_used_entry_is_evicted(rig: Rig, size: int) -> None:
    limit = max(1024 * 1024, 20 * size)
    store, count = rig.open(max_bytes=limit), 3 * limit // (size + 200)

    async def scenario() -> None:
        await store.put("used", bytes(size), **TTL)
        for number in range(count):
            rig.clock.now += 0.001
            await store.put(f"{number}", bytes(size), **TTL)
            assert await store.get("used") is not None, f"gone with number {number}"
        held = await store.stats()
        assert limit / 3 < held.bytes + 400 * held.entries and held.bytes <= limit
        assert await store.get("0") is None
        assert await store.get(f"{count - 1}") is not None

    rig.run(scenario)


def test_everything_is_purged_and_everything_of_a_model(rig: Rig) -> None:
    store = rig.open()

    async def scenario() -> None:
        for number in range(1200):
            await store.put(f"{number}", b"value", ttl_seconds=60, model=f"m{number % 2}")
        assert await store.purge("m1") == 600
        assert await store.stats() == StoreStats(600, 3000, {"m0": EntryTotals(600, 3000)})
        assert await store.purge() == 600
        assert await store.purge() == 0
        assert await store.stats() == StoreStats(0, 0, {})

    rig.run(scenario)


def test_a_closed_store_fails_and_may_be_closed_again(rig: Rig) -> None:
    store = rig.open()

    async def scenario() -> None:
        await store.put("key", b"1", **TTL)
        await store.aclose()
        await store.aclose()
        for operation in (store.put("key", b"2", **TTL), store.delete("key"), store.get("key")):
            with pytest.raises(StoreError):
                await operation

    rig.run(scenario)


@pytest.mark.parametrize("rig", ["sqlite", "redis"], indirect=True)
def test_what_is_stored_or_deleted_is_so_for_every_process_at_once(rig: Rig) -> None:
    one, other = rig.open(), rig.open()

    async def scenario() -> None:
        for number in range(100):
            assert await other.get(f"{number}") is None
            await one.put(f"{number}", b"1", **TTL)
            found = await other.get(f"{number}")
            assert found is not None and found.value == b"1"
            await one.put(f"{number}", b"2", **TTL)
            found = await other.get(f"{number}")
            assert found is not None and found.value == b"2"
            await other.delete(f"{number}")
            assert await one.get(f"{number}") is None

    rig.run(scenario)


def test_a_store_that_was_never_used_can_be_closed(rig: Rig) -> None:
    rig.run(rig.open().aclose)


def test_many_at_the_same_time_get_what_they_ask_for(rig: Rig) -> None:
    store = rig.open()

    async def scenario() -> None:
        await asyncio.gather(*(store.put(f"{number}", b"%d" % number, **TTL) for number in range(500)))
        found = await asyncio.gather(*(store.get(f"{number}") for number in range(500)))
        assert [one.value if one else None for one in found] == [b"%d" % number for number in range(500)]

    rig.run(scenario)


@pytest.mark.parametrize("rig", ["sqlite", "redis"], indirect=True)
def test_four_processes_write_at_the_same_time_and_every_value_is_whole(rig: Rig) -> None:
    command = [*forked("tests.cache.store_writer"), rig.url]
    with contextlib.ExitStack() as stack:
        writers = [
            stack.enter_context(subprocess.Popen([*command, f"{number}", "150"], stdout=subprocess.PIPE))
            for number in range(4)
        ]
        assert [writer.communicate(timeout=60)[0] for writer in writers] == [b"150 of 150 found\n"] * 4
    store = rig.open()
    rig.clock.now = time.time()

    async def scenario() -> None:
        values = [await store.get(f"{writer} {number}") for writer in range(4) for number in range(150)]
        assert all(found and is_whole(found.value) for found in values)
        shared = [await store.get(f"shared {number}") for number in range(10)]
        assert all(found and is_whole(found.value) for found in shared)
        assert (await store.stats()).entries == 610

    rig.run(scenario)
