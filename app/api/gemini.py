"""The endpoints of Google's Gemini API, on the paths of the Gemini API and of Vertex AI.

The model and the method are one part of the path, `{model}:{method}`. A model's name may have slashes and colons.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

from starlette.routing import BaseRoute, Route

from app.access import Caller
from app.api.asgi import Receive, Scope, send_json
from app.api.chat import ChatEndpoint
from app.api.context import AppContext
from app.api.models import MAX_NAMES, list_names
from app.api.response_writer import Send
from app.api.token_counts import TokenCountEndpoint
from app.cache import Apply
from app.config.registry import ModelRegistry
from app.errors import InvalidInput, NotFound, UnknownModel, Violation
from app.formats.gemini import GEMINI
from app.formats.gemini.body import GenerateTarget, parse_count_body, parse_generate_body
from app.formats.gemini.paths import read_page, wants_events
from app.upstream.catalog import suggest_model

_API = ("/v1beta/models", "/v1/models", "/v1alpha/models")
_PLATFORM = tuple(
    f"{version}{path}"
    for version in ("/v1", "/v1beta1")
    for path in (
        "/projects/{project}/locations/{location}/publishers/{publisher}/models",
        "/publishers/{publisher}/models",
    )
)
"""Vertex AI's paths, and those of its express mode. Project and location do not matter here."""
_INSTEAD: Mapping[str, str] = {
    "predict": "embeddings are made by :embedContent and :batchEmbedContents",
    "batchGenerateContent": "send each request by itself, to :generateContent",
    "asyncBatchEmbedContent": "send the texts to :batchEmbedContents",
    "generateAnswer": "send the conversation to :generateContent",
    "bidiGenerateContent": "send the conversation to :streamGenerateContent",
}
"""What to do instead of methods that are not served."""
_SERVED = "generateContent, streamGenerateContent and countTokens"

Serve: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
MakeEndpoint: TypeAlias = Callable[[str, Scope], Serve]
"""Makes the endpoint of one request, from the name of its model."""


class GeminiMethod:
    """`POST …/models/{model}:method`. What differs in each request is in its path, so that it has an endpoint of its
    own."""

    def __init__(self, context: AppContext, make: MakeEndpoint) -> None:
        self._context = context
        self._make = make

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._make(self._find_model(scope["path_params"]), scope)(scope, receive, send)

    def _find_model(self, params: Mapping[str, str]) -> str:
        """Return the model. Google's SDKs write `Org/name` as a model of a publisher at Vertex AI."""
        name, publisher = params["model"], params.get("publisher", "google")
        whole = f"{publisher}/{name}"
        return whole if publisher != "google" and self._context.registry.find(whole) is not None else name


def _make_methods(context: AppContext, apply: Apply) -> dict[str, MakeEndpoint]:
    def make_chat(target: GenerateTarget) -> Serve:
        parse = partial(parse_generate_body, target=target)
        return ChatEndpoint(context, parse, "gemini", GEMINI.error, apply, keeps_alias=True)

    def make_count(model: str, scope: Scope) -> Serve:
        parse = partial(parse_count_body, target=GenerateTarget(model))
        return TokenCountEndpoint(context, parse, write=write_token_count)

    return {
        "generateContent": lambda model, scope: make_chat(GenerateTarget(model)),
        "streamGenerateContent": lambda model, scope: make_chat(
            GenerateTarget(model, stream=True, array=not wants_events(scope["query_string"]))
        ),
        "countTokens": make_count,
    }


class _Refusal:
    """What is no method of a model."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        method = scope["path_params"]["rest"].rpartition(":")[2]
        instead = _INSTEAD.get(method, f"the methods of a model are {_SERVED}")
        raise NotFound(f"the method {method[:80]!r} is not served here: {instead}")


def write_token_count(answer: Mapping[str, Any]) -> dict[str, Any]:
    count = answer["input_tokens"]
    return {"totalTokens": count, "promptTokensDetails": [{"modality": "TEXT", "tokenCount": count}]}


class GeminiModelsEndpoint:
    """`GET …/models`."""

    def __init__(self, context: AppContext) -> None:
        self._context = context

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send_json(
            send, 200, await list_gemini_models(self._context, scope["state"]["caller"], scope["query_string"])
        )


class GeminiModelEndpoint:
    """`GET …/models/{model}`."""

    def __init__(self, context: AppContext) -> None:
        self._context = context

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        name = scope["path_params"]["model"]
        await send_json(send, 200, await get_gemini_model(self._context, scope["state"]["caller"], name))


async def list_gemini_models(context: AppContext, caller: Caller, query: bytes) -> dict[str, Any]:
    """Return a page of the models that the caller may use. Raises InvalidInput."""
    live = context.live
    names = caller.select_models(await list_names(live.registry, live.catalog))
    size, token = read_page(query)
    start = _read_number("pageToken", token, 0)
    end = start + (_read_number("pageSize", size, MAX_NAMES) or MAX_NAMES)
    more = {"nextPageToken": str(end)} if end < len(names) else {}
    return {"models": [_write_model(name, live.registry) for name in names[start:end]], **more}


def _read_number(name: str, text: str | None, default: int) -> int:
    if text is None:
        return default
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise InvalidInput([Violation(name, f"must be a number, not {text[:40]!r}")])
    return int(text)


async def get_gemini_model(context: AppContext, caller: Caller, name: str) -> dict[str, Any]:
    """Return one model. Raises UnknownModel."""
    live = context.live
    found = live.registry.read_id(name.removeprefix("models/"))
    listed = caller.select_models(await list_names(live.registry, live.catalog))
    if found not in listed:
        hint = suggest_model(name, listed)
        raise UnknownModel(f"there is no model {name[:80]!r}{hint} (GET /v1beta/models lists them)", "model")
    return _write_model(found, live.registry)


def _write_model(name: str, registry: ModelRegistry) -> dict[str, Any]:
    abilities = registry.find_abilities(name)
    most_input = None if abilities is None else abilities.max_input_tokens
    most_output = registry.find_max_output_tokens(name)
    serves = ("chat",) if abilities is None else tuple(abilities.endpoints)
    methods = ["generateContent", "countTokens"] if "chat" in serves else []
    methods += ["embedContent", "batchEmbedContents"] if "embeddings" in serves else []
    return {
        "name": f"models/{name}",
        "version": "1",
        "displayName": registry.find_display_name(name),
        **({"inputTokenLimit": most_input} if most_input is not None else {}),
        **({"outputTokenLimit": most_output} if most_output is not None else {}),
        "supportedGenerationMethods": methods,
    }


def list_gemini_routes(context: AppContext, apply: Apply) -> list[BaseRoute]:
    """The routes below `/v1/models` are only for POST: GET there is the list of all APIs (`app.api.models`)."""
    methods = {name: GeminiMethod(context, make) for name, make in _make_methods(context, apply).items()}
    listing, reading, refusing = GeminiModelsEndpoint(context), GeminiModelEndpoint(context), _Refusal()
    routes: list[BaseRoute] = []
    for base in (*_API, *_PLATFORM):
        is_described = base == _API[0]
        routes += [
            Route(f"{base}/{{model:path}}:{name}", serve, methods=["POST"], include_in_schema=is_described)
            for name, serve in methods.items()
        ]
        routes.append(Route(f"{base}/{{rest:path}}", refusing, methods=["POST"], include_in_schema=False))
    for base in ("/v1beta/models", "/v1alpha/models"):
        is_described = base == _API[0]
        routes += [
            Route(base, listing, methods=["GET"], include_in_schema=is_described),
            Route(f"{base}/{{model:path}}", reading, methods=["GET"], include_in_schema=is_described),
        ]
    return routes
