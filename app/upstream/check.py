"""Whether a model server is the right one: it can be reached, takes the key, and has the models that are configured.

For `parley check-config --online`, `parley doctor`, and the page's form for a new server.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypeVar

from msgspec import Struct

from app.chat.events import Fault
from app.errors import UpstreamFailed
from app.upstream import causes
from app.upstream.base_urls import BaseUrlCheck, has_no_such_path
from app.upstream.catalog import join_names, suggest_model
from app.upstream.http.client import Target, UpstreamClient
from app.upstream.http.transport import UpstreamTransport

MAX_AT_ONCE = 16
Server = TypeVar("Server")
Found = TypeVar("Found")

_KINDS_BY_OWNER = {"vllm": "vllm", "sglang": "sglang", "llamacpp": "llamacpp", "library": "ollama"}

_CONTEXT_FIELDS = ("max_model_len", "context_length", "context_window")
"""vLLM and SGLang; OpenRouter; Groq and other gateways."""

Result: TypeAlias = Literal["works", "no_list", "wrong_base_url", "key_refused", "failed"]


class UpstreamReport(Struct, frozen=True):
    """The result of checking one upstream."""

    result: Result
    text: str
    advice: str = ""
    models: tuple[str, ...] = ()
    """The names that the server lists."""
    contexts: Mapping[str, int] = {}
    """How many tokens a prompt and its reply may have together, by model, where the server lists it."""
    missing: tuple[str, ...] = ()
    """A sentence for each configured model that the server does not list."""
    working_url: str | None = None
    """A base_url that works, if the given one does not."""
    owner: str | None = None
    """`owned_by` of the first model; servers name themselves there."""

    @property
    def likely_kind(self) -> str | None:
        """The kind of server that `owner` suggests; None if it suggests none."""
        return _KINDS_BY_OWNER.get(self.owner or "")

    @property
    def works(self) -> bool:
        return self.result in ("works", "no_list")

    @property
    def lines(self) -> list[str]:
        """The report for the operator; what was found is the first line."""
        return [self.text, *([self.advice] if self.advice else []), *self.missing]


async def check_all(
    servers: Iterable[Server],
    check: Callable[[Server, UpstreamClient], Awaitable[Found]],
    transport: UpstreamTransport | None = None,
) -> list[Found]:
    """Check servers with one client, at most `MAX_AT_ONCE` at the same time, and return the results in order."""
    client = UpstreamClient(transport)
    semaphore = asyncio.Semaphore(MAX_AT_ONCE)

    async def check_one(server: Server) -> Found:
        async with semaphore:
            return await check(server, client)

    try:
        return await asyncio.gather(*map(check_one, servers))
    finally:
        await client.aclose()


async def check_upstream(target: Target, wanted: Sequence[str], client: UpstreamClient) -> UpstreamReport:
    """Ask one upstream for its models; `wanted` are the names that are configured for it."""
    try:
        rows = await client.models(target)
    except UpstreamFailed as error:
        return await _report_failure(error.fault, target, client)
    names = tuple(row["id"] for row in rows if isinstance(row.get("id"), str))
    if not names:
        return UpstreamReport("works", "works; it lists no models")
    missing = tuple(f"it does not list {name!r}{suggest_model(name, names)}" for name in wanted if name not in names)
    owner = rows[0].get("owned_by")
    return UpstreamReport(
        "works",
        f"works; models: {join_names(names)}",
        models=names,
        contexts={row["id"]: tokens for row in rows if row.get("id") in names and (tokens := _find_context(row))},
        missing=missing,
        owner=owner if isinstance(owner, str) else None,
    )


def _find_context(row: Mapping[str, Any]) -> int | None:
    meta = row.get("meta")
    found = [row.get(name) for name in _CONTEXT_FIELDS]
    found.append(meta.get("n_ctx") if isinstance(meta, dict) else None)  # llama.cpp: that of one slot
    return next((tokens for tokens in found if type(tokens) is int and tokens > 0), None)


async def _report_failure(fault: Fault, target: Target, client: UpstreamClient) -> UpstreamReport:
    if has_no_such_path(fault):
        suggestion = await BaseUrlCheck(client).find_working_url(target)
        if suggestion is not None:
            base_url, mistake = suggestion
            text = f"the server has no such path, but {base_url} works"
            advice = f"base_url probably {mistake}: set it to {base_url!r}"
            return UpstreamReport("wrong_base_url", text, advice, working_url=base_url)
        text = f"answers, but has no list of models ({fault.status})"
        return UpstreamReport("no_list", text, "check that base_url is right")
    if fault.code in ("authentication", "permission"):
        text = f"the server refuses the key ({fault.status}): {fault.message}"
        return UpstreamReport("key_refused", text, "correct api_key or headers")
    cause = causes.find_by_word(fault.cause or "")
    text = causes.describe_fault(fault) if fault.status is None else fault.message
    return UpstreamReport("failed", text, cause.advice if cause is not None else "")
