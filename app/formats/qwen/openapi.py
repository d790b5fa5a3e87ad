"""Replies and frames in the format `qwen` (docs/reference/streams.md)."""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from app.chat.events import FinishReason
from app.formats.openapi import (
    Described,
    DescribedMediumFacts,
    ErrorBody,
    ErrorDetail,
    FormatPart,
    ServerToolNumbers,
    TokenNumbers,
)
from app.formats.qwen.schema import QwenMessage

Kind: TypeAlias = Literal["reasoning_content", "content", "function_call", "function_result"]


class ChatReply(Described):
    """A whole reply in the format `qwen`: reasoning, content and each function call are messages of their own."""

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
    server_tools: ServerToolNumbers | None = None
    """Only of a reply that offered tools which the gateway runs."""
    descriptions: list[DescribedMediumFacts] | None = None
    """Only if the model got media in the words of another one."""


class StartedCall(Described):
    name: str
    arguments: Literal[""]


class StartedMessage(Described):
    """A message without its text."""

    role: Literal["assistant", "function"]
    """`function` is the result of a call that the gateway ran."""
    name: str | None = None
    """Of the function whose result it is."""
    function_call: StartedCall | None = None
    extra: dict[str, Any] | None = None
    """`function_id` of a call or a result; of a result that is an error also `is_error`."""


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

    type: Literal["message.started"]
    index: int
    """The place of the message in the reply, from 0."""
    kind: Kind
    message: StartedMessage


class MessageDeltaFrame(Frame):
    """New text of a message."""

    type: Literal["message.delta"]
    index: int
    delta: TextDeltaFields


class MessageCompletedFrame(Frame):
    """A message is complete. A client may ignore the deltas and read these frames alone."""

    type: Literal["message.completed"]
    index: int
    message: QwenMessage
    """The whole message; without its text if the request has `completed_bodies: false`."""


class MessagesFrame(Frame):
    """With `stream_mode: snapshot`: all messages so far."""

    type: Literal["messages"]
    messages: list[QwenMessage]


class ResponseCompletedFrame(Frame):
    """The end of a successful reply. Nothing follows."""

    type: Literal["response.completed"]
    finish_reason: FinishReason
    usage: TokenNumbers | None
    cached: bool
    warnings: list[str]
    extra: dict[str, Any] | None = None
    server_tools: ServerToolNumbers | None = None
    descriptions: list[DescribedMediumFacts] | None = None


class ResponseFailedFrame(Frame):
    """The end of any other reply. Nothing follows."""

    type: Literal["response.failed"]
    error: ErrorDetail


ChatFrame: TypeAlias = Annotated[
    ResponseStartedFrame
    | MessageStartedFrame
    | MessageDeltaFrame
    | MessageCompletedFrame
    | MessagesFrame
    | ResponseCompletedFrame
    | ResponseFailedFrame,
    Field(discriminator="type", description="The JSON in `data` of a frame in the format `qwen`."),
]

PART = FormatPart("Qwen", (ChatReply,), "ChatFrame", ChatFrame, ErrorBody)
