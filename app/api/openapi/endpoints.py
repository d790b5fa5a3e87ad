"""The paths whose requests pass through to a model server, in the OpenAPI document."""

from app.endpoints.kinds import COHERE_PATHS, ENDPOINTS, MULTIPART_PATHS, TEI_PATHS, Endpoint
from app.formats import openapi
from app.formats.openai.openapi import OpenAIErrorBody
from app.formats.openapi import Described, Json, describe_operation, give_examples

_SUMMARIES = {
    "embeddings": "Create embeddings",
    "rerank": "Rank documents",
    "score": "Score pairs of texts",
    "classify": "Classify texts",
    "pooling": "Create vectors of any kind",
    "moderations": "Moderate texts",
    "completions": "Complete a text",
    "images": "Create or edit images",
    "audio": "Transcribe or translate audio",
    "speech": "Speak a text",
    "tokenize": "Split a text into tokens",
    "detokenize": "Join tokens to a text",
}
_MODEL: Json = {"type": "string", "minLength": 1, "description": "A name of `GET /v1/models`."}
_OPTIONAL_MODEL: Json = {
    "anyOf": [{"type": "string", "minLength": 1}, {"type": "null"}],
    "description": "A name of `GET /v1/models`. Without it, the only model that serves the endpoint is meant.",
}
_BODY: Json = {
    "type": "object",
    "description": "As the model's server takes it. It is sent on as it is, but for the name of the model.",
    "examples": [{"model": "bge-m3", "input": ["hello", "world"]}],
}
_ANSWER: Json = {
    "description": "As the model's server sends it.",
    "examples": [{"object": "list", "model": "bge-m3", "data": [{"index": 0, "embedding": [0.1, 0.2]}]}],
}
_STATUSES = openapi.select(
    *(status for status in openapi.MODEL_CALL if status not in ("422", "529")),
    status_400="The request is not valid, the model does not serve this endpoint, or the model server refused it",
    status_415="The content type is not one of those of the body",
)


class CohereErrorBody(Described):
    """An error in Cohere's form."""

    model_config = give_examples(
        {
            "message": "there is no model 'demp'; did you mean 'demo'? (GET /v1/models lists them)",
            "id": "req-5a0c",
            "code": "unknown_model",
            "param": "model",
        }
    )

    message: str
    """For people."""
    id: str
    """The header `x-request-id` of the response."""
    code: str
    """Parley's own code."""
    param: str | None
    """The JSON path of the mistake in the request, or null."""


class TextEmbeddingsErrorBody(Described):
    """An error in the form of Text Embeddings Inference."""

    model_config = give_examples(
        {
            "error": "there is no model 'demp'; did you mean 'demo'? (GET /v1/models lists them)",
            "error_type": "unknown_model",
            "param": "model",
        }
    )

    error: str
    """For people."""
    error_type: str
    """Parley's own code."""
    param: str | None
    """The JSON path of the mistake in the request, or null."""


def describe_paths() -> Json:
    return {path: {"post": _describe(endpoint, path)} for endpoint in ENDPOINTS for path in endpoint.paths}


def _describe(endpoint: Endpoint, path: str) -> Json:
    name = "_".join(path.replace("/", " ").split())
    operation: Json = describe_operation(
        ("endpoints", _SUMMARIES[endpoint.name], name),
        {"200": ("The answer of the model's server", {"*/*": {"schema": _ANSWER}})},
        openapi.describe_errors(_STATUSES, _choose_error(path).__name__),
    )
    kinds = ["application/json"] if path not in MULTIPART_PATHS else ["multipart/form-data", "application/json"]
    operation["requestBody"] = {
        "required": True,
        "content": {kind: {"schema": _describe_body(endpoint, path)} for kind in kinds},
    }
    return operation


def _describe_body(endpoint: Endpoint, path: str) -> Json:
    if path in endpoint.needs_model:
        return {**_BODY, "properties": {"model": _MODEL}, "required": ["model"]}
    return {**_BODY, "properties": {"model": _OPTIONAL_MODEL}}


def _choose_error(path: str) -> type[Described]:
    """Return the form of errors at a path, as `app.api.endpoint_errors` writes it."""
    if path in COHERE_PATHS:
        return CohereErrorBody
    return TextEmbeddingsErrorBody if path in TEI_PATHS else OpenAIErrorBody
