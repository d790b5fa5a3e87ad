"""Which APIs a model server answers, and by which of them a model shows most: its reasoning and its calls."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

import httpx
from msgspec import Struct

from app.chat.events import Event, ReasoningDelta, ToolCallDelta
from app.doctor.findings import Finding, toml_key
from app.errors import UpstreamFailed
from app.upstream.api import ApiName, find_api
from app.upstream.base_urls import has_no_such_path
from app.upstream.http.client import NO_HEAD, Target, UpstreamClient

APIS: tuple[ApiName, ...] = get_args(ApiName)
_REFUSED = (401, 403)


class Shown(Struct, frozen=True):
    """What a model showed over one API."""

    api: ApiName
    reasoning: bool
    """Its reasoning arrived in a field or block of its own."""
    calls: bool

    @property
    def score(self) -> int:
        return self.reasoning + self.calls


def make_shown(api: ApiName, thought: Sequence[Event], called: Sequence[Event]) -> Shown:
    """Judge the replies to a question that asks for reasoning, and to one that offers a function."""
    return Shown(
        api,
        any(isinstance(event, ReasoningDelta) for event in thought),
        any(isinstance(event, ToolCallDelta) for event in called),
    )


def reach_by(target: Target, api: ApiName) -> Target:
    """Return the same server, reached by another API with the same key."""
    if api == target.api:
        return target
    named = (target.headers.get(name) for name in ("x-api-key", "x-goog-api-key"))
    key = next(filter(None, named), "") or target.headers.get("authorization", "").removeprefix("Bearer ") or None
    found = find_api(api)
    base_url = target.base_url
    if find_api(target.api).needs_v1 and not found.needs_v1 and not base_url.endswith("/v1"):
        base_url += "/v1"
    headers = httpx.Headers({**target.headers, **found.make_headers(key)})
    return replace(target, base_url=found.complete_base_url(base_url), headers=headers, api=api, chat_head=NO_HEAD)


async def find_apis(target: Target, client: UpstreamClient, seconds: float) -> list[ApiName]:
    """Return the APIs whose path the server has. An empty request shows it: a path that is there refuses it for another
    reason than that it is absent. A server that refuses every key says nothing of its paths."""
    return [api for api in APIS if await _answers(reach_by(target, api), client, seconds)]


async def _answers(target: Target, client: UpstreamClient, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            response = await client.open(target, b"{}")
    except TimeoutError:
        return False
    except UpstreamFailed as error:
        fault = error.fault
        return fault.status is not None and fault.status not in _REFUSED and not has_no_such_path(fault)
    response.abort()
    return True


def describe_apis(subject: str, target: Target, found: Sequence[ApiName]) -> list[Finding]:
    """Return what is found of the APIs; with the line to set if the configured one is not among them."""
    if not found:
        return []
    names = ", ".join(found)
    if target.api in found:
        return [Finding(subject, "apis", "ok", f"answers {names}; api is {target.api}")]
    text = f"has no path {target.reply_path}: api is {target.api}, and the server answers {names}"
    return [Finding(subject, "apis", "problem", text, "set the API", make_lines(target, found[0]))]


def describe_best(subject: str, target: Target, shown: Sequence[Shown]) -> list[Finding]:
    """Return the advice to use another API by which the model shows more. Of equal ones the configured one stays."""
    own = next((one for one in shown if one.api == target.api), None)
    best = max(shown, key=lambda one: one.score, default=None)
    if own is None or best is None or best.score <= own.score:
        return []
    more = [name for name, has in (("reasoning", best.reasoning and not own.reasoning), ("calls", best.calls)) if has]
    if own.calls and "calls" in more:
        more.remove("calls")
    text = f"over {best.api} the model also shows its {' and its '.join(more)}; api is {own.api}"
    return [Finding(subject, "apis", "warning", text, "use the other API", make_lines(target, best.api))]


def make_lines(target: Target, api: ApiName) -> tuple[str, ...]:
    return (f"[upstreams.{toml_key(target.name)}]", f'api = "{api}"')
