"""`POST /v1/upstreams/check`: asks a model server for its list of models, before it is configured.

The caller names the address, so this could read servers that only the gateway can reach. It is therefore for
administrators, and for everyone only on a gateway that is not configured yet: one that serves the demo model to its
own machine. The request is a GET without a body, to the path `/models` and to nearby ones that base URLs often should
have had, and of the answer only the names of models and an error message are returned.
"""

from typing import cast

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from app.api.admin import check_admin
from app.api.application import get_context
from app.api.asgi import Receive, read_body
from app.api.context import AppContext
from app.config.registry import targets
from app.config.settings import Settings
from app.config.tables.upstreams import Upstream
from app.errors import Forbidden, InvalidInput, Violation
from app.formats.json_object import parse_json
from app.formats.openapi import Described, describe, give_examples, json_content
from app.upstream.check import Result, check_upstream
from app.validation.violations import to_violations

router = APIRouter()
MAX_BODY_BYTES = 64 * 1024
CONNECT_SECONDS = 5.0
NAME = "server"


class UpstreamCheck(BaseModel):
    """The model server to be asked."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    base_url: str = Field(max_length=2000)
    """Where it serves OpenAI's API, mostly with `/v1` at the end."""
    api_key: str | None = Field(default=None, max_length=4000)


class UpstreamCheckResult(Described):
    model_config = give_examples(
        {
            "works": True,
            "result": "works",
            "kind": "vllm",
            "lines": ["it lists 1 model: qwen3"],
            "models": ["qwen3"],
        }
    )

    works: bool
    result: Result
    """`no_list`: something answers, but not with a list of models."""
    kind: str | None = None
    """The kind of server that the list suggests."""
    lines: list[str]
    """What was found, and what to do."""
    models: list[str]
    """The names that the server lists."""
    working_url: str | None = None
    """A base_url that works, if the given one does not."""


@router.post(
    "/v1/upstreams/check",
    tags=["upstreams"],
    summary="Ask a model server for its models before it is configured",
    operation_id="check_upstream",
    responses=describe(400, 403, 413, 422),
    openapi_extra={"requestBody": {"required": True, "content": json_content(UpstreamCheck.__name__)}},
)
async def check(request: Request) -> UpstreamCheckResult:
    context = get_context(request)
    _check_caller(request, context)
    upstream = _parse_upstream(await _read_small_body(request, context))
    target = targets(Settings(upstreams={NAME: upstream}))[NAME]
    report = await check_upstream(target, (), context.client)
    return UpstreamCheckResult(
        works=report.works,
        result=report.result,
        kind=report.likely_kind,
        lines=report.lines,
        models=list(report.models),
        working_url=report.working_url,
    )


def _check_caller(request: Request, context: AppContext) -> None:
    """Raises Forbidden."""
    settings = context.settings
    if settings.serves_this_machine_only and settings.demo and not settings.upstreams:
        return
    try:
        check_admin(request, context)
    except Forbidden as error:
        raise Forbidden(f"{error.message}. In a terminal, `parley doctor --url URL` checks the same") from None


async def _read_small_body(request: Request, context: AppContext) -> bytes | bytearray:
    with context.budget.lease() as lease:
        receive = cast(Receive, request.receive)
        return await read_body(dict(request.scope), receive, MAX_BODY_BYTES, context.server.body_seconds, lease)


def _parse_upstream(raw: bytes | bytearray) -> Upstream:
    """Raises BadRequest and InvalidInput."""
    body = parse_json(raw)
    try:
        given = UpstreamCheck.model_validate(body, strict=True)
        if given.base_url.startswith("unix:"):
            text = "must be an http or https URL: a request cannot name a path of this machine"
            raise InvalidInput([Violation("base_url", text)])
        row = given.model_dump(exclude_none=True) | {"connect_seconds": CONNECT_SECONDS}
        return Upstream.model_validate(row, strict=False)
    except ValidationError as error:
        raise InvalidInput(to_violations(error, body, schema=UpstreamCheck)) from None
