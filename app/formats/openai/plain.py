"""The messages that nearly every conversation consists of, in their usual form.

Pydantic took a tenth of an agent's first request for them. `schema` has every other part and field, and says what is
wrong with one. The fields that a message of a role cannot have are None.
"""

from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, Struct

_Name = Annotated[str, Meta(min_length=1, pattern=r"\S")]


class PlainText(Struct, frozen=True, forbid_unknown_fields=True):
    type: Literal["text", "input_text"]
    text: str
    cache_control: dict[str, Any] | None = None


class PlainFunction(Struct, frozen=True, forbid_unknown_fields=True):
    name: _Name
    arguments: str = ""
    model_extra: ClassVar[None] = None


class PlainCall(Struct, frozen=True, forbid_unknown_fields=True):
    function: PlainFunction
    id: str | None = None
    type: Literal["function"] = "function"
    model_extra: ClassVar[None] = None


class PlainSpeaker(Struct, frozen=True, forbid_unknown_fields=True):
    role: Literal["system", "developer", "user"]
    content: str | list[PlainText]
    name: str | None = None
    tool_calls: ClassVar[None] = None
    tool_call_id: ClassVar[None] = None
    function_call: ClassVar[None] = None
    reasoning_content: ClassVar[None] = None
    reasoning: ClassVar[None] = None
    reasoning_details: ClassVar[None] = None
    extra_content: ClassVar[None] = None
    refusal: ClassVar[None] = None
    server_messages: ClassVar[None] = None
    model_extra: ClassVar[None] = None


class PlainAssistant(Struct, frozen=True, forbid_unknown_fields=True):
    role: Literal["assistant"]
    content: str | list[PlainText] | None = None
    name: str | None = None
    tool_calls: list[PlainCall] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[Any] | None = None
    extra_content: dict[str, Any] | None = None
    refusal: str | None = None
    tool_call_id: ClassVar[None] = None
    function_call: ClassVar[None] = None
    server_messages: ClassVar[None] = None
    model_extra: ClassVar[None] = None


class PlainResult(Struct, frozen=True, forbid_unknown_fields=True):
    role: Literal["tool"]
    tool_call_id: Annotated[str, Meta(min_length=1)]
    content: str | list[PlainText] | None = None
    name: str | None = None
    tool_calls: ClassVar[None] = None
    function_call: ClassVar[None] = None
    reasoning_content: ClassVar[None] = None
    reasoning: ClassVar[None] = None
    reasoning_details: ClassVar[None] = None
    extra_content: ClassVar[None] = None
    refusal: ClassVar[None] = None
    server_messages: ClassVar[None] = None
    model_extra: ClassVar[None] = None


PLAIN_MESSAGES: dict[str, type[Struct]] = {
    **dict.fromkeys(("system", "developer", "user"), PlainSpeaker),
    "assistant": PlainAssistant,
    "tool": PlainResult,
}
"""By their roles."""
