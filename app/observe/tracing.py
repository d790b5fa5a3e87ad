"""Spans for OpenTelemetry, written when a request has ended.

A request has one span of kind SERVER, and each request to a model server one of kind CLIENT with the attributes of
https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/. Their ids are chosen before (`trace_context`), because
the model server gets them in its request. Prompts and replies are recorded only with `tracing.capture_content`.

Only this module imports OpenTelemetry's SDK, and only a gateway with `tracing.enabled` imports this module.
"""

import logging
import threading
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct
from opentelemetry.context import Context
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    TraceState,
    set_span_in_context,
)
from opentelemetry.util.types import AttributeValue

from app import __version__
from app.chat.stream import Attempt
from app.errors import find_responsible
from app.observe.request_record import RequestRecord
from app.observe.trace_context import AttemptSpan, GuardSpan, RequestTrace, ToolSpan, TraceParent

log = logging.getLogger("parley.tracing")

SHUTDOWN_SECONDS = 1.5
"""A collector that is down must not hold up the shutdown: the exporter itself would try for 10 seconds."""
_PROVIDERS = {"gemini": "gcp.gemini", "mistral": "mistral_ai", "xai": "x_ai"}
"""The values of `gen_ai.provider.name` for those kinds of upstreams that have another name there."""


class TracedUpstream(Struct, frozen=True):
    kind: str
    base_url: str
    models: Mapping[str, str]
    """The name of each model at this upstream, by its configured name."""


class _ChosenIds(IdGenerator):
    """Returns the ids that were chosen when the request began."""

    trace_id = span_id = 0

    def generate_trace_id(self) -> int:
        return self.trace_id

    def generate_span_id(self) -> int:
        return self.span_id


class SpanWriter:
    """Writes the spans of each request; `observe_request` is a `RequestObserver`."""

    def __init__(
        self,
        exporter: SpanExporter,
        upstreams: Mapping[str, TracedUpstream],
        shutdown_seconds: float = SHUTDOWN_SECONDS,
    ) -> None:
        self._upstreams = upstreams
        self._shutdown_seconds = shutdown_seconds
        self._ids = _ChosenIds()
        self._provider = TracerProvider(
            sampler=ALWAYS_ON, id_generator=self._ids, resource=_make_resource(), shutdown_on_exit=False
        )
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("parley", __version__)

    def set_upstreams(self, upstreams: Mapping[str, TracedUpstream]) -> None:
        """Set the configured upstreams, after a reload of the configuration."""
        self._upstreams = upstreams

    def observe_request(self, record: RequestRecord) -> None:
        trace = record.trace
        if not isinstance(trace, RequestTrace) or not trace.sampled:
            return
        end_ns = trace.start_ns + int(record.duration * 1e9)
        self._ids.trace_id, self._ids.span_id = trace.trace_id, trace.span_id
        parent = _NO_PARENT if trace.parent is None else _make_parent(trace.parent, trace.tracestate)
        span = self._tracer.start_span(
            f"POST {trace.path}",
            context=set_span_in_context(parent),
            kind=SpanKind.SERVER,
            attributes=dict(_request_attributes(record, trace)),
            start_time=trace.start_ns,
        )
        context = set_span_in_context(span)
        for started, attempt in _match_attempts(trace.attempts, record):
            self._write_attempt(context, started, attempt, record, end_ns)
        for called in trace.tools:
            self._write_tool(context, called)
        for check in trace.guards:
            self._write_guard(context, check)
        if record.error is not None and _is_own_failure(record):
            span.set_status(Status(StatusCode.ERROR, record.error))
        span.end(end_ns)

    def _write_guard(self, context: Context, check: GuardSpan) -> None:
        self._ids.span_id = check.span_id
        span = self._tracer.start_span(
            f"guard {check.guard}",
            context=context,
            kind=SpanKind.INTERNAL,
            attributes={"parley.guard.name": check.guard, "parley.guard.phase": check.phase},
            start_time=check.start_ns,
        )
        if check.failed:
            span.set_attribute("error.type", "guard_error")
            span.set_status(Status(StatusCode.ERROR, "no verdict"))
        span.end(check.end_ns)

    def _write_tool(self, context: Context, called: ToolSpan) -> None:
        """Write the span of a tool that the gateway ran, as the conventions have it:
        https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/#execute-tool-span"""
        self._ids.span_id = called.span_id
        attributes: dict[str, AttributeValue] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": called.tool,
            "gen_ai.tool.call.id": called.call_id,
            "gen_ai.tool.type": "extension",
            "parley.tool.server": called.server,
        }
        if called.arguments is not None:
            attributes["gen_ai.tool.call.arguments"] = called.arguments
        if called.result is not None:
            attributes["gen_ai.tool.call.result"] = called.result
        if called.outcome != "ok":
            attributes["error.type"] = "tool_error"
        span = self._tracer.start_span(
            f"execute_tool {called.tool}",
            context=context,
            kind=SpanKind.INTERNAL,
            attributes=attributes,
            start_time=called.start_ns,
        )
        if called.outcome != "ok":
            span.set_status(Status(StatusCode.ERROR, called.outcome))
        span.end(called.end_ns)

    def _write_attempt(
        self, context: Context, started: AttemptSpan, attempt: Attempt | None, record: RequestRecord, end_ns: int
    ) -> None:
        """Write the span of a request to a model server. It ends with its failure, else with the caller's request."""
        failure = _find_failure(attempt, record)
        self._ids.span_id = started.span_id
        span = self._tracer.start_span(
            f"chat {_find_model(attempt, record)}",
            context=context,
            kind=SpanKind.CLIENT,
            attributes=dict(self._attempt_attributes(started, attempt, failure, record)),
            start_time=started.start_ns,
        )
        if failure is not None:
            span.set_status(Status(StatusCode.ERROR, failure))
        if attempt is not None and attempt.outcome != "ok":
            end_ns = started.start_ns + int(attempt.milliseconds * 1e6)
        span.end(end_ns)

    def _attempt_attributes(
        self, started: AttemptSpan, attempt: Attempt | None, failure: str | None, record: RequestRecord
    ) -> Iterator[tuple[str, AttributeValue]]:
        upstream = self._upstreams.get(started.upstream)
        model = _find_model(attempt, record)
        yield "gen_ai.operation.name", "chat"
        yield "parley.upstream", started.upstream
        yield "gen_ai.request.stream", record.stream
        if upstream is not None:
            yield "gen_ai.provider.name", _PROVIDERS.get(upstream.kind, upstream.kind)
            yield "gen_ai.request.model", upstream.models.get(model, model)
            yield from _address_attributes(upstream.base_url)
        content = record.content
        if content is not None:
            yield "gen_ai.input.messages", content.write_input()
        if failure is not None:
            yield "error.type", failure
        elif attempt is not None and attempt.outcome != "ok":
            yield "parley.outcome", attempt.outcome
        elif record.attempts and attempt is record.attempts[-1]:
            yield from _reply_attributes(record)
        if content is not None and content.has_reply and record.attempts and attempt is record.attempts[-1]:
            yield "gen_ai.output.messages", content.write_output(record.finish_reason)

    def shutdown(self) -> None:
        """Send the spans that are left. It waits for the collector for at most `shutdown_seconds`."""
        thread = threading.Thread(target=self._provider.shutdown, name="parley-spans", daemon=True)
        thread.start()
        thread.join(self._shutdown_seconds)
        if thread.is_alive():
            log.warning(
                "the last spans were not sent: the collector did not take them within %g s", self._shutdown_seconds
            )


_NO_PARENT = NonRecordingSpan(SpanContext(0, 0, is_remote=False))


def make_otlp_exporter() -> SpanExporter:
    """Return the exporter that the variables OTEL_EXPORTER_OTLP_* configure."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()


def _make_resource() -> Resource:
    """Return the resource of OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME; the default name is `parley`."""
    named = OTELResourceDetector().detect().attributes
    return Resource.create({"service.name": "parley", "service.version": __version__, **named})


def _make_parent(parent: TraceParent, tracestate: bytes) -> NonRecordingSpan:
    """Return the caller's span."""
    state = TraceState.from_header([tracestate.decode("ascii")]) if tracestate else None
    trace_id, span_id = int(parent.trace_id, 16), int(parent.span_id, 16)
    flags = TraceFlags(parent.flags)
    return NonRecordingSpan(SpanContext(trace_id, span_id, is_remote=True, trace_flags=flags, trace_state=state))


def _match_attempts(started: list[AttemptSpan], record: RequestRecord) -> Iterator[tuple[AttemptSpan, Attempt | None]]:
    """Pair each request to a model server with its result; None if it has none, because the client left before."""
    left = list(record.attempts)
    for span in started:
        found = next((attempt for attempt in left if attempt.upstream == span.upstream), None)
        if found is not None:
            left.remove(found)
        yield span, found


def _find_model(attempt: Attempt | None, record: RequestRecord) -> str:
    """Return the configured name of the model that was called."""
    return record.model if attempt is None or attempt.model is None else attempt.model


def _find_failure(attempt: Attempt | None, record: RequestRecord) -> str | None:
    """Return the value of `error.type`; None if the model server did not fail."""
    if attempt is None:
        return record.error
    if attempt.outcome == "cancelled":
        return None
    if attempt.cause is not None:
        return attempt.cause
    failure = record.upstream_failure
    if record.error is not None and record.error_from_upstream and attempt is record.attempts[-1]:
        return record.error if failure is None or failure.cause is None else failure.cause
    return None


def _is_own_failure(record: RequestRecord) -> bool:
    """Whether the request failed by a fault of the gateway or of a model server: a caller's mistake is no error of a
    server's span."""
    assert record.error is not None
    return find_responsible(record.error, from_upstream=record.error_from_upstream) in ("gateway", "upstream")


def _request_attributes(record: RequestRecord, trace: RequestTrace) -> Iterator[tuple[str, AttributeValue]]:
    yield "http.request.method", "POST"
    yield "http.route", trace.path
    yield "url.path", trace.path
    yield "parley.request_id", record.request_id
    yield "parley.endpoint", record.endpoint
    optional: dict[str, Any] = {
        "http.response.status_code": record.status or None,
        "error.type": record.error,
        "parley.model": record.model or None,
        "parley.route": record.route or None,
        "parley.fallback_model": record.fallback_model,
        "parley.key": record.caller or None,
        "parley.cache": record.cache or None,
        "parley.cost": record.cost or None,
    }
    yield from ((name, value) for name, value in optional.items() if value is not None)


def _reply_attributes(record: RequestRecord) -> Iterator[tuple[str, AttributeValue]]:
    if record.finish_reason is not None:
        yield "gen_ai.response.finish_reasons", (record.finish_reason,)
    if record.first_token_seconds is not None:
        yield "gen_ai.response.time_to_first_chunk", record.first_token_seconds
    tokens = record.tokens
    if tokens is not None:
        yield "gen_ai.usage.input_tokens", tokens.input
        yield "gen_ai.usage.output_tokens", tokens.output
        if tokens.cached_input:
            yield "gen_ai.usage.cache_read.input_tokens", tokens.cached_input
        if tokens.cache_write:
            yield "gen_ai.usage.cache_creation.input_tokens", tokens.cache_write
        if tokens.reasoning:
            yield "gen_ai.usage.reasoning.output_tokens", tokens.reasoning


def _address_attributes(base_url: str) -> Iterator[tuple[str, AttributeValue]]:
    parts = urlsplit(base_url)
    if parts.hostname:
        yield "server.address", parts.hostname
        yield "server.port", parts.port or (443 if parts.scheme == "https" else 80)
