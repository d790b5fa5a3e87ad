"""Schema of the values in AutoGen's messages: images, calls, results, usage and content."""

import json
import re
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag

from app.chat.datauri import may_be_base64

_BASE64 = re.compile(r"[A-Za-z0-9+/\s]+={0,2}\s*")


def dump_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def is_base64(text: str) -> bool:
    return _BASE64.fullmatch(text) is not None and may_be_base64(text)


def _base64(value: str) -> str:
    if value[:5].lower() == "data:":
        raise ValueError("must be base64 without the head of a data URI")
    if not is_base64(value):
        raise ValueError("must be an image in base64")
    return value


def _dump_arguments(value: Any) -> Any:
    """Encode arguments that the caller wrote as an object instead of a string."""
    return dump_json(value) if isinstance(value, dict) else value


class ValueModel(BaseModel):
    """Unknown keys are ignored with a warning, as in AutoGen; the original item is kept unchanged."""

    model_config = ConfigDict(extra="allow")


class Image(ValueModel):
    data: Annotated[str, AfterValidator(_base64)]


class Usage(ValueModel):
    prompt_tokens: int
    completion_tokens: int


class AutogenFunctionCall(ValueModel):
    id: str
    arguments: Annotated[str, BeforeValidator(_dump_arguments)]
    name: str = Field(min_length=1, pattern=r"\S")


class FunctionExecutionResult(ValueModel):
    content: str
    name: str | None = None
    """AutoGen versions before 0.4.8 write no name."""
    call_id: str
    is_error: bool | None = None


def _memory_tag(value: Any) -> str | None:
    return "<text>" if isinstance(value, str) else "<object>" if isinstance(value, dict) else None


class MemoryContent(ValueModel):
    content: Annotated[
        Annotated[str, Tag("<text>")] | Annotated[dict[str, Any], Tag("<object>")],
        Discriminator(
            _memory_tag,
            custom_error_type="memory_content",
            custom_error_message="must be a string or an object",
        ),
    ]
    mime_type: str
    metadata: dict[str, Any] | None = None


class CodeBlock(ValueModel):
    code: str
    language: str


class CodeResult(ValueModel):
    exit_code: int
    output: str


def _piece_tag(value: Any) -> str | None:
    return "<text>" if isinstance(value, str) else "<image>" if isinstance(value, dict | Image) else None


Piece = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[Image, Tag("<image>")],
    Discriminator(
        _piece_tag,
        custom_error_type="piece_type",
        custom_error_message='must be a string or an image, {"data": base64}',
    ),
]


def _content_tag(value: Any) -> str | None:
    return "<text>" if isinstance(value, str) else "<list>" if isinstance(value, list | tuple) else None


UserContent = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[list[Piece], Tag("<list>")],
    Discriminator(
        _content_tag,
        custom_error_type="said_type",
        custom_error_message="must be a string or a list of strings and images",
    ),
]
AssistantContent = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[list[AutogenFunctionCall], Tag("<list>")],
    Discriminator(
        _content_tag,
        custom_error_type="answered_type",
        custom_error_message="must be a string or a list of calls",
    ),
]
