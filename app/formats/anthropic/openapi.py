"""`POST /v1/messages` and its token count: Anthropic's Messages API (docs/reference/formats/anthropic.md)."""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from app.formats import openapi
from app.formats.anthropic.body import CountTokensRequest, MessagesRequest
from app.formats.openapi import (
    BodyPart,
    Described,
    FormatPart,
    Json,
    UpstreamError,
    ViolationBody,
    event_stream,
    give_examples,
    json_content,
)

_QUESTION: Json = {"role": "user", "content": "What is the weather in Paris?"}
_TOOL: Json = {
    "name": "get_weather",
    "description": "The weather of a city",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
}
_EXAMPLES: list[Json] = [
    {"model": "demo", "max_tokens": 500, "messages": [_QUESTION]},
    {"model": "demo", "max_tokens": 500, "messages": [_QUESTION], "tools": [_TOOL], "stream": True},
]
_COUNT_EXAMPLES: list[Json] = [{"model": "demo", "messages": [_QUESTION]}]


class ThinkingReply(Described):
    type: Literal["thinking"]
    thinking: str
    signature: str
    """Send it back with the block."""


class RedactedThinkingReply(Described):
    type: Literal["redacted_thinking"]
    data: str


class TextReply(Described):
    type: Literal["text"]
    text: str


class ToolUseReply(Described):
    type: Literal["tool_use"]
    id: str
    name: str
    input: Any
    """The arguments; an object, unless the model wrote something else."""


class ServerToolUseReply(Described):
    """A call that the gateway runs."""

    type: Literal["mcp_tool_use"]
    id: str
    name: str
    """The tool's name at its server."""
    server_name: str
    """Empty if the tool was not offered."""
    input: dict[str, Any]
    """Arguments that are no object are the text `invalid_arguments`."""


class ServerToolResultReply(Described):
    """The result of a call that the gateway ran."""

    type: Literal["mcp_tool_result"]
    tool_use_id: str
    is_error: bool
    content: list[TextReply]


class CompactionReply(Described):
    """A summary of the conversation, which replaces everything before it in later requests."""

    type: Literal["compaction"]
    content: str | None
    """Null at the start of the block in a stream."""


ReplyBlock: TypeAlias = Annotated[
    ThinkingReply
    | RedactedThinkingReply
    | TextReply
    | ToolUseReply
    | ServerToolUseReply
    | ServerToolResultReply
    | CompactionReply,
    Field(discriminator="type"),
]


class AnthropicUsage(Described):
    input_tokens: int
    output_tokens: int
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    output_tokens_details: dict[str, Any] | None = None
    cost: float | None = None
    iterations: list[dict[str, Any]] | None = None
    """The usage of each call to the model, if the conversation was summarized before the reply."""


StopReason: TypeAlias = Literal[
    "end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal", "pause_turn", "compaction"
]


class AppliedEdits(Described):
    applied_edits: list[dict[str, Any]]
    """Each has its type, how much was cleared, and `cleared_input_tokens`."""


class OriginalCount(Described):
    original_input_tokens: int


class AnthropicReply(Described):
    """A whole reply in Anthropic's format."""

    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    model: str
    content: list[ReplyBlock]
    stop_reason: StopReason | None
    """Null only in `message_start`."""
    stop_sequence: str | None
    usage: AnthropicUsage
    context_management: AppliedEdits | None = None
    """What was cleared of the conversation, if the request asks for edits."""
    parley: dict[str, Any] | None = None
    """Warnings, and what Anthropic's format has no place for."""


class MessageStartEvent(Described):
    type: Literal["message_start"]
    message: AnthropicReply


class ContentBlockStartEvent(Described):
    type: Literal["content_block_start"]
    index: int
    content_block: ReplyBlock


class ThinkingDelta(Described):
    type: Literal["thinking_delta"]
    thinking: str


class SignatureDelta(Described):
    type: Literal["signature_delta"]
    signature: str


class TextBlockDelta(Described):
    type: Literal["text_delta"]
    text: str


class InputJsonDelta(Described):
    type: Literal["input_json_delta"]
    partial_json: str


class CompactionDelta(Described):
    type: Literal["compaction_delta"]
    content: str


class ContentBlockDeltaEvent(Described):
    type: Literal["content_block_delta"]
    index: int
    delta: Annotated[
        ThinkingDelta | SignatureDelta | TextBlockDelta | InputJsonDelta | CompactionDelta, Field(discriminator="type")
    ]


class ContentBlockStopEvent(Described):
    type: Literal["content_block_stop"]
    index: int


class MessageDeltaFields(Described):
    stop_reason: StopReason
    stop_sequence: str | None
    stop_details: dict[str, Any] | None = None


class AnthropicMessageDeltaEvent(Described):
    type: Literal["message_delta"]
    delta: MessageDeltaFields
    usage: AnthropicUsage
    context_management: AppliedEdits | None = None
    """What was cleared of the conversation, if the request asks for edits."""
    parley: dict[str, Any] | None = None
    """Warnings, and what Anthropic's format has no place for."""


class MessageStopEvent(Described):
    type: Literal["message_stop"]


class PingEvent(Described):
    """A heartbeat."""

    type: Literal["ping"]


class CountedTokens(Described):
    """The tokens of a request."""

    model_config = give_examples({"input_tokens": 11})

    input_tokens: int
    context_management: OriginalCount | None = None
    """The number before the edits that the request asks for; `input_tokens` is the one after them."""


class AnthropicErrorDetail(Described):
    type: str
    """Anthropic's kind of error, such as `invalid_request_error`."""
    message: str
    code: str
    """Parley's own code."""
    retryable: bool
    param: str | None = None
    violations: list[ViolationBody] | None = None
    upstream: UpstreamError | None = None
    retry_after_seconds: float | None = None
    usage: dict[str, Any] | None = None
    details: dict[str, Any] | None = None


class AnthropicErrorBody(Described):
    """An error in Anthropic's form; also the data of the event `error`."""

    type: Literal["error"]
    error: AnthropicErrorDetail
    request_id: str


AnthropicEvent: TypeAlias = Annotated[
    MessageStartEvent
    | ContentBlockStartEvent
    | ContentBlockDeltaEvent
    | ContentBlockStopEvent
    | AnthropicMessageDeltaEvent
    | MessageStopEvent
    | PingEvent
    | AnthropicErrorBody,
    Field(discriminator="type"),
]

_STATUSES = openapi.select(
    *("401", "403", "404", "405", "413", "415", "421", "429", "500", "502", "504"),
    status_400="Violations, each with its JSON path, or the model server refused the request",
    status_402="The quota of the API key, or of the model server, is used up",
    status_529="The gateway or the model server is overloaded",
)


def _describe_paths() -> Json:
    content = {**json_content("AnthropicReply"), **event_stream("AnthropicEvent")}
    errors = openapi.describe_errors(_STATUSES, "AnthropicErrorBody")
    create = openapi.describe_operation(
        ("anthropic", "Create a reply, for clients of Anthropic's SDKs", "messages"),
        {"200": ("A message, or its events with `stream: true`", content)},
        errors,
        body="MessagesRequest",
    )
    count = openapi.describe_operation(
        ("anthropic", "Count the input tokens of a request", "count_tokens"),
        {"200": ("The number of tokens", json_content("CountedTokens"))},
        errors,
        body="CountTokensRequest",
    )
    return {"/v1/messages": {"post": create}, "/v1/messages/count_tokens": {"post": count}}


PART = FormatPart(
    "Anthropic",
    (AnthropicReply,),
    "AnthropicEvent",
    AnthropicEvent,
    AnthropicErrorBody,
    (CountedTokens,),
    (
        BodyPart("MessagesRequest", MessagesRequest, _EXAMPLES),
        BodyPart("CountTokensRequest", CountTokensRequest, _COUNT_EXAMPLES),
    ),
    _describe_paths,
)
