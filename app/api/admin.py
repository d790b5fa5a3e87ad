"""`GET` and `DELETE /v1/cache`: what is kept, and forgetting it. Only for whoever has the admin key."""

import hmac
from typing import Any

from fastapi import Request
from pydantic import BaseModel

from app.api.application import ParleyApp
from app.api.context import AppContext
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


def add_routes(app: ParleyApp) -> None:
    row: dict[str, Any] = {"tags": ["cache"], "responses": _ERRORS}
    context = app.context

    @app.get("/v1/cache", summary="What the cache holds", **row)
    async def stats(request: Request) -> CacheStats:
        _check_admin_key(request, context)
        try:
            held = await context.cache.stats()
        except StoreError as error:
            raise StoreDown(str(error)) from None
        models = {name: CachedModel(entries=row.entries, bytes=row.bytes) for name, row in held.by_model.items()}
        return CacheStats(entries=held.entries, bytes=held.bytes, models=models, requests=dict(context.cache.counts))

    @app.delete("/v1/cache", summary="Forget every reply, or those of one model", **row)
    async def purge(request: Request, model: str | None = None) -> Purged:
        _check_admin_key(request, context)
        try:
            return Purged(purged=await context.cache.purge(model))
        except StoreError as error:
            raise StoreDown(str(error)) from None


def _check_admin_key(request: Request, context: AppContext) -> None:
    """Raises Forbidden."""
    key = context.server.admin_key
    if key is None:
        raise Forbidden("no admin key is configured (server.admin_key)")
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    same = hmac.compare_digest(given.encode("latin-1"), key.get_secret_value().encode("latin-1"))
    if scheme.lower() != "bearer" or not same:
        raise Forbidden("this needs the admin key, as Authorization: Bearer …")
