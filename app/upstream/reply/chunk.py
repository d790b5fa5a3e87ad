"""The fields that are read of a model server's chunks, and the limit on their nesting.

Rule 11 of `docs/reference/assembly.md`: every other field is skipped. Nesting is limited because the code that
later reads and writes these values is recursive.

A field of type None is one that only the lenient decoder reads: a chunk that has it is refused by the strict one.
"""

import re
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from app.chat.events import ReasoningDelta, TextDelta

MAX_NESTING = 200
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)


def is_too_deep(data: bytes) -> bool:
    """Whether JSON is nested deeper than MAX_NESTING. Counting the brackets nearly always decides it."""
    if data.count(b"[") + data.count(b"{") <= MAX_NESTING:
        return False
    depth = 0
    for token in _TOKEN.finditer(data):
        first = data[token.start()]
        depth += 1 if first in b"[{" else -1 if first in b"]}" else 0
        if depth > MAX_NESTING:
            return True
    return False


class FunctionFragment(Struct, gc=False):
    name: str | None = None
    arguments: str | None = None
    parameters: None = None
    """The arguments of some servers, like `input` and `args`."""
    input: None = None
    args: None = None


class ToolCallFragment(Struct, gc=False):
    index: int | None = None
    id: str | None = None
    function: FunctionFragment | None = None
    extra_content: Any = None
    type: str | None = None
    custom: Any = None
    name: None = None
    """Of a call without `function` (Cloudflare Workers AI), like the other three."""
    arguments: None = None
    parameters: None = None
    input: None = None


class ChunkDelta(Struct, gc=False):
    """A field of the type None is read by the lenient decoder: a value in it makes the strict one refuse the chunk."""

    role: Literal["assistant", "user", "system", "developer", "model", ""] | None = None
    """Any other one is read by the lenient decoder, which sets `is_tool_result`."""
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_text: str | None = None
    thinking: None = None
    provider_specific_fields: None = None
    reasoning_details: list[Any] | None = None
    thinking_blocks: None = None
    tool_calls: list[ToolCallFragment] | None = None
    function_call: FunctionFragment | None = None
    refusal: str | None = None
    audio: dict[str, Any] | None = None
    annotations: list[Any] | None = None
    images: list[Any] | None = None
    extra_content: Any = None
    tool_call_id: str | None = None
    text: None = None
    error: None = None
    reasoning_opaque: None = None
    """GitHub Copilot's, like the next one: text that only the server can read, and wants back."""
    cot_id: None = None
    is_odd: bool = False
    """Whether the lenient decoder found any of the following."""
    is_tool_result: bool = False
    """It is not the assistant's: a tool that the server ran itself has answered."""
    signed_blocks: list[Any] | None = None
    """Parts of reasoning with a signature or encrypted data, as the server wrote them."""
    block_text: str | None = None
    """The text of `thinking_blocks`."""
    opaque_fields: dict[str, Any] | None = None
    """Fields of the message that the server wants back as it sent them."""
    unread: list[str] | None = None
    """What could not be read, in words."""


class ChunkChoice(Struct, gc=False):
    index: int | None = 0
    delta: ChunkDelta | None = None
    message: ChunkDelta | None = None
    text: str | None = None
    """In text completions, which have neither `delta` nor `message`. Together sends it beside `delta`."""
    messages: None = None
    tool_calls: None = None
    finishReason: None = None  # Gemini: beside an empty finish_reason (jakobdylanc/llmcord#84)
    finish_reason: str | None = None
    native_finish_reason: Any = None
    """OpenRouter: the word of the provider behind it."""
    usage: dict[str, Any] | None = None
    error: Any = None
    stop_reason: Any = None
    """vLLM: the stop word at which the reply ended, or the id of a token."""
    matched_stop: Any = None
    """SGLang: the same."""


class Chunk(Struct, gc=False):
    choices: list[ChunkChoice] | None = None
    usage: dict[str, Any] | None = None
    error: Any = None
    x_groq: dict[str, Any] | None = None
    base_resp: dict[str, Any] | None = None
    object: str | None = None
    citations: Any = None
    search_results: Any = None
    whole: dict[str, Any] | None = None
    """All of the object, if it has no choices or reports an error."""
    ragged: bool = False
    """Some text may begin or end with half a surrogate pair, whose other half is in a neighbouring chunk."""


ChunkText: TypeAlias = TextDelta | ReasoningDelta | ToolCallFragment
"""The only part of the usual chunk: its content, its reasoning, or a fragment of a call."""


def get_text(chunk: Chunk) -> ChunkText | None:
    """Return the only part of the usual chunk, which has nothing else but perhaps `usage`; None for every other."""
    choices = chunk.choices
    if not choices or len(choices) > 1 or chunk.ragged or chunk.error or chunk.object == "error" or chunk.base_resp:
        return None
    choice = choices[0]
    delta = choice.delta
    if delta is None or choice.index or choice.message is not None or choice.finish_reason:
        return None
    if choice.usage or choice.error or chunk.x_groq or chunk.citations or chunk.search_results:
        return None
    if delta.reasoning or delta.reasoning_text or delta.reasoning_details or delta.refusal or delta.is_odd:
        return None
    if delta.audio or delta.annotations or delta.images or delta.extra_content is not None:
        return None
    content, reasoning, fragments = delta.content, delta.reasoning_content, delta.tool_calls
    if delta.function_call is not None:
        return None
    if content:
        return None if reasoning or fragments else TextDelta(content)
    if reasoning:
        return None if fragments else ReasoningDelta(reasoning)
    return fragments[0] if fragments and len(fragments) == 1 else None


def make_chunk(text: ChunkText) -> Chunk:
    """Return the chunk that has only this text."""
    if type(text) is TextDelta:
        delta = ChunkDelta(content=text.text)
    elif type(text) is ReasoningDelta:
        delta = ChunkDelta(reasoning_content=text.text)
    else:
        assert type(text) is ToolCallFragment
        delta = ChunkDelta(tool_calls=[text])
    return Chunk(choices=[ChunkChoice(delta=delta)])
