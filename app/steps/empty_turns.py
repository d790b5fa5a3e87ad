"""Assistant turns that say nothing are left out: they mean nothing to a model, and some servers refuse them."""

from dataclasses import replace

from app.chat.messages import ChatRequest, Message, Reasoning, Text


def drop_empty_turns(request: ChatRequest) -> ChatRequest:
    """What a user or the system leaves empty stays: it was said. A list of nothing else stays too, and is refused where
    its messages are made."""
    kept = tuple(message for message in request.messages if not is_empty_turn(message))
    return replace(request, messages=kept) if 0 < len(kept) < len(request.messages) else request


def is_empty_turn(message: Message, *, reasoning_is_sent: bool = True) -> bool:
    """Whether an assistant says nothing here. Opaque reasoning (`reasoning_details`) is something."""
    if message.role != "assistant" or message.extra.get("reasoning_details"):
        return False
    return all(
        not part.text or (isinstance(part, Reasoning) and not reasoning_is_sent)
        if isinstance(part, Text | Reasoning)
        else False
        for part in message.parts
    )
