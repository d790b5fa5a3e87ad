"""`POST /v1/chat/completions`: OpenAI's chat completions (docs/reference/formats/openai.md)."""

from typing import Any, Literal

from pydantic import ConfigDict, Field

from app.formats import openapi as errors
from app.formats.body import CacheChoice
from app.formats.openai.schema import OpenAIMessage
from app.formats.openapi import Described, FinishReason, Json, TokenNumbers, event_stream, give_examples, json_content

_ID = "chat-4cf44623d4a142697be04792c5bd1e7f"
_USAGE: Json = {"prompt_tokens": 11, "completion_tokens": 21, "total_tokens": 32}
_HEAD: Json = {"id": _ID, "created": 1795364882, "model": "demo"}
_CALL: Json = {
    "id": "call_9a153a93",
    "type": "function",
    "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'},
}


class CompletionRequest(Described):
    """A request in OpenAI's format. Unknown fields are passed on to the model server."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "examples": [
                {"model": "demo", "messages": [{"role": "user", "content": "What can you do?"}]},
                {"model": "demo", "messages": [{"role": "user", "content": "What can you do?"}], "stream": True},
            ]
        },
    )

    model: str = ""
    """A name of `GET /v1/models`; needed unless there is a default model."""
    messages: list[OpenAIMessage] = Field(min_length=1)
    stream: bool = False
    n: Literal[1] = 1
    """A request gets one reply."""
    cache: CacheChoice = None
    """An extension of Parley: how to use the cache."""
    cancel_on_disconnect: bool | float = True
    """An extension of Parley, as in `POST /v1/chat`."""


class CompletionFunction(Described):
    name: str
    arguments: str
    """JSON, as the model wrote it."""


class CompletionCall(Described):
    id: str
    type: Literal["function"]
    function: CompletionFunction


class CustomInput(Described):
    name: str
    input: str
    """The text, as the model wrote it."""


class CompletionCustomCall(Described):
    """A call of a custom tool of the request."""

    id: str
    type: Literal["custom"]
    custom: CustomInput


class CompletionMessage(Described):
    """It may have more of the server's own fields, such as `reasoning_details` and `annotations`."""

    role: Literal["assistant"]
    content: str | None
    refusal: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[CompletionCall | CompletionCustomCall] | None = None


class CompletionChoice(Described):
    index: Literal[0]
    message: CompletionMessage
    finish_reason: FinishReason
    logprobs: Any


class ChatCompletion(Described):
    """A whole reply in OpenAI's format."""

    model_config = give_examples(
        {
            **_HEAD,
            "object": "chat.completion",
            "choices": [
                {
                    "index": 0,
                    "message": {
                        "role": "assistant",
                        "content": "Let me check.",
                        "refusal": None,
                        "reasoning_content": "I need the weather of Paris.",
                        "tool_calls": [_CALL],
                    },
                    "logprobs": None,
                    "finish_reason": "tool_calls",
                }
            ],
            "usage": _USAGE,
        }
    )

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: TokenNumbers | None
    warnings: list[str] | None = None
    """An extension of Parley."""


class FunctionDelta(Described):
    name: str | None = None
    arguments: str | None = None


class CustomDelta(Described):
    name: str | None = None
    input: str | None = None


class CallDelta(Described):
    """`id`, `type` and the name are in the first delta of a call alone. A call of a custom tool has `custom` instead of
    `function`, and its whole `input` in one delta."""

    index: int
    id: str | None = None
    type: Literal["function", "custom"] | None = None
    function: FunctionDelta | None = None
    custom: CustomDelta | None = None


class CompletionDelta(Described):
    role: Literal["assistant"] | None = None
    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[CallDelta] | None = None


class ChunkChoice(Described):
    index: Literal[0]
    delta: CompletionDelta
    finish_reason: FinishReason | None


class ChatCompletionChunk(Described):
    """A frame of a stream in OpenAI's format. The last frame is `[DONE]`, which is not JSON."""

    model_config = give_examples(
        {
            **_HEAD,
            "object": "chat.completion.chunk",
            "choices": [{"index": 0, "delta": {"content": "Let"}, "finish_reason": None}],
        },
        {**_HEAD, "object": "chat.completion.chunk", "choices": [], "usage": _USAGE},
    )

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    choices: list[ChunkChoice]
    usage: TokenNumbers | None = None
    """Only in the last chunk, and only with `stream_options.include_usage` or `POST /v1/chat`."""
    warnings: list[str] | None = None
    """An extension of Parley, in the chunk with the finish reason."""


def describe_path() -> Json:
    statuses = errors.select(*(status for status in errors.MODEL_CALL if status not in ("402", "529")))
    content = {**json_content("ChatCompletion"), **event_stream("ChatCompletionFrame")}
    return {
        "post": {
            "tags": ["openai"],
            "summary": "Create a reply, for clients of OpenAI's SDKs",
            "operationId": "completions",
            "requestBody": {"required": True, "content": json_content("CompletionRequest")},
            "responses": {
                "200": {"description": "A completion, or its chunks with `stream: true`", "content": content},
                **errors.describe_errors(statuses, "OpenAIErrorBody"),
            },
        }
    }
