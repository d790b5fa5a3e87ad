"""Wiring: settings into an application."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import httpx
import msgspec
from fastapi import FastAPI, Request
from fastapi.exceptions import HTTPException as FastAPIHTTPException
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.routing import Route

from app import __version__
from app.api import admin, pages
from app.api.asgi import ClientDisconnected, Receive, read_body, wait_for_parse_memory
from app.api.chat import ChatEndpoint
from app.api.completions import COMPLETIONS, parse_completions_body
from app.api.context import AppContext
from app.api.convert import convert
from app.api.middleware import RequestIdMiddleware
from app.api.models import get_model, list_models
from app.api.openapi import install_openapi
from app.api.origins import OriginRules
from app.api.request_limits import request_limits
from app.api.resumable import ResumableReplies
from app.api.resume import ReplyEndpoint, ResumeEndpoint
from app.attachments import AttachmentLimits, AttachmentLoader
from app.attachments.documents import DocumentLimits, DocumentWorkers
from app.attachments.fetch import Fetcher, FetchLimits
from app.cache import Apply, Cache, CacheRules
from app.cache.stores import StoreLimits, open_store
from app.cache.urls import RedisUrl, parse_cache_url
from app.demo.server import DemoServer
from app.errors import MethodNotAllowed, NotFound, ParleyError
from app.gateway import Gateway
from app.memory_budget import MemoryBudget
from app.model_registry import ModelRegistry
from app.nearest import find_nearest
from app.observe import logs
from app.settings import CacheSettings, Server, Settings, load
from app.ticker import Ticker
from app.upstream.base_urls import BaseUrlCheck
from app.upstream.catalog import Catalog
from app.upstream.http.client import UpstreamClient

_DIRECT = {"/v1/chat": "chat", "/v1/chat/completions": "completions"}
"""The paths that are served past the framework, with their endpoints."""


def create_app(settings: Settings | None = None, transport: httpx.AsyncBaseTransport | None = None) -> FastAPI:
    """The application. Without settings, those of the environment; `transport` stands in for the network in tests."""
    settings = load() if settings is None else settings
    logs.configure(settings.server.log_level, settings.server.log_format)
    app = FastAPI(title="Parley", version=__version__, lifespan=_lifespan, docs_url=None, redoc_url=None)
    app.state.settings = settings
    app.state.transport = transport
    app.state.desk = None
    app.router.routes += [
        Route("/v1/chat/{response_id}/events", _DirectEndpoint(app, "resume")),
        Route("/v1/chat/{response_id}", _DirectEndpoint(app, "reply")),
    ]
    app.add_middleware(
        RequestIdMiddleware,
        rules=OriginRules(settings.server.host, settings.server.allowed_hosts, settings.server.allowed_origins),
        direct={path: _DirectEndpoint(app, name) for path, name in _DIRECT.items()},
        shapes={"/v1/chat/completions": COMPLETIONS.error},
    )
    _add_routes(app)
    admin.add_routes(app)
    pages.add_routes(app)
    _add_error_handlers(app)
    install_openapi(app)
    return app


class _DirectEndpoint:
    """An endpoint that is there once the application has started, without what the framework does around one."""

    def __init__(self, app: FastAPI, name: str) -> None:
        self._app = app
        self._name = name

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await getattr(self._app.state, self._name)(scope, receive, send)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    settings: Settings = app.state.settings
    demo = DemoServer() if settings.demo else None
    if demo is not None:
        await demo.start()
    client = UpstreamClient(app.state.transport)
    registry = ModelRegistry(settings, demo.base_url if demo else None)
    tick_seconds = min(1.0, settings.server.heartbeat_seconds / 4, settings.server.commit_seconds / 4)
    fetcher, workshop, gatherer = _make_media_loader(settings)
    ticker = Ticker(max(tick_seconds, 0.01))
    cache = app.state.cache = _make_cache(settings.cache, ticker)
    catalog = Catalog(registry.passthrough, client) if registry.passthrough is not None else None
    base_urls = BaseUrlCheck(client)
    gateway = Gateway(
        registry.find,
        registry.default_model,
        client,
        registry.counters.get,
        gatherer,
        cache,
        known=registry.models(),
        catalog=catalog,
        base_urls=base_urls,
    )
    resumable = ResumableReplies(settings.cache.resume_seconds, settings.cache.max_resume_bytes)
    budget = MemoryBudget(settings.server.max_request_memory_bytes)
    apart = settings.cache.scope == "caller"
    context = AppContext(gateway, settings.server, ticker, resumable, cache, budget, separate_callers=apart)
    cache.on_cancel(context.cancel)
    app.state.catalog, app.state.table, app.state.desk = catalog, registry, context
    app.state.fetcher = fetcher
    addresses = registry.addresses()
    apply = settings.cache.apply
    app.state.chat = ChatEndpoint(context, addresses=addresses, apply="always" if apply == "auto" else apply)
    drop_in: Apply = "deterministic" if apply == "auto" else apply
    app.state.completions = ChatEndpoint(
        context, parse_completions_body, "completions", COMPLETIONS.error, addresses, apply=drop_in
    )
    app.state.resume, app.state.reply = ResumeEndpoint(context), ReplyEndpoint(context)
    try:
        yield
    finally:
        context.draining = True
        for delivery in list(context.active):
            delivery.disconnect()
        await asyncio.sleep(0)
        resumable.close()
        await cache.aclose()
        await base_urls.aclose()
        if catalog is not None:
            await catalog.aclose()
        await client.aclose()
        await fetcher.aclose()
        await workshop.aclose()
        if demo is not None:
            await demo.stop()
        await asyncio.to_thread(logs.flush)


def _make_cache(settings: CacheSettings, beat: Ticker) -> Cache:
    limits = StoreLimits(max_bytes=settings.max_bytes, max_entry_bytes=settings.max_entry_bytes)
    rules = CacheRules(settings.replay, settings.store_length)
    address = parse_cache_url(settings.url or "memory:")
    if not isinstance(address, RedisUrl):
        return Cache(open_store(settings.url, limits), beat, rules)
    from app.cache.redis.breaker import RedisCircuitBreaker
    from app.cache.shared import Coordinator
    from app.cache.stores.redis import RedisStore

    link = RedisCircuitBreaker(address)
    return Cache(RedisStore(link, limits), beat, rules, Coordinator(link, keep_seconds=settings.resume_seconds))


def _make_media_loader(settings: Settings) -> tuple[Fetcher, DocumentWorkers, AttachmentLoader]:
    fetch = settings.fetch
    limits = FetchLimits(fetch.allow, fetch.max_bytes, fetch.max_seconds, fetch.max_redirects, fetch.max_concurrent)
    fetcher, workshop = Fetcher(limits), DocumentWorkers(DocumentLimits(**settings.documents.model_dump()))
    return (
        fetcher,
        workshop,
        AttachmentLoader(fetcher, workshop, AttachmentLimits(fetch.max_media, fetch.max_total_bytes)),
    )


def _add_routes(app: FastAPI) -> None:
    @app.get("/v1/models", tags=["models"], summary="The models that callers may ask for")
    async def models(request: Request) -> dict[str, Any]:
        state = request.app.state
        return await list_models(state.table.names(), state.catalog)

    @app.get(
        "/v1/models/{model:path}",
        tags=["models"],
        summary="One of them",
        responses={"4XX": {"description": "No such model"}},
    )
    async def model_of_name(model: str, request: Request) -> dict[str, Any]:
        state = request.app.state
        return await get_model(model, state.table.names(), state.catalog)

    @app.post("/v1/convert", tags=["convert"], summary="A conversation of one format in another")
    async def convert_messages(request: Request) -> Response:
        server: Server = request.app.state.settings.server
        receive = cast(Receive, request.receive)
        with request.app.state.desk.budget.lease() as lease:
            body = await read_body(dict(request.scope), receive, server.max_body_bytes, server.body_seconds, lease)
            await wait_for_parse_memory(body, lease, server.max_json_values)
            converting = asyncio.to_thread(lambda: msgspec.json.encode(convert(body, request_limits(server))))
            return Response(await converting, media_type="application/json")

    @app.get("/healthz", tags=["health"], summary="The process lives")
    async def healthz() -> dict[str, str]:
        return {"status": "ok", "version": __version__}

    @app.get("/readyz", tags=["health"], summary="Send requests here", responses={503: {"description": "Draining"}})
    async def readyz(request: Request) -> JSONResponse:
        desk: AppContext | None = request.app.state.desk
        ready = desk is not None and not desk.draining
        return JSONResponse({"status": "ready" if ready else "draining"}, 200 if ready else 503)


def _methods(app: FastAPI, path: str) -> list[str]:
    """What the path takes; the framework itself tells only of the first route to it."""
    rows = (row for row in app.routes if isinstance(row, Route) and row.path_regex.match(path))
    return sorted({method for row in rows for method in row.methods or () if method != "HEAD"})


def _paths(app: FastAPI) -> list[str]:
    """Those that are served, without those that hold a name or an id."""
    rows = [row.path for row in app.routes if isinstance(row, Route) and "{" not in row.path]
    return [*_DIRECT, *rows]


def _add_error_handlers(app: FastAPI) -> None:
    async def parley_error(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, ParleyError)
        request.state.error_code = error.code
        told = error.to_dict(request.state.request_id)
        return JSONResponse(error.shape(told) if error.shape else {"error": told}, error.status, headers=error.headers)

    async def http_error(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        path = request.url.path
        if error.status_code == 405:
            allow = ", ".join(_methods(app, path)) or "GET"
            return await parley_error(request, MethodNotAllowed(f"{path} takes {allow}, not {request.method}", allow))
        found = find_nearest(path, _paths(app))
        return await parley_error(
            request, NotFound(f"no such path: {path}." + (f" Did you mean {found}?" if found else ""))
        )

    async def caller_gone(request: Request, _: Exception) -> Response:
        """For the log alone: nobody is there to read it."""
        request.state.error_code = "caller_gone"
        return Response(status_code=499)

    app.add_exception_handler(ClientDisconnected, caller_gone)
    app.add_exception_handler(ParleyError, parley_error)
    app.add_exception_handler(HTTPException, http_error)
    app.add_exception_handler(FastAPIHTTPException, http_error)
