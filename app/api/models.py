"""`GET /v1/models` and `/v1/models/{model}`: the models, with the fields that OpenAI's and Anthropic's SDKs read,
and what each model can do."""

import logging
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from fastapi import APIRouter, Request

from app.access import Caller
from app.api.application import get_context
from app.chat.messages import MediaKind
from app.config.registry import ModelRegistry
from app.endpoints.kinds import ModelEndpoint
from app.errors import UnknownModel, UpstreamFailed
from app.formats.openai.openapi import OpenAIErrorBody
from app.formats.openapi import Described, give_examples
from app.upstream.catalog import Catalog, suggest_model
from app.upstream.causes import describe_fault

if TYPE_CHECKING:
    from app.tools import McpServers

log = logging.getLogger("parley.models")
router = APIRouter(tags=["models"])
_FAILURES: dict[int | str, dict[str, Any]] = {
    status: {"description": text, "model": OpenAIErrorBody}
    for status, text in ((404, "No such model"), (502, "The model server failed"), (504, "It timed out"))
}

MAX_LIST_AGE_SECONDS = 1.0
"""How old a list of the upstream may be when it is sent to a caller."""

_EXAMPLE: dict[str, Any] = {
    "id": "demo",
    "object": "model",
    "created": 1795364882,
    "owned_by": "parley",
    "type": "model",
    "display_name": "demo",
    "created_at": "2026-11-22T16:28:02Z",
    "max_input_tokens": 32000,
    "max_tokens": 8000,
    "context_window": 40000,
    "endpoints": ["chat"],
    "parley": {
        "kinds": ["vllm"],
        "tools": "native",
        "thinking_switch": True,
        "media": ["image"],
        "max_input_tokens": 32000,
        "endpoints": ["chat"],
        "mcp_servers": {"time": ["get_current_time"]},
    },
}


class ListedAbilities(Described):
    """What a model can do on every one of its upstreams."""

    kinds: list[str]
    """The kinds of server that serve it."""
    tools: Literal["native", "text", "prompt"]
    """How it calls functions: the server returns calls, the gateway reads them from the text, or it also explains the
    functions in the prompt."""
    thinking_switch: bool
    """Whether a caller can switch its reasoning on and off."""
    media: list[MediaKind]
    max_input_tokens: int | None
    """Longer conversations are truncated; null without a limit."""
    endpoints: list[ModelEndpoint]
    """What it serves: conversations (`chat`), embeddings, rankings, …"""
    mcp_servers: dict[str, list[str]]
    """The servers of tools that a request of this caller may name, each with its tools, as far as they are known."""


class ModelEntry(Described):
    """A model, with the fields that OpenAI's and Anthropic's SDKs read."""

    model_config = give_examples(_EXAMPLE)

    id: str
    """The name that requests have in `model`."""
    object: Literal["model"]
    created: int
    owned_by: str
    type: Literal["model"]
    display_name: str
    created_at: str
    max_input_tokens: int | None
    """The longest conversation; null without a limit."""
    max_tokens: int | None
    """The longest reply; null if it is not known."""
    context_window: int | None
    """The tokens of a conversation and its reply together; null if they are not known."""
    endpoints: list[ModelEndpoint] | None
    """What it serves; null if nothing is known about the model."""
    parley: ListedAbilities | None
    """Null if nothing is known about the model."""


class ModelList(Described):
    """The models that the caller may use."""

    model_config = give_examples(
        {"object": "list", "data": [_EXAMPLE], "has_more": False, "first_id": "demo", "last_id": "demo"}
    )

    object: Literal["list"]
    data: list[ModelEntry]
    has_more: Literal[False]
    first_id: str | None
    last_id: str | None


@router.get(
    "/v1/models",
    operation_id="list_models",
    summary="List the models",
    response_model=None,
    responses={200: {"model": ModelList}, **_FAILURES},
)
async def models(request: Request) -> dict[str, Any]:
    context = get_context(request)
    return await list_models(context.registry, context.catalog, request.state.caller, context.tools)


@router.get(
    "/v1/models/{model:path}",
    operation_id="get_model",
    summary="Read one model",
    response_model=None,
    responses={200: {"model": ModelEntry}, **_FAILURES},
)
async def model_of_name(model: str, request: Request) -> dict[str, Any]:
    context = get_context(request)
    return await get_model(model, context.registry, context.catalog, request.state.caller, context.tools)


async def list_models(
    registry: ModelRegistry, catalog: Catalog | None, caller: Caller, servers: "McpServers | None"
) -> dict[str, Any]:
    """Return the configured models, then those that the pass-through's upstream lists: those that the caller may use.

    If the upstream fails, they are left out. Raises UpstreamFailed if there are no configured models either.
    """
    names = registry.names()
    if catalog is not None:
        names = [*names, *await _list_passthrough_models(catalog, required=not names)]
    rows = [
        _row(name, registry, _list_servers(servers, name, registry, caller))
        for name in caller.select_models(dict.fromkeys(names))
    ]
    ends = {"first_id": rows[0]["id"], "last_id": rows[-1]["id"]} if rows else {"first_id": None, "last_id": None}
    return {"object": "list", "data": rows, "has_more": False, **ends}


async def get_model(
    name: str, registry: ModelRegistry, catalog: Catalog | None, caller: Caller, servers: "McpServers | None"
) -> dict[str, Any]:
    """Return the row of one model. Raises UnknownModel or UpstreamFailed."""
    listed = caller.select_models(registry.names())
    if name not in listed:
        listed = [row["id"] for row in (await list_models(registry, catalog, caller, servers))["data"]]
    if name not in listed:
        hint = suggest_model(name, listed)
        raise UnknownModel(f"there is no model {name!r}{hint} (GET /v1/models lists them)", "model")
    return _row(name, registry, _list_servers(servers, name, registry, caller))


async def _list_passthrough_models(catalog: Catalog, *, required: bool) -> tuple[str, ...]:
    try:
        return await catalog.names(MAX_LIST_AGE_SECONDS)
    except UpstreamFailed as error:
        fault, target = error.fault, catalog.target
        fields = {
            "upstream": target.name,
            "address": target.base_url,
            "cause": fault.cause,
            "reason": describe_fault(fault),
        }
        log.warning("upstream %r lists no models: %s", target.name, describe_fault(fault), extra={"fields": fields})
        if not required:
            return ()
        raise


def _list_servers(
    servers: "McpServers | None", name: str, registry: ModelRegistry, caller: Caller
) -> Mapping[str, Sequence[str]]:
    route = None if servers is None else registry.find(name)
    return {} if servers is None or route is None else servers.list_for_model(route.model, caller.name)


def _row(name: str, registry: ModelRegistry, servers: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    now = int(time.time())
    abilities = registry.find_abilities(name)
    most_input = None if abilities is None else abilities.max_input_tokens
    most_output = registry.find_max_output_tokens(name)
    return {
        "id": name,
        "object": "model",
        "created": now,
        "owned_by": "parley",
        "type": "model",
        "display_name": name,
        "created_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now)),
        "max_input_tokens": most_input,
        "max_tokens": most_output,
        "context_window": None if most_input is None else most_input + (most_output or 0),
        "endpoints": None if abilities is None else list(abilities.endpoints),
        "parley": None if abilities is None else {**msgspec.to_builtins(abilities), "mcp_servers": servers},
    }
