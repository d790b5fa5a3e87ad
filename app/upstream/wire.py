"""What is read of a model server's chunks (rule 11: anything else is skipped)."""

from typing import Any

from msgspec import Struct


class Function(Struct, gc=False):
    name: str | None = None
    arguments: str | None = None


class Call(Struct, gc=False):
    index: int | None = None
    id: str | None = None
    function: Function | None = None
    extra_content: Any = None
    type: str | None = None
    custom: Any = None


class Delta(Struct, gc=False):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_text: str | None = None
    reasoning_details: list[Any] | None = None
    tool_calls: list[Call] | None = None
    function_call: Function | None = None
    refusal: str | None = None
    audio: dict[str, Any] | None = None
    annotations: list[Any] | None = None
    images: list[Any] | None = None
    extra_content: Any = None
    unread: list[str] | None = None
    """Types of content parts that are no text, thought or picture."""


class Choice(Struct, gc=False):
    index: int | None = 0
    delta: Delta | None = None
    message: Delta | None = None
    finish_reason: str | None = None
    usage: dict[str, Any] | None = None
    error: Any = None


class Chunk(Struct, gc=False):
    choices: list[Choice] | None = None
    usage: dict[str, Any] | None = None
    error: Any = None
    x_groq: dict[str, Any] | None = None
    base_resp: dict[str, Any] | None = None
    object: str | None = None
    message: Any = None
    code: Any = None
    detail: Any = None
    citations: Any = None
    search_results: Any = None
    ragged: bool = False
    """Some text begins or ends with half a surrogate pair: the other half may come with a neighbouring chunk."""
