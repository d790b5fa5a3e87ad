"""The messages and blocks that nearly every conversation consists of, in their usual form.

Pydantic took a sixth of an agent's first request for them. `schema` has every other block and field, and says what is
wrong with one.
"""

from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from msgspec import Meta, Struct

_Id = Annotated[str, Meta(min_length=1)]
_Name = Annotated[str, Meta(min_length=1, pattern=r"\S")]


class PlainText(Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="text"):
    text: str
    cache_control: dict[str, Any] | None = None
    type: ClassVar[Literal["text"]] = "text"


class PlainThinking(Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="thinking"):
    thinking: str
    signature: str | None = None
    type: ClassVar[Literal["thinking"]] = "thinking"


class PlainToolUse(Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="tool_use"):
    id: _Id
    name: _Name
    input: Any
    cache_control: dict[str, Any] | None = None
    caller: Any = None
    server_name: Any = None
    type: ClassVar[Literal["tool_use"]] = "tool_use"


class PlainToolResult(Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="tool_result"):
    tool_use_id: _Id
    content: str | list[PlainText] | None = None
    is_error: bool | None = None
    cache_control: dict[str, Any] | None = None
    type: ClassVar[Literal["tool_result"]] = "tool_result"


PlainBlock: TypeAlias = PlainText | PlainThinking | PlainToolUse | PlainToolResult


class PlainMessage(Struct, frozen=True, forbid_unknown_fields=True):
    role: Literal["user", "assistant", "system"]
    content: str | list[PlainBlock]


PLAIN_MESSAGES: dict[str, type[Struct]] = dict.fromkeys(("user", "assistant", "system"), PlainMessage)
"""By their roles."""
