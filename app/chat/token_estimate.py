"""Estimates the tokens of a request before the model has counted them."""

from collections.abc import Iterable, Sequence

import msgspec

from app.chat.attachments import Attachment, FileText
from app.chat.known_conversation import add_up
from app.chat.messages import ChatRequest, Media, Message, Reasoning, Text, Tool, ToolCall, ToolResult

BYTES_PER_TOKEN = 4
"""Of English text; texts in other languages have more bytes and more tokens."""
MEDIA_TOKENS = 1000
"""About what an image costs. The length of its data says nothing."""
MESSAGE_TOKENS = 4
"""What a chat template adds to each message."""
DEFAULT_REPLY_TOKENS = 1000
"""For a request without `max_tokens`."""


def estimate_prompt_tokens(request: ChatRequest, attachments: Iterable[Attachment] = ()) -> int:
    """Return about how many tokens the prompt has. `attachments` are the contents of its files, once they are known."""
    size = 0
    for attachment in attachments:
        if type(attachment) is FileText:
            size += sum(_text_size(section.text) for section in attachment.sections)
    known = request.known
    size += count_bytes(request.messages) if known is None else add_up(count_bytes, request.messages, known)
    if request.tools:
        size += add_up(_count_tools, request.tools, known)
    if not request.messages and request.passed is not None:  # the gateway could not read them
        size += len(msgspec.json.encode(request.passed.body))
    return size // BYTES_PER_TOKEN + MESSAGE_TOKENS * len(request.messages)


def count_bytes(messages: Sequence[Message]) -> int:
    """Return the size of messages in bytes; media count as what they cost."""
    texts: list[str] = []
    urls = 0
    for message in messages:
        for part in message.parts:
            if type(part) is Text or type(part) is Reasoning:
                texts.append(part.text)
            elif type(part) is ToolCall:
                texts += (part.name, part.arguments)
            elif type(part) is Media:
                urls += len(part.urls)
            elif type(part) is ToolResult:
                for one in part.content:
                    if type(one) is Text:
                        texts.append(one.text)
                    elif type(one) is Media:
                        urls += len(one.urls)
    size = sum([len(text) if text.isascii() else _text_size(text) for text in texts])
    return size + urls * MEDIA_TOKENS * BYTES_PER_TOKEN


def _count_tools(tools: Sequence[Tool]) -> int:
    return sum([len(tool.encoded) for tool in tools])


def _text_size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
