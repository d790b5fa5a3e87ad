"""Writes what the flights of this process have to say, of all of them at once, every few milliseconds.

One task and one call to Redis at a time, however many flights there are; nobody waits for it.
"""

import asyncio
import contextlib
import logging
from collections.abc import Iterator

from app.cache.commons.ledger import Ledger, Names
from app.cache.commons.tenure import Tenure
from app.cache.redis_link import Away

log = logging.getLogger("parley.cache")

FLUSH_SECONDS = 0.01
AWAY_SECONDS = 0.1
MAX_CALL_BYTES = 512 * 1024
MAX_CALL_FLIGHTS = 64
LAST_ROUNDS = 20


class Press:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._loop = asyncio.get_running_loop()
        self._tenures: set[Tenure] = set()
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def begin(self, names: Names, fence: int, place: int = 0) -> Tenure:
        """`place`: the number of the last record that is there."""
        tenure = Tenure(names, fence, place, self._woken.set, self._loop.time())
        self._tenures.add(tenure)
        if self._task is None:
            self._task = self._loop.create_task(self._run())
        self._woken.set()
        return tenure

    def __len__(self) -> int:
        return len(self._tenures)

    async def aclose(self) -> None:
        """Everybody else may lead what was led here."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        for tenure in self._tenures:
            tenure.step_down()
        for _ in range(LAST_ROUNDS):
            if not self._tenures or not await self._flush(list(self._tenures)):
                break
        for tenure in tuple(self._tenures):
            tenure.drop()
        self._tenures.clear()

    async def _run(self) -> None:
        while True:
            await self._wait()
            # What comes within these milliseconds goes out together.
            await asyncio.sleep(FLUSH_SECONDS)
            self._woken.clear()
            now = self._loop.time()
            due = [one for one in self._tenures if one.urgent or now >= self._renewal(one)]
            if due and not await self._flush(due):
                await asyncio.sleep(AWAY_SECONDS)

    async def _wait(self) -> None:
        if any(one.urgent for one in self._tenures):
            return
        first = min((self._renewal(one) for one in self._tenures), default=None)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(first):
                await self._woken.wait()

    def _renewal(self, tenure: Tenure) -> float:
        return tenure.written_at + self._ledger.lease_seconds / 3

    async def _flush(self, due: list[Tenure]) -> bool:
        """Whether Redis took it."""
        for group in _groups(due):
            try:
                await self._write(group)
            except Away:
                now = self._loop.time()
                for tenure in due:
                    tenure.away(now, self._ledger.lease_seconds)
                return False
            except Exception:
                log.exception("defect while replies were shared")
                for tenure in group:
                    tenure.drop()
            finally:
                self._tenures -= {one for one in due if one.over}
        return True

    async def _write(self, group: list[Tenure]) -> None:
        answers = await self._ledger.write([tenure.parcel() for tenure in group])
        now = self._loop.time()
        for tenure, answer in zip(group, answers, strict=True):
            tenure.answered(answer, now)


def _groups(due: list[Tenure]) -> Iterator[list[Tenure]]:
    """As many as one call may carry."""
    group: list[Tenure] = []
    size = 0
    for tenure in due:
        parcel = len(tenure.parcel().record)
        if group and (len(group) == MAX_CALL_FLIGHTS or size + parcel > MAX_CALL_BYTES):
            yield group
            group, size = [], 0
        group.append(tenure)
        size += parcel
    if group:
        yield group
