"""Check that each configured upstream can be reached, for `parley check-config --online` and `parley doctor`."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from app.chat.events import Fault
from app.errors import UpstreamFailed
from app.upstream import causes
from app.upstream.base_urls import BaseUrlCheck, has_no_such_path
from app.upstream.catalog import join_names, suggest_model
from app.upstream.http.client import Target, UpstreamClient
from app.upstream.http.transport import UpstreamTransport

MAX_AT_ONCE = 16

_KINDS_BY_OWNER = {"vllm": "vllm", "sglang": "sglang", "llamacpp": "llamacpp", "library": "ollama"}

Result: TypeAlias = Literal["works", "no_list", "wrong_base_url", "key_refused", "failed"]


class UpstreamReport(Struct, frozen=True):
    """The result of checking one upstream."""

    address: str
    """The beginning of the first line for the operator: the name and the base_url."""
    result: Result
    text: str
    advice: str = ""
    models: tuple[str, ...] = ()
    """The names that the server lists."""
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
        """The report for the operator."""
        details = [*([self.advice] if self.advice else []), *self.missing]
        return [f"{self.address}: {self.text}", *(f"  {line}" for line in details)]


async def check_upstreams(
    targets: Iterable[Target],
    models: Mapping[str, Sequence[str]],
    transport: UpstreamTransport | None = None,
) -> list[UpstreamReport]:
    """Return one report for each upstream, in order. `models` holds the model names configured for each upstream."""
    client = UpstreamClient(transport)
    semaphore = asyncio.Semaphore(MAX_AT_ONCE)

    async def check(target: Target) -> UpstreamReport:
        async with semaphore:
            return await check_upstream(target, models.get(target.name, ()), client)

    try:
        return await asyncio.gather(*(check(target) for target in targets))
    finally:
        await client.aclose()


async def check_upstream(target: Target, wanted: Sequence[str], client: UpstreamClient) -> UpstreamReport:
    """Ask one upstream for its models; `wanted` are the names that are configured for it."""
    address = f"upstream {target.name} at {target.base_url}"
    try:
        rows = await client.models(target)
    except UpstreamFailed as error:
        return await _report_failure(address, error.fault, target, client)
    names = tuple(row["id"] for row in rows if isinstance(row.get("id"), str))
    if not names:
        return UpstreamReport(address, "works", "works; it lists no models")
    missing = tuple(f"it does not list {name!r}{suggest_model(name, names)}" for name in wanted if name not in names)
    owner = rows[0].get("owned_by")
    return UpstreamReport(
        address,
        "works",
        f"works; models: {join_names(names)}",
        models=names,
        missing=missing,
        owner=owner if isinstance(owner, str) else None,
    )


async def _report_failure(address: str, fault: Fault, target: Target, client: UpstreamClient) -> UpstreamReport:
    if has_no_such_path(fault):
        suggestion = await BaseUrlCheck(client).find_working_url(target)
        if suggestion is not None:
            base_url, mistake = suggestion
            text = f"the server has no such path, but {base_url} works"
            advice = f"base_url probably {mistake}: set it to {base_url!r}"
            return UpstreamReport(address, "wrong_base_url", text, advice, working_url=base_url)
        text = f"answers, but has no list of models ({fault.status})"
        return UpstreamReport(address, "no_list", text, "check that base_url is right")
    if fault.code in ("authentication", "permission"):
        text = f"the server refuses the key ({fault.status}): {fault.message}"
        return UpstreamReport(address, "key_refused", text, "correct api_key or headers")
    cause = causes.find_by_word(fault.cause or "")
    text = causes.describe_fault(fault) if fault.status is None else fault.message
    return UpstreamReport(address, "failed", text, cause.advice if cause is not None else "")
