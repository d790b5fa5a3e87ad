"""`GET` and `DELETE /v1/cache`: what is kept, and forgetting it. Only for whoever has the admin key."""

import hmac
from typing import Any

from fastapi import FastAPI, Request
from pydantic import BaseModel

from app.cache import Cache
from app.cache.stores import StoreError
from app.errors import Forbidden, StoreDown

_ERRORS: dict[int | str, dict[str, Any]] = {
    403: {"description": "Without the admin key"},
    503: {"description": "The store cannot be reached"},
}


class CachedModel(BaseModel):
    entries: int
    bytes: int
    """Of the replies as they are kept: compressed."""


class CacheStats(CachedModel):
    models: dict[str, CachedModel]
    requests: dict[str, int]
    """Of this process since it began, by what `x-parley-cache` said."""


class Purged(BaseModel):
    purged: int


def add_routes(app: FastAPI) -> None:
    row: dict[str, Any] = {"tags": ["cache"], "responses": _ERRORS}
    app.get("/v1/cache", summary="What the cache holds", **row)(stats)
    app.delete("/v1/cache", summary="Forget every reply, or those of one model", **row)(purge)


async def stats(request: Request) -> CacheStats:
    cache = _get_cache_as_admin(request)
    try:
        held = await cache.stats()
    except StoreError as error:
        raise StoreDown(str(error)) from None
    models = {name: CachedModel(entries=row.entries, bytes=row.bytes) for name, row in held.by_model.items()}
    return CacheStats(entries=held.entries, bytes=held.bytes, models=models, requests=dict(cache.counts))


async def purge(request: Request, model: str | None = None) -> Purged:
    try:
        return Purged(purged=await _get_cache_as_admin(request).purge(model))
    except StoreError as error:
        raise StoreDown(str(error)) from None


def _get_cache_as_admin(request: Request) -> Cache:
    """Raises Forbidden."""
    key = request.app.state.settings.server.admin_key
    if key is None:
        raise Forbidden("no admin key is configured (server.admin_key)")
    scheme, _, said = request.headers.get("authorization", "").partition(" ")
    same = hmac.compare_digest(said.encode("latin-1"), key.get_secret_value().encode("latin-1"))
    if scheme.lower() != "bearer" or not same:
        raise Forbidden("this needs the admin key, as Authorization: Bearer …")
    cache: Cache = request.app.state.cache
    return cache
