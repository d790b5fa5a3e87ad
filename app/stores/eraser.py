"""`Eraser`: empties the log of changes of a store some time after something was deleted, so that no file has it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from app.runtime.throttled_log import ThrottledLog

SECONDS = 0.5
"""How long a deletion waits for others."""
_LONGEST_WAIT_SECONDS = 60.0
_LOG = logging.getLogger("parley.state")


class Eraser:
    """Belongs to one event loop."""

    def __init__(self, empty_log: Callable[[], Awaitable[bool]], seconds: float = SECONDS) -> None:
        """`empty_log` returns whether the log could be emptied; else it is called again, after longer and longer
        waits."""
        self._empty_log = empty_log
        self._seconds = seconds
        self._task: asyncio.Task[None] | None = None
        self._again = False
        self._throttled_log = ThrottledLog(_LOG)

    def note_deletion(self) -> None:
        self._again = True
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        wait = self._seconds
        while self._again:
            await asyncio.sleep(wait)
            self._again = False
            try:
                emptied = await self._empty_log()
            except Exception as error:
                emptied = False
                self._throttled_log.warn("what was deleted may still be in the log of the state", error)
            if not emptied:
                self._again, wait = True, min(2 * wait, _LONGEST_WAIT_SECONDS)
        self._task = None

    async def aclose(self) -> None:
        """The last connection to close empties the log by itself."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
