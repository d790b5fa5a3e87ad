"""The headers of W3C Trace Context: which are valid, and what becomes of them."""

from typing import Any

import httpx
from app.observe.trace_context import SAMPLED, begin_trace, parse_traceparent, read_tracestate

from tests.in_process_gateway import SERVER, ModelServer, Running

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
HEADER = f"00-{TRACE}-{SPAN}-01"
BODY = {"messages": [{"role": "user", "content": "Hi"}]}

VALID = [
    HEADER,
    f"00-{TRACE}-{SPAN}-00",
    f"00-{TRACE}-{SPAN}-ff",
    f"cc-{TRACE}-{SPAN}-01",
    f"cc-{TRACE}-{SPAN}-01-more",
]
INVALID = [
    "",
    "x",
    f"00-{TRACE}-{SPAN}",
    f"00-{TRACE}-{SPAN}-01-more",
    f"ff-{TRACE}-{SPAN}-01",
    f"00-{TRACE.upper()}-{SPAN}-01",
    f"00-{'0' * 32}-{SPAN}-01",
    f"00-{TRACE}-{'0' * 16}-01",
    f"00-{TRACE}-{SPAN}-0x",
    f"00_{TRACE}_{SPAN}_01",
    f"{HEADER}, {HEADER}",
]


def sent(headers: dict[str, str], settings: dict[str, Any] = SERVER) -> httpx.Headers:
    """The headers that the model server gets."""
    server = ModelServer()
    with Running(settings, server) as gateway:
        assert gateway.post("/v1/chat", BODY, headers).status == 200
    (request,) = server.requests
    return request.headers


def test_only_valid_headers_are_parsed() -> None:
    for header in VALID:
        parsed = parse_traceparent(header.encode())
        assert parsed is not None, header
        assert (parsed.trace_id, parsed.span_id) == (TRACE, SPAN)
    for header in INVALID:
        assert parse_traceparent(header.encode()) is None, header


def test_the_lines_of_tracestate_are_joined_and_a_bad_value_is_dropped() -> None:
    def read(*values: bytes) -> bytes:
        return read_tracestate([(b"tracestate", value) for value in values])

    assert read(b"a=1", b"b=2") == b"a=1,b=2"
    assert read() == b""
    assert read(b"a=\xff") == b""
    assert read(b"a" * 512) == b"a" * 512
    assert read(b"a" * 513) == b""


def test_without_tracing_the_callers_headers_reach_the_model_server_unchanged() -> None:
    headers = sent({"traceparent": HEADER, "tracestate": "a=1"})
    assert (headers["traceparent"], headers["tracestate"]) == (HEADER, "a=1")
    for header in ("x", f"00-{'0' * 32}-{SPAN}-01"):
        assert "traceparent" not in (got := sent({"traceparent": header, "tracestate": "a=1"})), got
        assert "tracestate" not in got
    assert "traceparent" not in sent({"tracestate": "a=1"})


def test_the_caller_decides_whether_its_trace_is_recorded() -> None:
    for flags, ratio in [("01", 0.0), ("01", 1.0), ("00", 0.0), ("00", 1.0)]:
        trace = begin_trace(f"00-{TRACE}-{SPAN}-{flags}".encode(), (), "/v1/chat", ratio)
        assert trace.sampled is (flags == "01")
        ((name, value),) = trace.begin_attempt("local")
        assert (name, value[:36], value[-2:]) == (b"traceparent", f"00-{TRACE}-".encode(), flags.encode())
        assert SPAN.encode() not in value


def test_of_other_traces_the_configured_part_is_recorded() -> None:
    for ratio, least, most in [(0.0, 0, 0), (0.25, 150, 350), (1.0, 1000, 1000)]:
        sampled = sum(begin_trace(None, (), "/v1/chat", ratio).sampled for _ in range(1000))
        assert least <= sampled <= most
    assert SAMPLED == 1
