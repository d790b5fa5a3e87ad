"""Load, model servers, cache, limits and last requests of one process: `GET /v1/status`, and `GET /v1/status/events`,
which sends them again whenever they change."""

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Literal, TypeAlias

from fastapi import APIRouter, Request
from msgspec.structs import asdict
from sse_starlette import EventSourceResponse, ServerSentEvent
from sse_starlette.sse import AppStatus

from app import __version__
from app.api.admin import CacheStats, UpstreamStatus, check_admin, describe_cache, list_upstreams
from app.api.application import get_context
from app.api.context import STATUS_SECONDS, AppContext
from app.errors import Responsible, find_responsible
from app.formats.openapi import Described, describe, event_stream, give_examples
from app.limits.values import Kind
from app.observe.request_record import RequestRecord
from app.stores import StoreError
from app.upstream.causes import NETWORK_WORDS

if TYPE_CHECKING:
    from app.tools import ServerStatus

router = APIRouter()

FaultPlace: TypeAlias = Literal[Responsible, "network"]
"""Where a request failed; `network` is between the gateway and the model server."""


class RequestLoad(Described):
    in_progress: int
    queued: int
    max_concurrent: int


class LimitStatus(Described):
    owner: str
    """`the gateway`, `the model 'qwen3'` or `the API key 'alice'`."""
    kind: Kind
    limit: float
    used: float


class ToolServerStatus(Described):
    """A server of tools that the gateway runs, without its command or address."""

    name: str
    state: Literal["idle", "starting", "up", "down"]
    """`idle`: no request has needed it yet."""
    error: str | None = None
    """Why it is down."""
    tools: list[str]
    """The names of the tools that requests can use, as far as they are known."""
    calls: int
    """In progress."""
    starts: int


class RequestStatus(Described):
    """One request that has ended, without its prompt and its reply."""

    ended_at: float
    request_id: str
    endpoint: str
    key: str
    model: str
    stream: bool
    status: int
    error: str | None
    error_from_upstream: bool
    """`error` is the model server's: a code like `overloaded` can also be the gateway's own."""
    responsible: FaultPlace | None
    """Whose fault `error` is: the caller's, the policy's (the operator's rules), the model server's (`upstream`), the
    gateway's, or the network's between gateway and model server. Null without an error."""
    finish_reason: str | None
    cache: str
    milliseconds: float
    first_token_ms: float | None
    input_tokens: int | None
    output_tokens: int | None
    cost: float | None
    attempts: list[str]
    """The upstreams that were tried, each as `name: outcome`."""


class GatewayStatus(Described):
    model_config = give_examples(
        {
            "version": "0.1.0",
            "draining": False,
            "load": {"in_progress": 1, "queued": 0, "max_concurrent": 1000},
            "upstreams": [],
            "cache": {"entries": 0, "bytes": 0, "models": {}, "requests": {}},
            "limits": [{"owner": "the API key 'alice'", "kind": "requests_per_minute", "limit": 60, "used": 1}],
            "mcp_servers": [
                {"name": "time", "state": "up", "error": None, "tools": ["get_current_time"], "calls": 0, "starts": 1}
            ],
            "requests": [],
        }
    )

    version: str
    draining: bool
    load: RequestLoad
    upstreams: list[UpstreamStatus]
    cache: CacheStats | None
    """None if the store cannot be reached."""
    cache_error: str | None = None
    limits: list[LimitStatus]
    mcp_servers: list[ToolServerStatus]
    requests: list[RequestStatus]
    """The last 50, newest first."""


def check_operator(request: Request, context: AppContext) -> None:
    """Check that the caller may see what the gateway does. On a gateway that only this machine can reach everyone may;
    else only an administrator. Raises Forbidden."""
    if not context.settings.serves_this_machine_only:
        check_admin(request, context)


@router.get(
    "/v1/status",
    tags=["upstreams"],
    operation_id="get_status",
    summary="Show load, model servers, cache, limits and the last requests",
    responses=describe(403),
)
async def status(request: Request) -> GatewayStatus:
    context = get_context(request)
    check_operator(request, context)
    return await _describe_status(context)


@router.get(
    "/v1/status/events",
    tags=["upstreams"],
    operation_id="follow_status",
    summary="Follow the status: an event now, and whenever it has changed, at most one a second",
    response_class=EventSourceResponse,
    responses={
        200: {
            "description": "The status, until the gateway shuts down",
            "content": event_stream("GatewayStatus"),
        },
        **describe(403),
    },
)
async def status_events(request: Request) -> EventSourceResponse:
    context = get_context(request)
    check_operator(request, context)
    server = context.server
    return EventSourceResponse(
        _follow_status(context),
        sep="\n",
        ping=server.heartbeat_seconds,
        ping_message_factory=lambda: ServerSentEvent(comment="keepalive", sep="\n"),
        send_timeout=server.stall_seconds,
        shutdown_grace_period=2 * STATUS_SECONDS,  # the last event is sent, and the stream is not cut
    )


async def _follow_status(context: AppContext) -> AsyncIterator[ServerSentEvent]:
    """Yield the status whenever it has changed, until the gateway shuts down."""

    async def read() -> str:
        return (await _describe_status(context)).model_dump_json()

    sent = None
    while True:
        text = await context.status.get(read)
        if text != sent:
            yield ServerSentEvent(text, sep="\n")
            sent = text
        if context.draining or AppStatus.should_exit:  # sse-starlette sets the latter where uvicorn alone serves
            return
        await asyncio.sleep(STATUS_SECONDS)


async def _describe_status(context: AppContext) -> GatewayStatus:
    context.ended.report()
    cache, cache_error = None, None
    try:
        cache = await describe_cache(context)
    except StoreError as error:
        cache_error = str(error)
    return GatewayStatus(
        version=__version__,
        draining=context.draining,
        load=_describe_load(context),
        upstreams=list_upstreams(context, asyncio.get_running_loop().time()),
        cache=cache,
        cache_error=cache_error,
        limits=await _list_limits(context),
        mcp_servers=[
            _describe_tool_server(row) for row in (() if context.tools is None else context.tools.list_status())
        ],
        requests=[_describe_request(row) for row in context.recent.list_newest_first()],
    )


def _describe_load(context: AppContext) -> RequestLoad:
    return RequestLoad(
        in_progress=context.in_progress,
        queued=context.admission.queued,
        max_concurrent=context.server.max_concurrent_requests,
    )


def _describe_tool_server(row: "ServerStatus") -> ToolServerStatus:
    return ToolServerStatus(
        name=row.name,
        state=row.state,
        error=row.error,
        tools=list(row.tools),
        calls=row.calls,
        starts=row.starts,
    )


def _describe_request(row: RequestRecord) -> RequestStatus:
    tokens, first = row.tokens, row.first_token_seconds
    return RequestStatus(
        ended_at=row.ended_at,
        request_id=row.request_id,
        endpoint=row.endpoint,
        key=row.caller,
        model=row.model,
        stream=row.stream,
        status=row.status,
        error=row.error,
        error_from_upstream=row.error_from_upstream,
        responsible=_find_place(row),
        finish_reason=row.finish_reason,
        cache=row.cache,
        milliseconds=round(row.duration * 1000, 1),
        first_token_ms=None if first is None else round(first * 1000, 1),
        input_tokens=None if tokens is None else tokens.input,
        output_tokens=None if tokens is None else tokens.output,
        cost=row.cost,
        attempts=[f"{attempt.upstream}: {attempt.outcome}" for attempt in row.attempts],
    )


def _find_place(row: RequestRecord) -> FaultPlace | None:
    if row.error is None:
        return None
    if row.error_from_upstream and row.attempts and row.attempts[-1].cause in NETWORK_WORDS:
        return "network"
    return find_responsible(row.error, from_upstream=row.error_from_upstream)


async def _list_limits(context: AppContext) -> list[LimitStatus]:
    if context.limiter is None:
        return []
    keys = context.live.rules.keys
    rows = await context.limiter.read(() if keys is None else keys.callers())
    return [LimitStatus(**asdict(row)) for row in rows]
