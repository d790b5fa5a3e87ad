"""What the descriptions of all formats in the OpenAPI document share, and the errors (docs/reference/errors.md)."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct
from pydantic import BaseModel, ConfigDict

Json: TypeAlias = dict[str, Any]
REF = "#/components/schemas/{model}"


class Described(BaseModel):
    """A model for the document alone. The docstrings of its fields are their descriptions."""

    model_config = ConfigDict(use_attribute_docstrings=True)


def give_examples(*examples: Any) -> ConfigDict:
    """Return the configuration of a model with examples."""
    return ConfigDict(json_schema_extra={"examples": list(examples)})


class BodyPart(Struct, frozen=True):
    """The body of a request of a format's own endpoint."""

    name: str
    """That of its component."""
    type_: Any
    """The type that parses it."""
    examples: list[Json]


class FormatPart(Struct, frozen=True):
    """How a format is described: what the types that parse it cannot say."""

    prefix: str
    """Before the names of the models of its messages: several formats have a `FunctionCall`."""
    replies: tuple[type[Described], ...]
    """Whole replies, the usual one first."""
    frame_name: str
    frame: Any
    """What one event of a stream holds."""
    error: type[Described]
    more: tuple[Any, ...] = ()
    """Other models that its paths name."""
    bodies: tuple[BodyPart, ...] = ()
    describe_paths: Callable[[], Json] = dict
    """The operations of its own endpoints, by path."""


def ref(name: str) -> Json:
    return {"$ref": REF.format(model=name)}


def json_content(*names: str) -> Json:
    """Return the content of a body that is one of these components."""
    return {"application/json": {"schema": ref(names[0]) if len(names) == 1 else {"anyOf": [*map(ref, names)]}}}


def event_stream(*names: str) -> Json:
    """Return the content of a stream. Its schema is that of one event, whose data are JSON of one of these components
    (the reading of OpenAPI 3.2, "Server-Sent Events")."""
    data = ref(names[0]) if len(names) == 1 else {"anyOf": [*map(ref, names)]}
    properties = {
        "id": {"type": "string", "description": "The number of the event, from 1; only in the format `qwen`."},
        "event": {"type": "string", "description": "The `type` of the data, in formats with named events."},
        "data": {"type": "string", "contentMediaType": "application/json", "contentSchema": data},
    }
    event = {"type": "object", "description": "One event.", "properties": properties, "required": ["data"]}
    text = {"type": "string", "description": "The whole stream, for clients that read it at once."}
    return {"text/event-stream": {"schema": {"anyOf": [event, text]}}}


class ModelCallNumbers(Described):
    """One call to the model."""

    finish_reason: str
    usage: dict[str, Any] | None
    cached: bool
    cost: float | None = None


class ToolCallNumbers(Described):
    """One call of a tool that the gateway ran."""

    id: str
    server: str
    """Empty if the tool was not offered."""
    tool: str
    outcome: Literal["ok", "error", "not_run"]
    """`not_run`: no server was asked."""
    ms: int
    bytes: int
    """Of its result's text."""


class ServerToolNumbers(Described):
    """What a reply did with tools that the gateway runs."""

    model_calls: list[ModelCallNumbers]
    calls: list[ToolCallNumbers]
    limit: Literal["rounds", "calls", "seconds", "tokens", "bytes"] | None = None
    """The bound at which the reply ended."""


class DescribedMediumFacts(Described):
    """A medium of the request that the model got in the words of another one."""

    model: str
    """The other model."""
    cached: bool
    """Its words were known."""


class TokenNumbers(Described):
    """What the reply used. It may have more of the server's own fields."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    reasoning_tokens: int | None = None
    """Those of `completion_tokens` that are reasoning; in OpenAI's format only in `completion_tokens_details`."""
    cached_tokens: int | None = None
    """Those of `prompt_tokens` that the model server read from its own cache; in OpenAI's format only in
    `prompt_tokens_details`."""
    cost: float | None = None
    """If the model has a price, or the model server reports it."""
    estimated: bool | None = None
    """True if one of the totals is an estimate, because the model server sent only the others."""


class UpstreamError(Described):
    """What is known about the model server that failed."""

    name: str | None = None
    """The configured name of the upstream."""
    cause: str | None = None
    """A word for the cause, such as `connection_refused`."""
    status: int | None
    """The server's own HTTP status; null if there was none."""
    message: str
    """The server's own message. Keys and addresses are removed."""
    detail: Any = None
    """What the server added."""


class ViolationBody(Described):
    param: str | None
    """The JSON path of the mistake."""
    message: str


class ErrorDetail(Described):
    code: str
    """What went wrong. Programs should decide by it alone."""
    message: str
    """For people."""
    param: str | None
    """The JSON path of the mistake in the request, or null."""
    status: int
    """The HTTP status that belongs to the error. In a stream that was already open, the real status was 200."""
    retryable: bool
    """Whether the same request may succeed later."""
    request_id: str
    """The header `x-request-id` of the response."""
    violations: list[ViolationBody] | None = None
    """With `invalid_request`: all mistakes of the request."""
    upstream: UpstreamError | None = None
    """Only if a model server failed."""
    retry_after_seconds: float | None = None
    """How long to wait; also in the header `Retry-After`."""
    scope: str | None = None
    """Whose limit is reached: `all`, `model`, `team`, `key` or `user`."""
    usage: dict[str, Any] | None = None
    """What the reply had used before it failed, if the model server has reported it."""
    input_tokens: int | None = None
    """With `context_length_exceeded`: the tokens of the conversation."""
    max_input_tokens: int | None = None
    """With `context_length_exceeded`: the tokens that the model takes."""


class ErrorBody(Described):
    """An error in Parley's own form."""

    error: ErrorDetail
    messages: list[dict[str, Any]] | None = None
    """With `stream: false`: the model's messages before the error."""


def describe(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the error responses of a route of FastAPI."""
    return {status: {"description": STATUSES[str(status)], "model": ErrorBody} for status in statuses}


def describe_errors(statuses: Json, *models: str) -> Json:
    """Return the error responses of an operation, from descriptions by status."""
    return {status: {"description": text, "content": json_content(*models)} for status, text in statuses.items()}


def describe_operation(
    names: tuple[str, str, str],
    responses: Json,
    errors: Json,
    *,
    body: str = "",
    parameters: Sequence[Json] = (),
) -> Json:
    """Describe what one method of a path does. `names` are its tag, its summary and its id. `responses` holds
    (description, content) by status. `body` is the component of its body."""
    tag, summary, operation_id = names
    operation: Json = {"tags": [tag], "summary": summary, "operationId": operation_id}
    if parameters:
        operation["parameters"] = [*parameters]
    if body:
        operation["requestBody"] = {"required": True, "content": json_content(body)}
    found = {status: {"description": text, "content": content} for status, (text, content) in responses.items()}
    return operation | {"responses": {**found, **errors}}


STATUSES = {
    "400": "The body is not valid JSON, or the model server refused the request",
    "401": "No API key, an unknown or an expired one",
    "402": "The quota of the API key, the model or the gateway, or the credit at the model server, is used up",
    "403": "The API key may not do this, or a web page of an origin that is not allowed",
    "404": "Not found, or an unknown model",
    "405": "Another method",
    "408": "The request took too long to arrive",
    "409": "The reply was cancelled, or its client disconnected",
    "413": "The body is too large",
    "415": "The content type is not JSON",
    "421": "A host that is not allowed",
    "422": "Violations, each with its JSON path",
    "429": "A limit of the caller, the model or the gateway, or the model server's own rate limit or quota",
    "500": "A defect of the gateway",
    "502": "The model server failed",
    "503": "The gateway, its store or the model server is overloaded or cannot be reached",
    "504": "The model server timed out",
    "529": "With `reply_format: anthropic`: the gateway or the model server is overloaded",
}
MODEL_CALL = tuple(STATUSES)
"""The statuses of `POST /v1/chat`."""
COMMON = ("401", "403", "421")
"""The statuses of every operation; the health checks need no key, so they have no 401."""


def select(*statuses: str, **changed: str) -> dict[str, str]:
    """Return the descriptions of statuses, in order. `changed` replaces some: `status_400="…"`."""
    texts = {status: STATUSES[status] for status in statuses}
    texts |= {key.removeprefix("status_"): text for key, text in changed.items()}
    return dict(sorted(texts.items()))
