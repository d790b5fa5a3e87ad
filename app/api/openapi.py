"""Build the OpenAPI document: the routes that FastAPI knows, and the endpoints that are served without FastAPI.

Where no pydantic type describes a value, its JSON schema is written here.
"""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel, TypeAdapter

from app.api.chat_schema import ChatRequestBody
from app.api.convert import Conversion, Converted
from app.api.messages import CountTokensRequest, MessagesRequest
from app.api.openai_responses import openapi as responses_api
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
    "description": "One frame of a stream: an event in the format `qwen`; other formats have their own frames.",
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
    "description": "An error in the form of AutoGen's own service (format `autogen`).",
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
    "description": "A request in OpenAI's format. Unknown fields are passed on to the model server.",
    "type": "object",
    "properties": {
        "model": {"type": "string"},
        "messages": {"$ref": REF.format(model="Messages_openai")},
        "stream": {"type": "boolean", "default": False},
        "n": {"const": 1},
        "cache": {
            "$ref": REF.format(model="CacheControl"),
            "description": "An extension of Parley: how to use the cache.",
        },
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


ANTHROPIC_ERROR: dict[str, Any] = {
    "title": "AnthropicError",
    "type": "object",
    "properties": {
        "type": {"const": "error"},
        "error": {
            "type": "object",
            "properties": {
                "type": {"type": "string"},
                "message": {"type": "string"},
                "code": {"type": "string", "description": "Parley's own code."},
                "retryable": {"type": "boolean"},
            },
            "required": ["type", "message", "code", "retryable"],
        },
        "request_id": {"type": "string"},
    },
    "required": ["type", "error", "request_id"],
}
ANTHROPIC_MESSAGE: dict[str, Any] = {
    "title": "AnthropicMessage",
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "type": {"const": "message"},
        "role": {"const": "assistant"},
        "model": {"type": "string"},
        "content": {"type": "array", "items": {"type": "object"}},
        "stop_reason": {"enum": ["end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal"]},
        "stop_sequence": {"type": ["string", "null"]},
        "usage": {"type": "object"},
        "parley": {"type": "object", "description": "Warnings, and what Anthropic's format has no place for."},
    },
    "required": ["id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "usage"],
}


def install_openapi(app: FastAPI) -> None:
    """Make `app.openapi()` describe every endpoint."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = get_openapi(title=app.title, version=app.version, routes=app.routes, summary=app.summary)
            _add_chat(document)
            _add_security(document)
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documented way


SECURITY_SCHEMES: dict[str, Any] = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "An API key of the gateway."},
    "x-api-key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
    "api-key": {"type": "apiKey", "in": "header", "name": "api-key"},
}


def _add_security(document: dict[str, Any]) -> None:
    """Describe the API key, which every path but the health checks needs if the gateway has keys."""
    document["components"]["securitySchemes"] = SECURITY_SCHEMES
    document["security"] = [{}, *({name: []} for name in SECURITY_SCHEMES)]
    for path, operations in document["paths"].items():
        for operation in operations.values():
            if path in ("/healthz", "/readyz"):
                operation["security"] = []
            elif "4XX" not in operation["responses"]:
                description = "No API key, an unknown or an expired one"
                operation["responses"].setdefault(
                    "401", {"description": description, "content": _json_content("Error")}
                )


def _add_chat(document: dict[str, Any]) -> None:
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    for format_ in FORMATS.values():
        _define_messages(schemas, format_)
    _define(schemas, "ChatRequest", ChatRequestBody.model_json_schema(ref_template=REF))
    schemas["ChatRequest"]["properties"]["messages"] = {
        "anyOf": [{"$ref": REF.format(model=f"Messages_{name}")} for name in FORMATS],
        "minItems": 1,
        "description": "Messages in the format that `format` names.",
    }
    schemas |= {"Function": FUNCTION, "Event": EVENT}
    for field in ("functions", "tools"):
        schemas["ChatRequest"]["properties"][field]["anyOf"][0]["items"] = TOOL
    _define(schemas, "Error", ErrorBody.model_json_schema(ref_template=REF))
    _define(schemas, "ChatReply", WholeReply.model_json_schema(ref_template=REF))
    document["paths"]["/v1/chat"] = {"post": _describe_chat()}
    _add_convert(document, schemas)
    document["paths"]["/v1/chat/completions"] = {"post": _describe_completions(schemas)}
    schemas |= responses_api.SCHEMAS
    document["paths"] |= responses_api.describe_paths()
    document["paths"]["/v1/messages"] = {"post": _describe_messages(schemas)}
    document["paths"]["/v1/messages/count_tokens"] = {"post": _describe_token_count(schemas)}
    document["paths"]["/v1/chat/{response_id}/events"] = {"get": _describe_resume()}
    document["paths"]["/v1/chat/{response_id}"] = {"get": _describe_read(), "delete": _describe_cancel()}


def _define_messages(schemas: dict[str, Any], format_: Format) -> None:
    """Define the classes of a format under names with its prefix: several formats have a `FunctionCall`."""
    reference = f"#/components/schemas/{format_.name}_{{model}}"
    schema = TypeAdapter(format_.schema).json_schema(ref_template=reference)
    schemas.update({f"{format_.name}_{name}": body for name, body in schema.pop("$defs", {}).items()})
    schemas[f"Messages_{format_.name}"] = schema


def _add_convert(document: dict[str, Any], schemas: dict[str, Any]) -> None:
    _define(schemas, "Conversion", Conversion.model_json_schema(ref_template=REF))
    _define(schemas, "Converted", Converted.model_json_schema(ref_template=REF))
    operation = document["paths"]["/v1/convert"]["post"]
    operation["requestBody"] = {"required": True, "content": _json_content("Conversion")}
    operation["responses"] = {
        "200": {"description": "The messages, and what was lost", "content": _json_content("Converted")},
        "400": {"description": "The body is not valid JSON", "content": _json_content("Error")},
        "403": {"description": "A web page of an origin that is not allowed", "content": _json_content("Error")},
        "413": {"description": "The body is too large", "content": _json_content("Error")},
        "415": {"description": "The content type is not JSON", "content": _json_content("Error")},
        "421": {"description": "A host that is not allowed", "content": _json_content("Error")},
        "422": {"description": "Violations, each with its JSON path", "content": _json_content("Error")},
    }


def _json_content(model: str) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": REF.format(model=model)}}}


def _describe_completions(schemas: dict[str, Any]) -> dict[str, Any]:
    schemas |= {"CompletionRequest": COMPLETION_REQUEST, "OpenAIError": OPENAI_ERROR}
    operation = _describe_chat()
    operation |= {"summary": "Create a reply, for clients of OpenAI's SDKs", "operationId": "completions"}
    operation["requestBody"] = {"required": True, "content": _json_content("CompletionRequest")}
    for status, answer in operation["responses"].items():
        answer["content"] = _json_content("OpenAIError")
        if status == "200":
            answer["description"] = "A `chat.completion`, or its chunks with `stream: true`"
            answer["content"] = {"text/event-stream": {}, "application/json": {"schema": {"type": "object"}}}
    return operation


def _describe_messages(schemas: dict[str, Any]) -> dict[str, Any]:
    _define(schemas, "MessagesRequest", MessagesRequest.model_json_schema(ref_template=REF))
    schemas["MessagesRequest"]["properties"]["messages"] = {"$ref": REF.format(model="Messages_anthropic")}
    schemas |= {"AnthropicError": ANTHROPIC_ERROR, "AnthropicMessage": ANTHROPIC_MESSAGE}
    operation = _describe_chat()
    operation |= {"summary": "Create a reply, for clients of Anthropic's SDKs", "operationId": "messages"}
    operation["requestBody"] = {"required": True, "content": _json_content("MessagesRequest")}
    operation["responses"] = _anthropic_responses(operation["responses"])
    operation["responses"]["200"] = {
        "description": "A message, or its events with `stream: true`",
        "content": {"text/event-stream": {}, **_json_content("AnthropicMessage")},
    }
    return operation


def _describe_token_count(schemas: dict[str, Any]) -> dict[str, Any]:
    _define(schemas, "CountTokensRequest", CountTokensRequest.model_json_schema(ref_template=REF))
    schemas["CountTokensRequest"]["properties"]["messages"] = {"$ref": REF.format(model="Messages_anthropic")}
    operation = _describe_chat()
    operation |= {"summary": "Count the input tokens of a request", "operationId": "count_tokens"}
    operation["requestBody"] = {"required": True, "content": _json_content("CountTokensRequest")}
    counted = {
        "type": "object",
        "properties": {"input_tokens": {"type": "integer"}},
        "required": ["input_tokens"],
    }
    operation["responses"] = _anthropic_responses(operation["responses"]) | {
        "200": {"description": "The number of tokens", "content": {"application/json": {"schema": counted}}}
    }
    return operation


def _anthropic_responses(responses: dict[str, Any]) -> dict[str, Any]:
    """Return the responses of `POST /v1/chat` with Anthropic's statuses and errors."""
    statuses = {"422": "400", "503": "529"}
    found = {statuses.get(status, status): {**answer} for status, answer in responses.items() if status != "422"}
    found["401"] = {"description": "No API key, an unknown or an expired one"}
    found["529"]["description"] = "The gateway or the model server is overloaded"
    found["400"]["description"] = "Violations, each with its JSON path, or the model server refused the request"
    found["402"] = {"description": "The quota of the API key, or of the model server, is used up"}
    for answer in found.values():
        answer["content"] = _json_content("AnthropicError")
    return dict(sorted(found.items()))


_RESPONSE_ID = {"name": "response_id", "in": "path", "required": True, "schema": {"type": "string"}}
_NO_REPLY = {"description": "No such reply, or it ended too long ago", "content": _json_content("Error")}


def _describe_resume() -> dict[str, Any]:
    number = {"type": "string", "pattern": "^[0-9]{1,15}$"}
    description = "How many frames the client has read; in the format `qwen`, the `seq` of the last one."
    return {
        "tags": ["chat"],
        "summary": "Resume the stream of a reply after a lost connection",
        "operationId": "resume",
        "parameters": [
            _RESPONSE_ID,
            {"name": "after", "in": "query", "schema": number, "description": description},
            {
                "name": "Last-Event-ID",
                "in": "header",
                "schema": number,
                "description": "The same as `after`; the larger number is used.",
            },
        ],
        "responses": {
            "200": {
                "description": "The frames that follow, as they arrive",
                "content": {"text/event-stream": {"schema": {"$ref": REF.format(model="Event")}}},
            },
            "204": {"description": "The reply has ended, and the client has read all of its frames"},
            "404": _NO_REPLY,
            "422": {"description": "Not a number", "content": _json_content("Error")},
            "503": {"description": "The gateway is overloaded", "content": _json_content("Error")},
        },
    }


def _describe_read() -> dict[str, Any]:
    progress = {
        "type": "object",
        "properties": {"response_id": {"type": "string"}, "status": {"const": "in_progress"}},
        "required": ["response_id", "status"],
    }
    reply = {"anyOf": [{"$ref": REF.format(model="ChatReply")}, OTHER_REPLY]}
    return {
        "tags": ["chat"],
        "summary": "Read the whole of a streamed reply, in the format of its request",
        "operationId": "read_reply",
        "parameters": [_RESPONSE_ID],
        "responses": {
            "200": {"description": "The reply", "content": {"application/json": {"schema": reply}}},
            "202": {
                "description": "The reply has not ended: send the request again after Retry-After, or read its events",
                "content": {"application/json": {"schema": progress}},
            },
            "404": _NO_REPLY,
            "409": {
                "description": "The reply was cancelled, or its client disconnected",
                "content": _json_content("Error"),
            },
            "502": {"description": "The model server failed", "content": _json_content("Error")},
            "503": {"description": "The gateway is overloaded", "content": _json_content("Error")},
            "504": {"description": "The model server timed out", "content": _json_content("Error")},
        },
    }


def _describe_cancel() -> dict[str, Any]:
    done = {
        "type": "object",
        "properties": {"response_id": {"type": "string"}, "cancelled": {"type": "boolean"}},
        "required": ["response_id", "cancelled"],
    }
    description = "The reply is deleted; `cancelled` is false if it had already ended"
    return {
        "tags": ["chat"],
        "summary": "Stop a reply and delete it",
        "operationId": "cancel",
        "parameters": [_RESPONSE_ID],
        "responses": {
            "200": {"description": description, "content": {"application/json": {"schema": done}}},
            "404": _NO_REPLY,
            "503": {
                "description": "Another gateway serves the reply and cannot be reached",
                "content": _json_content("Error"),
            },
        },
    }


def _define(schemas: dict[str, Any], name: str, schema: dict[str, Any]) -> None:
    schemas.update(schema.pop("$defs", {}))
    schemas[name] = schema


def _describe_chat() -> dict[str, Any]:
    example = {"messages": [{"role": "user", "content": "What is the weather in Paris?"}]}
    errors = [{"$ref": REF.format(model="Error")}, {"$ref": REF.format(model="AnthropicError")}, AUTOGEN_ERROR]
    problem = {"application/json": {"schema": {"anyOf": errors}}}
    statuses = {
        "400": "The body is not valid JSON, or the model server refused the request; with `reply_format` anthropic or "
        "responses, also violations",
        "402": "With `reply_format` anthropic: the quota is used up",
        "403": "A model that the API key may not use, or a web page of an origin that is not allowed",
        "404": "Unknown model",
        "405": "Another method than POST",
        "413": "The body is too large",
        "415": "The content type is not JSON",
        "421": "A host that is not allowed",
        "422": "Violations, each with its JSON path",
        "429": "A limit of the caller, the model or the gateway, or the model server's own rate limit or quota",
        "500": "A defect of the gateway",
        "502": "The model server failed",
        "503": "The gateway or the model server is overloaded",
        "504": "The model server timed out",
        "529": "With `reply_format` anthropic: the gateway or the model server is overloaded",
    }
    return {
        "tags": ["chat"],
        "summary": "Create a model's reply to a conversation",
        "operationId": "chat",
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": {"$ref": REF.format(model="ChatRequest")}, "example": example}},
        },
        "responses": {
            "200": {
                "description": "The reply: a stream of frames, or one JSON body with `stream: false`",
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
    """The model's messages before the error (`stream: false`)."""


class WholeReply(BaseModel):
    response_id: str
    created: int
    model: str
    messages: list[dict[str, Any]]
    finish_reason: str
    usage: dict[str, Any] | None
    cached: bool
    age: int | None = None
    """The age in seconds of a cached reply."""
    warnings: list[str]
    extra: dict[str, Any] | None = None
