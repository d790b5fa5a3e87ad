"""Qwen-Agent's messages as they come over the wire (docs/formats.md: where the package and its documents differ)."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

LOCAL = "must be an http(s) URL or a data URI: files of the gateway's machine are never read"
OPENAI_PART = "is a part in OpenAI's form; send the list with format: openai"


def _is_remote(value: str) -> bool:
    # No slicing or lower-casing of the whole: a data URI may be megabytes long.
    return value[:8].lower().startswith(("http://", "https://", "data:"))


class ContentItem(BaseModel):
    """Exactly one key that is not null; only `text` may be empty."""

    model_config = ConfigDict(extra="forbid", strict=True)

    text: str | None = None
    image: str | None = None
    file: str | None = None
    audio: str | dict[str, Any] | None = None
    video: str | list[str] | None = None

    @model_validator(mode="before")
    @classmethod
    def _not_openai(cls, value: Any) -> Any:
        if isinstance(value, dict) and "type" in value:
            raise ValueError(OPENAI_PART)
        return value

    @model_validator(mode="after")
    def _exactly_one(self) -> "ContentItem":
        given = [name for name in ("text", "image", "file", "audio", "video") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError("must have exactly one of text, image, file, audio, video")
        name = given[0]
        value = getattr(self, name)
        if name != "text":
            _check_media(name, value)
        return self


def _check_media(name: str, value: str | dict[str, Any] | list[str]) -> None:
    if not value:
        raise ValueError(f"{name} must not be empty")
    if isinstance(value, dict):
        if not isinstance(value.get("data"), str) or not value["data"]:
            raise ValueError("audio must have its content in the key data, as a string")
        if not isinstance(value.get("format"), str | None):
            raise ValueError("audio.format must be a string")
        if set(value) - {"data", "format"}:
            raise ValueError(f"audio has unknown keys: {', '.join(sorted(set(value) - {'data', 'format'}))}")
        if value["data"].startswith(("file:", "/", "./", "../", "~")) and not value.get("format"):
            raise ValueError(f"audio.data {LOCAL}")
        return
    urls = value if isinstance(value, list) else [value]
    if not all(_is_remote(url) for url in urls):
        raise ValueError(f"{name} {LOCAL}")


class FunctionCall(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    name: str = Field(min_length=1, pattern=r"\S")
    arguments: str


def _kind_of_text(value: Any) -> str | None:
    if isinstance(value, str):
        return "<text>"
    if isinstance(value, list | tuple):
        return "<items>"
    return "<null>" if value is None else None


Content = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[list[ContentItem], Tag("<items>")] | Annotated[None, Tag("<null>")],
    Discriminator(
        _kind_of_text,
        custom_error_type="content_type",
        custom_error_message="must be a string, a list of content items or null",
    ),
]


class QwenMessage(BaseModel):
    """Keys that are not here are kept apart and named in a warning."""

    model_config = ConfigDict(extra="allow", strict=True)

    role: Literal["system", "user", "assistant", "function"]
    content: Content
    reasoning_content: Content = None
    name: str | None = None
    function_call: FunctionCall | None = None
    extra: dict[str, Any] | None = None

    @model_validator(mode="before")
    @classmethod
    def _not_openai(cls, value: Any) -> Any:
        if isinstance(value, dict) and (value.get("role") in ("tool", "developer") or value.get("tool_calls")):
            raise ValueError("is a message in OpenAI's form; send the list with format: openai")
        return value

    @model_validator(mode="after")
    def _calls_are_the_assistants(self) -> "QwenMessage":
        if self.function_call is not None and self.role != "assistant":
            raise ValueError("only an assistant message can have a function_call")
        return self


QwenMessages = Annotated[list[QwenMessage], Field(min_length=1)]
