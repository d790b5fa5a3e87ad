"""Fields that only their provider reads (Gemini's `extra_content`) go to servers that take them; others are named."""

from collections.abc import Iterator

from app.chat.messages import ChatRequest, Message, ToolCall
from app.profiles import Profile


def warn_of_unsent_fields(request: ChatRequest, profile: Profile, *, in_words: bool) -> list[str]:
    """A warning for each that this server is not sent. `in_words`: calls are told in the prompt."""
    sent = profile.replay_extra_content
    if sent and not in_words:
        return []
    why = "this model's server does not take it" if not sent else "calls are told in words here"
    found = (path for message in request.messages for path in _of_calls(message))
    own = () if sent else (path for message in request.messages for path in _of_message(message))
    return [f"{path} was not sent: {why}" for path in (*found, *own)]


def _of_calls(message: Message) -> Iterator[str]:
    for call in message.parts:
        if isinstance(call, ToolCall):
            # A call has no place of its own where the format writes one call a message.
            yield from (f"{call.path}.{key}" if call.path else f"{message.path}: {key}" for key in call.extra)


def _of_message(message: Message) -> Iterator[str]:
    texts = any(not isinstance(part, ToolCall) for part in message.parts)
    if message.extra.get("extra_content") is not None and (texts or not message.parts):
        yield f"{message.path}: extra_content"
