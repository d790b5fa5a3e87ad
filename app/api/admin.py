"""`GET` and `DELETE /v1/cache`: figures of the cache, and purging it. Both need an admin key."""

import hmac
from typing import Any

from fastapi import Request
from pydantic import BaseModel

from app.api.application import ParleyApp
from app.api.context import AppContext
from app.cache.stores import StoreError
from app.errors import Forbidden, StoreDown

_ERRORS: dict[int | str, dict[str, Any]] = {
    403: {"description": "Without an admin key"},
    503: {"description": "The store cannot be reached"},
}


class CachedModel(BaseModel):
    entries: int
    bytes: int
    """The size of the compressed replies."""


class CacheStats(CachedModel):
    models: dict[str, CachedModel]
    requests: dict[str, int]
    """The number of replies that this process opened since it started, by the value of `x-parley-cache`."""


class Purged(BaseModel):
    purged: int


def add_routes(app: ParleyApp) -> None:
    row: dict[str, Any] = {"tags": ["cache"], "responses": _ERRORS}
    context = app.context

    @app.get("/v1/cache", summary="Count the cached replies", **row)
    async def stats(request: Request) -> CacheStats:
        check_admin(request, context)
        try:
            totals = await context.cache.stats()
        except StoreError as error:
            raise StoreDown(str(error)) from None
        models = {name: CachedModel(entries=row.entries, bytes=row.bytes) for name, row in totals.by_model.items()}
        requests = dict(context.cache.counts)
        return CacheStats(entries=totals.entries, bytes=totals.bytes, models=models, requests=requests)

    @app.delete("/v1/cache", summary="Delete all cached replies, or those of one model", **row)
    async def purge(request: Request, model: str | None = None) -> Purged:
        check_admin(request, context)
        try:
            return Purged(purged=await context.cache.purge(model))
        except StoreError as error:
            raise StoreDown(str(error)) from None


def check_admin(request: Request, context: AppContext) -> None:
    """Check that the caller is an administrator: by an API key with `admin = true`, or by `server.admin_key`. Raises
    Forbidden."""
    if request.state.caller.admin:
        return
    if context.settings.keys:
        raise Forbidden("this needs an API key with admin = true, or server.admin_key, as Authorization: Bearer …")
    key = context.server.admin_key
    if key is None:
        raise Forbidden("no admin key is configured: set server.admin_key to use this endpoint")
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    same = hmac.compare_digest(given.encode("latin-1"), key.get_secret_value().encode("latin-1"))
    if scheme.lower() != "bearer" or not same:
        raise Forbidden("the admin key is missing or wrong: send it as Authorization: Bearer …")
