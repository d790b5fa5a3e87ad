"""The paths whose requests pass through to a model server, in the OpenAPI document."""

from app.endpoints.kinds import ENDPOINTS, MULTIPART_PATHS, Endpoint
from app.formats import openapi
from app.formats.openapi import Json, describe_operation

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
_BODY: Json = {
    "type": "object",
    "properties": {"model": {"type": "string", "description": "A name of `GET /v1/models`."}},
    "description": "As the model's server takes it. It is sent on as it is, but for the name of the model.",
    "examples": [{"model": "bge-m3", "input": ["hello", "world"]}],
}
_ANSWER: Json = {
    "description": "As the model's server sends it.",
    "examples": [{"object": "list", "model": "bge-m3", "data": [{"index": 0, "embedding": [0.1, 0.2]}]}],
}


def describe_paths() -> Json:
    return {path: {"post": _describe(endpoint, path)} for endpoint in ENDPOINTS for path in endpoint.paths}


def _describe(endpoint: Endpoint, path: str) -> Json:
    name = "_".join(path.replace("/", " ").split())
    operation: Json = describe_operation(
        ("endpoints", _SUMMARIES[endpoint.name], name),
        {"200": ("The answer of the model's server", {"*/*": {"schema": _ANSWER}})},
        openapi.describe_errors(openapi.select(*openapi.MODEL_CALL), "ErrorBody"),
    )
    schema = {**_BODY, "required": ["model"]} if path in endpoint.needs_model else _BODY
    kinds = ["application/json"] if path not in MULTIPART_PATHS else ["multipart/form-data", "application/json"]
    operation["requestBody"] = {"required": True, "content": {kind: {"schema": schema} for kind in kinds}}
    return operation
