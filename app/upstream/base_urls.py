"""What is wrong with a base_url that the server knows no path under: a missing `/v1`, one too many, a whole path."""

import asyncio
import re
from collections.abc import Iterator
from dataclasses import replace

import msgspec

from app.chat.events import Fault
from app.upstream import causes
from app.upstream.http.client import UNLISTED, Target, UpstreamClient

PROBE_SECONDS = 3.0
PROBE_TTL_SECONDS = 60.0
"""How long what was found holds, so that an upstream that refuses every request is not probed for each."""

_ENDPOINT = re.compile(r"/(chat/completions|completions|responses|embeddings|models|chat)$")
_ABSENT = (404, 405, 501)


def suggest_base_urls(base_url: str) -> Iterator[tuple[str, str]]:
    """Other values for the setting, each with what is then wrong with the present one; the likeliest first."""
    base = base_url.rstrip("/")
    found = _ENDPOINT.search(base)
    if found:
        stem = base[: found.start()]
        yield stem, f"ends with {found.group()}"
        if not stem.endswith("/v1"):
            yield f"{stem}/v1", f"ends with {found.group()} and lacks /v1"
    elif base.endswith("/v1/v1"):
        yield base.removesuffix("/v1"), "has /v1 twice"
    elif base.endswith("/v1"):
        yield base.removesuffix("/v1"), "has a /v1 too many"
    else:
        yield f"{base}/v1", "lacks /v1"


def has_no_such_path(fault: Fault) -> bool:
    """Whether a refusal speaks of the path. One that speaks of a model means the model."""
    words = fault.message.removeprefix(UNLISTED)
    return fault.status in _ABSENT and not re.search(r"\bmodels?\b(?! server)|model_", words, re.IGNORECASE)


class BaseUrlCheck:
    """Asks each server at most once in a while; who asks meanwhile waits for the same answer."""

    def __init__(self, client: UpstreamClient) -> None:
        self._client = client
        self._probes: dict[str, tuple[float, asyncio.Task[tuple[str, str] | None]]] = {}

    async def find_working_url(self, target: Target) -> tuple[str, str] | None:
        """A base_url under which the server does answer, and what is wrong with the present one; None also where that
        takes too long."""
        now = asyncio.get_running_loop().time()
        kept = self._probes.get(target.name)
        if kept is None or now - kept[0] > PROBE_TTL_SECONDS:
            kept = now, asyncio.get_running_loop().create_task(self._probe(target))
            self._probes[target.name] = kept
        try:
            return await asyncio.wait_for(asyncio.shield(kept[1]), PROBE_SECONDS)
        except TimeoutError:
            return None

    async def explain(self, fault: Fault, target: Target) -> Fault:
        """The fault, with what is wrong with the base_url where that is so."""
        if not has_no_such_path(fault):
            return fault
        found = await self.find_working_url(target)
        if found is None:
            text, cause = f"{fault.message}; is its base_url right?", causes.NO_SUCH_PATH
        else:
            text = f"the model server has no such path ({fault.status}): its base_url probably {found[1]}"
            cause = causes.WRONG_BASE_URL
        return msgspec.structs.replace(fault, message=text, cause=cause.word)

    async def _probe(self, target: Target) -> tuple[str, str] | None:
        status = await self._client.status(target, "POST", "/chat/completions", PROBE_SECONDS)
        if status not in _ABSENT:
            return None  # only the list of models is missing
        for base_url, mistake in suggest_base_urls(target.base_url):
            if await self._answers(replace(target, base_url=base_url)):
                return base_url, mistake
        return None

    async def _answers(self, target: Target) -> bool:
        """The list of models costs a server nothing; where there is none, an empty request shows that the path is."""
        for method, path in (("GET", "/models"), ("POST", "/chat/completions")):
            status = await self._client.status(target, method, path, PROBE_SECONDS)
            if status is None:
                return False
            if status == 200 or (400 <= status < 500 and status not in _ABSENT):
                return True
        return False

    async def aclose(self) -> None:
        tasks = [task for _, task in self._probes.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
