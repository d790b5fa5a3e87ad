"""The models that a server lists: asked once for a while, once for all who ask at the same time."""

import asyncio
from dataclasses import dataclass

from app.errors import UpstreamFailed
from app.upstream.client import Target, UpstreamClient

KEPT_SECONDS = 60.0
REFUSED_SECONDS = 2.0
"""How old a list may be that is looked at because the server refused a model."""
FAILED_SECONDS = 1.0
"""How long a failure is told without asking again."""
MAX_MODELS = 2000
MAX_NAME = 256
LIST_SECONDS = 5.0
"""The longest of each wait: for a connection, for the answer, and for the whole of it."""


@dataclass(frozen=True, slots=True)
class _Answer:
    at: float
    names: tuple[str, ...] = ()
    error: UpstreamFailed | None = None


class Catalog:
    """Of one server. Nobody waits who does not ask."""

    def __init__(self, target: Target, client: UpstreamClient) -> None:
        self.target = target
        self._bounded = target.bounded(LIST_SECONDS)
        self._client = client
        self._answer: _Answer | None = None
        self._asking: asyncio.Task[_Answer] | None = None

    async def names(self, max_age_seconds: float = KEPT_SECONDS) -> tuple[str, ...]:
        """What the server lists, as it listed it at most so many seconds ago. Raises UpstreamFailed."""
        answer = self._answer
        if answer is None or self._age(answer) > (FAILED_SECONDS if answer.error else max_age_seconds):
            if self._asking is None:
                self._asking = asyncio.get_running_loop().create_task(self._ask())
                self._asking.add_done_callback(self._asked)
            answer = await asyncio.shield(self._asking)
        if answer.error is not None:
            raise UpstreamFailed(answer.error.fault) from answer.error
        return answer.names

    def expire(self) -> None:
        """The server failed: what it listed may no longer hold when it is back."""
        if self._answer is not None and self._answer.error is None:
            self._answer = None

    async def _ask(self) -> _Answer:
        try:
            rows = await self._client.models(self._bounded)
        except UpstreamFailed as error:
            return _Answer(asyncio.get_running_loop().time(), error=error)
        found = (row.get("id") for row in rows)
        names = dict.fromkeys(name for name in found if isinstance(name, str) and 0 < len(name) <= MAX_NAME)
        return _Answer(asyncio.get_running_loop().time(), tuple(names)[:MAX_MODELS])

    def _asked(self, task: asyncio.Task[_Answer]) -> None:
        self._asking = None
        if not task.cancelled() and task.exception() is None:
            self._answer = task.result()

    def _age(self, answer: _Answer) -> float:
        return asyncio.get_running_loop().time() - answer.at

    async def aclose(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)
