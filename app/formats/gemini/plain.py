"""The contents, parts and functions that nearly every conversation consists of, in their usual form.

`schema` has every other part and field, and says what is wrong with one; its models take several times as long.
"""

from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, Struct

_Name = Annotated[str, Meta(min_length=1, pattern=r"\S")]


class PlainCall(Struct, frozen=True, forbid_unknown_fields=True):
    name: _Name
    args: dict[str, Any] | None = None
    id: str | None = None


class PlainResponse(Struct, frozen=True, forbid_unknown_fields=True):
    name: str | None = None
    response: Any = None
    id: str | None = None
    parts: ClassVar[None] = None


class PlainPart(Struct, frozen=True, forbid_unknown_fields=True):
    """A text, a call or a result of one."""

    text: str | None = None
    thought: bool | None = None
    thoughtSignature: str | None = None
    functionCall: PlainCall | None = None
    functionResponse: PlainResponse | None = None
    inlineData: ClassVar[None] = None
    fileData: ClassVar[None] = None
    executableCode: ClassVar[None] = None
    codeExecutionResult: ClassVar[None] = None


class PlainContent(Struct, frozen=True, forbid_unknown_fields=True):
    role: Literal["user", "model", "function", "system"] | None = None
    parts: list[PlainPart] | None = None


class PlainFunction(Struct, frozen=True, forbid_unknown_fields=True):
    name: _Name
    description: str | None = None
    parameters: dict[str, Any] | None = None
    parametersJsonSchema: dict[str, Any] | None = None
    model_extra: ClassVar[None] = None
