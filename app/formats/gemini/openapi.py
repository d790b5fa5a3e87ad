"""The paths of Google's Gemini API (docs/reference/formats/gemini.md)."""

from typing import Any, Literal

from pydantic import RootModel

from app.formats import openapi
from app.formats.gemini.body import GenerateContentRequest
from app.formats.gemini.embeddings import BatchEmbedContentsRequest, EmbedContentRequest
from app.formats.openapi import (
    BodyPart,
    Described,
    DescribedMediumFacts,
    FormatPart,
    Json,
    ServerToolNumbers,
    UpstreamError,
    event_stream,
    give_examples,
    json_content,
)

_QUESTION: Json = {"role": "user", "parts": [{"text": "What is the weather in Paris?"}]}
_TOOL: Json = {
    "functionDeclarations": [
        {
            "name": "get_weather",
            "description": "The weather of a city",
            "parametersJsonSchema": {"type": "object", "properties": {"city": {"type": "string"}}},
        }
    ]
}
_EMBED: Json = {"content": {"parts": [{"text": "Where do herons sleep?"}]}}
_EXAMPLES: list[Json] = [{"contents": [_QUESTION]}, {"contents": [_QUESTION], "tools": [_TOOL]}]


class GeminiCallReply(Described):
    id: str
    name: str
    args: dict[str, Any]


class GeminiBlobReply(Described):
    mimeType: str
    data: str
    """In base64."""


class GeminiPartReply(Described):
    """A part of a reply."""

    text: str | None = None
    thought: bool | None = None
    """The text is reasoning."""
    functionCall: GeminiCallReply | None = None
    inlineData: GeminiBlobReply | None = None
    fileData: dict[str, Any] | None = None
    thoughtSignature: str | None = None
    """Send it back with the part."""


class GeminiContentReply(Described):
    role: Literal["model"]
    parts: list[GeminiPartReply] | None = None


class GeminiCandidate(Described):
    content: GeminiContentReply
    index: Literal[0]
    finishReason: Literal["STOP", "MAX_TOKENS", "SAFETY", "PROHIBITED_CONTENT", "MALFORMED_FUNCTION_CALL"] | None = None
    """In a stream only in the last chunk."""
    finishMessage: str | None = None
    groundingMetadata: dict[str, Any] | None = None
    """Citations of web pages, and what the gateway has searched for; places are bytes of the text in UTF-8."""
    urlContextMetadata: dict[str, Any] | None = None
    """Pages that the gateway has read."""


class GeminiUsage(Described):
    promptTokenCount: int
    cachedContentTokenCount: int | None = None
    candidatesTokenCount: int
    thoughtsTokenCount: int | None = None
    totalTokenCount: int


class GeminiBeside(Described):
    """An extension of Parley."""

    warnings: list[str] | None = None
    server_tools: ServerToolNumbers | None = None
    descriptions: list[DescribedMediumFacts] | None = None
    cost: float | None = None
    media: list[dict[str, Any]] | None = None
    """What the model server says of its media beside their bytes."""
    citations: Any = None
    search_results: Any = None


_REPLY: Json = {
    "candidates": [{"content": {"role": "model", "parts": [{"text": "Sunny."}]}, "finishReason": "STOP", "index": 0}],
    "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 3, "totalTokenCount": 12},
    "modelVersion": "demo",
    "responseId": "chat-1f0c",
}


class GenerateContentReply(Described):
    """A reply, or a chunk of a stream."""

    model_config = give_examples(_REPLY)

    candidates: list[GeminiCandidate]
    usageMetadata: GeminiUsage | None = None
    """In a stream only in the last chunk."""
    modelVersion: str
    responseId: str
    parley: GeminiBeside | None = None


class GeminiErrorDetail(Described):
    code: int
    """The HTTP status."""
    message: str
    status: str
    """A word of `google.rpc.Code`."""
    details: list[dict[str, Any]]
    """`ErrorInfo` with Parley's code; `BadRequest` with all mistakes of a request; `RetryInfo`."""
    parley: "GeminiErrorBeside | None" = None


class GeminiErrorBeside(Described):
    """What Google's form has no place for."""

    param: str | None = None
    upstream: UpstreamError | None = None
    usage: dict[str, Any] | None = None
    input_tokens: int | None = None
    max_input_tokens: int | None = None
    server_tools: ServerToolNumbers | None = None


class GeminiErrorBody(Described):
    """An error in Google's form; also the last chunk of a stream that fails."""

    model_config = give_examples(
        {
            "error": {
                "code": 404,
                "message": "there is no model 'x'",
                "status": "NOT_FOUND",
                "details": [
                    {
                        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                        "reason": "UNKNOWN_MODEL",
                        "domain": "parley",
                        "metadata": {"request_id": "req-1f0c", "retryable": "false"},
                    }
                ],
            }
        }
    )

    error: GeminiErrorDetail


class GenerateContentChunks(RootModel[list[GenerateContentReply | GeminiErrorBody]]):
    """A stream without `alt=sse`: a JSON array, whose elements come one after the other."""

    model_config = give_examples([_REPLY])


class GeminiTokenCount(Described):
    model_config = give_examples({"totalTokens": 12, "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 12}]})

    totalTokens: int
    promptTokensDetails: list[dict[str, Any]]


class GeminiVector(Described):
    values: list[float]


class GeminiEmbedUsage(Described):
    promptTokenCount: int
    totalTokenCount: int


class EmbedContentReply(Described):
    model_config = give_examples({"embedding": {"values": [0.1, 0.2]}})

    embedding: GeminiVector
    usageMetadata: GeminiEmbedUsage | None = None


class BatchEmbedContentsReply(Described):
    model_config = give_examples({"embeddings": [{"values": [0.1, 0.2]}]})

    embeddings: list[GeminiVector]
    """In the order of the requests."""
    usageMetadata: GeminiEmbedUsage | None = None


_ENTRY: Json = {
    "name": "models/demo",
    "version": "1",
    "displayName": "demo",
    "inputTokenLimit": 32000,
    "outputTokenLimit": 8000,
    "supportedGenerationMethods": ["generateContent", "countTokens"],
}


class GeminiModelEntry(Described):
    model_config = give_examples(_ENTRY)

    name: str
    """`models/` and the name that requests have in their path."""
    version: str
    displayName: str
    inputTokenLimit: int | None = None
    outputTokenLimit: int | None = None
    supportedGenerationMethods: list[str]


class GeminiModelList(Described):
    """The models that the caller may use."""

    model_config = give_examples({"models": [_ENTRY]})

    models: list[GeminiModelEntry]
    nextPageToken: str | None = None


_STATUSES = openapi.select(
    *("401", "402", "403", "404", "405", "413", "415", "421", "429", "500", "502", "503", "504"),
    status_400="Violations, each with its JSON path, or the model server refused the request",
)
_MODEL: Json = {
    "name": "model",
    "in": "path",
    "required": True,
    "description": "A name of `GET /v1beta/models`, with or without `models/`.",
    "schema": {"type": "string"},
}
_PAGE: list[Json] = [
    {"name": "pageSize", "in": "query", "schema": {"type": "integer"}},
    {"name": "pageToken", "in": "query", "schema": {"type": "string"}},
]
_ALT: Json = {
    "name": "alt",
    "in": "query",
    "description": "`sse`: server-sent events. Without it, a stream is one JSON array.",
    "schema": {"type": "string", "enum": ["sse", "json"]},
}
_PATH = "/v1beta/models/{model}"


def _describe_paths() -> Json:
    errors = openapi.describe_errors(_STATUSES, "GeminiErrorBody")
    whole = json_content("GenerateContentReply")
    create = openapi.describe_operation(
        ("gemini", "Create a reply, for clients of Google's SDKs", "generate_content"),
        {"200": ("A reply", whole)},
        errors,
        body="GenerateContentRequest",
        parameters=[_MODEL],
    )
    stream = openapi.describe_operation(
        ("gemini", "Create a reply and stream it", "stream_generate_content"),
        {"200": ("The chunks of the reply", {**json_content("GenerateContentChunks"), **event_stream("GeminiFrame")})},
        errors,
        body="GenerateContentRequest",
        parameters=[_MODEL, _ALT],
    )
    count = openapi.describe_operation(
        ("gemini", "Count the input tokens of a request", "gemini_count_tokens"),
        {"200": ("The number of tokens", json_content("GeminiTokenCount"))},
        errors,
        body="GenerateContentRequest",
        parameters=[_MODEL],
    )
    embed = openapi.describe_operation(
        ("gemini", "Make the embedding of a content", "embed_content"),
        {"200": ("The embedding", json_content("EmbedContentReply"))},
        errors,
        body="EmbedContentRequest",
        parameters=[_MODEL],
    )
    embed_all = openapi.describe_operation(
        ("gemini", "Make the embeddings of several contents", "batch_embed_contents"),
        {"200": ("The embeddings", json_content("BatchEmbedContentsReply"))},
        errors,
        body="BatchEmbedContentsRequest",
        parameters=[_MODEL],
    )
    failures = {status: errors[status] for status in ("401", "403", "404", "421", "500", "502")}
    listing = openapi.describe_operation(
        ("gemini", "List the models, for clients of Google's SDKs", "list_gemini_models"),
        {"200": ("The models", json_content("GeminiModelList"))},
        {"400": errors["400"], **failures},
        parameters=_PAGE,
    )
    one = openapi.describe_operation(
        ("gemini", "Read one model", "get_gemini_model"),
        {"200": ("The model", json_content("GeminiModelEntry"))},
        failures,
        parameters=[_MODEL],
    )
    return {
        f"{_PATH}:generateContent": {"post": create},
        f"{_PATH}:streamGenerateContent": {"post": stream},
        f"{_PATH}:countTokens": {"post": count},
        f"{_PATH}:embedContent": {"post": embed},
        f"{_PATH}:batchEmbedContents": {"post": embed_all},
        "/v1beta/models": {"get": listing},
        _PATH: {"get": one},
    }


PART = FormatPart(
    "Gemini",
    (GenerateContentReply,),
    "GeminiFrame",
    GenerateContentReply | GeminiErrorBody,
    GeminiErrorBody,
    (
        *(GenerateContentChunks, GeminiTokenCount, EmbedContentReply, BatchEmbedContentsReply),
        *(GeminiModelEntry, GeminiModelList),
    ),
    (
        BodyPart("GenerateContentRequest", GenerateContentRequest, _EXAMPLES),
        BodyPart("EmbedContentRequest", EmbedContentRequest, [_EMBED]),
        BodyPart("BatchEmbedContentsRequest", BatchEmbedContentsRequest, [{"requests": [_EMBED]}]),
    ),
    _describe_paths,
)
