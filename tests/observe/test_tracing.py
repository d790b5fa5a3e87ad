"""Spans of requests, as OpenTelemetry's in-memory exporter gets them."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

import httpx
import pytest
from app.chat.stream import Attempt
from app.chat.token_usage import TokenUsage
from app.observe.request_record import RequestRecord
from app.observe.trace_context import begin_trace
from app.observe.tracing import SpanWriter
from app.upstream.http.transport import UpstreamTransport
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from tests.httpx_upstream import HttpxUpstream
from tests.in_process_gateway import HELLO, SERVER, STOP, ModelServer, Running, streamed

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
BODY = {"messages": [{"role": "user", "content": "s3cret prompt"}]}
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}\n\n'
TRACING = {**SERVER, "tracing": {"enabled": True}}


def traced(
    settings: dict[str, Any], server: UpstreamTransport, bodies: Sequence[Any], headers: dict[str, str]
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


class OtherGateway(HttpxUpstream):
    """A model server that is another gateway."""

    def __init__(self, gateway: Running) -> None:
        self._gateway = gateway

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        body = await request.aread()
        answer = await self._gateway.ask_async(
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
        "import sys, json; from app.main import create_app; from app.config.settings import Settings; "
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


class Blocked(InMemorySpanExporter):
    """Its collector takes nothing until `release`."""

    def __init__(self) -> None:
        super().__init__()
        self.release = threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.release.wait(30)
        return super().export(spans)


def test_a_collector_that_takes_nothing_does_not_hold_up_the_shutdown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("WARNING", "parley.tracing")
    exporter = Blocked()
    writer = SpanWriter(exporter, {}, shutdown_seconds=0.05)
    record = RequestRecord("req-1", "chat", trace=begin_trace(None, (), "/v1/chat", 1.0))
    writer.observe_request(record)
    started = time.monotonic()
    writer.shutdown()
    assert time.monotonic() - started < 5
    assert [one.getMessage() for one in caplog.records if one.name == "parley.tracing"] == [
        "the last spans were not sent: the collector did not take them within 0.05 s"
    ]
    exporter.release.set()


CAPTURING = {**SERVER, "tracing": {"enabled": True, "capture_content": True}}
CONVERSATION = {
    "format": "openai",
    "stream": True,
    "messages": [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Look:"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGVsbG8="}},
                {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
            ],
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": 1}'}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "a cat"},
    ],
}
INPUT = [
    {"role": "system", "parts": [{"type": "text", "content": "Be brief."}]},
    {
        "role": "user",
        "parts": [
            {"type": "text", "content": "Look:"},
            {"type": "blob", "modality": "image", "mime_type": "image/png", "content": ""},
            {"type": "uri", "modality": "image", "mime_type": None, "uri": "https://example.com/a.png"},
        ],
    },
    {"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "look", "arguments": {"at": 1}}]},
    {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "a cat"}]},
]


def test_prompts_and_replies_are_in_spans_only_if_the_operator_wants_them() -> None:
    think = b'data: {"choices":[{"index":0,"delta":{"reasoning_content":"Hm"}}]}\n\n'
    call = (
        b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c2","function":'
        b'{"name":"look","arguments":"{\\"at\\": 2}"}}]}}]}\n\n'
    )
    pieces = (think, HELLO, call, STOP.replace(b'"stop"', b'"tool_calls"'))
    for stream in (True, False):
        body = {**CONVERSATION, "stream": stream}
        request, attempt = traced(CAPTURING, ModelServer(lambda _: streamed(*pieces)), [body], {})
        assert json.loads(attributes(attempt)["gen_ai.input.messages"]) == INPUT
        assert json.loads(attributes(attempt)["gen_ai.output.messages"]) == [
            {
                "role": "assistant",
                "parts": [
                    {"type": "reasoning", "content": "Hm"},
                    {"type": "text", "content": "Hello"},
                    {"type": "tool_call", "id": "c2", "name": "look", "arguments": {"at": 2}},
                ],
                "finish_reason": "tool_call",
            }
        ]
        assert "gen_ai.input.messages" not in attributes(request)
        for span in traced(TRACING, ModelServer(lambda _: streamed(*pieces)), [body], {}):
            assert not {"gen_ai.input.messages", "gen_ai.output.messages"} & attributes(span).keys()


def test_a_reply_that_breaks_is_captured_as_far_as_it_came_and_one_that_is_not_recorded_is_not() -> None:
    body = {**BODY, "stream": True}
    _, attempt = traced(CAPTURING, ModelServer(lambda _: streamed(HELLO)), [body], {})
    (output,) = json.loads(attributes(attempt)["gen_ai.output.messages"])
    assert output == {
        "role": "assistant",
        "parts": [{"type": "text", "content": "Hello"}],
        "finish_reason": "error",
    }
    not_sampled = {"traceparent": f"00-{TRACE}-{SPAN}-00"}
    records: list[RequestRecord] = []
    with Running(CAPTURING, ModelServer(), make_span_exporter=InMemorySpanExporter) as gateway:
        gateway.context.ended.observers.append(records.append)
        assert gateway.post("/v1/chat", body, not_sampled).status == 200
    assert [record.content for record in records] == [None]
