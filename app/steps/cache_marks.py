"""Removes marks for the prompt cache (`cache_control`) from requests to servers that do not support them."""

from collections.abc import Sequence

from msgspec.structs import replace

from app.chat.messages import UNREAD, CacheMark, ChatRequest, Media, Message, Part, Text, ToolCall, ToolResult
from app.openai_messages.messages import drop_from_call, drop_other_apis
from app.profiles import Profile


def strip_cache_marks(request: ChatRequest, reason: str) -> tuple[ChatRequest, list[str]]:
    """Return the request without cache marks, and a warning with the reason for each of them."""
    found, of_tools = _find_marks(request.messages), [tool.mark for tool in request.tools if tool.mark]
    if not found and not of_tools:
        return request, []
    messages, tools = list(request.messages), request.tools
    for place in found:
        messages[place] = _strip_marks(messages[place])
    if of_tools:
        tools = tuple([replace(tool, mark=None) for tool in tools])
    marks = [mark for marks in found.values() for mark in marks] + of_tools
    warnings = [f"{mark.path} was not sent: {reason}" for mark in marks]
    return replace(request, messages=tuple(messages), tools=tools), warnings


def _find_marks(messages: Sequence[Message]) -> dict[int, list[CacheMark]]:
    """Return the marks of messages, by the places of those that have any."""
    found: dict[int, list[CacheMark]] = {}
    for place, message in enumerate(messages):
        for part in message.parts:
            if type(part) is Text or type(part) is Media:
                if part.mark:
                    found.setdefault(place, []).append(part.mark)
            elif type(part) is ToolResult:
                for one in part.content:
                    if one.mark:
                        found.setdefault(place, []).append(one.mark)
    return found


def _strip_marks(message: Message) -> Message:
    return replace(message, parts=tuple(_strip_part_mark(part) for part in message.parts))


def _strip_part_mark(part: Part) -> Part:
    if isinstance(part, (Text, Media)):
        return replace(part, mark=None)
    if isinstance(part, ToolResult):
        return replace(part, content=tuple(replace(one, mark=None) for one in part.content))
    return part


def warn_of_unsent_fields(request: ChatRequest, profile: Profile, *, calls_as_text: bool) -> list[str]:
    """Return a warning for each field that is not sent. `calls_as_text`: the prompt has the calls as text. What is for
    another API is left out without a warning: clients send it back always."""
    sent = profile.replay_extra_content
    warnings = _find_unread(request, profile)
    if sent and not calls_as_text:
        return warnings
    reason = "this model's server does not accept it" if not sent else "tool calls are sent as text"
    paths = []
    for message in request.messages:
        for call in message.parts:
            if isinstance(call, ToolCall) and call.extra:
                # The path of a call is empty in formats with one call per message.
                keys = drop_from_call(call.extra)
                paths += [f"{call.path}.{key}" if call.path else f"{message.path}: {key}" for key in keys]
    if not sent:
        paths += [f"{message.path}: extra_content" for message in request.messages if _has_own_field(message)]
    return warnings + [f"{path} was not sent: {reason}" for path in paths]


def _find_unread(request: ChatRequest, profile: Profile) -> list[str]:
    """Return a warning for each item of the caller's provider, if this server does not get it."""
    if profile.replay_details or profile.replay_reasoning in ("item", "item_text"):
        return []
    return [text for message in request.messages if message.extra for text in message.extra.get(UNREAD, ())]


def _has_own_field(message: Message) -> bool:
    """Whether `extra_content` belongs to the message itself and not to its calls."""
    if drop_other_apis(message.extra.get("extra_content")) is None:
        return False
    return not message.parts or any(not isinstance(part, ToolCall) for part in message.parts)
