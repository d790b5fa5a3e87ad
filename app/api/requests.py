"""`/v1/requests`: the request log. Administrators read all of it, and with `request_log.callers_read_own` keys their
own requests. Reading bodies and deleting leave a line in the audit log."""

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import Field

from app.access.caller import Caller
from app.api.admin import check_admin
from app.api.application import get_context
from app.api.audit import log_admin_action
from app.api.context import AppContext
from app.errors import NotFound, StoreDown
from app.formats.openapi import Described, describe, give_examples

if TYPE_CHECKING:
    from app.observe.request_log.entry import LoggedRequest
    from app.observe.request_log.log import RequestLog

router = APIRouter()
MAX_LISTED = 200
_RESPONSES = describe(403, 404, 422, 503)
_OF_LOG: dict[str, Any] = {"tags": ["requests"], "responses": _RESPONSES}
_FIGURES: dict[str, Any] = {
    "id": "17",
    "request_id": "req-0f3c",
    "endpoint": "completions",
    "started_at": 1795900000.5,
    "seconds": 1.25,
    "status": 200,
    "key": "app",
    "team": "",
    "user": "",
    "model": "large",
    "requested_model": "large",
    "fallback_model": None,
    "route": "",
    "stream": True,
    "error": None,
    "error_from_upstream": False,
    "finish_reason": "stop",
    "output": None,
    "cache": "miss",
    "cost": 0.0024,
    "tokens": {
        "input": 1000,
        "output": 100,
        "cached_input": 400,
        "cache_write": 0,
        "reasoning": 0,
        "estimated": False,
    },
    "first_token_seconds": 0.4,
    "overhead_seconds": 0.001,
    "attempts": [{"upstream": "local", "outcome": "ok", "milliseconds": 350.5}],
    "warnings": [],
    "content": "masked",
    "bodies": [{"kind": "client_request", "bytes": 812, "is_cut": False}],
    "guards": "pii=masked:3 policy=pass",
}
_BODY: dict[str, Any] = {
    "kind": "client_request",
    "exchange": -1,
    "size": 812,
    "is_cut": False,
    "status": 0,
    "upstream": "",
    "path": "/v1/chat/completions",
    "headers": [["user-agent", "openai-python"]],
    "parts": [],
    "end": "",
    "text": '{"model": "large", "messages": […]}',
}


_EXPORTED: dict[str, Any] = {
    "application/json": {"schema": {"type": "object", "examples": [{"parley_report": 1}]}},
    "text/plain": {"schema": {"type": "string", "examples": ["curl -N …"]}},
}


class UsedTokens(Described):
    input: int
    output: int
    cached_input: int
    cache_write: int
    reasoning: int
    estimated: bool
    """Whether the model server reported none."""


class AttemptEntry(Described):
    upstream: str
    outcome: str
    """`ok`, the code of the fault, or `cancelled`."""
    milliseconds: float
    """Until the server began to answer, or failed."""
    model: str | None = None
    """The model that was tried, if it is not the one that was requested."""
    status: int | None = None
    cause: str | None = None
    reason: str | None = None


class BodySizes(Described):
    kind: Literal["client_request", "upstream_request", "upstream_reply", "client_reply"]
    bytes: int
    """As it was sent; what is kept may be less."""
    is_cut: bool


class RequestFigures(Described):
    model_config = give_examples(_FIGURES)

    id: str
    request_id: str
    """As in `x-request-id`. A client may use one more than once."""
    endpoint: str
    started_at: float
    """Unix seconds."""
    seconds: float
    status: int
    key: str
    """The name of the API key; empty without one."""
    team: str
    user: str
    """The end user behind the key, if the caller names its users."""
    model: str
    requested_model: str
    fallback_model: str | None = None
    route: str
    """How a virtual model chose the model."""
    stream: bool
    error: str | None = None
    """The code of the error, `caller_gone` if the client left; null for a whole reply."""
    error_from_upstream: bool
    finish_reason: str | None = None
    output: str | None = None
    """What the check of the reply against the request's JSON schema has found."""
    cache: str
    cost: float | None = None
    tokens: UsedTokens | None = None
    first_token_seconds: float | None = None
    overhead_seconds: float | None = None
    """The gateway's own part of the time to the first byte."""
    attempts: list[AttemptEntry]
    warnings: list[str]
    content: Literal["masked", "full", "none"]
    bodies: list[BodySizes]
    guards: str
    """What guards have said of the request, and whether one has refused the reply."""


class RequestList(Described):
    model_config = give_examples({"data": [_FIGURES], "next": "17"})

    data: list[RequestFigures]
    """The newest first."""
    next: str | None = None
    """The value of `before` for those that follow; null at the end."""


class RequestBody(Described):
    kind: Literal["client_request", "upstream_request", "upstream_reply", "client_reply"]
    exchange: int
    """The number of the request to a model server to which it belongs, from 0; -1 if the client sent or got it."""
    size: int
    """The bytes that were sent."""
    is_cut: bool
    status: int
    """Of a response; 0 if none came."""
    upstream: str
    path: str
    headers: list[tuple[str, str]]
    parts: list[tuple[float, int]]
    """The reads of a model server's response, or the writes to the client: milliseconds since the start of the request,
    and the bytes of `text`."""
    end: str
    """`end`, `cut` if the connection broke, or empty if the gateway stopped to read."""
    text: str


class RequestEntry(RequestFigures):
    model_config = give_examples({**_FIGURES, "parts": [_BODY]})

    parts: list[RequestBody] = Field(title="Bodies")
    """What the client sent, each request to a model server and its response, and what the client got."""


class DeletedRequests(Described):
    model_config = give_examples({"deleted": 1})

    deleted: int


@router.get(
    "/v1/requests",
    operation_id="list_requests",
    summary="List logged requests, the newest first, without their bodies",
    response_model=RequestList,
    **_OF_LOG,
)
async def list_requests(
    request: Request,
    key: Annotated[str | None, Query(description="Only requests with the key of this name")] = None,
    user: Annotated[str | None, Query(description="Only requests of this end user")] = None,
    model: Annotated[str | None, Query(description="Only requests for this model")] = None,
    endpoint: Annotated[str | None, Query(description="Only requests of this endpoint")] = None,
    status: Annotated[int | None, Query(description="Only requests with this HTTP status")] = None,
    error: Annotated[str | None, Query(description="Only requests with this error code")] = None,
    failed: Annotated[bool | None, Query(description="Only requests that failed, or only those that did not")] = None,
    cache: Annotated[str | None, Query(description="Only requests with this `x-parley-cache`")] = None,
    request_id: Annotated[str | None, Query(description="Only requests with this `x-request-id`")] = None,
    since: Annotated[float | None, Query(description="Only requests that ended at this Unix time or later")] = None,
    until: Annotated[float | None, Query(description="Only requests that ended before this Unix time")] = None,
    before: Annotated[str | None, Query(description="`next` of the list before", pattern="^[0-9]{1,18}$")] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_LISTED)] = 50,
) -> Any:
    from app.observe.request_log.file import Query as LogQuery

    context = get_context(request)
    log, owner = _open(request, context)
    query = LogQuery(
        key=key,
        user=user,
        owner=owner,
        model=model,
        endpoint=endpoint,
        status=status,
        error=error,
        cache=cache,
        request_id=request_id,
        failed=failed,
        since=since,
        until=until,
        before_id=None if before is None else int(before),
    )
    context.ended.report()
    found = await _call(log.find_entries, query, limit)
    return {
        "data": [_write_figures(entry) for entry in found],
        "next": str(found[-1].id) if len(found) == limit else None,
    }


@router.get(
    "/v1/requests/{id}",
    operation_id="get_request",
    summary="Show a logged request with its bodies",
    response_model=RequestEntry,
    **_OF_LOG,
)
async def get_request(request: Request, id: str) -> Any:
    _, entry = await _read(request, id)
    return {**_write_figures(entry), "parts": [_write_body(body) for body in entry.bodies]}


@router.delete("/v1/requests/{id}", operation_id="delete_request", summary="Delete a logged request", **_OF_LOG)
async def delete_request(request: Request, id: str) -> DeletedRequests:
    from app.observe.request_log.file import name_entry

    context = get_context(request)
    check_admin(request, context)
    log, owner = _open(request, context)
    deleted = await _call(log.delete, name_entry(id, owner))
    if not deleted:
        raise NotFound(f"no request {id[:100]!r} is logged")
    log_admin_action(request, "requests.delete", id[:100], deleted=deleted)
    return DeletedRequests(deleted=deleted)


@router.get(
    "/v1/requests/{id}/export",
    operation_id="export_request",
    summary="Write a logged request for other programs, without personal data",
    responses=_RESPONSES | {200: {"content": _EXPORTED}},
    tags=["requests"],
)
async def export_request(
    request: Request,
    id: str,
    form: Annotated[
        Literal["report", "har", "curl", "otel"],
        Query(alias="as", description="`report` is for `parley replay`, `har` is HAR 1.2, `otel` an event in JSON"),
    ] = "report",
) -> Response:
    from app.api.logged_exports import export

    _, entry = await _read(request, id)
    data = await asyncio.to_thread(export, entry, form, get_context(request).settings)
    name, kind = ("txt", "text/plain") if form == "curl" else ("har" if form == "har" else "json", "application/json")
    headers = {"content-disposition": f'attachment; filename="parley-{form}-{entry.id}.{name}"'}
    return Response(data, media_type=kind, headers=headers | {"cache-control": "no-store"})


async def _read(request: Request, id_: str) -> "tuple[RequestLog, LoggedRequest]":
    """Return an entry that the caller may read. Raises NotFound, Forbidden and StoreDown."""
    from app.observe.request_log.file import name_entry

    context = get_context(request)
    log, owner = _open(request, context)
    context.ended.report()
    found = await _call(log.find_entries, name_entry(id_, owner), 1)
    entry = await _call(log.read, found[0].id) if found else None
    if entry is None:
        raise NotFound(f"no request {id_[:100]!r} is logged")
    log_admin_action(request, "requests.read", str(entry.id), of=entry.figures.key)
    return log, entry


def _open(request: Request, context: AppContext) -> "tuple[RequestLog, str | None]":
    """Return the log, and the identity of the caller if only own requests may be read. Raises NotFound, Forbidden."""
    caller: Caller = request.state.caller
    settings = context.settings
    owner = None
    if not caller.admin and caller.identity and settings.request_log.callers_read_own:
        owner = caller.identity
    else:
        check_admin(request, context)
    log = context.request_log
    if log is None:
        raise NotFound('the request log is off: set request_log.keep to "errors", "sample" or "all"')
    return log, owner


async def _call(function: Any, *arguments: Any) -> Any:
    """Call a method of the log in a thread. Raises StoreDown."""
    from app.observe.request_log.file import LogFileError

    try:
        return await asyncio.to_thread(function, *arguments)
    except LogFileError as error:
        raise StoreDown(str(error)) from None


def _write_figures(entry: "LoggedRequest") -> dict[str, Any]:
    figures: dict[str, Any] = msgspec.to_builtins(entry.figures)
    del figures["owner"]
    return {"id": str(entry.id), **figures}


def _write_body(body: Any) -> dict[str, Any]:
    return {**msgspec.to_builtins(body.facts), "text": body.data.decode("utf-8", "replace")}
