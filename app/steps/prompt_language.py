"""The language of a conversation: what the gateway itself adds to one is said in it."""

import re
from typing import Literal, TypeAlias

from app.chat.messages import ChatRequest, Media, Message, Text

Language: TypeAlias = Literal["en", "zh"]

_CHINESE = re.compile("[\u4e00-\u9fff]")
_CHECKED_ROLES = ("system", "user")


def detect_language(request: ChatRequest) -> Language:
    """As the caller says; else Chinese where a system or user message has a Chinese character, names of files
    counted."""
    given = request.params.get("lang")
    if given:
        return "zh" if given == "zh" else "en"
    return (
        "zh" if any(message.role in _CHECKED_ROLES and _is_chinese(message) for message in request.messages) else "en"
    )


def choose_gateway_language(request: ChatRequest, found: Language) -> Language:
    """The language of what the gateway writes around the text of a file, in a conversation of this language."""
    return found if request.policy.localized or request.params.get("lang") else "en"


def _is_chinese(message: Message) -> bool:
    return any(_CHINESE.search(text) for part in message.parts for text in _texts_of(part))


def _texts_of(part: object) -> tuple[str, ...]:
    if isinstance(part, Media):
        return tuple(url for url in part.urls if not url.startswith("data:"))
    return (part.text,) if isinstance(part, Text) else ()
