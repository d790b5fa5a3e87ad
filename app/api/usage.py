"""`GET /v1/usage`: totals of usage and cost by day, key, team, user, model and tag, and the observer that counts
requests."""

import asyncio
import time
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import Field

from app.access.caller import Caller
from app.api.admin import check_admin
from app.api.application import get_context
from app.api.context import AppContext
from app.errors import BadRequest, Forbidden, InvalidInput, NotFound, StoreDown, Violation
from app.formats.openapi import Described, describe, give_examples
from app.limits.values import describe_caller
from app.observe.request_record import RequestObserver, RequestRecord
from app.state import StateError
from app.usage.ledger import TooManyRows, UsageLedger, name_day
from app.usage.report import parse_query, report_usage, write_csv
from app.usage.totals import Totals

router = APIRouter()
_NUMBERS: dict[str, Any] = {
    "requests": 3,
    "errors": 0,
    "cache_hits": 2,
    "estimated_requests": 0,
    "input_tokens": 1000,
    "cached_input_tokens": 400,
    "output_tokens": 100,
    "reasoning_tokens": 0,
    "saved_tokens": 2200,
    "cost": 0.0024,
    "searches": 0,
    "fetches": 0,
}
_CSV = {"type": "string", "examples": ["model,requests,errors,…,cost,searches,fetches\r\nlarge,3,0,…,0.0024,0,0\r\n"]}


class UsageNumbers(Described):
    requests: int
    errors: int
    """Requests that ended with an error; a client that left is none."""
    cache_hits: int
    """Requests that made no call to a model: from the cache, or by the call of an identical request. They cost
    nothing."""
    estimated_requests: int
    """Requests whose tokens are an estimate, because the model server reported none."""
    input_tokens: int
    cached_input_tokens: int
    """Those of `input_tokens` that the model server read from its own cache."""
    output_tokens: int
    reasoning_tokens: int
    """Those of `output_tokens` that are reasoning."""
    saved_tokens: int
    """Input and output tokens of the replies of `cache_hits`."""
    cost: float
    searches: int
    """Searches of the web that reached their server."""
    fetches: int
    """The same of pages of the web."""


class UsageEntry(UsageNumbers):
    day: str | None = None
    """A day in `usage.time_zone`."""
    key: str | None = None
    """The name of the API key; empty for requests without one."""
    team: str | None = None
    """The team of the key; empty without one."""
    user: str | None = None
    """The end user that the request named; empty without one."""
    model: str | None = None
    """Empty for requests that were refused before their model was known."""
    tag: str | None = None
    """Empty for requests without tags. A request with two counts for both."""


class UsageReport(Described):
    model_config = give_examples(
        {
            "from": "2026-10-24",
            "to": "2026-11-22",
            "group_by": ["model"],
            "data": [{"model": "large", **_NUMBERS}],
            "total": _NUMBERS,
        }
    )

    first_day: str = Field(serialization_alias="from", validation_alias="from")
    last_day: str = Field(serialization_alias="to", validation_alias="to")
    group_by: list[str]
    data: list[UsageEntry]
    total: UsageNumbers


@router.get(
    "/v1/usage",
    tags=["usage"],
    operation_id="get_usage",
    summary="Total the usage and cost by day, key, team, user, model and tag",
    responses=describe(400, 403, 404, 422, 503) | {200: {"content": {"text/csv": {"schema": _CSV}}}},
    response_model=UsageReport,
    response_model_exclude_unset=True,
)
async def usage(
    request: Request,
    first: Annotated[
        str | None, Query(alias="from", description="The first day, in `usage.time_zone`; default: 30 days")
    ] = None,
    last: Annotated[str | None, Query(alias="to", description="The last day; default: today")] = None,
    key: Annotated[str | None, Query(description="Only requests with the key of this name")] = None,
    model: Annotated[str | None, Query(description="Only requests for this model")] = None,
    team: Annotated[str | None, Query(description="Only requests of keys of this team")] = None,
    user: Annotated[str | None, Query(description="Only requests of this end user")] = None,
    tag: Annotated[str | None, Query(description="Only requests with this tag")] = None,
    group_by: Annotated[
        str | None,
        Query(description="Names of `data`, such as `user`, or several with commas; default: `day,key,model`"),
    ] = None,
    format_: Annotated[
        str | None,
        Query(alias="format", description="`json` or `csv`; default: CSV if `accept` begins with `text/csv`"),
    ] = None,
) -> Response | dict[str, Any]:
    if format_ not in (None, "json", "csv"):
        raise InvalidInput([Violation("format", f"must be json or csv, not {format_[:40]!r}")])
    context = get_context(request)
    ledger = context.usage_ledger
    chosen = _choose_key(request, context, key)
    query = parse_query(
        name_day(time.time(), context.settings.usage.zone),
        first=first,
        last=last,
        group_by=group_by,
        key=chosen,
        model=model,
        team=team,
        user=user,
        tag=tag,
    )
    if ledger is None:
        raise NotFound("usage is not counted: usage.url is null:")
    context.ended.report()
    try:
        rows = await asyncio.to_thread(ledger.read, query)
    except TooManyRows as error:
        raise BadRequest(str(error), "group_by") from None
    except StateError as error:
        raise StoreDown(str(error)) from None
    if format_ == "csv" or (format_ is None and request.headers.get("accept", "").startswith("text/csv")):
        name = f"usage-{query.first_day}-{query.last_day}.csv"
        headers = {"content-disposition": f'attachment; filename="{name}"', "cache-control": "no-store"}
        return Response(write_csv(query, rows), media_type="text/csv", headers=headers)
    return report_usage(query, rows)


def _choose_key(request: Request, context: AppContext, key: str | None) -> str | None:
    """Return the key whose requests the caller may see; None for all. Raises Forbidden.

    Administrators see all keys, others their own. A gateway without keys shows its totals to everyone, unless it has an
    admin key.
    """
    caller: Caller = request.state.caller
    if caller.admin:
        return key
    if context.settings.names_callers:
        if key not in (None, caller.name):
            raise Forbidden(f"{describe_caller(caller.name)} may only see its own usage; leave out `key`", "key")
        return caller.name
    if context.server.admin_key is not None:
        check_admin(request, context)
    return key


def observe_usage(ledger: UsageLedger) -> RequestObserver:
    """Return the observer that counts each request in the ledger."""

    def observe(record: RequestRecord) -> None:
        ledger.add(record.owner, record.answering_model, count_request(record))

    return observe


def count_request(record: RequestRecord) -> Totals:
    """Return the numbers of one request. A call to a model that goes on is counted when it ends."""
    tokens, failed = record.tokens, int(record.error is not None and not record.disconnected)
    if record.cache in ("hit", "shared"):
        return Totals(1, failed, 1, saved_tokens=0 if tokens is None else tokens.total)
    if tokens is None:
        return Totals(1, failed, cost=record.cost or 0.0, searches=record.searches, fetches=record.fetches)
    return Totals(
        1,
        failed,
        0,
        int(record.tokens_estimated),
        tokens.input,
        tokens.cached_input,
        tokens.output,
        tokens.reasoning,
        cost=record.cost or 0.0,
        searches=record.searches,
        fetches=record.fetches,
    )
