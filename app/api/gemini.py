"""The endpoints of Google's Gemini API, on the paths of the Gemini API and of Vertex AI.

The model and the method are one part of the path, `{model}:{method}`. A model's name may have slashes and colons.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

from starlette.routing import BaseRoute, Route

from app.api.asgi import Receive, Scope, send_json
from app.api.chat import ChatEndpoint
from app.api.context import AppContext
from app.api.gemini_embeddings import GeminiEmbeddings
from app.api.models import get_gemini_model, list_gemini_models
from app.api.response_writer import Send
from app.api.token_counts import TokenCountEndpoint
from app.cache import Apply
from app.errors import NotFound
from app.formats.gemini import GEMINI
from app.formats.gemini.body import GenerateTarget, parse_count_body, parse_generate_body
from app.formats.gemini.paths import skips_errors, wants_events

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
_SERVED = "generateContent, streamGenerateContent, countTokens, embedContent and batchEmbedContents"

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
        return TokenCountEndpoint(context, parse, asks_api="gemini", write=write_token_count)

    def make_embedding(model: str, *, batch: bool) -> Serve:
        return GeminiEmbeddings(context, model, batch=batch)

    def make_stream(model: str, scope: Scope) -> Serve:
        array, skips = not wants_events(scope["query_string"]), skips_errors(scope["state"]["headers"])
        return make_chat(GenerateTarget(model, stream=True, array=array, skips_errors=skips))

    return {
        "generateContent": lambda model, scope: make_chat(GenerateTarget(model)),
        "streamGenerateContent": make_stream,
        "countTokens": make_count,
        "embedContent": lambda model, scope: make_embedding(model, batch=False),
        "batchEmbedContents": lambda model, scope: make_embedding(model, batch=True),
    }


class _Refusal:
    """What is no method of a model."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        method = scope["path_params"]["rest"].rpartition(":")[2]
        instead = _INSTEAD.get(method, f"the methods of a model are {_SERVED}")
        raise NotFound(f"the method {method[:80]!r} is not served here: {instead}")


def write_token_count(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Write a number of the gateway's; the answer of a server of this API is its own."""
    if "totalTokens" in answer:
        return {name: value for name, value in answer.items() if name != "input_tokens"}
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
