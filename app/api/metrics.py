"""`GET /metrics` in Prometheus' text format, on the main port or on one of its own."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sized
from functools import partial
from pathlib import Path
from typing import TypeAlias

from fastapi import FastAPI, Request, Response
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from app.api import health
from app.api.admin import check_admin
from app.api.context import AppContext
from app.config.reload import Reloader
from app.formats.openapi import describe
from app.observe.ended_requests import EndedRequests
from app.observe.metrics import LabelValues, LoopLagSampler, Metrics
from app.observe.worker_group import WorkerGroup

PATH = "/metrics"
CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4

CollectMetrics: TypeAlias = Callable[[], Awaitable[list[Metric]]]
Readings: TypeAlias = list[tuple[LabelValues, float]]


class _Collected(Collector):
    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


async def render_metrics(collect: CollectMetrics) -> bytes:
    """Collect the metrics in the event loop, and write them in another thread."""
    families = await collect()
    return await asyncio.to_thread(_write, families)


def _write(families: list[Metric]) -> bytes:
    registry = CollectorRegistry()
    registry.register(_Collected(families))
    return generate_latest(registry)


class MetricsService:
    """The metrics of this process, and of its fellow workers if there are any."""

    def __init__(
        self,
        metrics: Metrics,
        ended: EndedRequests,
        worker_folder: Path | None,
    ) -> None:
        """`worker_folder` is the folder that all workers of the gateway share; None with one process."""
        self._metrics = metrics
        self._ended = ended
        self._lag = LoopLagSampler(metrics.observe_lag)
        self._group = None if worker_folder is None else WorkerGroup(worker_folder, self._collect_own)

    async def collect(self) -> list[Metric]:
        return self._collect_own() if self._group is None else await self._group.collect()

    def _collect_own(self) -> list[Metric]:
        """Return the metrics of this process."""
        self._ended.report()
        return self._metrics.collect()

    async def start(self) -> None:
        self._lag.start()
        if self._group is not None:
            await self._group.start()

    async def aclose(self) -> None:
        self._lag.close()
        if self._group is not None:
            await self._group.aclose()


def add_gauges(metrics: Metrics, context: AppContext) -> None:
    """Add the figures that are read when the metrics are."""
    _add_request_gauges(metrics, context)
    _add_upstream_gauges(metrics, context)
    _add_service_gauges(metrics, context)
    _add_reload_gauges(metrics, context)


def _add_request_gauges(metrics: Metrics, context: AppContext) -> None:
    for name, help_text, read in (
        ("parley_open_replies", "Replies that are being sent, or waited for.", lambda: len(context.replies.active)),
        (
            "parley_requests_in_progress",
            "Requests that are admitted and have not ended.",
            lambda: context.in_progress,
        ),
        (
            "parley_queued_requests",
            "Requests that wait to be admitted, up to server.max_queued_requests.",
            lambda: context.admission.queued,
        ),
        ("parley_upstream_calls", "Requests to model servers that are in progress.", lambda: context.cache.calls),
        (
            "parley_request_memory_bytes",
            "Memory that requests hold, of server.max_request_memory_bytes.",
            lambda: context.budget.held_bytes,
        ),
        (
            "parley_requests_waiting_for_memory",
            "Requests that wait until others free memory.",
            lambda: context.budget.waiting,
        ),
        ("parley_websockets", "Open WebSockets.", lambda: context.websockets),
    ):
        metrics.add_gauge(name, help_text, (), partial(_read_one, read))


def _add_upstream_gauges(metrics: Metrics, context: AppContext) -> None:
    metrics.add_gauge(
        "parley_upstream_breaker_state",
        "1 for the state that the circuit breaker of the upstream is in (closed, open, half_open), 0 for the others.",
        ("upstream", "state"),
        partial(_read_breakers, context),
    )
    metrics.add_gauge(
        "parley_upstream_available",
        "Whether the upstream is chosen for new requests: its breaker, its cooldown and its health check allow it.",
        ("upstream",),
        partial(_read_availability, context),
    )
    metrics.add_gauge(
        "parley_upstream_outstanding_requests",
        "Requests to the upstream that have not ended.",
        ("upstream",),
        lambda: [((state.name,), state.outstanding) for state in context.upstreams],
    )
    metrics.add_gauge(
        "parley_upstream_sessions_moved",
        "Requests so far that another upstream took than the one which has their session in its cache.",
        ("upstream",),
        lambda: [((state.name,), state.moved_away) for state in context.upstreams],
    )


def _add_service_gauges(metrics: Metrics, context: AppContext) -> None:
    """Add the state of tool servers, Redis and the issuers of JWTs."""
    metrics.add_gauge(
        "parley_mcp_server_up",
        "1 while there is a connection to the MCP server; 0 before it is needed, and after it has failed.",
        ("server",),
        partial(_read_tool_servers, context),
    )
    metrics.add_gauge(
        "parley_redis_connected",
        "1 while Redis answers; 0 while requests are served without it, and limits are counted for this process alone.",
        ("use",),
        partial(_read_redis, context),
    )
    metrics.add_gauge(
        "parley_jwks_last_fetch_successful",
        "1 if the last fetch of the JWT issuer's keys succeeded; 0 if it failed, and the last keys stay.",
        ("issuer",),
        lambda: [((source.location.name,), float(not source.error)) for source in context.jwks],
    )
    limiter = context.limiter
    if limiter is not None:
        metrics.add_gauge(
            "parley_limits_counted_in_memory",
            "Requests whose limits were counted in this process alone, because Redis did not answer.",
            (),
            lambda: [((), limiter.memory_reservations)],
        )


def _add_reload_gauges(metrics: Metrics, context: AppContext) -> None:
    metrics.add_gauge(
        "parley_config_last_reload_successful",
        "1 if the last reload of the configuration was accepted; 0 if it was refused, and the old one stays in force.",
        (),
        partial(_read_reload, context, lambda reloader: float(bool(reloader.last_succeeded))),
    )
    metrics.add_gauge(
        "parley_config_last_reload_timestamp_seconds",
        "The Unix time of the last reload of the configuration.",
        (),
        partial(_read_reload, context, lambda reloader: reloader.last_at or 0.0),
    )


def add_background_gauge(metrics: Metrics, background: Sized) -> None:
    metrics.add_gauge(
        "parley_background_responses",
        "Background responses that have not ended, up to responses.max_background.",
        (),
        lambda: [((), len(background))],
    )


def _read_tool_servers(context: AppContext) -> Readings:
    return (
        []
        if context.tools is None
        else [((row.name,), float(row.state == "up")) for row in context.tools.list_status()]
    )


def _read_reload(context: AppContext, read: Callable[[Reloader], float]) -> Readings:
    """Return a figure of the last reload; none before the first."""
    reloader = context.reloader
    return [] if reloader is None or reloader.last_at is None else [((), read(reloader))]


def _read_one(read: Callable[[], float]) -> Readings:
    return [((), read())]


def _read_breakers(context: AppContext) -> Readings:
    now = asyncio.get_running_loop().time()
    states = ("closed", "open", "half_open")
    return [
        ((upstream.name, state), float(upstream.breaker(now) == state))
        for upstream in context.upstreams
        for state in states
    ]


def _read_availability(context: AppContext) -> Readings:
    now = asyncio.get_running_loop().time()
    return [((upstream.name,), float(upstream.is_available(now))) for upstream in context.upstreams]


def _read_redis(context: AppContext) -> Readings:
    limiter = context.limiter
    uses = {
        "cache": context.cache.is_redis_connected,
        "limits": None if limiter is None else limiter.is_redis_connected,
    }
    return [((use,), float(connected)) for use, connected in uses.items() if connected is not None]


_TEXT = {"type": "string", "examples": ['parley_requests_total{model="demo",status="200"} 3.0\n']}


def create_metrics_app(context: AppContext, service: MetricsService) -> FastAPI:
    """Return the application of a port of its own, which only Prometheus can reach: it needs no key."""
    app = FastAPI(openapi_url=None)
    app.state.context = context
    app.router.routes += health.router.routes

    @app.get(PATH)
    @app.head(PATH)
    async def metrics() -> Response:
        return Response(await render_metrics(service.collect), media_type=CONTENT_TYPE)

    return app


def add_routes(app: FastAPI, context: AppContext, service: MetricsService) -> None:

    @app.get(
        PATH,
        tags=["health"],
        summary="Read the metrics for Prometheus",
        response_class=Response,
        operation_id="read_metrics",
        responses={200: {"content": {"text/plain": {"schema": _TEXT}}}, **describe(403)},
    )
    async def metrics(request: Request) -> Response:
        if context.server.admin_key is not None:
            check_admin(request, context)
        return Response(await render_metrics(service.collect), media_type=CONTENT_TYPE)
