"""`GET` and `DELETE /v1/cache`: figures of the cache, and purging it; `GET /v1/upstreams`: the state of the model
servers. All need an admin key."""

import asyncio
import hmac
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request

from app.api.application import get_context
from app.api.audit import log_admin_action
from app.api.context import AppContext
from app.errors import Forbidden, StoreDown
from app.formats.openapi import Described, describe, give_examples
from app.routing.upstream_state import BreakerState, UpstreamState
from app.stores import EntryTotals, StoreError
from app.usage.ledger import OTHER_MODELS

MAX_CACHED_MODELS = 100
"""The models that the figures of the cache list; the others are counted together."""

router = APIRouter()
_OF_CACHE: dict[str, Any] = {"tags": ["cache"], "responses": describe(403, 503)}


class CachedModel(Described):
    entries: int
    bytes: int
    """The size of the compressed replies."""


class CacheStats(CachedModel):
    model_config = give_examples(
        {
            "entries": 2,
            "bytes": 2048,
            "models": {"demo": {"entries": 2, "bytes": 2048}},
            "requests": {"hit": 5, "miss": 2},
        }
    )

    models: dict[str, CachedModel]
    """The 100 models with the most entries; the others together are `(other models)`."""
    requests: dict[str, int]
    """The number of replies that this process opened since it started, by the value of `x-parley-cache`."""


class Purged(Described):
    model_config = give_examples({"purged": 2})

    purged: int
    """The number of replies that were deleted."""


class UpstreamUse(Described):
    model: str
    weight: float
    priority: int


class UpstreamFault(Described):
    code: str
    cause: str | None
    status: int | None
    age_seconds: float


class FirstTokenTimes(Described):
    """Milliseconds from the request to the first token, of the last requests that this process sent."""

    requests: int
    p50: float
    p95: float
    p99: float


class UpstreamStatus(Described):
    name: str
    address: str
    available: bool
    """Whether it gets requests while others are available too."""
    breaker: BreakerState
    open_seconds: float
    """How long the circuit breaker stays open."""
    cooldown_seconds: float
    """How long it gets no requests because it asked for a pause."""
    healthy: bool
    """Whether the last health check succeeded, if there are any."""
    outstanding: int
    consecutive_failures: int
    last_fault: UpstreamFault | None
    first_token_ms: FirstTokenTimes | None
    models: list[UpstreamUse]


class UpstreamList(Described):
    """What the process that answers knows of each upstream."""

    model_config = give_examples(
        {
            "upstreams": [
                {
                    "name": "local",
                    "address": "http://127.0.0.1:8001/v1",
                    "available": True,
                    "breaker": "closed",
                    "open_seconds": 0,
                    "cooldown_seconds": 0,
                    "healthy": True,
                    "outstanding": 1,
                    "consecutive_failures": 0,
                    "last_fault": {"code": "timeout", "cause": "first_token", "status": 200, "age_seconds": 41.5},
                    "first_token_ms": {"requests": 3, "p50": 12.5, "p95": 30.1, "p99": 30.1},
                    "models": [{"model": "qwen3", "weight": 1, "priority": 0}],
                }
            ]
        }
    )

    upstreams: list[UpstreamStatus]


@router.get("/v1/cache", operation_id="get_cache_stats", summary="Count the cached replies", **_OF_CACHE)
async def stats(request: Request) -> CacheStats:
    context = get_context(request)
    check_admin(request, context)
    try:
        return await describe_cache(context)
    except StoreError as error:
        raise StoreDown(str(error)) from None


@router.delete(
    "/v1/cache", operation_id="purge_cache", summary="Delete all cached replies, or those of one model", **_OF_CACHE
)
async def purge(request: Request, model: str | None = None) -> Purged:
    context = get_context(request)
    check_admin(request, context)
    try:
        purged = await context.cache.purge(model)
        log_admin_action(request, "cache.purge", model or "all models", purged=purged)
        return Purged(purged=purged)
    except StoreError as error:
        raise StoreDown(str(error)) from None


@router.get(
    "/v1/upstreams",
    tags=["upstreams"],
    operation_id="list_upstreams",
    summary="Show the state of the model servers",
    responses=describe(403),
)
async def upstreams(request: Request) -> UpstreamList:
    context = get_context(request)
    check_admin(request, context)
    return UpstreamList(upstreams=list_upstreams(context, asyncio.get_running_loop().time()))


async def describe_cache(context: AppContext) -> CacheStats:
    """Count the stored replies. Raises StoreError."""
    totals = await context.cache.stats()
    requests = dict(context.cache.counts)
    return CacheStats(
        entries=totals.entries, bytes=totals.bytes, models=list_cached_models(totals.by_model), requests=requests
    )


def list_cached_models(by_model: Mapping[str, EntryTotals], most: int = MAX_CACHED_MODELS) -> dict[str, CachedModel]:
    """Return the models with the most entries by name, and the others together: behind a pass-through, callers may
    name any model."""
    rows = sorted(by_model.items(), key=lambda row: (-row[1].entries, row[0]))
    models = {name: CachedModel(entries=row.entries, bytes=row.bytes) for name, row in sorted(rows[:most])}
    if others := [row for _, row in rows[most:]]:
        entries, size = sum(row.entries for row in others), sum(row.bytes for row in others)
        models[OTHER_MODELS] = CachedModel(entries=entries, bytes=size)
    return models


def list_upstreams(context: AppContext, now: float) -> list[UpstreamStatus]:
    """Describe the state of each upstream at a time of the event loop's clock."""
    uses = _list_uses(context)
    return [_describe_upstream(state, now, uses.get(state.name, [])) for state in context.upstreams]


def _list_uses(context: AppContext) -> dict[str, list[UpstreamUse]]:
    """Return the configured models of each upstream by its name."""
    uses: dict[str, list[UpstreamUse]] = {}
    for route in context.registry.routes():
        for row in route.deployments:
            use = UpstreamUse(model=route.model, weight=row.weight, priority=row.priority)
            uses.setdefault(row.target.name, []).append(use)
    return uses


def _describe_upstream(state: UpstreamState, now: float, uses: list[UpstreamUse]) -> UpstreamStatus:
    fault, window = state.last_fault, state.first_token
    p50, p95, p99 = (round((window.quantile(share) or 0.0) * 1000, 1) for share in (0.5, 0.95, 0.99))
    return UpstreamStatus(
        name=state.name,
        address=state.address,
        available=state.is_available(now),
        breaker=state.breaker(now),
        open_seconds=round(max(0.0, (state.open_until or 0.0) - now), 3),
        cooldown_seconds=round(max(0.0, state.cooldown_until - now), 3),
        healthy=state.healthy,
        outstanding=state.outstanding,
        consecutive_failures=state.failures,
        last_fault=None
        if fault is None
        else UpstreamFault(
            code=fault.code, cause=fault.cause, status=fault.status, age_seconds=round(now - fault.at, 3)
        ),
        first_token_ms=FirstTokenTimes(requests=len(window), p50=p50, p95=p95, p99=p99) if len(window) else None,
        models=uses,
    )


def check_admin(request: Request, context: AppContext) -> None:
    """Check that the caller is an administrator: by an API key with `admin = true`, or by `server.admin_key`. Raises
    Forbidden."""
    if request.state.caller.admin:
        return
    if context.live.rules.keys is not None:
        raise Forbidden("this needs an API key with admin = true, or server.admin_key, as Authorization: Bearer …")
    key = context.server.admin_key
    if key is None:
        raise Forbidden("no admin key is configured: set server.admin_key to use this endpoint")
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    same = hmac.compare_digest(given.encode("latin-1"), key.get_secret_value().encode("latin-1"))
    if scheme.lower() != "bearer" or not same:
        raise Forbidden("the admin key is missing or wrong: send it as Authorization: Bearer …")
