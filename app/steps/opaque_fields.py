"""Warns of opaque fields of a provider (Gemini's `extra_content`) that are not sent to this server."""

from collections.abc import Iterator

from app.chat.messages import ChatRequest, Message, ToolCall
from app.profiles import Profile


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
