"""Schema of Qwen-Agent's messages. docs/reference/formats/qwen.md lists where its package and docs differ."""

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    WithJsonSchema,
    model_validator,
)

from app.chat.datauri import may_be_base64
from app.formats.media_urls import LOCAL, check_url, is_remote

_SHORTEST_BASE64 = 16
_AS_OPENAI = 'set "format": "openai" in the request'
OPENAI_PART = f"is a content part of OpenAI's format: {_AS_OPENAI}"
_ANTHROPIC = 'Anthropic\'s or AgentScope\'s format: set "format": "anthropic" or "agentscope"'
_RESPONSES = 'OpenAI\'s Responses: set "format": "responses"'
_OWNERS = {
    **dict.fromkeys(("image", "document", "tool_use", "tool_result", "thinking", "redacted_thinking"), _ANTHROPIC),
    **dict.fromkeys(("output_text", "input_image", "input_file"), _RESPONSES),
}
"""The formats of content parts by their type; all other types are taken for OpenAI's."""
OPENAI_CALLS = f"is a key of OpenAI's format: {_AS_OPENAI}"


def _url(value: str | None) -> str | None:
    return value if value is None else check_url(value)


def _audio(value: Any) -> Any:
    """Check a URL, or `{data, format}` with the audio in base64."""
    if value is None or isinstance(value, str):
        return _url(value)
    if not isinstance(value, dict):
        raise ValueError("must be a string or an object with the key data")
    if not isinstance(value.get("data"), str) or not value["data"]:
        raise ValueError("must have the audio in the key data, as a string")
    if not isinstance(value.get("format"), str | None):
        raise ValueError("must have a string in the key format")
    if unknown := sorted(set(value) - {"data", "format"}):
        raise ValueError(f"has unknown keys: {', '.join(map(str, unknown))}")
    if not is_remote(value["data"]) and not (len(value["data"]) >= _SHORTEST_BASE64 and may_be_base64(value["data"])):
        raise ValueError(f"data {LOCAL}, or base64")
    return value


Url = Annotated[str | None, AfterValidator(_url)]
_AUDIO_FIELDS = {"data": {"type": "string"}, "format": {"anyOf": [{"type": "string"}, {"type": "null"}]}}
_AUDIO = {
    "anyOf": [
        {"type": "string"},
        {"type": "object", "properties": _AUDIO_FIELDS, "required": ["data"]},
        {"type": "null"},
    ]
}
Audio = Annotated[Any, AfterValidator(_audio), WithJsonSchema(_AUDIO)]


def _content_tag(value: Any) -> str | None:
    """Return the branch of a union: text, a list, or null."""
    if isinstance(value, str):
        return "<text>"
    if isinstance(value, list | tuple):
        return "<items>"
    return "<null>" if value is None else None


FrameUrl = Annotated[str, AfterValidator(_url)]
Video = Annotated[
    Annotated[FrameUrl, Tag("<text>")]
    | Annotated[list[FrameUrl], Field(min_length=1), Tag("<items>")]
    | Annotated[None, Tag("<null>")],
    Discriminator(
        _content_tag, custom_error_type="video_type", custom_error_message="must be a string or a list of strings"
    ),
]
"""A URL, or a list of frames."""


class ContentItem(BaseModel):
    """Exactly one key that is not null; only `text` may be empty."""

    model_config = ConfigDict(extra="forbid", strict=True)

    text: str | None = None
    image: Url = None
    file: Url = None
    audio: Audio = None
    video: Video = None

    @model_validator(mode="before")
    @classmethod
    def _refuse_other_part(cls, value: Any) -> Any:
        if isinstance(value, dict) and "type" in value:
            kind = value["type"]
            owner = _OWNERS.get(kind) if isinstance(kind, str) else None
            raise ValueError(OPENAI_PART if owner is None else f"is a content part of {owner} in the request")
        return value

    @model_validator(mode="after")
    def _check_one_key(self) -> "ContentItem":
        given = [name for name in ("text", "image", "file", "audio", "video") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError("must have exactly one of text, image, file, audio, video")
        return self


class FunctionCall(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    name: str = Field(min_length=1, pattern=r"\S")
    arguments: str


Content = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[list[ContentItem], Tag("<items>")] | Annotated[None, Tag("<null>")],
    Discriminator(
        _content_tag,
        custom_error_type="content_type",
        custom_error_message="must be a string, a list of content items or null",
    ),
]


def _role(value: Any) -> Any:
    if value in ("tool", "developer"):
        raise ValueError(f"{value} is a role of OpenAI's format: {_AS_OPENAI}")
    return value


class QwenMessage(BaseModel):
    """Unknown keys are ignored with a warning."""

    model_config = ConfigDict(extra="allow", strict=True)

    role: Annotated[Literal["system", "user", "assistant", "function"], BeforeValidator(_role)]
    content: Content
    reasoning_content: Content = None
    name: str | None = None
    function_call: FunctionCall | None = None
    extra: dict[str, Any] | None = None


QwenMessages = Annotated[list[QwenMessage], Field(min_length=1)]
