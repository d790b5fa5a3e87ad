"""Replies and frames of AutoGen (docs/reference/formats/autogen.md)."""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from app.formats.autogen.schema import AutogenMessage
from app.formats.openapi import Described, ErrorDetail, FormatPart


class AutogenReply(Described):
    """A whole reply in AutoGen's format: AgentChat's messages and events."""

    messages: list[AutogenMessage]
    stop_reason: str
    warnings: list[str] | None = None


class AutogenTaskResult(AutogenReply):
    """The last frame of a stream, unless `autogen_stream` is `model`."""

    type: Literal["TaskResult"]


class AutogenCreateResult(Described):
    """With `autogen_stream: model`: AutoGen's `CreateResult`, the reply or the last frame of its stream."""

    finish_reason: Literal["stop", "length", "function_calls", "content_filter", "unknown"]
    content: str | list[dict[str, Any]]
    usage: dict[str, Any]
    cached: bool
    logprobs: Any
    thought: str | None
    extra: dict[str, Any] | None = None
    warnings: list[str] | None = None


class AutogenErrorBody(ErrorDetail):
    """An error in the form of AutoGen's own service (format `autogen`); also a frame."""

    type: Literal["error"]
    content: str
    """The message."""
    source: Literal["system"]
    message: str | None = None  # type: ignore[assignment]  # it is `content` here


AutogenFrame: TypeAlias = Annotated[
    AutogenMessage | AutogenTaskResult | AutogenCreateResult | AutogenErrorBody | str,
    Field(description="A message or event of AgentChat; with `autogen_stream: model` a piece of text; the last frame."),
]

PART = FormatPart("Autogen", (AutogenReply, AutogenCreateResult), "AutogenFrame", AutogenFrame, AutogenErrorBody)
