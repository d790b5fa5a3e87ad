"""The trace that a request belongs to, as the headers `traceparent` and `tracestate` say it.

https://www.w3.org/TR/trace-context/ (level 1). Nothing here needs OpenTelemetry.
"""

import os
import re
import time
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from msgspec import Struct, field

HeaderLines: TypeAlias = Sequence[tuple[bytes, bytes]]

SAMPLED = 1
"""The flag of a trace that is recorded."""
MAX_STATE_BYTES = 512
"""A longer `tracestate` is not passed on: section 3.3.1.5 asks for at least so much."""

_TRACEPARENT = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_STATE = re.compile(rb"[\x20-\x7e\t]*")


class TraceParent(Struct, frozen=True):
    """The caller's span."""

    trace_id: str
    span_id: str
    flags: int
    header: bytes
    """As the caller sent it."""


def parse_traceparent(value: bytes) -> TraceParent | None:
    """Return None for a header that is not valid: then the request begins a trace of its own."""
    match = _TRACEPARENT.fullmatch(value.strip())
    if match is None:
        return None
    version, trace_id, span_id, flags, rest = match.groups()
    if version == b"ff" or (version == b"00" and rest) or not trace_id.strip(b"0") or not span_id.strip(b"0"):
        return None
    return TraceParent(trace_id.decode(), span_id.decode(), int(flags, 16), value.strip())


def read_tracestate(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return the header `tracestate`, its lines joined; empty if it is absent, too long or has invalid characters."""
    value = b",".join([value for name, value in headers if name == b"tracestate"])
    return value if len(value) <= MAX_STATE_BYTES and _STATE.fullmatch(value) else b""


def make_headers(traceparent: bytes, tracestate: bytes) -> HeaderLines:
    return [(b"traceparent", traceparent), *([(b"tracestate", tracestate)] if tracestate else [])]


class PassedTrace(Struct, frozen=True):
    """The caller's headers, which go to the model server unchanged: this gateway records no spans."""

    headers: HeaderLines

    def begin_attempt(self, upstream: str) -> HeaderLines:
        return self.headers


class AttemptSpan(Struct, frozen=True):
    upstream: str
    span_id: int
    start_ns: int
    """Unix time."""


class ToolSpan(Struct, frozen=True):
    """A call of a tool that the gateway ran."""

    span_id: int
    call_id: str
    server: str
    tool: str
    outcome: str
    start_ns: int
    """Unix time."""
    end_ns: int
    arguments: str | None = None
    """None unless spans have the content of requests."""
    result: str | None = None


class GuardSpan(Struct, frozen=True):
    """A check by a guard that is a service."""

    span_id: int
    guard: str
    phase: str
    failed: bool
    start_ns: int
    """Unix time."""
    end_ns: int


class RequestTrace(Struct, eq=False):
    """The spans of one request, while it runs: their ids are needed before they end."""

    trace_id: int
    span_id: int
    sampled: bool
    parent: TraceParent | None
    path: str
    """Of the caller's request."""
    tracestate: bytes = b""
    start_ns: int = field(default_factory=time.time_ns)
    """Unix time."""
    attempts: list[AttemptSpan] = field(default_factory=list)
    tools: list[ToolSpan] = field(default_factory=list)
    guards: list[GuardSpan] = field(default_factory=list)

    def begin_attempt(self, upstream: str) -> HeaderLines:
        """Begin the span of a request to a model server, and return its headers."""
        span = AttemptSpan(upstream, new_span_id(), time.time_ns())
        self.attempts.append(span)
        return make_headers(self.write_traceparent(span.span_id), self.tracestate)

    def write_traceparent(self, span_id: int) -> bytes:
        """Return the header of what is called within a span."""
        return b"00-%032x-%016x-%02x" % (self.trace_id, span_id, SAMPLED if self.sampled else 0)


def begin_trace(
    traceparent: bytes | None, headers: Iterable[tuple[bytes, bytes]], path: str, sample_ratio: float
) -> RequestTrace:
    """Begin the span of a request. The caller decides whether the trace is recorded; without a caller's trace,
    `sample_ratio` of all traces are."""
    parent = None if traceparent is None else parse_traceparent(traceparent)
    if parent is not None:
        sampled = bool(parent.flags & SAMPLED)
        return RequestTrace(int(parent.trace_id, 16), new_span_id(), sampled, parent, path, read_tracestate(headers))
    trace_id = int.from_bytes(os.urandom(16)) or 1
    sampled = (trace_id & _LOW_64) < sample_ratio * (_LOW_64 + 1)
    return RequestTrace(trace_id, new_span_id(), sampled, None, path)


def pass_trace(traceparent: bytes, headers: Iterable[tuple[bytes, bytes]]) -> PassedTrace | None:
    """Return the caller's headers for the model server; None if they are not valid."""
    parent = parse_traceparent(traceparent)
    return None if parent is None else PassedTrace(make_headers(parent.header, read_tracestate(headers)))


_LOW_64 = 2**64 - 1


def new_span_id() -> int:
    return int.from_bytes(os.urandom(8)) or 1
