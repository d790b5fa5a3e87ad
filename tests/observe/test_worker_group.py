"""The metrics have the figures of all workers, whichever worker answers."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from app.observe.worker_group import WorkerGroup
from prometheus_client.core import CounterMetricFamily, Metric

pytestmark = pytest.mark.anyio


def counting(total: float) -> Callable[[], list[Metric]]:
    def collect() -> list[Metric]:
        family = CounterMetricFamily("requests_total", "Requests.", labels=("model",))
        family.add_metric(("m",), total)
        return [family]

    return collect


def samples(families: list[Metric]) -> dict[Any, float]:
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value for family in families for sample in family.samples
    }


async def test_every_worker_returns_the_metrics_of_all(tmp_path: Path) -> None:
    groups = [WorkerGroup(tmp_path, counting(total)) for total in (1, 20, 300)]
    for group in groups:
        await group.start()
    expected: dict[Any, float] = {("parley_worker_up", ("worker", number)): 1 for number in "012"}
    for number, total in (("0", 1.0), ("1", 20.0), ("2", 300.0)):
        expected["requests_total", ("model", "m"), ("worker", number)] = total
    assert [samples(await group.collect()) for group in groups] == [expected] * 3
    for group in groups:
        await group.aclose()


async def test_a_worker_that_replaces_another_gets_its_number(tmp_path: Path) -> None:
    groups = [WorkerGroup(tmp_path, counting(total)) for total in (1, 20)]
    for group in groups:
        await group.start()
    await groups[0].aclose()
    after = WorkerGroup(tmp_path, counting(0))
    await after.start()
    assert (groups[1].number, after.number) == (1, 0)
    assert samples(await groups[1].collect())["requests_total", ("model", "m"), ("worker", "0")] == 0
    for group in (after, groups[1]):
        await group.aclose()


async def test_a_worker_that_was_killed_or_does_not_answer_is_down_and_the_others_are_shown(tmp_path: Path) -> None:
    asked = WorkerGroup(tmp_path, counting(1), answer_seconds=0.05)
    await asked.start()
    never = asyncio.Event()

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await never.wait()
        writer.close()

    stuck = await asyncio.start_unix_server(wait, tmp_path / "1.sock")
    (tmp_path / "2.sock").touch()
    found = samples(await asked.collect())
    never.set()
    stuck.close()
    assert found == {
        ("requests_total", ("model", "m"), ("worker", "0")): 1,
        ("parley_worker_up", ("worker", "0")): 1,
        ("parley_worker_up", ("worker", "1")): 0,
        ("parley_worker_up", ("worker", "2")): 0,
    }
    await asked.aclose()
