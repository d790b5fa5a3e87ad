"""`POST /v1/messages` and its token count: Anthropic's Messages API (docs/reference/formats/anthropic.md)."""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from app.formats import openapi as errors
from app.formats.openapi import Described, Json, event_stream, give_examples, json_content

_USAGE: Json = {"input_tokens": 11, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 21}
_QUESTION: Json = {"role": "user", "content": "What is the weather in Paris?"}
_TOOL: Json = {
    "name": "get_weather",
    "description": "The weather of a city",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
}
REQUEST_EXAMPLES: list[Json] = [
    {"model": "demo", "max_tokens": 500, "messages": [_QUESTION]},
    {"model": "demo", "max_tokens": 500, "messages": [_QUESTION], "tools": [_TOOL], "stream": True},
]
COUNT_EXAMPLES: list[Json] = [{"model": "demo", "messages": [_QUESTION]}]


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


ReplyBlock: TypeAlias = Annotated[
    ThinkingReply | RedactedThinkingReply | TextReply | ToolUseReply, Field(discriminator="type")
]


class AnthropicUsage(Described):
    input_tokens: int
    output_tokens: int
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    output_tokens_details: dict[str, Any] | None = None
    cost: float | None = None


StopReason: TypeAlias = Literal["end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal"]


class AnthropicReply(Described):
    """A whole reply in Anthropic's format."""

    model_config = give_examples(
        {
            "id": "msg_e939170dfbc19ea1",
            "type": "message",
            "role": "assistant",
            "model": "demo",
            "content": [
                {"type": "thinking", "thinking": "I need the weather of Paris.", "signature": "parley1.e30"},
                {"type": "tool_use", "id": "call_9a153a93", "name": "get_weather", "input": {"city": "Paris"}},
            ],
            "stop_reason": "tool_use",
            "stop_sequence": None,
            "usage": _USAGE,
        }
    )

    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    model: str
    content: list[ReplyBlock]
    stop_reason: StopReason | None
    """Null only in `message_start`."""
    stop_sequence: str | None
    usage: AnthropicUsage
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


class ContentBlockDeltaEvent(Described):
    model_config = give_examples(
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Let"}}
    )

    type: Literal["content_block_delta"]
    index: int
    delta: Annotated[ThinkingDelta | SignatureDelta | TextBlockDelta | InputJsonDelta, Field(discriminator="type")]


class ContentBlockStopEvent(Described):
    type: Literal["content_block_stop"]
    index: int


class MessageDeltaFields(Described):
    stop_reason: StopReason
    stop_sequence: str | None
    stop_details: dict[str, Any] | None = None


class AnthropicMessageDeltaEvent(Described):
    model_config = give_examples(
        {"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": None}, "usage": _USAGE}
    )

    type: Literal["message_delta"]
    delta: MessageDeltaFields
    usage: AnthropicUsage
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


AnthropicEvent: TypeAlias = Annotated[
    MessageStartEvent
    | ContentBlockStartEvent
    | ContentBlockDeltaEvent
    | ContentBlockStopEvent
    | AnthropicMessageDeltaEvent
    | MessageStopEvent
    | PingEvent
    | errors.AnthropicErrorBody,
    Field(discriminator="type"),
]

_STATUSES = errors.select(
    *("401", "403", "404", "405", "413", "415", "421", "429", "500", "502", "504"),
    status_400="Violations, each with its JSON path, or the model server refused the request",
    status_402="The quota of the API key, or of the model server, is used up",
    status_529="The gateway or the model server is overloaded",
)


def describe_paths() -> Json:
    content = {**json_content("AnthropicReply"), **event_stream("AnthropicEvent")}
    return {
        "/v1/messages": {
            "post": {
                "tags": ["anthropic"],
                "summary": "Create a reply, for clients of Anthropic's SDKs",
                "operationId": "messages",
                "requestBody": {"required": True, "content": json_content("MessagesRequest")},
                "responses": {
                    "200": {"description": "A message, or its events with `stream: true`", "content": content},
                    **errors.describe_errors(_STATUSES, "AnthropicErrorBody"),
                },
            }
        },
        "/v1/messages/count_tokens": {
            "post": {
                "tags": ["anthropic"],
                "summary": "Count the input tokens of a request",
                "operationId": "count_tokens",
                "requestBody": {"required": True, "content": json_content("CountTokensRequest")},
                "responses": {
                    "200": {"description": "The number of tokens", "content": json_content("CountedTokens")},
                    **errors.describe_errors(_STATUSES, "AnthropicErrorBody"),
                },
            }
        },
    }
