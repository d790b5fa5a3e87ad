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
from app.api.body import CallerGone, Receive, await_parsing, read_body
from app.api.chat import ChatEndpoint
from app.api.completions import COMPLETIONS, read_completion
from app.api.convert import convert
from app.api.desk import Desk
from app.api.edge import Edge
from app.api.limits import limits
from app.api.models import listing, one
from app.api.openapi import describe
from app.api.origins import OriginRules
from app.api.resume import ReplyEndpoint, ResumeEndpoint
from app.api.shelf import Shelf
from app.cache import Apply, Cache, Rules
from app.cache.addresses import RedisAt, parse_address
from app.cache.stores import Limits, open_store
from app.demo.server import DemoServer
from app.documents import DocumentLimits, Workshop
from app.errors import MethodNotAllowed, NotFound, ParleyError
from app.fetch import Fetcher, FetchLimits
from app.gateway import Gateway
from app.gathering import Gatherer, GatherLimits
from app.memory_budget import MemoryBudget
from app.nearest import nearest
from app.observe import logs
from app.pulse import Pulse
from app.routes import RouteTable
from app.settings import Cache as CacheSettings
from app.settings import Server, Settings, load
from app.upstream.base_urls import BaseUrlCheck
from app.upstream.catalog import Catalog
from app.upstream.client import UpstreamClient

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
        Route("/v1/chat/{response_id}/events", _Direct(app, "resume")),
        Route("/v1/chat/{response_id}", _Direct(app, "reply")),
    ]
    app.add_middleware(
        Edge,
        rules=OriginRules(settings.server.host, settings.server.allowed_hosts, settings.server.allowed_origins),
        direct={path: _Direct(app, name) for path, name in _DIRECT.items()},
        shapes={"/v1/chat/completions": COMPLETIONS.error},
    )
    _plain_routes(app)
    admin.add_to(app)
    pages.add_to(app)
    _error_handlers(app)
    describe(app)
    return app


class _Direct:
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
    table = RouteTable(settings, demo.base_url if demo else None)
    beat = min(1.0, settings.server.heartbeat_seconds / 4, settings.server.commit_seconds / 4)
    fetcher, workshop, gatherer = _media(settings)
    pulse = Pulse(max(beat, 0.01))
    cache = app.state.cache = _cache(settings.cache, pulse)
    catalog = Catalog(table.passthrough, client) if table.passthrough is not None else None
    base_urls = BaseUrlCheck(client)
    gateway = Gateway(
        table.find,
        table.default_model,
        client,
        table.counters.of,
        gatherer,
        cache,
        known=table.models(),
        catalog=catalog,
        base_urls=base_urls,
    )
    shelf = Shelf(settings.cache.resume_seconds, settings.cache.max_resume_bytes)
    budget = MemoryBudget(settings.server.max_request_memory_bytes)
    apart = settings.cache.scope == "caller"
    desk = Desk(gateway, settings.server, pulse, shelf, cache, budget, callers_apart=apart)
    cache.heed(desk.stop)
    app.state.catalog, app.state.table, app.state.desk = catalog, table, desk
    app.state.fetcher = fetcher
    addresses = table.addresses()
    apply = settings.cache.apply
    app.state.chat = ChatEndpoint(desk, addresses=addresses, apply="always" if apply == "auto" else apply)
    drop_in: Apply = "deterministic" if apply == "auto" else apply
    app.state.completions = ChatEndpoint(
        desk, read_completion, "completions", COMPLETIONS.error, addresses, apply=drop_in
    )
    app.state.resume, app.state.reply = ResumeEndpoint(desk), ReplyEndpoint(desk)
    try:
        yield
    finally:
        desk.draining = True
        for delivery in list(desk.active):
            delivery.leave()
        await asyncio.sleep(0)
        shelf.close()
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


def _cache(settings: CacheSettings, beat: Pulse) -> Cache:
    limits = Limits(max_bytes=settings.max_bytes, max_entry_bytes=settings.max_entry_bytes)
    rules = Rules(settings.replay, settings.store_length)
    address = parse_address(settings.url or "memory:")
    if not isinstance(address, RedisAt):
        return Cache(open_store(settings.url, limits), beat, rules)
    from app.cache.commons import Commons
    from app.cache.redis_link import RedisLink
    from app.cache.stores.redis import RedisStore

    link = RedisLink(address)
    return Cache(RedisStore(link, limits), beat, rules, Commons(link, keep_seconds=settings.resume_seconds))


def _media(settings: Settings) -> tuple[Fetcher, Workshop, Gatherer]:
    fetch = settings.fetch
    limits = FetchLimits(fetch.allow, fetch.max_bytes, fetch.max_seconds, fetch.max_redirects, fetch.max_concurrent)
    fetcher, workshop = Fetcher(limits), Workshop(DocumentLimits(**settings.documents.model_dump()))
    return fetcher, workshop, Gatherer(fetcher, workshop, GatherLimits(fetch.max_media, fetch.max_total_bytes))


def _plain_routes(app: FastAPI) -> None:
    @app.get("/v1/models", tags=["models"], summary="The models that callers may ask for")
    async def models(request: Request) -> dict[str, Any]:
        state = request.app.state
        return await listing(state.table.names(), state.catalog)

    @app.get(
        "/v1/models/{model:path}",
        tags=["models"],
        summary="One of them",
        responses={"4XX": {"description": "No such model"}},
    )
    async def model_of_name(model: str, request: Request) -> dict[str, Any]:
        state = request.app.state
        return await one(model, state.table.names(), state.catalog)

    @app.post("/v1/convert", tags=["convert"], summary="A conversation of one format in another")
    async def convert_messages(request: Request) -> Response:
        server: Server = request.app.state.settings.server
        receive = cast(Receive, request.receive)
        with request.app.state.desk.budget.lease() as lease:
            body = await read_body(dict(request.scope), receive, server.max_body_bytes, server.body_seconds, lease)
            await await_parsing(body, lease, server.max_json_values)
            converting = asyncio.to_thread(lambda: msgspec.json.encode(convert(body, limits(server))))
            return Response(await converting, media_type="application/json")

    @app.get("/healthz", tags=["health"], summary="The process lives")
    async def healthz() -> dict[str, str]:
        return {"status": "ok", "version": __version__}

    @app.get("/readyz", tags=["health"], summary="Send requests here", responses={503: {"description": "Draining"}})
    async def readyz(request: Request) -> JSONResponse:
        desk: Desk | None = request.app.state.desk
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


def _error_handlers(app: FastAPI) -> None:
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
        found = nearest(path, _paths(app))
        return await parley_error(
            request, NotFound(f"no such path: {path}." + (f" Did you mean {found}?" if found else ""))
        )

    async def caller_gone(request: Request, _: Exception) -> Response:
        """For the log alone: nobody is there to read it."""
        request.state.error_code = "caller_gone"
        return Response(status_code=499)

    app.add_exception_handler(CallerGone, caller_gone)
    app.add_exception_handler(ParleyError, parley_error)
    app.add_exception_handler(HTTPException, http_error)
    app.add_exception_handler(FastAPIHTTPException, http_error)
