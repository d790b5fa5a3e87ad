"""The items that nearly every conversation consists of, in their usual form.

Pydantic took a sixth of an agent's first request for them. `schema` has every other item and field, and says what is
wrong with one.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

_Name = Annotated[str, Meta(min_length=1, pattern=r"\S")]


class PlainText(Struct, frozen=True, forbid_unknown_fields=True):
    type: Literal["input_text", "output_text", "text", "summary_text", "reasoning_text"]
    text: str
    annotations: Any = None
    logprobs: Any = None


class PlainMessage(Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="message"):
    role: Literal["user", "assistant", "system", "developer"]
    content: str | list[PlainText]
    id: str | None = None
    status: str | None = None
    phase: str | None = None
    extra_content: dict[str, Any] | None = None


class PlainReasoning(Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="reasoning"):
    id: str | None = None
    content: list[PlainText] | None = None
    summary: list[PlainText] | None = None
    encrypted_content: str | None = None
    status: str | None = None


class PlainCall(Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="function_call"):
    call_id: _Name
    name: _Name
    arguments: str
    namespace: str | None = None
    id: str | None = None
    status: str | None = None


class PlainOutput(Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="function_call_output"):
    call_id: _Name
    output: str | list[PlainText]
    id: str | None = None
    status: str | None = None
    name: str | None = None
    namespace: str | None = None
    caller: Any = None


PLAIN_ITEMS: dict[str, type[Struct]] = {
    "message": PlainMessage,
    "reasoning": PlainReasoning,
    "function_call": PlainCall,
    "function_call_output": PlainOutput,
}
"""By their types."""
