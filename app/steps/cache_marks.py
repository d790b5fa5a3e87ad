"""Removes marks for the prompt cache (`cache_control`) from requests to servers that do not support them."""

from collections.abc import Iterator

from msgspec.structs import replace

from app.chat.messages import CacheMark, ChatRequest, Media, Message, Part, Text, Tool, ToolCall, ToolResult
from app.profiles import Profile


def strip_cache_marks(request: ChatRequest, reason: str) -> tuple[ChatRequest, list[str]]:
    """Return the request without cache marks, and a warning with the reason for each of them."""
    found = [
        *(mark for message in request.messages for mark in _find_marks(message.parts)),
        *_find_marks(request.tools),
    ]
    if not found:
        return request, []
    messages = tuple(_strip_marks(message) for message in request.messages)
    tools = tuple(replace(tool, mark=None) for tool in request.tools)
    warnings = [f"{mark.path} was not sent: {reason}" for mark in found]
    return replace(request, messages=messages, tools=tools), warnings


def _find_marks(parts: tuple[Part, ...] | tuple[Tool, ...] | tuple[Text | Media, ...]) -> Iterator[CacheMark]:
    for part in parts:
        if isinstance(part, (Text, Media, Tool)) and part.mark:
            yield part.mark
        elif isinstance(part, ToolResult):
            yield from _find_marks(part.content)


def _strip_marks(message: Message) -> Message:
    return replace(message, parts=tuple(_strip_part_mark(part) for part in message.parts))


def _strip_part_mark(part: Part) -> Part:
    if isinstance(part, (Text, Media)):
        return replace(part, mark=None)
    if isinstance(part, ToolResult):
        return replace(part, content=tuple(replace(one, mark=None) for one in part.content))
    return part


def warn_of_unsent_fields(request: ChatRequest, profile: Profile, *, calls_as_text: bool) -> list[str]:
    """Return a warning for each field that is not sent. `calls_as_text`: the prompt has the calls as text."""
    sent = profile.replay_extra_content
    if sent and not calls_as_text:
        return []
    reason = "this model's server does not accept it" if not sent else "tool calls are sent as text"
    call_paths = (path for message in request.messages for path in _find_call_fields(message))
    message_paths = () if sent else (path for message in request.messages for path in _find_message_fields(message))
    return [f"{path} was not sent: {reason}" for path in (*call_paths, *message_paths)]


def _find_call_fields(message: Message) -> Iterator[str]:
    for call in message.parts:
        if isinstance(call, ToolCall):
            # The path of a call is empty in formats with one call per message.
            yield from (f"{call.path}.{key}" if call.path else f"{message.path}: {key}" for key in call.extra)


def _find_message_fields(message: Message) -> Iterator[str]:
    has_content = any(not isinstance(part, ToolCall) for part in message.parts)
    if message.extra.get("extra_content") is not None and (has_content or not message.parts):
        yield f"{message.path}: extra_content"
