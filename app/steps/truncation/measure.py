"""Counts the tokens of a conversation: everything that is sent to the model, except the chat template."""

from collections.abc import Iterator, Mapping
from typing import assert_never

import msgspec

from app.chat.messages import (
    ChatRequest,
    Media,
    MediaKind,
    Message,
    Part,
    Reasoning,
    Text,
    TokenCounter,
    Tool,
    ToolCall,
    ToolResult,
)

_LONG = 10_000


class TokenMeasure:
    def __init__(self, counter: TokenCounter, media_tokens: Mapping[MediaKind, int]) -> None:
        self._counter = counter
        self._media_tokens = media_tokens
        self._long_text_counts: dict[str, int] = {}
        """Counts of long texts, which are needed repeatedly."""

    def count_message(self, message: Message) -> int:
        return sum(self.count_part(part) for part in message.parts)

    def count_part(self, part: Part) -> int:
        return sum(map(self._count, _texts(part))) + self._media(part)

    def _count(self, text: str) -> int:
        if len(text) < _LONG:
            return self._counter.count(text)
        if text not in self._long_text_counts:
            self._long_text_counts[text] = self._counter.count(text)
        return self._long_text_counts[text]

    def count_tool(self, tool: Tool) -> int:
        return self._counter.count(_schema(tool))

    def upper_bound(self, request: ChatRequest) -> int:
        """Return an upper bound without tokenizing: no token is smaller than a byte."""
        texts = [text for message in request.messages for part in message.parts for text in _texts(part)]
        texts += map(_schema, request.tools)
        media = sum(self._media(part) for message in request.messages for part in message.parts)
        return sum(map(_bytes, texts)) + len(texts) + media

    def _media(self, part: Part) -> int:
        if isinstance(part, ToolResult):
            return sum(map(self._media, part.content))
        if not isinstance(part, Media):
            return 0
        if part.frames:
            return len(part.urls) * self._media_tokens.get("image", 0)
        return self._media_tokens.get(part.media, 0)


def _texts(part: Part) -> Iterator[str]:
    match part:
        case Text() | Reasoning():
            yield part.text
        case ToolCall():
            yield part.name
            yield part.arguments
        case ToolResult():
            for item in part.content:
                yield from _texts(item)
        case Media():
            return
        case _:
            assert_never(part)


def _schema(tool: Tool) -> str:
    return msgspec.json.encode(dict(tool.schema)).decode()


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
