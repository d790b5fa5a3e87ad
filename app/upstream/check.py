"""Check that each configured upstream can be reached, for `parley check-config --online`."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence

import httpx
from msgspec import Struct

from app.chat.events import Fault
from app.errors import UpstreamFailed
from app.upstream import causes
from app.upstream.base_urls import BaseUrlCheck, has_no_such_path
from app.upstream.http.client import Target, UpstreamClient
from app.upstream.model_names import join_names, suggest_model

MAX_AT_ONCE = 16


class UpstreamReport(Struct, frozen=True):
    """The result of checking one upstream, as lines for the operator."""

    works: bool
    lines: tuple[str, ...]
    models: tuple[str, ...] = ()
    """The names that the server lists."""
    working_url: str | None = None
    """A base_url that works, if the given one does not."""


async def check_upstreams(
    targets: Iterable[Target],
    models: Mapping[str, Sequence[str]],
    transport: httpx.AsyncBaseTransport | None = None,
) -> list[UpstreamReport]:
    """Return one report for each upstream, in order. `models` holds the model names configured for each upstream."""
    client = UpstreamClient(transport)
    semaphore = asyncio.Semaphore(MAX_AT_ONCE)

    async def check(target: Target) -> UpstreamReport:
        async with semaphore:
            return await _check_upstream(target, models.get(target.name, ()), client)

    try:
        return await asyncio.gather(*(check(target) for target in targets))
    finally:
        await client.aclose()


async def _check_upstream(target: Target, wanted: Sequence[str], client: UpstreamClient) -> UpstreamReport:
    head = f"upstream {target.name} at {target.base_url}: "
    try:
        rows = await client.models(target)
    except UpstreamFailed as error:
        return await _report_failure(head, error.fault, target, client)
    names = [row["id"] for row in rows if isinstance(row.get("id"), str)]
    if not names:
        return UpstreamReport(True, (f"{head}works; it lists no models",))
    missing = [f"  it does not list {name!r}{suggest_model(name, names)}" for name in wanted if name not in names]
    return UpstreamReport(True, (f"{head}works; models: {join_names(names)}", *missing), tuple(names))


async def _report_failure(head: str, fault: Fault, target: Target, client: UpstreamClient) -> UpstreamReport:
    if has_no_such_path(fault):
        suggestion = await BaseUrlCheck(client).find_working_url(target)
        if suggestion is not None:
            base_url, mistake = suggestion
            text = f"the server has no such path, but {base_url} works"
            lines = (f"{head}{text}", f"  base_url probably {mistake}: set it to {base_url!r}")
            return UpstreamReport(False, lines, working_url=base_url)
        return UpstreamReport(
            True, (f"{head}answers, but has no list of models ({fault.status})", "  check that base_url is right")
        )
    if fault.code in ("authentication", "permission"):
        text = f"{head}the server refuses the key ({fault.status}): {fault.message}"
        return UpstreamReport(False, (text, "  correct api_key or headers"))
    cause = causes.find_by_word(fault.cause or "")
    text = causes.describe_fault(fault) if fault.status is None else fault.message
    advice = (f"  {cause.advice}",) if cause is not None and cause.advice else ()
    return UpstreamReport(False, (head + text, *advice))
