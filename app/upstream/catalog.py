"""The models that each server lists, cached for a minute and fetched once for all concurrent callers."""

import asyncio
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

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
MAX_WINDOW = 1_000_000_000
_WINDOW_FIELDS = ("max_model_len", "context_length", "context_window")
"""The first is vLLM's (vllm/entrypoints/openai/protocol.py, `ModelCard`) and SGLang's, the second OpenRouter's
(openrouter.ai/docs, "Models"), the third Groq's (console.groq.com/docs/models). llama.cpp has `meta.n_ctx`
(tools/server/README.md, `GET /v1/models`)."""
LIST_SECONDS = 5.0
"""The limit of each wait: for the connection, for the response's head, and for its body."""


class _ModelList(Struct, frozen=True):
    at: float
    names: tuple[str, ...] = ()
    windows: Mapping[str, int] = {}
    """The context windows of those models that are listed with one."""
    error: UpstreamFailed | None = None


def _find_window(row: Mapping[str, Any]) -> int | None:
    """Return the context window of a model's row; None if it has none."""
    meta = row.get("meta")
    values = [row.get(name) for name in _WINDOW_FIELDS]
    values.append(meta.get("n_ctx") if isinstance(meta, dict) else None)
    return min((value for value in values if type(value) is int and 0 < value <= MAX_WINDOW), default=None)


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
        latest = await self._read(max_age_seconds)
        if latest.error is not None:
            raise UpstreamFailed(latest.error.fault) from latest.error
        return latest.names

    async def windows(self) -> Mapping[str, int]:
        """Return the context windows that the server lists, at most a minute old; none if it lists nothing."""
        return (await self._read(MAX_AGE_SECONDS)).windows

    @property
    def known_names(self) -> tuple[str, ...] | None:
        """The names as they were listed last, however old; None before the first list."""
        return None if self._latest is None else self._latest.names

    @property
    def known_windows(self) -> Mapping[str, int] | None:
        """As `known_names`."""
        return None if self._latest is None else self._latest.windows

    def start_fetch(self) -> None:
        """Fetch the list, unless that is in progress, without waiting for it."""
        if self._fetch_task is None:
            self._fetch_task = asyncio.get_running_loop().create_task(self._fetch())
            self._fetch_task.add_done_callback(self._on_fetched)

    async def _read(self, max_age_seconds: float) -> _ModelList:
        """Return the list, or a failure."""
        latest = self._latest
        if latest is None or self._age(latest) > (FAILURE_TTL_SECONDS if latest.error else max_age_seconds):
            self.start_fetch()
            assert self._fetch_task is not None
            latest = await asyncio.shield(self._fetch_task)
        return latest

    def expire(self) -> None:
        """Forget the list after the server failed: a restarted server may serve other models."""
        if self._latest is not None and self._latest.error is None:
            self._latest = None

    async def _fetch(self) -> _ModelList:
        try:
            rows = await self._client.models(self._list_target)
        except UpstreamFailed as error:
            return _ModelList(asyncio.get_running_loop().time(), error=error)
        found: dict[str, dict[str, Any]] = {}
        for row in rows:
            name = row.get("id")
            if isinstance(name, str) and 0 < len(name) <= MAX_NAME and "\ufffd" not in name:  # no name has that
                found.setdefault(name, row)
        found = dict(islice(found.items(), MAX_MODELS))
        windows = {name: _find_window(row) for name, row in found.items()}
        known = {name: window for name, window in windows.items() if window is not None}
        return _ModelList(asyncio.get_running_loop().time(), tuple(found), known)

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
