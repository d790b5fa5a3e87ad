"""Find the mistake in a `base_url` under which the server answers 404: no `/v1`, two of them, a whole endpoint path."""

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
"""How long a result is reused, so that an upstream that refuses every request is not probed for each."""

_ENDPOINT = re.compile(r"/(chat/completions|completions|responses|messages|embeddings|models|chat)$")
_ABSENT = (404, 405, 501)


def suggest_base_urls(base_url: str) -> Iterator[tuple[str, str]]:
    """Yield pairs of another base_url and the mistake it corrects, the likeliest first."""
    base = base_url.rstrip("/")
    endpoint = _ENDPOINT.search(base)
    if endpoint:
        stem = base[: endpoint.start()]
        yield stem, f"ends with {endpoint.group()}"
        if not stem.endswith("/v1"):
            yield f"{stem}/v1", f"ends with {endpoint.group()} and lacks /v1"
    elif base.endswith("/v1/v1"):
        yield base.removesuffix("/v1"), "has /v1 twice"
    elif base.endswith("/v1"):
        yield base.removesuffix("/v1"), "must not end with /v1"
    else:
        yield f"{base}/v1", "lacks /v1"


def has_no_such_path(fault: Fault) -> bool:
    """Whether a 404 is about the path. One whose message mentions a model, other than in a path, is about the model;
    one in the words of a refusal is about the request."""
    if fault.status == 404 and fault.code == "invalid_request":
        return False
    message = re.sub(r"/\S*", "", fault.message.removeprefix(UNLISTED))
    return fault.status in _ABSENT and not re.search(r"\bmodels?\b(?! server)|model_", message, re.IGNORECASE)


class BaseUrlCheck:
    """Probes each server at most once in PROBE_TTL_SECONDS; concurrent callers wait for the same probe."""

    def __init__(self, client: UpstreamClient) -> None:
        self._client = client
        self._probes: dict[str, tuple[float, asyncio.Task[tuple[str, str] | None]]] = {}

    async def find_working_url(self, target: Target) -> tuple[str, str] | None:
        """Return a base_url under which the server answers, with the mistake in the present one.

        None if there is none, or if the probe takes more than PROBE_SECONDS.
        """
        now = asyncio.get_running_loop().time()
        probe = self._probes.get(target.name)
        if probe is None or now - probe[0] > PROBE_TTL_SECONDS:
            probe = now, asyncio.get_running_loop().create_task(self._probe(target))
            self._probes[target.name] = probe
        try:
            return await asyncio.wait_for(asyncio.shield(probe[1]), PROBE_SECONDS)
        except TimeoutError:
            return None

    async def explain(self, fault: Fault, target: Target) -> Fault:
        """Add the mistake in the base_url to a fault that says that the path does not exist."""
        if not has_no_such_path(fault):
            return fault
        suggestion = await self.find_working_url(target)
        if suggestion is None:
            text, cause = f"{fault.message}; is its base_url right?", causes.NO_SUCH_PATH
        else:
            text = f"the model server has no such path ({fault.status}): its base_url probably {suggestion[1]}"
            cause = causes.WRONG_BASE_URL
        return msgspec.structs.replace(fault, message=text, cause=cause.word)

    async def _probe(self, target: Target) -> tuple[str, str] | None:
        status = await self._client.status(target, "POST", target.reply_path, PROBE_SECONDS)
        if status not in _ABSENT:
            return None  # the chat path exists; only the model list is missing
        for base_url, mistake in suggest_base_urls(target.base_url):
            if await self._answers(replace(target, base_url=base_url)):
                return base_url, mistake
        return None

    async def _answers(self, target: Target) -> bool:
        """Whether the server serves this base_url.

        The model list is requested first because it costs the server nothing. Without one, an error in answer to an
        empty chat request shows that the path exists.
        """
        for method, path in (("GET", "/models"), ("POST", target.reply_path)):
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
