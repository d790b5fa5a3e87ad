"""Drops assistant turns that are empty, which mean nothing to a model, or that a server refuses as empty."""

from msgspec.structs import replace

from app.chat.messages import ChatRequest, Message, Reasoning, Text
from app.openai_messages.grouping import group_messages
from app.profiles import Profile


def drop_empty_turns(request: ChatRequest) -> ChatRequest:
    """Drop empty assistant messages.

    Empty user and system messages are kept. If every message is an empty assistant message, all are kept, and
    `write_openai_messages` refuses them.
    """
    kept = tuple(message for message in request.messages if not is_empty_turn(message))
    return replace(request, messages=kept) if 0 < len(kept) < len(request.messages) else request


def is_empty_turn(message: Message, *, reasoning_is_sent: bool = True) -> bool:
    """Return whether this is an assistant message without content; `reasoning_details` count as content."""
    if message.role != "assistant" or message.extra.get("reasoning_details"):
        return False
    return all(
        not part.text or (isinstance(part, Reasoning) and not reasoning_is_sent)
        if isinstance(part, (Text, Reasoning))
        else False
        for part in message.parts
    )


def drop_thought_only_turns(request: ChatRequest, profile: Profile) -> tuple[ChatRequest, list[str]]:
    """Drop assistant turns that have only reasoning, if the server refuses them; return (the request, warnings).

    If nothing else is left, all are kept, and the server decides.
    """
    if profile.thought_only_turns or not any(map(_is_thought, request.messages)):
        return request, []
    dropped = [
        group
        for group in group_messages(request.messages)[0]
        if group.role == "assistant" and not group.texts and not group.calls
    ]
    sources = {id(message) for group in dropped for message in group.sources}
    kept = tuple(message for message in request.messages if id(message) not in sources)
    if not dropped or not kept:
        return request, []
    reason = "was not sent: it has only reasoning, and this model's server refuses a turn without text and calls"
    warnings = [f"{group.sources[0].path} {reason}" for group in dropped]
    return replace(request, messages=kept), warnings


def _is_thought(message: Message) -> bool:
    return message.role == "assistant" and all(isinstance(part, Reasoning) for part in message.parts)
