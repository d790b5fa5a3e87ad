"""Builds the application from the settings."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from fastapi.exceptions import HTTPException as FastAPIHTTPException
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from app import __version__
from app.api import metrics
from app.api.context import AppContext
from app.api.gemini import list_gemini_routes
from app.api.metrics import MetricsService
from app.api.middleware import RequestMiddleware
from app.api.openapi import install_openapi
from app.api.passing import list_passing_routes
from app.api.resources import Resources, RetryRules, make_resources
from app.api.router import raise_parameter_error, raise_route_error
from app.api.routes import list_chat_routes, list_other_routes
from app.api.startup import make_context, make_span_writer, read_state, start_tasks
from app.attachments.fetch import Resolver
from app.cache import Apply
from app.config.load import load
from app.config.settings import Settings
from app.config.sources import config_file
from app.config.storage import OpenStorage, open_storage
from app.demo.server import DemoServer
from app.observe import logs
from app.responses_api.background import BackgroundRuns
from app.responses_api.routes import list_response_routes, make_stored_responses
from app.routing import RETRY_SECONDS, RetryBudget
from app.upstream.http.client import GRACE_SECONDS
from app.upstream.http.transport import UpstreamTransport

if TYPE_CHECKING:
    from app.observe.tracing import SpanWriter


def create_app(
    settings: Settings | None = None,
    transport: UpstreamTransport | None = None,
    resolver: Resolver | None = None,
    *,
    open_storage: OpenStorage = open_storage,
    retry_seconds: float = RETRY_SECONDS,
    retry_budget: RetryBudget | None = None,
    grace_seconds: float = GRACE_SECONDS,
    worker_folder: Path | None = None,
    load_settings: Callable[[], Settings] | None = None,
    make_span_exporter: Callable[[], Any] | None = None,
) -> FastAPI:
    """Create the application. Nothing is opened before its lifespan starts. With a cache in Redis, call this function
    in the event loop that serves the application.

    Without `settings`, they are read from the environment, and again when the configuration is reloaded; with them,
    `load_settings` reads them again. With several workers, `worker_folder` is a folder that only they share. The other
    arguments are for tests: `transport` replaces the upstreams, `resolver` the lookup of host names, `open_storage`
    opens the stores, and `make_span_exporter` makes an OpenTelemetry `SpanExporter`. `retry_seconds` is the first wait
    before a request is sent again, `retry_budget` limits how often that happens, and `grace_seconds` is how long a
    model server that has finished may take to end its reply.
    """
    if settings is None:
        settings, load_settings = load(), load_settings or load
    logs.configure(settings.server.log_level, settings.server.log_format)
    demo = DemoServer() if settings.demo else None
    retries = RetryRules(retry_seconds, retry_budget or RetryBudget(), grace_seconds)
    demo_url = None if demo is None else lambda: demo.base_url
    resources = make_resources(settings, demo_url, transport, resolver, open_storage, retries)
    spans = make_span_writer(settings, make_span_exporter) if settings.tracing.enabled else None
    context = make_context(settings, resources, spans, load_settings)
    stored = make_stored_responses(settings, context)
    background = BackgroundRuns(stored, settings.responses.max_background)
    service = _make_metrics_service(context, background, worker_folder)
    app = FastAPI(
        title="Parley",
        version=__version__,
        lifespan=lambda _: _run(context, resources, background, service, spans, demo),
        docs_url=None,
        redoc_url=None,
        telemetry={"tracing": False, "metrics": False, "logs": False},  # FastAPI's own would come beside the gateway's
        exception_handlers={
            HTTPException: raise_route_error,
            FastAPIHTTPException: raise_route_error,
            RequestValidationError: raise_parameter_error,
        },
    )
    app.state.context = context
    app.state.metrics_app = None
    observe = None if context.metrics is None else context.metrics.observe_plain_request
    app.add_middleware(RequestMiddleware, get_rules=lambda: context.live.rules, observe=observe)
    given = settings.cache.apply
    apply: Apply = "deterministic" if given == "auto" else given
    app.router.routes[:0] = [
        *list_chat_routes(context, "always" if given == "auto" else given, apply),
        *list_response_routes(context, stored, background, apply, resources.database),
        *list_passing_routes(context),
        *list_gemini_routes(context, apply),
    ]
    app.router.routes += list_other_routes(with_playground=settings.server.playground)
    if service is not None and settings.metrics.port is None:
        metrics.add_routes(app, context, service)
    elif service is not None:
        app.state.metrics_app = metrics.create_metrics_app(context, service)
    install_openapi(app)
    return app


def _make_metrics_service(
    context: AppContext, background: BackgroundRuns, worker_folder: Path | None
) -> MetricsService | None:
    if context.metrics is None:
        return None
    metrics.add_gauges(context.metrics, context)
    metrics.add_background_gauge(context.metrics, background)
    return MetricsService(context.metrics, context.ended, worker_folder)


@asynccontextmanager
async def _run(
    context: AppContext,
    resources: Resources,
    background: BackgroundRuns,
    service: MetricsService | None,
    spans: "SpanWriter | None",
    demo: DemoServer | None,
) -> AsyncIterator[None]:
    """The lifespan of the application."""
    if demo is not None:
        await demo.start()
    context.cache.on_cancel(context.replies.cancel)
    resources.health_checks.start()
    resources.jwks.start()
    resources.credentials.start()
    start_tasks(context)
    if context.key_watcher is not None:
        await context.key_watcher.start()
    await read_state(context, resources)
    if service is not None:
        await service.start()
    if context.reloader is not None and context.server.watch_config:
        context.reloader.watch(config_file(os.environ).absolute())
    try:
        yield
    finally:
        context.draining = True
        if context.reloader is not None:
            await context.reloader.aclose()
        await background.drain(context.server.drain_seconds)
        if context.key_watcher is not None:
            context.ended.report()
            await context.key_watcher.aclose()
        await context.aclose()
        await resources.aclose()
        if service is not None:
            await service.aclose()
        context.ended.report()
        if spans is not None:
            await asyncio.to_thread(spans.shutdown)
        if demo is not None:
            await demo.stop()
        await _write_rest(context)


async def _write_rest(context: AppContext) -> None:
    """Write what is known of the requests that have ended."""
    for writing in (context.usage_ledger, context.request_log):
        if writing is not None:
            await asyncio.to_thread(writing.close)
    await asyncio.to_thread(logs.flush)
