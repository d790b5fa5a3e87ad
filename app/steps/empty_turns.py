"""Drops empty assistant turns, which mean nothing to a model and which some servers refuse."""

from msgspec.structs import replace

from app.chat.messages import ChatRequest, Message, Reasoning, Text


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
