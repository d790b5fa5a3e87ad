"""The metrics of all workers of one gateway, whichever worker is asked.

Each worker listens at a Unix socket in a folder that only this user can read, and answers every connection with its own
metrics. The one that is asked adds the label `worker` to each figure: so a worker that is replaced begins its own
counters again, and Prometheus recognizes that. Nothing is written without a request.
"""

import asyncio
import contextlib
import fcntl
import logging
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.samples import Sample

log = logging.getLogger("parley.observe")

ANSWER_SECONDS = 1.0
"""How long a worker may take to answer. Without an answer its metrics are missing, and `parley_worker_up` is 0."""


class WorkerGroup:
    """One worker among those that share a folder. Its number is the lowest one that no other worker has."""

    def __init__(
        self, folder: Path, collect: Callable[[], list[Metric]], answer_seconds: float = ANSWER_SECONDS
    ) -> None:
        self._folder = folder
        self._answer_seconds = answer_seconds
        self._collect = collect
        self._lock = -1
        self._server: asyncio.Server | None = None
        self.number = -1
        """-1 before `start`."""

    async def start(self) -> None:
        self.number, self._lock = _take_number(self._folder)
        path = _socket_path(self._folder, self.number)
        path.unlink(missing_ok=True)  # of a worker that was killed
        self._server = await asyncio.start_unix_server(self._answer, path)

    async def aclose(self) -> None:
        if self._server is not None:
            self._server.close()
            _socket_path(self._folder, self.number).unlink(missing_ok=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    async def collect(self) -> list[Metric]:
        """Return the metrics of all workers, each with the label `worker`."""
        numbers = sorted(int(path.stem) for path in self._folder.glob("*.sock"))
        others = [number for number in numbers if number != self.number]
        answers = await asyncio.gather(*map(self._ask, others))
        by_worker = [(self.number, self._collect()), *zip(others, answers, strict=True)]
        up = GaugeMetricFamily("parley_worker_up", "Whether the worker answered with its metrics.")
        for number, families in sorted(by_worker, key=lambda row: row[0]):
            up.add_sample(up.name, {"worker": str(number)}, 0.0 if families is None else 1.0)
        return [*_merge((str(number), families or []) for number, families in by_worker), up]

    async def _answer(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(msgspec.msgpack.encode([_pack(family) for family in self._collect()]))
            await writer.drain()
        except Exception:
            log.exception("defect while sending metrics to another worker")
        finally:
            writer.close()

    async def _ask(self, number: int) -> list[Metric] | None:
        """Return the metrics of another worker; None if it does not answer."""
        writer: asyncio.StreamWriter | None = None
        try:
            async with asyncio.timeout(self._answer_seconds):
                reader, writer = await asyncio.open_unix_connection(_socket_path(self._folder, number))
                data = await reader.read()
            return [_unpack(family) for family in msgspec.msgpack.decode(data)]
        except (OSError, TimeoutError, ValueError):
            return None
        finally:
            if writer is not None:
                writer.close()


def _take_number(folder: Path) -> tuple[int, int]:
    """Lock the lowest free number. Returns it with the file descriptor that holds the lock, until this process ends."""
    number = 0
    while True:
        lock = os.open(folder / f"{number}.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return number, lock
        os.close(lock)
        number += 1


def _socket_path(folder: Path, number: int) -> Path:
    return folder / f"{number}.sock"


def _pack(family: Metric) -> tuple[str, str, str, list[tuple[str, dict[str, str], float]]]:
    samples = [(sample.name, sample.labels, sample.value) for sample in family.samples]
    return family.name, family.documentation, family.type, samples


def _unpack(packed: Any) -> Metric:
    name, documentation, type_, samples = packed
    family = Metric(name, documentation, type_)
    family.samples = [Sample(sample_name, labels, value) for sample_name, labels, value in samples]
    return family


def _merge(by_worker: Iterable[tuple[str, list[Metric]]]) -> list[Metric]:
    merged: dict[str, Metric] = {}
    for worker, families in by_worker:
        for family in families:
            whole = merged.get(family.name)
            if whole is None:
                whole = merged[family.name] = Metric(family.name, family.documentation, family.type)
            whole.samples += [
                Sample(sample.name, {**sample.labels, "worker": worker}, sample.value) for sample in family.samples
            ]
    return list(merged.values())
