"""Spans of requests, as OpenTelemetry's in-memory exporter gets them."""

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import httpx
from app.chat.stream import Attempt
from app.chat.token_usage import TokenUsage
from app.observe.request_record import RequestRecord
from app.observe.trace_context import begin_trace
from app.observe.tracing import SpanWriter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from tests.in_process_gateway import HELLO, SERVER, STOP, ModelServer, Running, streamed

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
BODY = {"messages": [{"role": "user", "content": "s3cret prompt"}]}
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}\n\n'
TRACING = {**SERVER, "tracing": {"enabled": True}}


def traced(
    settings: dict[str, Any], server: httpx.AsyncBaseTransport, bodies: Sequence[Any], headers: dict[str, str]
) -> list[ReadableSpan]:
    """The spans of these requests, in the order of their start."""
    exporter = InMemorySpanExporter()
    with Running(settings, server, make_span_exporter=lambda: exporter) as gateway:
        for body in bodies:
            gateway.post("/v1/chat", body, headers)
    return sorted(exporter.get_finished_spans(), key=lambda span: (span.start_time or 0, span.kind.value))


def id_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return int(span.context.span_id)


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


class OtherGateway(httpx.AsyncBaseTransport):
    """A model server that is another gateway."""

    def __init__(self, gateway: Running) -> None:
        self._gateway = gateway

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        body = await request.aread()
        answer = await self._gateway.asked(
            "POST", request.url.path, [body], dict(request.headers) | {"host": "localhost"}
        )
        return httpx.Response(answer.status, headers=answer.header_lines, content=answer.body)


def test_a_request_through_two_gateways_is_one_connected_trace() -> None:
    model = ModelServer()
    inner = InMemorySpanExporter()
    with Running(TRACING, model, make_span_exporter=lambda: inner) as gateway:
        exporter = InMemorySpanExporter()
        outer = Running(TRACING, OtherGateway(gateway), make_span_exporter=lambda: exporter, loop=gateway.loop)
        with outer:
            answer = outer.post("/v1/chat", BODY, {"traceparent": f"00-{TRACE}-{SPAN}-01", "tracestate": "a=1"})
            assert answer.status == 200, answer.body
    spans = [*exporter.get_finished_spans(), *inner.get_finished_spans()]
    assert {span.context.trace_id for span in spans if span.context} == {int(TRACE, 16)}
    by_parent = {span.parent.span_id: span for span in spans if span.parent}
    chain, parent = [], int(SPAN, 16)
    while parent in by_parent:
        chain.append(by_parent[parent])
        parent = id_of(chain[-1])
    assert [span.kind for span in chain] == [SpanKind.SERVER, SpanKind.CLIENT] * 2
    assert len(spans) == len(chain)
    (request,) = model.requests
    assert request.headers["traceparent"] == f"00-{TRACE}-{parent:016x}-01"
    assert request.headers["tracestate"] == "a=1"


def test_the_spans_have_the_attributes_of_the_conventions_and_no_content() -> None:
    reply = streamed(HELLO, STOP.replace(b"data: [DONE]", USAGE + b"data: [DONE]"))
    upstream = {"base_url": "http://model.test:8001/v1", "kind": "mistral"}
    settings = {
        "upstreams": {"local": upstream},
        "models": {"m": {"upstreams": ["local"], "name": "org/model"}},
        "tracing": {"enabled": True},
    }
    server, client = traced(settings, ModelServer(lambda _: reply), [BODY], {"x-request-id": "mine"})
    assert (server.name, server.kind, server.parent) == ("POST /v1/chat", SpanKind.SERVER, None)
    assert attributes(server) == {
        "http.request.method": "POST",
        "http.route": "/v1/chat",
        "url.path": "/v1/chat",
        "http.response.status_code": 200,
        "parley.request_id": "mine",
        "parley.endpoint": "chat",
        "parley.model": "m",
        "parley.cache": "bypass",
    }
    assert (client.name, client.kind) == ("chat m", SpanKind.CLIENT)
    assert client.parent is not None
    assert client.parent.span_id == id_of(server)
    found = attributes(client)
    assert found.pop("gen_ai.response.time_to_first_chunk") > 0
    assert found == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "mistral_ai",
        "gen_ai.request.model": "org/model",
        "gen_ai.request.stream": True,
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 3,
        "gen_ai.usage.output_tokens": 2,
        "server.address": "model.test",
        "server.port": 8001,
        "parley.upstream": "local",
    }
    assert "s3cret" not in server.to_json() + client.to_json()
    assert server.start_time is not None and client.start_time is not None
    assert server.start_time <= client.start_time
    assert server.end_time == client.end_time


def test_each_request_to_a_model_server_has_its_own_span_with_its_error() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(500) if request.url.host == "down.test" else streamed(HELLO, STOP)

    settings = {
        "upstreams": {name: {"base_url": f"http://{name}.test/v1"} for name in ("down", "local")},
        "models": {"m": {"upstreams": ["down", {"name": "local", "priority": 2}]}},
        "tracing": {"enabled": True},
    }
    model = ModelServer(answer)
    server, first, second = traced(settings, model, [BODY], {})
    assert [attributes(span).get("error.type") for span in (server, first, second)] == [None, "error_status", None]
    assert [span.status.status_code for span in (first, second)] == [StatusCode.ERROR, StatusCode.UNSET]
    sent = [int(request.headers["traceparent"].split("-")[2], 16) for request in model.requests]
    assert sent == [id_of(first), id_of(second)]


def test_only_faults_of_the_gateway_or_a_server_make_a_request_an_error() -> None:
    spans = traced(TRACING, ModelServer(lambda _: streamed(HELLO)), [{**BODY, "model": "x"}, BODY], {})
    rejected, broken, attempt = spans
    assert attributes(rejected)["error.type"] == "unknown_model"
    assert rejected.status.status_code == StatusCode.UNSET
    assert attributes(broken)["error.type"] == "upstream_incomplete"
    assert broken.status.status_code == StatusCode.ERROR
    assert attributes(attempt)["error.type"] == "reply_not_finished"


def test_a_trace_that_is_not_sampled_is_not_exported_and_the_model_server_knows() -> None:
    model = ModelServer()
    assert traced({**SERVER, "tracing": {"enabled": True, "sample_ratio": 0}}, model, [BODY], {}) == []
    assert model.requests[0].headers["traceparent"].endswith("-00")


def test_without_tracing_the_sdk_of_opentelemetry_is_not_imported() -> None:
    """FastAPI imports its API if it is there."""
    program = (
        "import sys, json; from app.main import create_app; from app.settings import Settings; "
        "create_app(Settings(demo=True)); "
        "print(json.dumps([name for name in sys.modules if name.startswith('opentelemetry.')]))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    found = {name.split(".")[1] for name in json.loads(done.stdout)}
    assert not found & {"sdk", "exporter", "proto"}


def test_a_request_that_lost_against_a_hedge_is_no_error_and_has_no_usage() -> None:
    exporter = InMemorySpanExporter()
    writer = SpanWriter(exporter, {})
    record = RequestRecord("r", "chat", model="m", status=200, cache="bypass", finish_reason="stop", duration=2.0)
    record.tokens = TokenUsage(input=3, output=2)
    trace = record.trace = begin_trace(None, (), "/v1/chat", 1.0)
    for upstream in ("slow", "quick"):
        trace.begin_attempt(upstream)
    record.attempts = [Attempt("slow", "", 500.0, outcome="cancelled"), Attempt("quick", "", 100.0)]
    writer.observe_request(record)
    writer.shutdown()
    slow, quick, _ = exporter.get_finished_spans()
    assert attributes(slow) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.stream": False,
        "parley.upstream": "slow",
        "parley.outcome": "cancelled",
    }
    assert slow.status.status_code == StatusCode.UNSET
    assert (slow.end_time or 0) - (slow.start_time or 0) == 500_000_000
    assert attributes(quick)["gen_ai.usage.output_tokens"] == 2
