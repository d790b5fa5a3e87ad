"""`POST /v1/convert`: converts a conversation from one format to another. No model is called."""

import asyncio
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Literal, cast

import msgspec
from fastapi import APIRouter, Request
from fastapi.responses import Response
from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from app.api.application import get_context
from app.api.asgi import Receive, read_body, wait_for_parse_memory
from app.api.live_configuration import request_limits
from app.chat.messages import FormatName, Media, Message, Text, ToolResult
from app.errors import InvalidInput, Violation
from app.formats import FORMATS
from app.formats.base import Format, Options
from app.formats.detect import detect
from app.formats.json_object import parse_json
from app.formats.request_limits import RequestLimits, find_invalid_values, find_long_lists, limit_warnings
from app.formats.served_calls import add_notes
from app.validation.violations import to_violations

router = APIRouter()
_MAX_NESTING = 200
"""The limit for `parley convert`, which has no `server.max_nesting`."""


class Conversion(BaseModel):
    """The body of `POST /v1/convert`."""

    model_config = ConfigDict(extra="forbid", strict=True, populate_by_name=True)

    source: FormatName | Literal["auto"] = Field(default="auto", alias="from")
    target: FormatName = Field(alias="to")
    messages: list[Any] = Field(min_length=1)
    strict: bool = Field(default=False, description="Refuse data that `to` cannot express, instead of warning.")
    agent: str | None = None
    agent_name: str | None = None


class Converted(BaseModel):
    messages: list[Any]
    warnings: list[str]


@router.post(
    "/v1/convert", tags=["convert"], operation_id="convert", summary="Convert a conversation to another format"
)
async def convert_messages(request: Request) -> Response:
    context = get_context(request)
    server = context.server
    receive = cast(Receive, request.receive)
    with context.budget.lease() as lease:
        body = await read_body(dict(request.scope), receive, server.max_body_bytes, server.body_seconds, lease)
        await wait_for_parse_memory(body, lease, server.max_json_values)
        converting = asyncio.to_thread(lambda: msgspec.json.encode(convert(body, request_limits(server))))
        return Response(await converting, media_type="application/json")


def convert(raw: bytes | bytearray, limits: RequestLimits | None = None) -> dict[str, Any]:
    """Return the response to a body of `POST /v1/convert`. Raises BadRequest or InvalidInput."""
    body = parse_json(raw)
    try:
        conversion = Conversion.model_validate(body)
    except ValidationError as error:
        raise InvalidInput(to_violations(error, body, schema=Conversion)) from None
    messages = conversion.messages
    violations = find_long_lists({"messages": messages}, limits) if limits else []
    violations = violations or list(
        find_invalid_values(messages, "messages", limits.max_nesting if limits else _MAX_NESTING)
    )
    if violations:
        raise InvalidInput(violations)
    return convert_conversation(conversion)


def convert_conversation(conversion: Conversion) -> dict[str, Any]:
    """Convert the messages. Raises InvalidInput if one is not valid in its format and, if `strict`, for every loss."""
    name, violations = (conversion.source, []) if conversion.source != "auto" else detect(conversion.messages)
    target = FORMATS[conversion.target]
    options = Options(conversion.agent, conversion.agent_name or "assistant")
    parsed = FORMATS[name].parse(conversion.messages, options)
    if violations or parsed.violations:
        raise InvalidInput([*violations, *parsed.violations])
    messages = tuple(replace(message, path=message.path or "messages") for message in parsed.messages)
    written = target.write(messages if target.keeps_served_calls else add_notes(messages), options)
    losses = [*written.losses, *_find_lost_marks(messages, target)]
    if conversion.strict and losses:
        raise InvalidInput([Violation(loss.path, f"to {conversion.target}: {loss.message}") for loss in losses])
    loss_warnings = [f"{loss.path}: {loss.message}" for loss in losses]
    joiner_warnings = _find_joiner_changes(messages, FORMATS[name], target)
    warnings = limit_warnings([*parsed.warnings, *loss_warnings, *joiner_warnings])
    return {"messages": written.messages, "warnings": list(warnings)}


def _find_lost_marks(messages: Sequence[Message], target: Format) -> Iterator[Violation]:
    """Yield a violation for each mark for a server's prompt cache that the target format cannot hold."""
    for part in (part for message in messages for part in message.parts if not target.keeps_marks):
        for one in part.content if isinstance(part, ToolResult) else (part,):
            if isinstance(one, (Text, Media)) and one.mark:
                yield Violation(one.mark.path, "cannot be written in this format")


def _find_joiner_changes(messages: Sequence[Message], source: Format, target: Format) -> Iterator[str]:
    """Yield a warning for each message whose texts are joined differently in the target format when they are sent."""
    if source.text_joiner == target.text_joiner:
        return
    how = "with a line break" if target.text_joiner else "without a separator"
    for message in messages:
        if any(isinstance(one, Text) and isinstance(next_, Text) for one, next_ in pairwise(message.parts)):
            yield f"{message.path}: {target.name} joins its texts {how} when they are sent"
