"""The models that each server lists, cached for a minute and fetched once for all concurrent callers."""

import asyncio
from collections.abc import Sequence

from msgspec import Struct

from app.errors import UpstreamFailed
from app.upstream.http.client import Target, UpstreamClient
from app.validation.nearest import find_nearest_model

SHOWN = 10
MAX_SHOWN_NAME = 100


def join_names(names: Sequence[str]) -> str:
    """List at most SHOWN names, each cut to MAX_SHOWN_NAME characters, and say how many more there are."""
    shown = [name if len(name) <= MAX_SHOWN_NAME else f"{name[:MAX_SHOWN_NAME]}…" for name in names[:SHOWN]]
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(shown) + more


def suggest_model(name: str, known: Sequence[str]) -> str:
    """Return the end of the message "there is no model 'x'": a similar name, or the available ones."""
    near = find_nearest_model(name, known)
    if near is not None:
        return f"; did you mean {near!r}?"
    return f"; available models: {join_names(known)}" if known else ""


MAX_AGE_SECONDS = 60.0
MAX_AGE_AFTER_REFUSAL_SECONDS = 2.0
"""The maximum age of a list that is consulted because the server refused a model."""
FAILURE_TTL_SECONDS = 1.0
"""How long a failure is reported again without another request."""
MAX_MODELS = 2000
MAX_NAME = 256
LIST_SECONDS = 5.0
"""The limit of each wait: for the connection, for the response's head, and for its body."""


class _ModelList(Struct, frozen=True):
    at: float
    names: tuple[str, ...] = ()
    error: UpstreamFailed | None = None


class Catalog:
    """The models of one server. The list is fetched only when it is needed."""

    def __init__(self, target: Target, client: UpstreamClient) -> None:
        self.target = target
        self._list_target = target.with_timeout(LIST_SECONDS)
        self._client = client
        self._latest: _ModelList | None = None
        self._fetch_task: asyncio.Task[_ModelList] | None = None

    async def names(self, max_age_seconds: float = MAX_AGE_SECONDS) -> tuple[str, ...]:
        """Return the server's model names, at most `max_age_seconds` old. Raises UpstreamFailed."""
        latest = self._latest
        if latest is None or self._age(latest) > (FAILURE_TTL_SECONDS if latest.error else max_age_seconds):
            if self._fetch_task is None:
                self._fetch_task = asyncio.get_running_loop().create_task(self._fetch())
                self._fetch_task.add_done_callback(self._on_fetched)
            latest = await asyncio.shield(self._fetch_task)
        if latest.error is not None:
            raise UpstreamFailed(latest.error.fault) from latest.error
        return latest.names

    def expire(self) -> None:
        """Forget the list after the server failed: a restarted server may serve other models."""
        if self._latest is not None and self._latest.error is None:
            self._latest = None

    async def _fetch(self) -> _ModelList:
        try:
            rows = await self._client.models(self._list_target)
        except UpstreamFailed as error:
            return _ModelList(asyncio.get_running_loop().time(), error=error)
        ids = (row.get("id") for row in rows)
        names = dict.fromkeys(name for name in ids if isinstance(name, str) and 0 < len(name) <= MAX_NAME)
        return _ModelList(asyncio.get_running_loop().time(), tuple(names)[:MAX_MODELS])

    def _on_fetched(self, task: asyncio.Task[_ModelList]) -> None:
        self._fetch_task = None
        if not task.cancelled() and task.exception() is None:
            self._latest = task.result()

    def _age(self, latest: _ModelList) -> float:
        return asyncio.get_running_loop().time() - latest.at

    async def aclose(self) -> None:
        if self._fetch_task is not None:
            self._fetch_task.cancel()
            await asyncio.gather(self._fetch_task, return_exceptions=True)
