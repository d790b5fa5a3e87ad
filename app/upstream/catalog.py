"""The models that a server lists: asked once for a while, once for all who ask at the same time."""

import asyncio
from dataclasses import dataclass

from app.errors import UpstreamFailed
from app.upstream.http.client import Target, UpstreamClient

MAX_AGE_SECONDS = 60.0
MAX_AGE_AFTER_REFUSAL_SECONDS = 2.0
"""How old a list may be that is looked at because the server refused a model."""
FAILURE_TTL_SECONDS = 1.0
"""How long a failure is told without asking again."""
MAX_MODELS = 2000
MAX_NAME = 256
LIST_SECONDS = 5.0
"""The longest of each wait: for a connection, for the answer, and for the whole of it."""


@dataclass(frozen=True, slots=True)
class _ModelList:
    at: float
    names: tuple[str, ...] = ()
    error: UpstreamFailed | None = None


class Catalog:
    """Of one server. Nobody waits who does not ask."""

    def __init__(self, target: Target, client: UpstreamClient) -> None:
        self.target = target
        self._list_target = target.with_timeout(LIST_SECONDS)
        self._client = client
        self._latest: _ModelList | None = None
        self._fetch_task: asyncio.Task[_ModelList] | None = None

    async def names(self, max_age_seconds: float = MAX_AGE_SECONDS) -> tuple[str, ...]:
        """What the server lists, as it listed it at most so many seconds ago. Raises UpstreamFailed."""
        answer = self._latest
        if answer is None or self._age(answer) > (FAILURE_TTL_SECONDS if answer.error else max_age_seconds):
            if self._fetch_task is None:
                self._fetch_task = asyncio.get_running_loop().create_task(self._fetch())
                self._fetch_task.add_done_callback(self._on_fetched)
            answer = await asyncio.shield(self._fetch_task)
        if answer.error is not None:
            raise UpstreamFailed(answer.error.fault) from answer.error
        return answer.names

    def expire(self) -> None:
        """The server failed: what it listed may no longer hold when it is back."""
        if self._latest is not None and self._latest.error is None:
            self._latest = None

    async def _fetch(self) -> _ModelList:
        try:
            rows = await self._client.models(self._list_target)
        except UpstreamFailed as error:
            return _ModelList(asyncio.get_running_loop().time(), error=error)
        found = (row.get("id") for row in rows)
        names = dict.fromkeys(name for name in found if isinstance(name, str) and 0 < len(name) <= MAX_NAME)
        return _ModelList(asyncio.get_running_loop().time(), tuple(names)[:MAX_MODELS])

    def _on_fetched(self, task: asyncio.Task[_ModelList]) -> None:
        self._fetch_task = None
        if not task.cancelled() and task.exception() is None:
            self._latest = task.result()

    def _age(self, answer: _ModelList) -> float:
        return asyncio.get_running_loop().time() - answer.at

    async def aclose(self) -> None:
        if self._fetch_task is not None:
            self._fetch_task.cancel()
            await asyncio.gather(self._fetch_task, return_exceptions=True)
