"""Detects the language of a conversation, in which the gateway writes the texts that it adds."""

import re
from typing import Literal, TypeAlias

from app.chat.messages import ChatRequest, Media, Message, Text

Language: TypeAlias = Literal["en", "zh"]

_CHINESE = re.compile("[\u4e00-\u9fff]")
_PIECE_CHARS = 256 * 1024
"""How much text is searched at once, which takes about a millisecond: meanwhile no other thread of Python runs."""
_CHECKED_ROLES = ("system", "user")


def detect_language(request: ChatRequest) -> Language:
    """Return the `lang` parameter; without it, Chinese if a system or user message or a file name in one has a Chinese
    character, else English."""
    given = request.params.get("lang")
    if given:
        return "zh" if given == "zh" else "en"
    for message in request.messages:
        if message.role in _CHECKED_ROLES and _is_chinese(message):
            return "zh"
    return "en"


def choose_gateway_language(request: ChatRequest, found: Language) -> Language:
    """Return the language of the text around a file's text, in a conversation of the `found` language."""
    return found if request.policy.localized or request.params.get("lang") else "en"


def _is_chinese(message: Message) -> bool:
    return any(_has_chinese_character(text) for part in message.parts for text in _texts_of(part))


def _has_chinese_character(text: str) -> bool:
    if text.isascii():
        return False
    starts = range(0, len(text), _PIECE_CHARS)
    return any(_CHINESE.search(text, start, start + _PIECE_CHARS) for start in starts)


def _texts_of(part: object) -> tuple[str, ...]:
    if isinstance(part, Media):
        return tuple(url for url in part.urls if not url.startswith("data:"))
    return (part.text,) if isinstance(part, Text) else ()
