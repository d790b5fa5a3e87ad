"""`POST /v1/convert`: converts a conversation from one format to another. No model is called."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Literal

from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import from_json

from app.api.chat_schema import invalid_json, limit_warnings
from app.api.request_limits import RequestLimits, find_invalid_values, find_long_lists
from app.chat.messages import Media, Message, Text, ToolResult
from app.errors import InvalidInput, Violation
from app.format_names import FormatName
from app.formats import FORMATS
from app.formats.base import Format, Options
from app.formats.detect import detect
from app.validation import to_violations

_MAX_NESTING = 200
"""Deeper than any JSON that is read."""


class Conversion(BaseModel):
    """The body of `POST /v1/convert`."""

    model_config = ConfigDict(extra="forbid", strict=True, populate_by_name=True)

    source: FormatName | Literal["auto"] = Field(default="auto", alias="from")
    target: FormatName = Field(alias="to")
    messages: list[Any] = Field(min_length=1)
    strict: bool = Field(default=False, description="Refuse what `to` cannot say, in place of a warning.")
    agent: str | None = None
    agent_name: str | None = None


class Converted(BaseModel):
    messages: list[Any]
    warnings: list[str]


def convert(raw: bytes | bytearray, limits: RequestLimits | None = None) -> dict[str, Any]:
    """The answer to such a body. Raises BadRequest, InvalidInput."""
    try:
        asked = Conversion.model_validate_json(raw)
    except ValidationError as error:
        try:
            body = from_json(bytes(raw))
        except ValueError as wrong:
            raise invalid_json(raw, wrong) from None
        raise InvalidInput(to_violations(error, body, schema=Conversion)) from None
    found = list(find_long_lists({"messages": asked.messages}, limits)) if limits else []
    found = found or list(
        find_invalid_values(asked.messages, "messages", limits.max_nesting if limits else _MAX_NESTING)
    )
    if found:
        raise InvalidInput(found)
    return convert_conversation(asked)


def convert_conversation(asked: Conversion) -> dict[str, Any]:
    """Raises InvalidInput for messages that are not valid in their format and, if `strict`, for every loss."""
    name, mixed = (asked.source, []) if asked.source != "auto" else detect(asked.messages)
    options = Options(asked.agent, asked.agent_name or "assistant")
    decoded = FORMATS[name].parse(asked.messages, options)
    found = [*mixed, *decoded.violations]
    if found:
        raise InvalidInput(found)
    messages = tuple(replace(message, path=message.path or "messages") for message in decoded.messages)
    encoded = FORMATS[asked.target].write(messages, options)
    lost = [*encoded.losses, *_find_lost_marks(messages, FORMATS[asked.target])]
    if asked.strict and lost:
        raise InvalidInput([Violation(loss.path, f"to {asked.target}: {loss.message}") for loss in lost])
    losses = [f"{loss.path}: {loss.message}" for loss in lost]
    joined = _find_joiner_changes(messages, FORMATS[name], FORMATS[asked.target])
    warnings = limit_warnings([*decoded.warnings, *losses, *joined])
    return {"messages": encoded.messages, "warnings": list(warnings)}


def _find_lost_marks(messages: Sequence[Message], target: Format) -> Iterator[Violation]:
    """Marks for the prompt cache of an upstream that the target format cannot hold."""
    for part in (part for message in messages for part in message.parts if not target.keeps_marks):
        for one in part.content if isinstance(part, ToolResult) else (part,):
            if isinstance(one, Text | Media) and one.mark:
                yield Violation(one.mark.path, "cannot be written in this format")


def _find_joiner_changes(messages: Sequence[Message], source: Format, target: Format) -> Iterator[str]:
    """Nothing is lost, but formats differ in what stands between the texts of a message when they are sent."""
    if source.text_joiner == target.text_joiner:
        return
    how = "a line break" if target.text_joiner else "nothing"
    for message in messages:
        if any(isinstance(one, Text) and isinstance(next_, Text) for one, next_ in pairwise(message.parts)):
            yield f"{message.path}: in {target.name} {how} stands between its texts when they are sent"
