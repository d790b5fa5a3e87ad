"""JSON schemas of the OpenAPI document that no pydantic type says."""

from typing import Any

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
