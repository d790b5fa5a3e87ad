"""Makes what all requests of a process share from its settings, and changes it at a reload of the configuration."""

import asyncio
import logging
import time
import traceback
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from app.api.agent_lists import AgentLists
from app.api.context import AppContext
from app.api.kept_reasoning import KeptReasoning
from app.api.kept_routes import KeptRoutes
from app.api.key_watcher import KeyWatcher
from app.api.live_configuration import LiveConfiguration, make_live_configuration
from app.api.open_replies import OpenReplies
from app.api.reply_response import ResponseLimits
from app.api.resources import Resources
from app.api.resumable import ResumableReplies
from app.api.usage import observe_usage
from app.chat.server_tools import ToolBounds
from app.config.access import (
    find_free_models,
    find_highest_prices,
    list_jwks_locations,
    list_spending_rules,
    make_limiter,
    make_limits,
    make_model_limits,
)
from app.config.credentials import list_credential_sources
from app.config.registry import ModelRegistry
from app.config.reload import Reloader
from app.config.settings import DEMO, Settings
from app.config.storage import keeps_state, make_usage_ledger, open_usage
from app.config.tables.server import Server
from app.formats.request_memory import RequestMemory
from app.limits.admission import Admission
from app.limits.past_spending import read_spending
from app.limits.values import Rule
from app.observe import logs
from app.observe.ended_requests import EndedRequests, RecentRequests
from app.observe.metrics import Metrics
from app.observe.request_record import RequestObserver, RequestRecord
from app.routing import HealthCheck
from app.runtime.memory_budget import MemoryBudget
from app.runtime.throttled_log import ThrottledLog

if TYPE_CHECKING:
    from app.observe.request_log.bytes_test import BytesTest
    from app.observe.request_log.redaction import Find
    from app.observe.tracing import SpanWriter, TracedUpstream


def make_context(
    settings: Settings,
    resources: Resources,
    spans: "SpanWriter | None",
    load_settings: Callable[[], Settings] | None,
) -> AppContext:
    """`load_settings` reads the settings again at a reload; None: there is none. Raises SettingsError."""
    server, tracing, cache = settings.server, settings.tracing, resources.storage.cache
    live = make_live_configuration(
        settings, resources, make_limiter(settings, resources.storage.redis, resources.database), None
    )
    metrics = Metrics(live.registry.models(), _list_upstream_names(settings)) if settings.metrics.enabled else None
    usage = open_usage(settings, resources.database)
    ledger, recent = make_usage_ledger(settings, usage), RecentRequests()
    observers: list[RequestObserver] = [logs.log_request]
    if ledger is not None:
        ledger.set_models(live.registry.models())
        observers.append(observe_usage(ledger))
    if metrics is not None:
        observers.append(metrics.observe_request)
    if spans is not None:
        observers.append(spans.observe_request)

    def is_full(running: int) -> bool:
        most = context.live.settings.server.max_concurrent_requests
        return running + cache.calls >= most and running + cache.calls_without_caller >= most

    async def apply(changed: Settings) -> None:
        await _apply(changed, context, resources, spans)

    async def reload(changed: Settings) -> None:
        await (apply if context.key_watcher is None else context.key_watcher.apply_file)(changed)

    state, restores = resources.storage.state, settings.reasoning.restore and keeps_state(settings)
    replies = OpenReplies(
        cache,
        resources.ticker,
        ResumableReplies(settings.cache.resume_seconds, settings.cache.max_resume_bytes),
        ResponseLimits(server.heartbeat_seconds, server.commit_seconds, server.stall_seconds),
        lambda about, text: context.live.unseal_reply(about, text),
    )
    context = AppContext(
        live,
        replies,
        cache,
        MemoryBudget(server.max_request_memory_bytes),
        _make_request_memory(server, metrics),
        state,
        KeptRoutes(state),
        resources.upstreams,
        Admission(is_full, server.max_queued_requests, server.queue_seconds),
        resources.client,
        EndedRequests([*observers, recent.observe]),
        recent,
        KeptReasoning(state, settings.reasoning.store_seconds) if restores else None,
        metrics,
        ledger,
        tracing.sample_ratio if tracing.enabled else None,
        tracing.enabled and tracing.capture_content,
        None if load_settings is None else Reloader(settings, load_settings, reload),
        resources.jwks,
        resources.credentials,
        AgentLists(resources.client),
        {
            use: database
            for use, database in (("state", resources.database), ("usage", usage))
            if database is not None and (use == "state" or database is not resources.database)
        },
    )
    if resources.stored_keys is not None:
        watcher = context.key_watcher = KeyWatcher(resources.stored_keys, settings, apply)
        context.ended.observers.append(watcher.observe)
    _set_servers(resources, live)
    set_tool_servers(context, settings)
    _observe_guards(context)
    if settings.request_log.keep != "off":
        open_request_log(context, settings)
    set_alert_receivers(context, resources, settings)
    return context


def make_span_writer(settings: Settings, make_exporter: Callable[[], Any] | None) -> "SpanWriter":
    """OpenTelemetry is imported here: that takes time, and it is not installed everywhere."""
    from app.observe.tracing import SpanWriter, make_otlp_exporter

    return SpanWriter((make_exporter or make_otlp_exporter)(), _describe_upstreams(settings))


async def load_masking_key(context: AppContext, resources: Resources) -> None:
    """Let guards use the key of placeholders that the state has."""
    await resources.masking_key.load(resources.storage.state, context.settings)
    if context.live.guards is not None and context.settings.masking.key is None:
        context.live.guards.set_key(resources.masking_key.value)


def start_tasks(context: AppContext) -> None:
    """Start what runs beside the requests, as far as it is configured."""
    if context.tools is not None:
        context.tools.start_required()
    if context.alerting is not None:
        context.alerting.start()


async def read_state(context: AppContext, resources: Resources) -> None:
    """Read what the first requests need: the key of placeholders, what was spent of the limits, and the key with which
    users are hashed."""
    await load_masking_key(context, resources)
    if context.settings.hashes_users:
        await resources.user_hasher.prepare()
    if context.limiter is not None:
        await context.limiter.set_spent(
            await _read_spending(context, [*list_spending_rules(context.settings).values()])
        )


def _make_request_memory(server: Server, metrics: Metrics | None) -> RequestMemory:
    log = ThrottledLog(logging.getLogger("parley.memory"))

    def report(error: Exception) -> None:
        if metrics is not None:
            metrics.count_memory_failure(type(error).__name__)
        # Its message may hold a part of the body.
        place = traceback.extract_tb(error.__traceback__)[-1]
        cause = f"{type(error).__name__} in {place.name}, line {place.lineno}"
        log.warn("what is remembered of a request could not be used, and its body was read as a whole", cause)

    if metrics is None:
        return RequestMemory(server.remembered_request_bytes, report=report)
    return RequestMemory(server.remembered_request_bytes, metrics.count_request_bytes, report)


async def _apply(settings: Settings, context: AppContext, resources: Resources, spans: "SpanWriter | None") -> None:
    limiter = context.limiter or make_limiter(settings, resources.storage.redis, resources.database)
    await resources.masking_key.load(resources.storage.state, settings)
    # In a thread, because a tokenizer file may be large.
    live = await asyncio.to_thread(make_live_configuration, settings, resources, limiter, context.live)
    before, after = list_spending_rules(context.settings), list_spending_rules(settings)
    spent = await _read_spending(context, [rule for counter, rule in after.items() if counter not in before])
    await _change_request_log(context, context.settings, settings)
    context.live = live
    if limiter is not None:
        limits, prices = make_model_limits(settings), find_highest_prices(settings)
        limiter.set_limits(make_limits(settings.limits), limits, prices, find_free_models(settings))
        await limiter.set_spent(spent)
    _set_servers(resources, live)
    set_tool_servers(context, settings)
    _observe_guards(context)
    resources.credentials.start()
    set_alert_receivers(context, resources, settings)
    start_tasks(context)
    logs.set_level(settings.server.log_level)
    if context.metrics is not None:
        context.metrics.set_names(live.registry.models(), _list_upstream_names(settings))
    if context.usage_ledger is not None:
        context.usage_ledger.set_models(live.registry.models())
    if spans is not None:
        spans.set_upstreams(_describe_upstreams(settings))


async def _read_spending(context: AppContext, rules: Sequence[Rule]) -> list[tuple[Rule, float]]:
    """Return what was spent until now, without requests in progress, of limits that begin to be counted."""
    if not rules or context.usage_ledger is None:
        return []
    context.ended.report()
    teams = {name: row.team for name, row in context.settings.keys.items() if row.team is not None}
    zone = context.settings.usage.zone
    return await asyncio.to_thread(read_spending, context.usage_ledger, rules, time.time(), zone, teams)


def _set_servers(resources: Resources, live: LiveConfiguration) -> None:
    """Set the upstreams whose states are kept and whose health is checked, and the issuers whose keys are fetched."""
    resources.upstreams.set_targets(live.registry.targets())
    resources.jwks.keep(list_jwks_locations(live.settings))
    resources.credentials.keep(list_credential_sources(live.settings).values())
    resources.health_checks.set_checks(_list_health_checks(live.settings, live.registry))


def _observe_guards(context: AppContext) -> None:
    if context.live.guards is not None and context.metrics is not None:
        context.live.guards.observer = context.metrics


def open_request_log(context: AppContext, settings: Settings) -> None:
    """Begin to log requests as the settings say, if at all. Nothing of it is imported before."""
    from app.config.request_log import make_request_log

    metrics = context.metrics
    context.request_log = make_request_log(settings, None if metrics is None else metrics.count_log_entries)
    if context.request_log is None:
        return
    context.request_log.start()
    if log_ended_request not in context.ended.observers:
        context.ended.observers.append(log_ended_request)


def log_ended_request(record: RequestRecord) -> None:
    """Give a request to the log with which it began: a reload may have replaced that."""
    if record.capture is not None:
        record.capture.log.end(record, record.capture)


async def _change_request_log(context: AppContext, before: Settings, after: Settings) -> None:
    old = context.request_log
    if before.request_log == after.request_log and old is not None:
        old.set_finder(*_make_log_finder(after))
    elif before.request_log != after.request_log:
        context.request_log = None
        open_request_log(context, after)
        if old is not None:
            await asyncio.to_thread(old.close)


def _make_log_finder(settings: Settings) -> "tuple[Find, BytesTest]":
    from app.config.request_log import make_log_finder, make_log_test

    return make_log_finder(settings), make_log_test(settings)


def set_alert_receivers(context: AppContext, resources: Resources, settings: Settings) -> None:
    """Send alerts to the receivers of the settings. Without any, nothing of it is imported."""
    if not settings.alerts and context.alerting is None:
        return
    from app.api.alerting import Alerting

    if context.alerting is None:
        context.alerting = Alerting(context, resources.database, resources.transport)
        context.ended.observers.append(context.alerting.rates.observe)
    context.alerting.configure(settings)


def set_tool_servers(context: AppContext, settings: Settings) -> None:
    """Use the servers of tools of the settings. Without any, nothing of it is imported."""
    if not settings.mcp_servers and context.tools is None:
        return
    from app.config.tool_servers import list_hosted_tools, list_model_tools, list_tool_servers
    from app.tools import McpServers

    tools = context.tools = context.tools or McpServers()
    bounds = ToolBounds(**settings.tools.model_dump())
    hosted = list_hosted_tools(settings)
    tools.configure(list_tool_servers(settings), list_model_tools(settings), bounds, context.metrics, hosted)


def _list_health_checks(settings: Settings, registry: ModelRegistry) -> list[HealthCheck]:
    rows = ((target, settings.upstreams[target.name]) for target in registry.targets())
    return [HealthCheck(target, row.health_path, row.health_seconds) for target, row in rows if row.health_path]


def _list_upstream_names(settings: Settings) -> list[str]:
    return [*settings.upstreams, *([DEMO] if settings.demo else [])]


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
