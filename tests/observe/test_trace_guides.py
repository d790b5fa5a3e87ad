"""The guide on traces: what each of its blocks makes the gateway send, to a collector over a real socket."""

import gzip
import re
import shlex
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from app.observe.tracing import make_otlp_exporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.in_process_gateway import SERVER, ModelServer, Running

PAGE = (Path(__file__).parents[2] / "docs/guides/traces.md").read_text("utf-8")
BLOCKS = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


class Received(NamedTuple):
    path: str
    headers: dict[str, str]
    body: ExportTraceServiceRequest


@contextmanager
def collector() -> Iterator[tuple[str, list[Received]]]:
    received: list[Received] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["content-length"]))
            data = gzip.decompress(data) if self.headers["content-encoding"] == "gzip" else data
            headers = {name.lower(): value for name, value in self.headers.items()}
            received.append(Received(self.path, headers, ExportTraceServiceRequest.FromString(data)))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", received
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def read_variables(block: str) -> dict[str, str]:
    """Run a block, without the gateway, and return what it exports."""
    script = block.replace("parley serve", "env")
    shown = subprocess.run(
        ["sh", "-c", script], env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=True
    )
    lines = dict(line.split("=", 1) for line in shown.stdout.splitlines() if "=" in line)
    return {name: value for name, value in lines.items() if name.startswith(("OTEL_", "PARLEY_"))}


def find_spans(received: Received) -> list[Any]:
    return [span for resource in received.body.resource_spans for scope in resource.scope_spans for span in scope.spans]


@pytest.mark.parametrize(
    ("number", "path", "headers"),
    [
        (
            0,
            "/api/public/otel/v1/traces",
            {
                "authorization": "Basic cGstbGYtMTIzNDU2Nzg5MDpzay1sZi0xMjM0NTY3ODkw",
                "x-langfuse-ingestion-version": "4",
            },
        ),
        (1, "/v1/traces", {"authorization": "Bearer px-1234567890"}),
        (2, "/v1/traces", {}),
        (3, "/otlp/v1/traces", {"authorization": "Basic MTIzNDU2OmdsY18xMjM0NTY3ODkw"}),
    ],
    ids=["langfuse", "phoenix", "tempo", "grafana cloud"],
)
def test_each_block_sends_spans_where_and_as_the_service_takes_them(
    number: int, path: str, headers: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = read_variables(BLOCKS[number])
    captures = variables.pop("PARLEY_TRACING__CAPTURE_CONTENT", "") == "true"
    with collector() as (url, received):
        for name, value in variables.items():
            monkeypatch.setenv(name, re.sub(r"https?://[^/]+", url, value))
        tracing = {"enabled": True, "capture_content": captures}
        settings = {**SERVER, "tracing": tracing}
        with Running(settings, ModelServer(), make_span_exporter=make_otlp_exporter) as gateway:
            gateway.post("/v1/chat", {"messages": [{"role": "user", "content": "a prompt"}]})
    (one,) = received
    assert one.path == path and headers.items() <= one.headers.items()
    assert sorted(span.name for span in find_spans(one)) == ["POST /v1/chat", "chat m"]
    assert ("a prompt" in str(one.body)) is captures
    resource = {row.key: row.value.string_value for row in one.body.resource_spans[0].resource.attributes}
    given = dict(item.split("=", 1) for item in shlex.split(variables.get("OTEL_RESOURCE_ATTRIBUTES", "")))
    assert resource["service.name"] == "parley" and given.items() <= resource.items()
