"""Adds the default system message, and moves system messages to where the model accepts them."""

from msgspec.structs import replace

from app.chat.messages import ChatRequest, Message, Text
from app.profiles import Profile
from app.steps.merge_messages import merge_messages, merge_parts
from app.steps.prompt_language import Language


def add_default_system(request: ChatRequest, profile: Profile, language: Language) -> ChatRequest:
    """Add the profile's default system message, in this language if it has one, if the conversation has none."""
    texts = profile.default_system
    text = texts.get(language) or next(iter(texts.values()), "")
    if not text or any(message.role == "system" for message in request.messages):
        return request
    return replace(request, messages=(Message("system", (Text(text),)), *request.messages))


def drop_empty_system(request: ChatRequest) -> ChatRequest:
    """Drop system messages without a text: they say nothing, and some servers refuse them."""
    kept = tuple([message for message in request.messages if message.role != "system" or not _is_empty(message)])
    return replace(request, messages=kept) if 0 < len(kept) < len(request.messages) else request


def _is_empty(message: Message) -> bool:
    return all(type(part) is Text and not part.text.strip() for part in message.parts)


def place_system(request: ChatRequest, profile: Profile) -> ChatRequest:
    systems = [message for message in request.messages if message.role == "system"]
    if profile.system in ("anywhere", "then_user") or not systems:
        return request
    others = [message for message in request.messages if message.role != "system"]
    if profile.system == "leading":
        return replace(request, messages=(*systems, *others))
    merged = merge_messages(systems)
    if profile.system == "merged":
        return replace(request, messages=(merged, *others))
    return replace(request, messages=_merge_into_user(merged, others))


def _merge_into_user(system: Message, others: list[Message]) -> tuple[Message, ...]:
    for place, message in enumerate(others):
        if message.role == "user":
            user = replace(message, parts=merge_parts((system.parts, message.parts)))
            return (*others[:place], user, *others[place + 1 :])
    return (replace(system, role="user", name=None), *others)
