"""Builds the application from the settings."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from fastapi import FastAPI
from fastapi.exceptions import HTTPException as FastAPIHTTPException
from msgspec import Struct
from msgspec.structs import replace
from starlette.exceptions import HTTPException

from app import __version__
from app.access import Caller, KeyRing, ModelGlobs, hash_key
from app.access.addresses import TrustedProxies
from app.access.key_ring import StoredKey
from app.api import admin, convert, health, metrics, models, pages, playground, status, upstream_check, usage
from app.api.chat import ChatEndpoint
from app.api.context import AppContext
from app.api.kept_reasoning import KeptReasoning
from app.api.live_configuration import LiveConfiguration, request_limits
from app.api.metrics import MetricsService
from app.api.middleware import RequestMiddleware, RequestRules
from app.api.openapi import install_openapi
from app.api.origins import OriginRules
from app.api.reply_response import ResponseLimits
from app.api.resumable import ResumableReplies
from app.api.resume import ReplyEndpoint, ResumeEndpoint
from app.api.router import AsgiRoute, list_reply_routes, raise_route_error
from app.api.token_counts import TokenCountEndpoint
from app.api.usage import observe_usage
from app.attachments.documents.protocol import DocumentLimits
from app.attachments.documents.worker_pool import DocumentWorkers
from app.attachments.fetch import Fetcher, FetchLimits, Resolver
from app.attachments.loader import AttachmentLimits, AttachmentLoader
from app.cache import Apply, Cache, CacheRules
from app.config.registry import ModelRegistry
from app.config.reload import Reloader
from app.config.settings import DEMO, CacheSettings, Key, LimitSettings, Settings, UsageSettings, load
from app.config.sources import config_file
from app.demo.server import DemoServer
from app.formats.anthropic import ANTHROPIC
from app.formats.anthropic.body import parse_count_tokens_body, parse_messages_body
from app.formats.base import wrap_error
from app.formats.chat_body import parse_chat_body
from app.formats.openai import OPENAI
from app.formats.openai.body import parse_completions_body
from app.formats.responses import RESPONSES
from app.gateway import Gateway
from app.limits import NO_LIMITS, Limiter, Limits
from app.limits.admission import Admission
from app.limits.past_spending import read_spending
from app.limits.values import Rule, make_caller_rules, make_gateway_rules, make_model_rules
from app.observe import logs
from app.observe.metrics import Metrics
from app.redis.urls import NullUrl, RedisUrl, parse_cache_url
from app.responses_api.background import BackgroundRuns
from app.responses_api.record import StoredResponses
from app.responses_api.reply import make_endpoint, make_token_count
from app.responses_api.stored_endpoints import list_routes
from app.routing import RETRY_SECONDS, HealthCheck, HealthChecks, RetryBudget, UpstreamStates
from app.runtime.memory_budget import MemoryBudget
from app.runtime.ticker import Ticker
from app.stores import StateStore, StoreLimits, open_state_store, open_store
from app.upstream.base_urls import BaseUrlCheck
from app.upstream.catalog import Catalog
from app.upstream.http.client import GRACE_SECONDS, UpstreamClient
from app.upstream.http.transport import UpstreamTransport
from app.usage.ledger import UsageLedger
from app.usage.stores import open_usage_store
from app.usage.urls import NoUrl, parse_usage_url

ADMIN_KEY_NAME, NO_KEY_NAME = "(server.admin_key)", "(anonymous)"
"""The names of callers that no key can have."""
STORE_LINGER_SECONDS = 0.05
"""How long a reply waits for others, to be written to a file with them. A process that is killed loses its replies of
this time."""
if TYPE_CHECKING:
    from app.calls.shared import Coordinator
    from app.observe.tracing import SpanWriter, TracedUpstream
    from app.redis.connection import RedisConnection


class Storage(Struct, frozen=True):
    """Where replies are kept, what later requests rely on, and the counters of limits."""

    cache: Cache
    state: StateStore
    redis: "RedisConnection | None"
    """The only one of the process; None if the cache is not in Redis. The counters of limits are there, too."""


class _Resources(Struct, frozen=True):
    """What lives as long as the gateway, in addition to its `AppContext`. A reload of the configuration keeps it."""

    demo: DemoServer | None
    client: UpstreamClient
    fetcher: Fetcher
    document_workers: DocumentWorkers
    loader: AttachmentLoader
    base_urls: BaseUrlCheck
    ticker: Ticker
    storage: Storage
    upstreams: UpstreamStates
    health_checks: HealthChecks
    retry_seconds: float
    retry_budget: RetryBudget
    grace_seconds: float


class _Reporters(Struct, frozen=True):
    """What tells others of the requests, besides the log."""

    metrics: MetricsService | None
    spans: "SpanWriter | None"


OpenStorage: TypeAlias = Callable[[CacheSettings, Ticker], Storage]
ConnectRedis: TypeAlias = "Callable[[RedisUrl, float], tuple[RedisConnection, Coordinator]]"


def connect_redis(address: RedisUrl, keep_seconds: float) -> "tuple[RedisConnection, Coordinator]":
    """Return a connection, and the coordinator that uses it. Its packages are imported here: that takes time."""
    from app.calls.shared import Coordinator
    from app.redis.connection import RedisConnection

    redis = RedisConnection(address)
    return redis, Coordinator(redis, keep_seconds=keep_seconds)


def open_storage(
    settings: CacheSettings, ticker: Ticker, rules: CacheRules | None = None, connect: ConnectRedis = connect_redis
) -> Storage:
    """Return the storage that the settings name. `rules` and `connect` are for tests."""
    limits = StoreLimits(max_bytes=settings.max_bytes, max_entry_bytes=settings.max_entry_bytes)
    rules = rules or CacheRules(settings.replay, settings.store_length)
    address = parse_cache_url(settings.url or "memory:")
    if isinstance(address, RedisUrl):
        redis, coordinator = connect(address, settings.resume_seconds)
        store = open_store(redis, limits)
        return Storage(Cache(store, ticker, rules, coordinator), open_state_store(redis, limits), redis)
    store = open_store(address, replace(limits, linger_seconds=STORE_LINGER_SECONDS))
    return Storage(Cache(store, ticker, rules), open_state_store(address, limits), None)


def make_usage_ledger(settings: UsageSettings) -> UsageLedger | None:
    """Return the ledger of usage; None if usage is not counted."""
    address = parse_usage_url(settings.url or "memory:")
    return None if isinstance(address, NoUrl) else UsageLedger(open_usage_store(address))


def make_key_ring(settings: Settings) -> KeyRing | None:
    """Return the API keys of the settings; None if there are none. `server.admin_key` is then one of them that may use
    no model."""
    if not settings.keys:
        return None
    keys = [StoredKey(row.sha256, _make_caller(name, row), row.expires) for name, row in settings.keys.items()]
    server = settings.server
    if server.admin_key is not None:
        admin = Caller(ADMIN_KEY_NAME, ADMIN_KEY_NAME, admin=True, models=ModelGlobs(()))
        keys.append(StoredKey(hash_key(server.admin_key.get_secret_value()), admin))
    return KeyRing(keys, Caller(NO_KEY_NAME, NO_KEY_NAME) if server.allow_anonymous else None)


def _make_caller(name: str, key: Key) -> Caller:
    models = None if "*" in key.models else ModelGlobs(key.models)
    return Caller(name, key.cache_scope or name, key.admin, models, _make_limits(key.limits))


def make_limiter(settings: Settings, redis: "RedisConnection | None") -> Limiter | None:
    """Return the limits of the settings; None if there are none. They are counted in Redis if there is one, else in
    this process."""
    limits = _make_limits(settings.limits)
    models = _model_limits(settings)
    callers = [_make_limits(row.limits) for row in settings.keys.values()]
    if all(one == NO_LIMITS for one in (limits, *models.values(), *callers)):
        return None
    if redis is None:
        return Limiter(limits, models)
    from app.limits.redis_store import RedisLimitStore

    return Limiter(limits, models, RedisLimitStore(redis))


def _model_limits(settings: Settings) -> dict[str, Limits]:
    return {name: _make_limits(row.limits) for name, row in settings.models.items()}


def _make_limits(settings: LimitSettings) -> Limits:
    return Limits(**settings.model_dump())


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
    resources = _open_resources(
        settings, transport, resolver, open_storage, retry_seconds, retry_budget or RetryBudget(), grace_seconds
    )
    context = _create_context(settings, resources)
    reporters = _Reporters(
        _create_metrics(context, worker_folder) if settings.metrics.enabled else None,
        _create_span_writer(context, make_span_exporter) if settings.tracing.enabled else None,
    )
    if load_settings is not None:
        context.reloader = _create_reloader(context, resources, reporters, load_settings)
    apply = settings.cache.apply
    chat_apply: Apply = "always" if apply == "auto" else apply
    completions_apply: Apply = "deterministic" if apply == "auto" else apply
    chat = ChatEndpoint(context, parse_chat_body, "chat", wrap_error, chat_apply)
    completions = ChatEndpoint(context, parse_completions_body, "completions", OPENAI.error, completions_apply)
    messages = ChatEndpoint(
        context,
        parse_messages_body,
        "messages",
        ANTHROPIC.error,
        completions_apply,
        keeps_alias=True,
    )
    count_tokens = TokenCountEndpoint(context, parse_count_tokens_body)
    stored = _make_stored_responses(settings, context.state)
    background = BackgroundRuns(stored, settings.responses.max_background)
    if context.metrics is not None:
        metrics.add_background_gauge(context.metrics, background)
    responses = make_endpoint(context, stored, background, completions_apply)
    app = FastAPI(
        title="Parley",
        version=__version__,
        lifespan=lambda _: _run(context, resources, reporters, background),
        docs_url=None,
        redoc_url=None,
        telemetry={"tracing": False, "metrics": False, "logs": False},  # FastAPI's own would come beside the gateway's
        exception_handlers={HTTPException: raise_route_error, FastAPIHTTPException: raise_route_error},
    )
    app.state.context = context
    app.add_middleware(RequestMiddleware, get_rules=lambda: context.live.rules)
    app.router.routes[:0] = [
        *list_reply_routes("/v1/chat", chat),
        *list_reply_routes("/v1/chat/completions", completions),
        *list_reply_routes("/v1/messages", messages),
        *list_reply_routes("/v1/messages/count_tokens", count_tokens),
        *list_reply_routes("/v1/responses", responses),
        AsgiRoute("/v1/chat/{response_id}/events", ResumeEndpoint(context), "GET"),
        AsgiRoute("/v1/chat/{response_id}", ReplyEndpoint(context), "GET", "DELETE"),
        AsgiRoute("/v1/responses/input_tokens", make_token_count(context, stored), "POST"),
        *list_routes(context, stored, background),
    ]
    # The routes themselves, not `include_router`: that would make each of them again for every application.
    for module in (models, convert, health, admin, status, usage, pages):
        app.router.routes += module.router.routes
    context.ended.observers.append(context.recent.observe)
    if settings.server.playground:
        app.router.routes += [*playground.router.routes, *upstream_check.router.routes]
    app.state.metrics_app = None
    if reporters.metrics is not None and settings.metrics.port is None:
        metrics.add_routes(app, context, reporters.metrics)
    elif reporters.metrics is not None:
        app.state.metrics_app = metrics.create_metrics_app(context, reporters.metrics)
    install_openapi(app)
    return app


def _make_stored_responses(settings: Settings, store: StateStore) -> StoredResponses:
    url = parse_cache_url(settings.cache.url or "memory:")
    return StoredResponses(
        store,
        enabled=settings.responses.store and not isinstance(url, NullUrl),
        ttl_seconds=settings.responses.store_seconds,
        max_bytes=settings.cache.max_entry_bytes,
    )


def _open_resources(
    settings: Settings,
    transport: UpstreamTransport | None,
    resolver: Resolver | None,
    open_storage: OpenStorage,
    retry_seconds: float,
    retry_budget: RetryBudget,
    grace_seconds: float,
) -> _Resources:
    client = UpstreamClient(transport)
    fetch, server = settings.fetch, settings.server
    limits = FetchLimits(fetch.allow, fetch.max_bytes, fetch.max_seconds, fetch.max_redirects, fetch.max_concurrent)
    fetcher = Fetcher(limits, resolver)
    document_workers = DocumentWorkers(DocumentLimits(**settings.documents.model_dump()))
    loader = AttachmentLoader(fetcher, document_workers, AttachmentLimits(fetch.max_media, fetch.max_total_bytes))
    tick_seconds = min(1.0, server.heartbeat_seconds / 4, server.commit_seconds / 4)
    ticker = Ticker(max(tick_seconds, 0.01))
    upstreams = UpstreamStates()
    return _Resources(
        DemoServer() if settings.demo else None,
        client,
        fetcher,
        document_workers,
        loader,
        BaseUrlCheck(client),
        ticker,
        open_storage(settings.cache, ticker),
        upstreams,
        HealthChecks(client, upstreams),
        retry_seconds,
        retry_budget,
        grace_seconds,
    )


def _create_context(settings: Settings, resources: _Resources) -> AppContext:
    server, storage = settings.server, resources.storage
    cache = storage.cache

    def is_full(running: int) -> bool:
        most = context.server.max_concurrent_requests
        return running + cache.calls >= most and running + cache.calls_without_caller >= most

    context = AppContext(
        _make_live_configuration(settings, resources, None),
        resources.ticker,
        ResumableReplies(settings.cache.resume_seconds, settings.cache.max_resume_bytes),
        cache,
        MemoryBudget(server.max_request_memory_bytes),
        ResponseLimits(server.heartbeat_seconds, server.commit_seconds, server.stall_seconds),
        storage.state,
        resources.upstreams,
        Admission(is_full, server.max_queued_requests, server.queue_seconds),
        resources.client,
    )
    if settings.reasoning.restore and not isinstance(parse_cache_url(settings.cache.url or "memory:"), NullUrl):
        context.reasoning = KeptReasoning(context.state, settings.reasoning.store_seconds)
    context.ended.observers.append(logs.log_request)
    _set_limits(context, resources, settings)
    _set_upstreams(resources, context.live)
    context.usage_ledger = make_usage_ledger(settings.usage)
    if context.usage_ledger is not None:
        context.usage_ledger.set_models(context.live.registry.models())
        context.ended.observers.append(observe_usage(context.usage_ledger))
    return context


def _make_live_configuration(
    settings: Settings, resources: _Resources, previous: LiveConfiguration | None
) -> LiveConfiguration:
    """Return everything that depends on settings which a reload may change. Raises SettingsError."""
    demo, client, server = resources.demo, resources.client, settings.server
    counters = None if previous is None else previous.registry.counters
    demo_url = None if demo is None else lambda: demo.base_url
    registry = ModelRegistry(settings, demo_url, resources.grace_seconds, counters)
    catalog = None if previous is None else previous.catalog
    if catalog is None or catalog.target != registry.passthrough:
        catalog = None if registry.passthrough is None else Catalog(registry.passthrough, client)
    gateway = Gateway(
        registry.find,
        registry.default_model,
        client,
        registry.counters.get,
        resources.loader,
        resources.storage.cache,
        resources.base_urls,
        known=registry.models(),
        catalog=catalog,
        ticker=resources.ticker,
        upstreams=resources.upstreams,
        budget=resources.retry_budget,
        retry_seconds=resources.retry_seconds,
    )
    rules = RequestRules(
        OriginRules(server.host, server.allowed_hosts, server.allowed_origins),
        make_key_ring(settings),
        TrustedProxies(server.trusted_proxies),
        {
            "/v1/models": OPENAI.error,
            "/v1/responses": RESPONSES.error,
            "/v1/chat/completions": OPENAI.error,
            "/v1/messages": ANTHROPIC.error,
        },
        None if previous is None else previous.rules.observe_plain,
    )
    return LiveConfiguration(
        settings, registry, gateway, catalog, rules, request_limits(server), settings.separate_callers
    )


def _create_reloader(
    context: AppContext, resources: _Resources, reporters: _Reporters, load_settings: Callable[[], Settings]
) -> Reloader:
    async def apply(settings: Settings) -> None:
        # In a thread, because a tokenizer file may be large.
        live = await asyncio.to_thread(_make_live_configuration, settings, resources, context.live)
        before, after = _list_spending_rules(context.settings), _list_spending_rules(settings)
        spent = await _read_spending(context, [rule for counter, rule in after.items() if counter not in before])
        context.live = live
        _set_limits(context, resources, settings)
        if context.limiter is not None:
            context.limiter.set_spent(spent)
        _set_upstreams(resources, live)
        logs.set_level(settings.server.log_level)
        if context.metrics is not None:
            context.metrics.set_names(live.registry.models(), _upstream_names(settings))
        if context.usage_ledger is not None:
            context.usage_ledger.set_models(live.registry.models())
        if reporters.spans is not None:
            reporters.spans.set_upstreams(_describe_upstreams(settings))

    return Reloader(context.settings, load_settings, apply)


def _set_limits(context: AppContext, resources: _Resources, settings: Settings) -> None:
    """Set the limits of the settings. What has been used of those that have not changed goes on to count."""
    if context.limiter is not None:
        context.limiter.set_limits(_make_limits(settings.limits), _model_limits(settings))
        return
    context.limiter = make_limiter(settings, resources.storage.redis)


def _list_spending_rules(settings: Settings) -> dict[str, Rule]:
    """Return the limits of spending of all owners, by the names of their counters."""
    rules = [*make_gateway_rules(_make_limits(settings.limits))]
    for name, limits in _model_limits(settings).items():
        rules += make_model_rules(name, limits)
    for name, row in settings.keys.items():
        rules += make_caller_rules(name, _make_limits(row.limits))
    return {rule.counter: rule for rule in rules if rule.is_spending}


async def _read_spending(context: AppContext, rules: Sequence[Rule]) -> list[tuple[Rule, float]]:
    """Return what was spent until now, without requests in progress, of limits that begin to be counted."""
    if not rules or context.usage_ledger is None:
        return []
    context.ended.report()
    return await asyncio.to_thread(read_spending, context.usage_ledger, rules, time.time())


def _set_upstreams(resources: _Resources, live: LiveConfiguration) -> None:
    """Set the upstreams whose states are kept and whose health is checked."""
    resources.upstreams.set_targets(live.registry.targets())
    resources.health_checks.set_checks(_list_health_checks(live.settings, live.registry))


def _upstream_names(settings: Settings) -> list[str]:
    return [*settings.upstreams, *([DEMO] if settings.demo else [])]


def _create_metrics(context: AppContext, worker_folder: Path | None) -> MetricsService:
    settings = context.settings
    context.metrics = Metrics(context.registry.models(), _upstream_names(settings))
    rules = replace(context.live.rules, observe_plain=context.metrics.observe_plain_request)
    context.live = replace(context.live, rules=rules)
    context.ended.observers.append(context.metrics.observe_request)
    metrics.add_gauges(context.metrics, context)
    return MetricsService(context.metrics, context.ended, worker_folder)


def _create_span_writer(context: AppContext, make_exporter: Callable[[], Any] | None) -> "SpanWriter":
    """OpenTelemetry is imported here: that takes time, and it is not installed everywhere."""
    from app.observe.tracing import SpanWriter, make_otlp_exporter

    settings = context.settings
    writer = SpanWriter((make_exporter or make_otlp_exporter)(), _describe_upstreams(settings))
    context.trace_ratio = settings.tracing.sample_ratio
    context.captures_content = settings.tracing.capture_content
    context.ended.observers.append(writer.observe_request)
    return writer


def _describe_upstreams(settings: Settings) -> "dict[str, TracedUpstream]":
    from app.observe.tracing import TracedUpstream

    return {
        name: TracedUpstream(
            row.kind,
            row.base_url,
            {
                model: given.name or model
                for model, given in settings.models.items()
                if name in (member.name for member in given.upstreams)
            },
        )
        for name, row in settings.upstreams.items()
    }


def _list_health_checks(settings: Settings, registry: ModelRegistry) -> list[HealthCheck]:
    rows = ((target, settings.upstreams[target.name]) for target in registry.targets())
    return [HealthCheck(target, row.health_path, row.health_seconds) for target, row in rows if row.health_path]


@asynccontextmanager
async def _run(
    context: AppContext, resources: _Resources, reporters: _Reporters, background: BackgroundRuns
) -> AsyncIterator[None]:
    """The lifespan of the application."""
    await _start(context, resources, reporters)
    try:
        yield
    finally:
        context.draining = True
        if context.reloader is not None:
            await context.reloader.aclose()
        await background.drain(context.server.drain_seconds)
        for response in list(context.active):
            response.disconnect()
        await asyncio.sleep(0)
        context.resumable.close()
        await context.cache.aclose()
        await context.state.aclose()
        await resources.health_checks.aclose()
        if context.limiter is not None:
            await context.limiter.aclose()
        if resources.storage.redis is not None:
            await resources.storage.redis.aclose()
        await resources.base_urls.aclose()
        if context.catalog is not None:
            await context.catalog.aclose()
        if reporters.metrics is not None:
            await reporters.metrics.aclose()
        await resources.client.aclose()
        await resources.fetcher.aclose()
        await resources.document_workers.aclose()
        context.ended.report()
        if reporters.spans is not None:
            await asyncio.to_thread(reporters.spans.shutdown)
        if resources.demo is not None:
            await resources.demo.stop()
        if context.usage_ledger is not None:
            await asyncio.to_thread(context.usage_ledger.close)
        await asyncio.to_thread(logs.flush)


async def _start(context: AppContext, resources: _Resources, reporters: _Reporters) -> None:
    if resources.demo is not None:
        await resources.demo.start()
    context.cache.on_cancel(context.cancel)
    resources.health_checks.start()
    if context.limiter is not None:
        context.limiter.set_spent(await _read_spending(context, [*_list_spending_rules(context.settings).values()]))
    if reporters.metrics is not None:
        await reporters.metrics.start()
    if context.reloader is not None and context.server.watch_config:
        context.reloader.watch(config_file(os.environ).absolute())
