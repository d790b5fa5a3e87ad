"""Schema of OpenAI's chat messages: lenient where clients differ, strict where content could be lost."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from app.chat.datauri import may_be_base64
from app.formats.media_urls import Url, is_remote
from app.openai_messages.custom_tools import wrap_input


class _Wire(BaseModel):
    """Unknown keys are ignored with a warning."""

    model_config = ConfigDict(extra="allow", strict=True)


class _Part(_Wire):
    cache_control: dict[str, Any] | None = None
    """A mark for the server's prompt cache."""


class TextPart(_Part):
    type: Literal["text", "input_text"]
    text: str


class RefusalPart(_Part):
    type: Literal["refusal"]
    refusal: str


class ImageUrl(_Wire):
    url: Url
    detail: str | None = None


class ImagePart(_Part):
    type: Literal["image_url"]
    image_url: ImageUrl

    @model_validator(mode="before")
    @classmethod
    def _plain_string(cls, value: Any) -> Any:
        if isinstance(value, dict) and isinstance(value.get("image_url"), str):
            return {**value, "image_url": {"url": value["image_url"]}}
        return value


class Remote(_Wire):
    url: Url


class VideoPart(_Part):
    type: Literal["video_url"]
    video_url: Remote


class AudioUrlPart(_Part):
    """vLLM's part for audio."""

    type: Literal["audio_url"]
    audio_url: Remote


class FramesPart(_Part):
    type: Literal["video"]
    video: list[Url] = Field(min_length=1)


def _check_audio(value: str) -> str:
    if not is_remote(value) and not may_be_base64(value):
        raise ValueError("must be base64, an http(s) URL or a data URI")
    return value


class InputAudio(_Wire):
    data: Annotated[str, AfterValidator(_check_audio)] = Field(min_length=1)
    format: str | None = None


class AudioPart(_Part):
    type: Literal["input_audio"]
    input_audio: InputAudio


class FileBody(_Wire):
    file_data: Url | None = None
    filename: str | None = None
    file_id: str | None = None

    @model_validator(mode="after")
    def _check_file_data(self) -> "FileBody":
        if self.file_data is None:
            raise ValueError("must have its content in file_data: the gateway cannot read files stored at a provider")
        return self


class FilePart(_Part):
    type: Literal["file"]
    file: FileBody


def _part_type(value: Any) -> str | None:
    kind = value.get("type") if isinstance(value, dict) else None
    return _PARTS.get(kind) if isinstance(kind, str) else None


_PARTS = {
    "text": "<text>",
    "input_text": "<text>",
    "refusal": "<refusal>",
    "image_url": "<image>",
    "video_url": "<video>",
    "video": "<frames>",
    "input_audio": "<audio>",
    "audio_url": "<audio_url>",
    "file": "<file>",
}

ContentPart = Annotated[
    Annotated[TextPart, Tag("<text>")]
    | Annotated[RefusalPart, Tag("<refusal>")]
    | Annotated[ImagePart, Tag("<image>")]
    | Annotated[VideoPart, Tag("<video>")]
    | Annotated[FramesPart, Tag("<frames>")]
    | Annotated[AudioPart, Tag("<audio>")]
    | Annotated[AudioUrlPart, Tag("<audio_url>")]
    | Annotated[FilePart, Tag("<file>")],
    Discriminator(
        _part_type,
        custom_error_type="openai_part_type",
        custom_error_message=f"must be a part with one of the types {', '.join(_PARTS)}",
    ),
]


class ToolUsePart(_Part):
    """A call in the form of Anthropic's Messages, in which Cursor sends an agent's history."""

    type: Literal["tool_use"]
    id: str = Field(min_length=1)
    name: str = Field(min_length=1, pattern=r"\S")
    input: Any


class ToolResultPart(_Part):
    """The result of such a call."""

    type: Literal["tool_result"]
    tool_use_id: str = Field(min_length=1)
    content: str | list[ContentPart] | None = None
    is_error: bool | None = None


def _message_part_type(value: Any) -> str | None:
    kind = value.get("type") if isinstance(value, dict) else None
    return f"<{kind}>" if kind in ("tool_use", "tool_result") else _part_type(value)


MessagePart = Annotated[
    Annotated[TextPart, Tag("<text>")]
    | Annotated[RefusalPart, Tag("<refusal>")]
    | Annotated[ImagePart, Tag("<image>")]
    | Annotated[VideoPart, Tag("<video>")]
    | Annotated[FramesPart, Tag("<frames>")]
    | Annotated[AudioPart, Tag("<audio>")]
    | Annotated[AudioUrlPart, Tag("<audio_url>")]
    | Annotated[FilePart, Tag("<file>")]
    | Annotated[ToolUsePart, Tag("<tool_use>")]
    | Annotated[ToolResultPart, Tag("<tool_result>")],
    Discriminator(
        _message_part_type,
        custom_error_type="openai_part_type",
        custom_error_message=f"must be a part with one of the types {', '.join(_PARTS)}",
    ),
]


def _content_kind(value: Any) -> str | None:
    if isinstance(value, str):
        return "<string>"
    if isinstance(value, list):
        return "<parts>"
    return "<null>" if value is None else None


Content = Annotated[
    Annotated[str, Tag("<string>")] | Annotated[list[ContentPart], Tag("<parts>")] | Annotated[None, Tag("<null>")],
    Discriminator(
        _content_kind,
        custom_error_type="content_type",
        custom_error_message="must be a string, a list of parts or null",
    ),
]


MessageContent = Annotated[
    Annotated[str, Tag("<string>")] | Annotated[list[MessagePart], Tag("<parts>")] | Annotated[None, Tag("<null>")],
    Discriminator(
        _content_kind,
        custom_error_type="content_type",
        custom_error_message="must be a string, a list of parts or null",
    ),
]


class Function(_Wire):
    name: str = Field(min_length=1, pattern=r"\S")
    arguments: str = ""


class ToolCallWire(_Wire):
    model_config = ConfigDict(extra="allow", strict=True)

    id: str | None = None
    type: Literal["function"] = "function"
    function: Function

    @model_validator(mode="before")
    @classmethod
    def _read_custom_call(cls, value: Any) -> Any:
        """Read the call of a custom tool, which has a text, as that of the function that the model is offered for
        it."""
        custom = value.get("custom") if isinstance(value, dict) and value.get("type") == "custom" else None
        if not isinstance(custom, dict) or not isinstance(custom.get("input", ""), str):
            return value
        rest = {key: field for key, field in value.items() if key not in ("type", "custom")}
        more = {key: field for key, field in custom.items() if key != "input"}
        return {**rest, "function": {**more, "arguments": wrap_input(custom.get("input", ""))}}


class ServerMessage(BaseModel):
    """A message of a reply whose tools the gateway ran: a turn with such calls, or the result of one."""

    model_config = ConfigDict(extra="allow", strict=True)

    role: Literal["assistant", "tool"]
    index: int | None = None
    content: Content = None
    reasoning_content: str | None = None
    tool_calls: list[ToolCallWire] | None = None
    tool_call_id: str | None = None
    is_error: bool | None = None
    reasoning_details: list[Any] | None = None

    @model_validator(mode="after")
    def _check_result_is_named(self) -> "ServerMessage":
        if self.role == "tool" and not self.tool_call_id:
            raise ValidationError.from_exception_data("message", [_field_error("tool_call_id")])
        return self


class OpenAIMessage(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True)

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: MessageContent = None
    name: str | None = None
    tool_calls: list[ToolCallWire] | None = None
    tool_call_id: str | None = None
    function_call: Function | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[Any] | None = None
    extra_content: dict[str, Any] | None = None
    refusal: str | None = None
    server_messages: list[ServerMessage] | None = None

    @model_validator(mode="before")
    @classmethod
    def _use_id_as_call_id(cls, value: Any) -> Any:
        """Rename `id` of a result: Qwen-Agent 0.0.34 (`use_raw_api`) writes the call id there."""
        if not isinstance(value, dict) or value.get("role") != "tool" or value.get("tool_call_id"):
            return value
        call_id = value.get("id")
        return {**value, "id": None, "tool_call_id": call_id} if isinstance(call_id, str) and call_id else value

    @model_validator(mode="before")
    @classmethod
    def _read_thinking_blocks(cls, value: Any) -> Any:
        """Read Claude's signed reasoning as LiteLLM writes it (openai/openai-agents-python#1704)."""
        if not isinstance(value, dict) or value.get("role") != "assistant" or value.get("reasoning_details"):
            return value
        details = _make_block_details(value.get("thinking_blocks"))
        if not details:
            return value
        rest = {key: field for key, field in value.items() if key != "thinking_blocks"}
        text = "\n\n".join([detail["text"] for detail in details if detail.get("text")])
        given = value.get("reasoning_content") or value.get("reasoning")
        return {**rest, "reasoning_content": given or text or None, "reasoning_details": details}

    @model_validator(mode="after")
    def _check_role_fields(self) -> "OpenAIMessage":
        errors: list[InitErrorDetails] = []
        if self.role != "assistant":
            calls = [field for field in _ASSISTANT_FIELDS if getattr(self, field)]
            errors += (_field_error(field, "only an assistant message can have it") for field in calls)
        if self.role == "tool" and not self.tool_call_id:
            errors.append(_field_error("tool_call_id"))
        if self.role == "function" and not self.name:
            errors.append(_field_error("name"))
        if self.role in ("system", "developer", "user") and self.content is None:
            errors.append(_field_error("content"))
        for place, part in enumerate(self.content if isinstance(self.content, list) else ()):
            owner = _TOOL_PART_ROLES.get(part.type, self.role)
            if owner != self.role:
                text = f"a part of type {part.type} belongs into a message of role {owner}"
                error = PydanticCustomError("not_of_role", "{text}", {"text": text})
                errors.append(InitErrorDetails(type=error, loc=("content", place), input=None))
        if errors:
            raise ValidationError.from_exception_data("message", errors)
        return self


def _make_block_details(blocks: Any) -> list[dict[str, Any]]:
    """Return the blocks of Anthropic's API that it takes back, as `reasoning_details`."""
    details: list[dict[str, Any]] = []
    for block in blocks if isinstance(blocks, list) else ():
        match block:
            case {"type": "thinking", "thinking": str(text), "signature": str(signature)} if signature:
                details.append({"type": "reasoning.text", "text": text, "signature": signature})
            case {"type": "redacted_thinking", "data": str(data)}:
                details.append({"type": "reasoning.encrypted", "data": data})
    return [{**detail, "format": "anthropic-claude-v1"} for detail in details]


_TOOL_PART_ROLES = {"tool_use": "assistant", "tool_result": "user"}
_ASSISTANT_FIELDS = ("tool_calls", "function_call", "server_messages")


def _field_error(field: str, text: str | None = None) -> InitErrorDetails:
    """Make the error of a field; without a text, the error is that the field is missing."""
    kind = PydanticCustomError("not_of_role", "{text}", {"text": text}) if text else "missing"
    return InitErrorDetails(type=kind, loc=(field,), input=None)


OpenAIMessages = Annotated[list[OpenAIMessage], Field(min_length=1)]
