"""The Responses API in the OpenAPI document."""

from typing import Any

Json = dict[str, Any]

_ERROR_SCHEMA = "#/components/schemas/OpenAIError"
_REQUEST_SCHEMA = "#/components/schemas/ResponsesRequest"
SCHEMAS: Json = {
    "ResponsesRequest": {
        "title": "ResponsesRequest",
        "description": "A request of OpenAI's Responses API. Unknown fields are ignored with a warning.",
        "type": "object",
        "properties": {
            "model": {"type": "string", "minLength": 1},
            "input": {"anyOf": [{"type": "string"}, {"$ref": "#/components/schemas/Messages_responses"}]},
            "instructions": {"type": ["string", "null"]},
            "previous_response_id": {"type": ["string", "null"]},
            "store": {"type": ["boolean", "null"], "default": True},
            "background": {"type": ["boolean", "null"], "default": False},
            "stream": {"type": ["boolean", "null"], "default": False},
        },
        "required": ["model"],
        "additionalProperties": True,
    }
}
_OBJECT: Json = {"application/json": {"schema": {"type": "object"}}}
_STATUSES = {
    "400": "Violations, each with its JSON path; or the model server refused the request",
    "401": "No API key, an unknown or an expired one",
    "403": "A model that the API key may not use, or a web page of an origin that is not allowed",
    "404": "Unknown model, or no such response",
    "405": "Another method",
    "408": "The request took too long to arrive",
    "413": "The body is too large",
    "415": "The content type is not JSON",
    "421": "A host that is not allowed",
    "429": "A rate limit or quota",
    "500": "A defect of the gateway",
    "502": "The model server failed",
    "503": "The gateway or the model server is overloaded",
    "504": "The model server timed out",
}


def describe_paths() -> Json:
    id_ = {"name": "response_id", "in": "path", "required": True, "schema": {"type": "string"}}
    query = [
        {"name": "stream", "in": "query", "schema": {"type": "boolean"}},
        {"name": "starting_after", "in": "query", "schema": {"type": "integer", "minimum": 0}},
    ]
    page = [
        {"name": "limit", "in": "query", "schema": {"type": "integer", "minimum": 1, "maximum": 100, "default": 20}},
        {"name": "order", "in": "query", "schema": {"enum": ["asc", "desc"], "default": "desc"}},
        {"name": "after", "in": "query", "schema": {"type": "string"}},
    ]
    events = {"text/event-stream": {}, **_OBJECT}
    return {
        "/v1/responses": {"post": _describe("Create a response", "create_response", content=events, body=True)},
        "/v1/responses/input_tokens": {
            "post": _describe("Count the tokens of a request", "count_input_tokens", body=True)
        },
        "/v1/responses/{response_id}": {
            "get": _describe("Read a stored response, or its events", "get_response", [id_, *query], events),
            "delete": _describe("Delete a stored response", "delete_response", [id_]),
        },
        "/v1/responses/{response_id}/cancel": {"post": _describe("Stop a response", "cancel_response", [id_])},
        "/v1/responses/{response_id}/input_items": {
            "get": _describe("List the input of a stored response", "list_input_items", [id_, *page])
        },
    }


def _describe(
    summary: str,
    operation_id: str,
    parameters: list[Json] | None = None,
    content: Json = _OBJECT,
    *,
    body: bool = False,
) -> Json:
    operation: Json = {"tags": ["responses"], "summary": summary, "operationId": operation_id}
    if parameters:
        operation["parameters"] = parameters
    if body:
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": {"$ref": _REQUEST_SCHEMA}}},
        }
    problem = {"application/json": {"schema": {"$ref": _ERROR_SCHEMA}}}
    operation["responses"] = {
        "200": {"description": "OK", "content": content},
        **{status: {"description": text, "content": problem} for status, text in _STATUSES.items()},
    }
    return operation
