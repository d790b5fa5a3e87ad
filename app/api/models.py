"""`GET /v1/models` and `/v1/models/{model}`: the models, with the fields that OpenAI's and Anthropic's SDKs read,
and what each model can do; for Google's clients in the form of their API."""

import logging
import re
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import msgspec
from fastapi import APIRouter, Query, Request, Response

from app.access import Caller
from app.api.agent_lists import Windows, write_models
from app.api.application import get_context
from app.chat.hosted_tools import HostedKind
from app.chat.messages import MediaKind
from app.config.registry import NO_WINDOWS, ModelRegistry
from app.endpoints.kinds import CHAT, ModelEndpoint
from app.errors import InvalidInput, UnknownModel, UpstreamFailed, Violation
from app.formats.agent_models import choose_claude_id, is_claude_code, make_etag
from app.formats.gemini.models import read_name, select_page, write_model
from app.formats.gemini.paths import is_gemini_request
from app.formats.openai.openapi import OpenAIErrorBody
from app.formats.openapi import Described, give_examples
from app.upstream.catalog import Catalog, suggest_model
from app.upstream.causes import describe_fault

if TYPE_CHECKING:
    from app.api.context import AppContext
    from app.tools import McpServers

log = logging.getLogger("parley.models")
router = APIRouter(tags=["models"])
_FAILURES: dict[int | str, dict[str, Any]] = {
    status: {"description": text, "model": OpenAIErrorBody}
    for status, text in ((404, "No such model"), (502, "The model server failed"), (504, "It timed out"))
}
_LIST_FAILURES: dict[int | str, dict[str, Any]] = {
    400: {"description": "A `limit` that is not a number, or an id that is not listed", "model": OpenAIErrorBody},
    **_FAILURES,
}

MAX_NAMES = 1000
"""The longest page of a list that has pages always."""
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
        "hosted_tools": ["web_search"],
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
    hosted_tools: list[HostedKind]
    """Searches and pages of the web that the gateway runs for this caller."""


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
    """The tokens of a conversation and its reply together; null if they are not known. With `client_version` the model
    servers are asked for it."""
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
    has_more: bool
    first_id: str | None
    last_id: str | None
    models: list[dict[str, Any]] | None = None
    """The same models, without aliases, in the form of Codex; only with `client_version`."""


@router.get(
    "/v1/models",
    operation_id="list_models",
    summary="List the models",
    response_model=None,
    responses={200: {"model": ModelList}, **_LIST_FAILURES},
)
async def models(
    request: Request,
    limit: Annotated[str | None, Query(description="How many models to list; without it, all.")] = None,
    after_id: Annotated[str | None, Query(description="List only models after this one.")] = None,
    before_id: Annotated[str | None, Query(description="List only models before this one.")] = None,
    client_version: Annotated[
        str | None, Query(description="Codex sends its version here. The list then has `models`, in Codex's form.")
    ] = None,
) -> Any:
    context, caller = get_context(request), request.state.caller
    if _is_gemini(request):
        return await list_gemini_models(context, caller, request.scope["query_string"])
    live = context.live
    page = _Page(_parse_limit(limit), after_id, before_id)
    shows_ids = live.settings.agents.claude_ids and is_claude_code(request.state.headers.get(b"user-agent"))
    if client_version is None:
        names = await _list_names(live.registry, live.catalog)
        return list_models(live.registry, names, caller, context.tools, page, shows_ids=shows_ids)
    names, windows = await context.agent_lists.read(live)
    body = list_models(live.registry, names, caller, context.tools, page, windows, shows_ids=shows_ids)
    if not live.settings.agents.codex_models:
        return body
    entries = write_models(live, caller.select_models(names), windows)
    shown = {live.registry.read_id(row["id"]) for row in body["data"]}
    body["models"] = [entry for entry in entries if entry["slug"] in shown]
    return Response(msgspec.json.encode(body), media_type="application/json", headers={"etag": make_etag(entries)})


@router.get(
    "/v1/models/{model:path}",
    operation_id="get_model",
    summary="Read one model",
    response_model=None,
    responses={200: {"model": ModelEntry}, **_FAILURES},
)
async def model_of_name(model: str, request: Request) -> dict[str, Any]:
    context = get_context(request)
    if _is_gemini(request):
        return await get_gemini_model(context, request.state.caller, model)
    return await get_model(model, context.registry, context.catalog, request.state.caller, context.tools)


def _is_gemini(request: Request) -> bool:
    scope = request.scope
    return is_gemini_request(scope["method"], scope["path"], scope["query_string"], scope["state"]["headers"])


def list_models(
    registry: ModelRegistry,
    names: Iterable[str],
    caller: Caller,
    servers: "McpServers | None",
    page: "_Page",
    windows: Windows = NO_WINDOWS,
    *,
    shows_ids: bool,
) -> dict[str, Any]:
    """Return the models of these names that the caller may use. With `shows_ids` they have the ids that Claude Code
    shows. Raises InvalidInput for an id of the page that is not listed."""
    known = frozenset(registry.names()) if shows_ids else frozenset()
    found = caller.select_models(names)
    ids = {choose_claude_id(name, known) if shows_ids else name: name for name in found}
    shown, has_more = page.cut(list(ids))
    rows = [_row(ids[id_], id_, registry, _list_tools(servers, ids[id_], registry, caller), windows) for id_ in shown]
    ends = {"first_id": rows[0]["id"], "last_id": rows[-1]["id"]} if rows else {"first_id": None, "last_id": None}
    return {"object": "list", "data": rows, "has_more": has_more, **ends}


class _Page(NamedTuple):
    """Which models of the list are sent."""

    limit: int | None = None
    after_id: str | None = None
    before_id: str | None = None

    def cut(self, ids: list[str]) -> tuple[list[str], bool]:
        """Return the ids of the page, and whether there are more in its direction."""
        for name, id_ in (("after_id", self.after_id), ("before_id", self.before_id)):
            if id_ is not None and id_ not in ids:
                raise InvalidInput([Violation(name, f"there is no model {id_[:200]!r} in the list")])
        first = 0 if self.after_id is None else ids.index(self.after_id) + 1
        end = len(ids) if self.before_id is None else ids.index(self.before_id)
        ids = ids[first:end]
        if self.limit is None or len(ids) <= self.limit:
            return ids, False
        backwards = self.before_id is not None and self.after_id is None
        return (ids[-self.limit :] if backwards else ids[: self.limit]), True


def _parse_limit(text: str | None) -> int | None:
    if text is None:
        return None
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) == 0:
        raise InvalidInput([Violation("limit", f"must be a number from 1 on, not {text[:40]!r}")])
    return int(text)


async def _list_names(registry: ModelRegistry, catalog: Catalog | None) -> list[str]:
    """Return the configured models, then those that the pass-through's upstream lists.

    If the upstream fails, they are left out. Raises UpstreamFailed if there are no configured models either.
    """
    names = registry.names()
    if catalog is not None:
        names = [*names, *await _list_passthrough_models(catalog, required=not names)]
    return list(dict.fromkeys(names))


async def get_model(
    name: str, registry: ModelRegistry, catalog: Catalog | None, caller: Caller, servers: "McpServers | None"
) -> dict[str, Any]:
    """Return the row of one model. Raises UnknownModel or UpstreamFailed."""
    found = registry.read_id(name)
    listed = caller.select_models(registry.names())
    if found not in listed:
        listed = caller.select_models(await _list_names(registry, catalog))
    if found not in listed:
        hint = suggest_model(name, listed)
        raise UnknownModel(f"there is no model {name!r}{hint} (GET /v1/models lists them)", "model")
    return _row(found, name, registry, _list_tools(servers, found, registry, caller), NO_WINDOWS)


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


def _list_tools(
    servers: "McpServers | None", name: str, registry: ModelRegistry, caller: Caller
) -> Mapping[str, object]:
    """Return what the gateway runs for this caller's requests to the model."""
    route = None if servers is None else registry.find(name)
    if servers is None or route is None:
        return {"mcp_servers": {}, "hosted_tools": []}
    return {
        "mcp_servers": servers.list_for_model(route.model, caller.name),
        "hosted_tools": servers.list_hosted(route.model, caller.name),
    }


def _row(name: str, id_: str, registry: ModelRegistry, tools: Mapping[str, object], windows: Windows) -> dict[str, Any]:
    """`id_` is the name under which the caller knows the model."""
    now = int(time.time())
    abilities = registry.find_abilities(name)
    most_input = None if abilities is None else abilities.max_input_tokens
    most_output = registry.find_max_output_tokens(name)
    return {
        "id": id_,
        "object": "model",
        "created": now,
        "owned_by": "parley",
        "type": "model",
        "display_name": registry.find_display_name(name),
        "created_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now)),
        "max_input_tokens": most_input,
        "max_tokens": most_output,
        "context_window": registry.find_context_window(name, windows),
        "endpoints": None if abilities is None else list(abilities.endpoints),
        "parley": None if abilities is None else {**msgspec.to_builtins(abilities), **tools},
    }


async def list_gemini_models(context: "AppContext", caller: Caller, query: bytes) -> dict[str, Any]:
    """Return a page of the models that the caller may use. Raises InvalidInput."""
    live = context.live
    names = caller.select_models(await _list_names(live.registry, live.catalog))
    page, beside = select_page(names, query, MAX_NAMES)
    return {"models": [_write_gemini(name, live.registry) for name in page], **beside}


async def get_gemini_model(context: "AppContext", caller: Caller, name: str) -> dict[str, Any]:
    """Return one model. Raises UnknownModel."""
    live = context.live
    found = live.registry.read_id(read_name(name))
    listed = caller.select_models(await _list_names(live.registry, live.catalog))
    if found not in listed:
        hint = suggest_model(name, listed)
        raise UnknownModel(f"there is no model {name[:80]!r}{hint} (GET /v1beta/models lists them)", "model")
    return _write_gemini(found, live.registry)


def _write_gemini(name: str, registry: ModelRegistry) -> dict[str, Any]:
    abilities = registry.find_abilities(name)
    return write_model(
        name,
        registry.find_display_name(name),
        None if abilities is None else abilities.max_input_tokens,
        registry.find_max_output_tokens(name),
        (CHAT,) if abilities is None else tuple(abilities.endpoints),
    )
