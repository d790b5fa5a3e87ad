"""What AutoGen's messages are made of: images, calls, results, usage, and the texts and lists around them."""

import json
import re
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag

from app.chat.datauri import may_be_base64

_BASE64 = re.compile(r"[A-Za-z0-9+/\s]+={0,2}\s*")


def compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def is_base64(text: str) -> bool:
    return _BASE64.fullmatch(text) is not None and may_be_base64(text)


def _base64(value: str) -> str:
    if value[:5].lower() == "data:":
        raise ValueError("must be bare base64, without the head of a data URI")
    if not is_base64(value):
        raise ValueError("must be an image in base64")
    return value


def _written(value: Any) -> Any:
    """Arguments that a caller wrote as an object instead of as text."""
    return compact(value) if isinstance(value, dict) else value


class Leaf(BaseModel):
    """AutoGen ignores keys that it does not know, and so do we, with a warning; what came is kept as it came."""

    model_config = ConfigDict(extra="allow")


class Image(Leaf):
    data: Annotated[str, AfterValidator(_base64)]


class Usage(Leaf):
    prompt_tokens: int
    completion_tokens: int


class FunctionCall(Leaf):
    id: str
    arguments: Annotated[str, BeforeValidator(_written)]
    name: str = Field(min_length=1, pattern=r"\S")


class FunctionExecutionResult(Leaf):
    content: str
    name: str | None = None
    """Versions before 0.4.8 wrote none."""
    call_id: str
    is_error: bool | None = None


def _kind_of_memory(value: Any) -> str | None:
    return "<text>" if isinstance(value, str) else "<object>" if isinstance(value, dict) else None


class MemoryContent(Leaf):
    content: Annotated[
        Annotated[str, Tag("<text>")] | Annotated[dict[str, Any], Tag("<object>")],
        Discriminator(
            _kind_of_memory,
            custom_error_type="memory_content",
            custom_error_message="must be a string or an object",
        ),
    ]
    mime_type: str
    metadata: dict[str, Any] | None = None


class CodeBlock(Leaf):
    code: str
    language: str


class CodeResult(Leaf):
    exit_code: int
    output: str


def _kind_of_piece(value: Any) -> str | None:
    return "<text>" if isinstance(value, str) else "<image>" if isinstance(value, dict | Image) else None


Piece = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[Image, Tag("<image>")],
    Discriminator(
        _kind_of_piece,
        custom_error_type="piece_type",
        custom_error_message='must be a string or an image, {"data": base64}',
    ),
]


def _kind_of_said(value: Any) -> str | None:
    return "<text>" if isinstance(value, str) else "<list>" if isinstance(value, list | tuple) else None


Said = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[list[Piece], Tag("<list>")],
    Discriminator(
        _kind_of_said,
        custom_error_type="said_type",
        custom_error_message="must be a string or a list of strings and images",
    ),
]
Answered = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[list[FunctionCall], Tag("<list>")],
    Discriminator(
        _kind_of_said,
        custom_error_type="answered_type",
        custom_error_message="must be a string or a list of calls",
    ),
]
