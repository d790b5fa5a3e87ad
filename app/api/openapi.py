"""The OpenAPI document: what the framework finds, and the endpoints that are served past it.

JSON schemas of the OpenAPI document that no pydantic type says.
"""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel, TypeAdapter

from app.api.chat_schema import ChatRequestBody
from app.api.convert import Conversion, Converted
from app.formats import FORMATS
from app.formats.base import Format

REF = "#/components/schemas/{model}"
FUNCTION: dict[str, Any] = {
    "title": "Function",
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": r"\S"},
        "description": {"type": ["string", "null"]},
        "parameters": {"type": ["object", "array", "null"], "description": "A JSON schema."},
    },
    "required": ["name"],
}
EVENTS = [
    "response.started",
    "message.started",
    "message.delta",
    "message.completed",
    "messages",
    "response.completed",
    "response.failed",
]
EVENT: dict[str, Any] = {
    "title": "Event",
    "description": "One frame of a stream: of `qwen`, an event; the other formats have frames of their own.",
    "anyOf": [
        {
            "type": "object",
            "properties": {
                "id": {"type": "string", "pattern": "^[0-9]+$"},
                "event": {"enum": EVENTS},
                "data": {
                    "type": "string",
                    "contentMediaType": "application/json",
                    "contentSchema": {
                        "type": "object",
                        "properties": {"type": {"enum": EVENTS}, "seq": {"type": "integer"}},
                        "required": ["type", "seq"],
                    },
                },
            },
            "required": ["id", "event", "data"],
        },
        {"type": "object", "properties": {"data": {"type": "string"}}, "required": ["data"]},
    ],
}
AUTOGEN_ERROR = {
    "type": "object",
    "description": "The form in which AutoGen's own service says errors (`autogen`).",
    "properties": {"type": {"const": "error"}, "content": {"type": "string"}, "code": {"type": "string"}},
    "required": ["type", "content", "code"],
}
OTHER_REPLY = {"type": "object", "description": "A reply in another format than `qwen`."}
TOOL = {
    "anyOf": [
        {"$ref": REF.format(model="Function")},
        {
            "type": "object",
            "properties": {"type": {"const": "function"}, "function": {"$ref": REF.format(model="Function")}},
            "required": ["type", "function"],
        },
    ]
}
COMPLETION_REQUEST: dict[str, Any] = {
    "title": "CompletionRequest",
    "description": "OpenAI's own form; fields that are not known here go on to the model's server.",
    "type": "object",
    "properties": {
        "model": {"type": "string"},
        "messages": {"$ref": REF.format(model="Messages_openai")},
        "stream": {"type": "boolean", "default": False},
        "n": {"const": 1},
        "cache": {"$ref": REF.format(model="CacheControl"), "description": "Parley's own: use the cache."},
    },
    "required": ["messages"],
    "additionalProperties": True,
}
OPENAI_ERROR: dict[str, Any] = {
    "title": "OpenAIError",
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {"message": {"type": "string"}, "type": {"type": "string"}, "code": {"type": "string"}},
            "required": ["message", "type", "code"],
        }
    },
    "required": ["error"],
}


def install_openapi(app: FastAPI) -> None:
    """Make `app.openapi()` tell of everything that is served."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = get_openapi(title=app.title, version=app.version, routes=app.routes, summary=app.summary)
            _add_chat(document)
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documented way


def _add_chat(document: dict[str, Any]) -> None:
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    for row in FORMATS.values():
        _define_messages(schemas, row)
    _define(schemas, "ChatRequest", ChatRequestBody.model_json_schema(ref_template=REF))
    schemas["ChatRequest"]["properties"]["messages"] = {
        "anyOf": [{"$ref": REF.format(model=f"Messages_{name}")} for name in FORMATS],
        "minItems": 1,
        "description": "In the form that `format` names.",
    }
    schemas |= {"Function": FUNCTION, "Event": EVENT}
    for field in ("functions", "tools"):
        schemas["ChatRequest"]["properties"][field]["anyOf"][0]["items"] = TOOL
    _define(schemas, "Error", ErrorBody.model_json_schema(ref_template=REF))
    _define(schemas, "ChatReply", WholeReply.model_json_schema(ref_template=REF))
    document["paths"]["/v1/chat"] = {"post": _operation()}
    _add_convert(document, schemas)
    document["paths"]["/v1/chat/completions"] = {"post": _completions(schemas)}
    document["paths"]["/v1/chat/{response_id}/events"] = {"get": _resume()}
    document["paths"]["/v1/chat/{response_id}"] = {"get": _read(), "delete": _cancel()}


def _define_messages(schemas: dict[str, Any], row: Format) -> None:
    """The classes of each format under names of their own: several have a `FunctionCall`."""
    reference = f"#/components/schemas/{row.name}_{{model}}"
    schema = TypeAdapter(row.schema).json_schema(ref_template=reference)
    schemas.update({f"{row.name}_{name}": body for name, body in schema.pop("$defs", {}).items()})
    schemas[f"Messages_{row.name}"] = schema


def _add_convert(document: dict[str, Any], schemas: dict[str, Any]) -> None:
    _define(schemas, "Conversion", Conversion.model_json_schema(ref_template=REF))
    _define(schemas, "Converted", Converted.model_json_schema(ref_template=REF))
    operation = document["paths"]["/v1/convert"]["post"]
    operation["requestBody"] = {"required": True, "content": _json_content("Conversion")}
    operation["responses"] = {
        "200": {"description": "The messages, and what was lost", "content": _json_content("Converted")},
        "400": {"description": "No JSON", "content": _json_content("Error")},
        "403": {"description": "A web page of an origin that is not allowed", "content": _json_content("Error")},
        "413": {"description": "The body is too large", "content": _json_content("Error")},
        "415": {"description": "The content type is not JSON", "content": _json_content("Error")},
        "421": {"description": "A host that is not allowed", "content": _json_content("Error")},
        "422": {"description": "Violations, each with its JSON path", "content": _json_content("Error")},
    }


def _json_content(model: str) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": REF.format(model=model)}}}


def _completions(schemas: dict[str, Any]) -> dict[str, Any]:
    schemas |= {"CompletionRequest": COMPLETION_REQUEST, "OpenAIError": OPENAI_ERROR}
    operation = _operation()
    operation |= {"summary": "The same for clients of OpenAI's SDKs", "operationId": "completions"}
    operation["requestBody"] = {"required": True, "content": _json_content("CompletionRequest")}
    for status, answer in operation["responses"].items():
        answer["content"] = _json_content("OpenAIError")
        if status == "200":
            answer["description"] = "A `chat.completion`, or its chunks with `stream: true`"
            answer["content"] = {"text/event-stream": {}, "application/json": {"schema": {"type": "object"}}}
    return operation


_RESPONSE_ID = {"name": "response_id", "in": "path", "required": True, "schema": {"type": "string"}}
_NO_REPLY = {"description": "No such reply, or it ended too long ago", "content": _json_content("Error")}


def _resume() -> dict[str, Any]:
    number = {"type": "string", "pattern": "^[0-9]{1,15}$"}
    what = "How many frames were read: in `qwen`, the `seq` of the last one."
    return {
        "tags": ["chat"],
        "summary": "The rest of a reply, for a caller who lost it",
        "operationId": "resume",
        "parameters": [
            _RESPONSE_ID,
            {"name": "after", "in": "query", "schema": number, "description": what},
            {
                "name": "Last-Event-ID",
                "in": "header",
                "schema": number,
                "description": "The same; the higher one counts.",
            },
        ],
        "responses": {
            "200": {
                "description": "The frames that follow, as they come",
                "content": {"text/event-stream": {"schema": {"$ref": REF.format(model="Event")}}},
            },
            "204": {"description": "It has ended, and all of its frames were read"},
            "404": _NO_REPLY,
            "422": {"description": "No number", "content": _json_content("Error")},
            "503": {"description": "No room", "content": _json_content("Error")},
        },
    }


def _read() -> dict[str, Any]:
    progress = {
        "type": "object",
        "properties": {"response_id": {"type": "string"}, "status": {"const": "in_progress"}},
        "required": ["response_id", "status"],
    }
    reply = {"anyOf": [{"$ref": REF.format(model="ChatReply")}, OTHER_REPLY]}
    return {
        "tags": ["chat"],
        "summary": "The whole of a reply that was streamed, in the format in which it was asked for",
        "operationId": "read_reply",
        "parameters": [_RESPONSE_ID],
        "responses": {
            "200": {"description": "The reply", "content": {"application/json": {"schema": reply}}},
            "202": {
                "description": "It is still coming: ask again after Retry-After, or read its events",
                "content": {"application/json": {"schema": progress}},
            },
            "404": _NO_REPLY,
            "409": {"description": "It was cancelled, or its caller had left", "content": _json_content("Error")},
            "502": {"description": "The model server failed", "content": _json_content("Error")},
            "503": {"description": "No room", "content": _json_content("Error")},
            "504": {"description": "The model server timed out", "content": _json_content("Error")},
        },
    }


def _cancel() -> dict[str, Any]:
    done = {
        "type": "object",
        "properties": {"response_id": {"type": "string"}, "cancelled": {"type": "boolean"}},
        "required": ["response_id", "cancelled"],
    }
    what = "It is forgotten; `cancelled` is false where it had ended by itself"
    return {
        "tags": ["chat"],
        "summary": "Stop a reply, and forget it",
        "operationId": "cancel",
        "parameters": [_RESPONSE_ID],
        "responses": {
            "200": {"description": what, "content": {"application/json": {"schema": done}}},
            "404": _NO_REPLY,
            "503": {"description": "Another gateway gives it and cannot be told", "content": _json_content("Error")},
        },
    }


def _define(schemas: dict[str, Any], name: str, schema: dict[str, Any]) -> None:
    schemas.update(schema.pop("$defs", {}))
    schemas[name] = schema


def _operation() -> dict[str, Any]:
    example = {"messages": [{"role": "user", "content": "What is the weather in Paris?"}]}
    problem = {"application/json": {"schema": {"anyOf": [{"$ref": REF.format(model="Error")}, AUTOGEN_ERROR]}}}
    statuses = {
        "400": "No JSON, or the model server refused the request",
        "403": "A web page of an origin that is not allowed",
        "404": "Unknown model",
        "405": "Another method than POST",
        "413": "The body is too large",
        "415": "The content type is not JSON",
        "421": "A host that is not allowed",
        "422": "Violations, each with its JSON path",
        "429": "The model server's rate limit or quota; Retry-After as it said",
        "500": "A defect of the gateway",
        "502": "The model server failed",
        "503": "No room here or there",
        "504": "The model server timed out",
    }
    return {
        "tags": ["chat"],
        "summary": "Have a model answer a conversation",
        "operationId": "chat",
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": {"$ref": REF.format(model="ChatRequest")}, "example": example}},
        },
        "responses": {
            "200": {
                "description": "The reply: frames of a stream, or whole with `stream: false`",
                "content": {
                    "text/event-stream": {"schema": {"$ref": REF.format(model="Event")}},
                    "application/json": {"schema": {"anyOf": [{"$ref": REF.format(model="ChatReply")}, OTHER_REPLY]}},
                },
            },
            **{status: {"description": text, "content": problem} for status, text in statuses.items()},
        },
    }


class UpstreamError(BaseModel):
    status: int | None = None
    message: str
    detail: Any = None


class ViolationBody(BaseModel):
    param: str | None
    message: str


class ErrorDetail(BaseModel):
    code: str
    message: str
    param: str | None
    status: int
    retryable: bool
    request_id: str
    upstream: UpstreamError | None = None
    violations: list[ViolationBody] | None = None
    retry_after_seconds: float | None = None


class ErrorBody(BaseModel):
    error: ErrorDetail
    messages: list[dict[str, Any]] | None = None
    """What the model had said until then (`stream: false`)."""


class WholeReply(BaseModel):
    response_id: str
    created: int
    model: str
    messages: list[dict[str, Any]]
    finish_reason: str
    usage: dict[str, Any] | None
    cached: bool
    age: int | None = None
    """Seconds since a cached reply was made."""
    warnings: list[str]
    extra: dict[str, Any] | None = None
