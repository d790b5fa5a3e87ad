"""`POST /v1/chat` and the replies that it left (docs/reference/streams.md)."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Literal

from pydantic import Field

from app.formats import FORMATS, openapi
from app.formats.openapi import (
    Described,
    FormatPart,
    Json,
    describe_operation,
    event_stream,
    give_examples,
    json_content,
)

PARTS: Mapping[str, FormatPart] = {name: import_module(f"{row.package}.openapi").PART for name, row in FORMATS.items()}
_ERRORS = tuple(dict.fromkeys(part.error.__name__ for part in PARTS.values()))
_REPLIES = [reply.__name__ for part in PARTS.values() for reply in part.replies]
_ID = "chat-5dfeb033230794166d0c3c3788218c67"
_CALL: Json = {
    "role": "assistant",
    "content": "",
    "function_call": {"name": "get_weather", "arguments": '{"city": "Paris"}'},
    "extra": {"function_id": "call_9a153a93"},
}
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


class ReplyInProgress(Described):
    model_config = give_examples({"response_id": _ID, "status": "in_progress"})

    response_id: str
    status: Literal["in_progress"]


class ReplyCancelled(Described):
    model_config = give_examples({"response_id": _ID, "cancelled": True})

    response_id: str
    cancelled: bool
    """False if the reply had already ended."""


_STREAM = event_stream(*(part.frame_name for part in PARTS.values()))
_REPLY = json_content(*_REPLIES)
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
    return describe_operation(
        ("chat", "Create a model's reply to a conversation", "chat"),
        {"200": (ok, {**_REPLY, **_STREAM})},
        openapi.describe_errors(openapi.select(*openapi.MODEL_CALL), *_ERRORS),
        body="ChatRequest",
    )


def _describe_resume() -> Json:
    number = {"type": "string", "pattern": "^[0-9]{1,15}$"}
    after = "How many frames the client has read; in the format `qwen`, the `seq` of the last one."
    header = "The same as `after`; the larger number is used."
    ended = {"204": {"description": "The reply has ended, and the client has read all of its frames"}}
    return describe_operation(
        ("chat", "Resume the stream of a reply after a lost connection", "resume"),
        {"200": ("The frames that follow, as they arrive", _STREAM)},
        ended | openapi.describe_errors(openapi.select("404", "405", "422", "503"), "ErrorBody"),
        parameters=[
            _RESPONSE_ID,
            {"name": "after", "in": "query", "schema": number, "description": after},
            {"name": "Last-Event-ID", "in": "header", "schema": number, "description": header},
        ],
    )


def _describe_read() -> Json:
    progress = "The reply has not ended: send the request again after Retry-After, or read its events"
    return describe_operation(
        ("chat", "Read the whole of a streamed reply, in the format of its request", "read_reply"),
        {"200": ("The reply", _REPLY), "202": (progress, json_content("ReplyInProgress"))},
        openapi.describe_errors(openapi.select("404", "405", "409", "500", "502", "503", "504"), *_ERRORS),
        parameters=[_RESPONSE_ID],
    )


def _describe_cancel() -> Json:
    return describe_operation(
        ("chat", "Stop a reply and delete it", "cancel"),
        {"200": ("The reply is deleted", json_content("ReplyCancelled"))},
        openapi.describe_errors(openapi.select("404", "405", "503"), "ErrorBody"),
        parameters=[_RESPONSE_ID],
    )
