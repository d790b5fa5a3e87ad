"""Parses the bodies that most requests have: messages of a role and a text each, functions, and nothing special.

msgspec decodes such a body directly into the vocabulary. Any other body, and every body that is not valid, is left to
the endpoint's own parser, so this module refuses nothing and writes no error.

Programs send the same functions with each request. What was parsed of the last lists is kept, with the JSON that a
model server is sent.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta, Raw, Struct
from msgspec.structs import replace
from pydantic_core import from_json

from app.chat.messages import ChatRequest, Message, Text, Tool
from app.formats.base import Format
from app.formats.functions import find_unknown_tool_keys, parse_tools
from app.formats.request_limits import RequestLimits, find_invalid_values, limit_warnings
from app.openai_messages.tool_schemas import complete_function

MAX_KEPT_BYTES = 64 * 1024
"""Longer lists of functions are parsed again for each request."""
_KEPT_LISTS = 32

_NOT_GIVEN = Raw(b"")


class PlainMessage(Struct, forbid_unknown_fields=True):
    role: Literal["system", "user", "assistant"]
    content: Annotated[str, Meta(min_length=1)]


class PlainBody(Struct, forbid_unknown_fields=True):
    """The fields that a plain body may have."""

    messages: Annotated[list[PlainMessage], Meta(min_length=1)]
    model: Annotated[str, Meta(min_length=1, max_length=512)] | None = None
    stream: bool | msgspec.UnsetType = msgspec.UNSET
    functions: Raw = _NOT_GIVEN
    tools: Raw = _NOT_GIVEN


class PlainRequest(Struct, frozen=True):
    model: str | None
    stream: bool
    request: ChatRequest
    warnings: tuple[str, ...]


_decode = msgspec.json.Decoder(PlainBody).decode
_encode = msgspec.json.Encoder().encode


def parse_plain_body(
    raw: bytes | bytearray,
    limits: RequestLimits,
    message_format: Format,
    is_in_order: Callable[[Sequence[Message]], bool] | None,
    *,
    stream: bool,
) -> PlainRequest | None:
    """Return the request of a plain body; None if it is not plain, not valid, or not within the limits.

    `is_in_order` says whether the format takes messages in this order; None: in any. `stream` is the field's default.
    """
    try:
        body = _decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    messages = _make_messages(body.messages)
    if messages is None or len(messages) > limits.max_messages:
        return None
    if is_in_order is not None and not is_in_order(messages):
        return None
    tools: tuple[Tool, ...] = ()
    warnings: tuple[str, ...] = ()
    if body.functions is not _NOT_GIVEN or body.tools is not _NOT_GIVEN:
        parsed = _parse_functions(body, limits)
        if parsed is None:
            return None
        tools, warnings = parsed
    if body.stream is not msgspec.UNSET:
        stream = body.stream
    request = ChatRequest(
        body.model or "",
        messages,
        tools,
        text_joiner=message_format.text_joiner,
        policy=message_format.policy,
        stream=stream,
        plain=True,
    )
    return PlainRequest(body.model, stream, request, warnings)


_PATHS = tuple(f"messages[{number}]" for number in range(100))
"""The paths of the first messages."""


def _make_messages(items: Sequence[PlainMessage]) -> tuple[Message, ...] | None:
    """None if two assistant messages are in a row: the formats differ in what they are."""
    messages: list[Message] = []
    previous = ""
    for number, item in enumerate(items):
        role = item.role
        if role == previous == "assistant":
            return None
        previous = role
        path = _PATHS[number] if number < len(_PATHS) else f"messages[{number}]"
        messages.append(Message(role, (Text(item.content),), path=path))
    return tuple(messages)


_Functions: TypeAlias = tuple[tuple[Tool, ...], tuple[str, ...]]
"""Functions, and the warnings about them."""


def _parse_functions(body: PlainBody, limits: RequestLimits) -> _Functions | None:
    if body.tools is _NOT_GIVEN:
        field, raw = "functions", bytes(body.functions)
    elif body.functions is _NOT_GIVEN:
        field, raw = "tools", bytes(body.tools)
    else:
        return None
    parse = _parse_list if len(raw) <= MAX_KEPT_BYTES else _parse_list.__wrapped__
    return parse(field, raw, limits.max_functions, limits.max_nesting)


@lru_cache(maxsize=_KEPT_LISTS)
def _parse_list(field: str, raw: bytes, max_functions: int, max_nesting: int) -> _Functions | None:
    try:
        items = from_json(raw)
    except ValueError:
        return None
    if not isinstance(items, list) or len(items) > max_functions:
        return None
    tools, violations = parse_tools(field, items)
    if violations or any(find_invalid_values(items, field, max_nesting)) or any(tool.custom for tool in tools):
        return None
    warnings = find_unknown_tool_keys(field, items)
    encoded = tuple(replace(tool, json=_encode(complete_function(tool.schema))) for tool in tools)
    return encoded, limit_warnings(warnings)
