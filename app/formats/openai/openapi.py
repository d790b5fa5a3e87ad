"""`POST /v1/chat/completions`: OpenAI's chat completions (docs/reference/formats/openai.md)."""

from typing import Any, Literal

from app.chat.events import ModelFinishReason
from app.formats import openapi
from app.formats.openai.body import CompletionsBody
from app.formats.openapi import (
    BodyPart,
    Described,
    DescribedMediumFacts,
    ErrorDetail,
    FormatPart,
    Json,
    ServerToolNumbers,
    TokenNumbers,
    event_stream,
    json_content,
)


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


class ToldServerMessage(Described):
    """A turn with calls that the gateway runs, or the result of one."""

    index: int
    role: Literal["assistant", "tool"]
    content: str | list[dict[str, Any]]
    reasoning_content: str | None = None
    tool_calls: list[dict[str, Any]] | None = None
    """All calls of the turn, the client's own too. One that waits for approval has `approval: "required"`."""
    tool_call_id: str | None = None
    is_error: bool | None = None


class CompletionMessage(Described):
    """It may have more of the server's own fields, such as `reasoning_details` and `annotations`."""

    role: Literal["assistant"]
    content: str | None
    refusal: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[CompletionCall | CompletionCustomCall] | None = None
    """The client's own."""
    server_messages: list[ToldServerMessage] | None = None
    """An extension of Parley: the turns and results of tools that the gateway ran. Send them back with the message."""


class TokenAlternative(Described):
    token: str
    logprob: float
    """`-9999.0` for a number that is not finite."""
    bytes: list[int] | None


class TokenLogprob(TokenAlternative):
    top_logprobs: list[TokenAlternative]


class ChoiceLogprobs(Described):
    content: list[TokenLogprob]
    refusal: None


class CompletionChoice(Described):
    index: Literal[0]
    message: CompletionMessage
    finish_reason: ModelFinishReason
    logprobs: ChoiceLogprobs | None


class ChatCompletion(Described):
    """A whole reply in OpenAI's format."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: TokenNumbers | None
    warnings: list[str] | None = None
    """An extension of Parley."""
    server_tools: ServerToolNumbers | None = None
    """An extension of Parley: only of a reply that offered tools which the gateway runs."""
    descriptions: list[DescribedMediumFacts] | None = None
    """Only if the model got media in the words of another one."""


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
    server_messages: list[ToldServerMessage] | None = None
    """All of them, in the chunk with the finish reason."""


class ChunkChoice(Described):
    index: Literal[0]
    delta: CompletionDelta
    finish_reason: ModelFinishReason | None
    logprobs: ChoiceLogprobs | None = None
    """Of the tokens that end in this chunk's text, with `logprobs` in the request."""


class ChatCompletionChunk(Described):
    """A frame of a stream in OpenAI's format. The last frame is `[DONE]`, which is not JSON."""

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    choices: list[ChunkChoice]
    usage: TokenNumbers | None = None
    """Only in the last chunk, and only with `stream_options.include_usage` or `POST /v1/chat`."""
    warnings: list[str] | None = None
    """An extension of Parley, in the chunk with the finish reason."""
    server_message: ToldServerMessage | None = None
    """An extension of Parley: a turn of a reply with tools that the gateway runs, or a result, as it comes."""
    server_tools: ServerToolNumbers | None = None
    """In the chunk with the finish reason."""
    descriptions: list[DescribedMediumFacts] | None = None
    """In the chunk with the finish reason."""


class OpenAIErrorDetail(ErrorDetail):
    type: str
    """OpenAI's kind of error, such as `invalid_request_error`."""


class OpenAIErrorBody(Described):
    """An error in OpenAI's form."""

    error: OpenAIErrorDetail


_QUESTION: Json = {"role": "user", "content": "What can you do?"}
_BODY = BodyPart(
    "CompletionRequest",
    CompletionsBody,
    [{"model": "demo", "messages": [_QUESTION]}, {"model": "demo", "messages": [_QUESTION], "stream": True}],
)


def _describe_paths() -> Json:
    statuses = openapi.select(
        *(status for status in openapi.MODEL_CALL if status not in ("422", "529")),
        status_400="Violations, each with its JSON path; or the model server refused the request",
    )
    content = {**json_content("ChatCompletion"), **event_stream("ChatCompletionFrame")}
    operation = openapi.describe_operation(
        ("openai", "Create a reply, for clients of OpenAI's SDKs", "completions"),
        {"200": ("A completion, or its chunks with `stream: true`", content)},
        openapi.describe_errors(statuses, "OpenAIErrorBody"),
        body="CompletionRequest",
    )
    return {"/v1/chat/completions": {"post": operation}}


PART = FormatPart(
    "OpenAI",
    (ChatCompletion,),
    "ChatCompletionFrame",
    ChatCompletionChunk | OpenAIErrorBody,
    OpenAIErrorBody,
    bodies=(_BODY,),
    describe_paths=_describe_paths,
)
