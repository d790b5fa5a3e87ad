"""`POST /v1/chat` and the replies that it left: bodies, frames and operations (docs/reference/streams.md)."""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from app.formats import openapi as errors
from app.formats.openapi import (
    Described,
    FinishReason,
    Json,
    TokenNumbers,
    event_stream,
    give_examples,
    json_content,
)
from app.formats.qwen.schema import QwenMessage

Kind: TypeAlias = Literal["reasoning_content", "content", "function_call"]

_ID = "chat-5dfeb033230794166d0c3c3788218c67"
_THOUGHT: Json = {"role": "assistant", "content": "", "reasoning_content": "I need the weather of Paris."}
_CALL: Json = {
    "role": "assistant",
    "content": "",
    "function_call": {"name": "get_weather", "arguments": '{"city": "Paris"}'},
    "extra": {"function_id": "call_9a153a93"},
}
_USAGE: Json = {"prompt_tokens": 11, "completion_tokens": 21, "total_tokens": 32, "reasoning_tokens": 14}
_QUESTION: Json = {"role": "user", "content": "What is the weather in Paris?"}
_WEATHER: Json = {
    "name": "get_weather",
    "description": "The weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
REQUEST_EXAMPLES: list[Json] = [
    {"model": "demo", "messages": [_QUESTION]},
    {"model": "demo", "messages": [_QUESTION], "functions": [_WEATHER], "stream": False},
    {
        "model": "demo",
        "messages": [
            _QUESTION,
            _CALL,
            {"role": "function", "name": "get_weather", "content": "21 °C", "extra": {"function_id": "call_9a153a93"}},
        ],
        "functions": [_WEATHER],
        "generate_cfg": {"temperature": 0},
        "cache": {"mode": "refresh"},
    },
    {"model": "demo", "messages": [_QUESTION], "format": "openai"},
]


class Function(Described):
    """A function that the model may call."""

    model_config = give_examples(_WEATHER)

    name: str = Field(pattern=r"\S")
    description: str | None = None
    parameters: dict[str, Any] | list[Any] | None = None
    """A JSON schema of the arguments; or Qwen-Agent's list of parameters."""


class FunctionTool(Described):
    """A function in OpenAI's wrapper."""

    type: Literal["function"]
    function: Function


class CustomToolBody(Described):
    name: str = Field(pattern=r"\S")
    description: str | None = None
    format: dict[str, Any] | None = None
    """`{"type": "text"}`, or a grammar, which is described to the model in words."""


class CustomTool(Described):
    """A tool whose calls have one text instead of arguments, as in OpenAI's chat completions."""

    type: Literal["custom"]
    custom: CustomToolBody


class ChatReply(Described):
    """A whole reply in the format `qwen`: reasoning, content and each function call are messages of their own."""

    model_config = give_examples(
        {
            "response_id": _ID,
            "model": "demo",
            "created": 1795364881,
            "cached": False,
            "messages": [_THOUGHT, {"role": "assistant", "content": "Let me check."}, _CALL],
            "finish_reason": "tool_calls",
            "usage": _USAGE,
            "warnings": [],
        }
    )

    response_id: str
    created: int
    """Unix seconds."""
    model: str
    messages: list[QwenMessage]
    """In the order in which they arrived. They can be sent back as history without a change."""
    finish_reason: FinishReason
    usage: TokenNumbers | None
    """Null if the model server reported none."""
    cached: bool
    age: int | None = None
    """The age of a cached reply in seconds."""
    warnings: list[str]
    """What was not sent as requested, or was lost."""
    extra: dict[str, Any] | None = None
    """What the server sent beside the messages."""


class StartedCall(Described):
    name: str
    arguments: Literal[""]


class StartedMessage(Described):
    """A message without its text."""

    role: Literal["assistant"]
    function_call: StartedCall | None = None
    extra: dict[str, Any] | None = None
    """`function_id` of a call."""


class ArgumentsDelta(Described):
    arguments: str


class TextDeltaFields(Described):
    """New text, in one of these fields."""

    reasoning_content: str | None = None
    content: str | None = None
    function_call: ArgumentsDelta | None = None
    """New text of the call's arguments."""


class Frame(Described):
    seq: int
    """Counts the frames of the stream from 1, without gaps. It is also the `id` of the SSE event."""


class ResponseStartedFrame(Frame):
    """The first frame of every stream."""

    model_config = give_examples(
        {
            "type": "response.started",
            "seq": 1,
            "response_id": _ID,
            "model": "demo",
            "created": 1795364881,
            "cached": False,
        }
    )

    type: Literal["response.started"]
    response_id: str
    """Names the reply in `/v1/chat/{response_id}` and `/v1/chat/{response_id}/events`."""
    model: str
    created: int
    """Unix seconds."""
    cached: bool
    age: int | None = None
    """The age of a cached reply in seconds."""


class MessageStartedFrame(Frame):
    """A message begins."""

    model_config = give_examples(
        {
            "type": "message.started",
            "seq": 2,
            "index": 0,
            "kind": "reasoning_content",
            "message": {"role": "assistant"},
        },
        {
            "type": "message.started",
            "seq": 23,
            "index": 2,
            "kind": "function_call",
            "message": {
                "role": "assistant",
                "function_call": {"name": "get_weather", "arguments": ""},
                "extra": {"function_id": "call_9a153a93"},
            },
        },
    )

    type: Literal["message.started"]
    index: int
    """The place of the message in the reply, from 0."""
    kind: Kind
    message: StartedMessage


class MessageDeltaFrame(Frame):
    """New text of a message."""

    model_config = give_examples(
        {"type": "message.delta", "seq": 3, "index": 0, "delta": {"reasoning_content": "I need"}},
        {"type": "message.delta", "seq": 19, "index": 1, "delta": {"content": "Let"}},
        {"type": "message.delta", "seq": 24, "index": 2, "delta": {"function_call": {"arguments": '{"city":'}}},
    )

    type: Literal["message.delta"]
    index: int
    delta: TextDeltaFields


class MessageCompletedFrame(Frame):
    """A message is complete. A client may ignore the deltas and read these frames alone."""

    model_config = give_examples({"type": "message.completed", "seq": 27, "index": 2, "message": _CALL})

    type: Literal["message.completed"]
    index: int
    message: QwenMessage
    """The whole message; without its text if the request has `completed_bodies: false`."""


class MessagesFrame(Frame):
    """With `stream_mode: snapshot`: all messages so far."""

    model_config = give_examples({"type": "messages", "seq": 2, "messages": [_THOUGHT]})

    type: Literal["messages"]
    messages: list[QwenMessage]


class ResponseCompletedFrame(Frame):
    """The end of a successful reply. Nothing follows."""

    model_config = give_examples(
        {
            "type": "response.completed",
            "seq": 28,
            "finish_reason": "tool_calls",
            "usage": _USAGE,
            "cached": False,
            "warnings": [],
        }
    )

    type: Literal["response.completed"]
    finish_reason: FinishReason
    usage: TokenNumbers | None
    cached: bool
    warnings: list[str]
    extra: dict[str, Any] | None = None


class ResponseFailedFrame(Frame):
    """The end of any other reply. Nothing follows."""

    model_config = give_examples(
        {
            "type": "response.failed",
            "seq": 9,
            "error": {
                "code": "upstream_incomplete",
                "message": "the reply ended before it was complete",
                "param": None,
                "status": 502,
                "retryable": True,
                "request_id": "req-5a0c",
                "upstream": {"name": "local", "status": 200, "message": "the reply ended before it was complete"},
            },
        }
    )

    type: Literal["response.failed"]
    error: errors.ErrorDetail


ChatFrame: TypeAlias = Annotated[
    ResponseStartedFrame
    | MessageStartedFrame
    | MessageDeltaFrame
    | MessageCompletedFrame
    | MessagesFrame
    | ResponseCompletedFrame
    | ResponseFailedFrame,
    Field(discriminator="type"),
]


class ReplyInProgress(Described):
    model_config = give_examples({"response_id": _ID, "status": "in_progress"})

    response_id: str
    status: Literal["in_progress"]


class ReplyCancelled(Described):
    model_config = give_examples({"response_id": _ID, "cancelled": True})

    response_id: str
    cancelled: bool
    """False if the reply had already ended."""


REPLIES = ("ChatReply", "ChatCompletion", "AnthropicReply", "ResponseObject", "AutogenReply", "AutogenCreateResult")
SCOPED_REPLIES = ("AgentScopeReply", "AgentScope2Reply")
FRAMES = ("ChatFrame", "ChatCompletionFrame", "AnthropicEvent", "ResponseEvent", "AutogenFrame", "AgentScopeFrame")
"""The frames of each format, in the order of the replies."""


_STREAM = event_stream(*FRAMES, "AgentScope2Event")
_REPLY = json_content(*REPLIES, *SCOPED_REPLIES)
_RESPONSE_ID: Json = {
    "name": "response_id",
    "in": "path",
    "required": True,
    "schema": {"type": "string"},
    "description": "The `response_id` of a reply, or the header `x-parley-response-id`.",
}


def describe_paths() -> Json:
    return {
        "/v1/chat": {"post": _describe_chat()},
        "/v1/chat/{response_id}": {"get": _describe_read(), "delete": _describe_cancel()},
        "/v1/chat/{response_id}/events": {"get": _describe_resume()},
    }


def _describe_chat() -> Json:
    ok = "The reply: with `stream: false` one JSON body, else a stream of events. Both are in the format that \
`reply_format` names"
    return {
        "tags": ["chat"],
        "summary": "Create a model's reply to a conversation",
        "operationId": "chat",
        "requestBody": {"required": True, "content": json_content("ChatRequest")},
        "responses": {
            "200": {"description": ok, "content": {**_REPLY, **_STREAM}},
            **errors.describe_errors(errors.select(*errors.MODEL_CALL), *errors.ALL_FORMATS),
        },
    }


def _describe_resume() -> Json:
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
            "200": {"description": "The frames that follow, as they arrive", "content": _STREAM},
            "204": {"description": "The reply has ended, and the client has read all of its frames"},
            **errors.describe_errors(errors.select("404", "405", "422", "503"), "ErrorBody"),
        },
    }


def _describe_read() -> Json:
    statuses = errors.select("404", "405", "409", "500", "502", "503", "504")
    progress = "The reply has not ended: send the request again after Retry-After, or read its events"
    return {
        "tags": ["chat"],
        "summary": "Read the whole of a streamed reply, in the format of its request",
        "operationId": "read_reply",
        "parameters": [_RESPONSE_ID],
        "responses": {
            "200": {"description": "The reply", "content": _REPLY},
            "202": {"description": progress, "content": json_content("ReplyInProgress")},
            **errors.describe_errors(statuses, *errors.ALL_FORMATS),
        },
    }


def _describe_cancel() -> Json:
    return {
        "tags": ["chat"],
        "summary": "Stop a reply and delete it",
        "operationId": "cancel",
        "parameters": [_RESPONSE_ID],
        "responses": {
            "200": {"description": "The reply is deleted", "content": json_content("ReplyCancelled")},
            **errors.describe_errors(errors.select("404", "405", "503"), "ErrorBody"),
        },
    }
