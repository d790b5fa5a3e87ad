"""Schema of AgentScope 2.x's messages, as strict as its own classes. Unknown keys are not read."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag

from app.formats.agentscope.common_schema import tag_by_type
from app.formats.agentscope.media import check_base64, check_media_type
from app.formats.media_urls import check_url

MediaType = Annotated[str, AfterValidator(check_media_type)]
BLOCKS = "must be a block of type text, thinking, data, tool_call, tool_result or hint"
ITEMS = "must be a block of type text or data"


class _V2Model(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True)


class AgentScope2Base64Source(_V2Model):
    type: Literal["base64"]
    data: Annotated[str, Field(min_length=1), AfterValidator(check_base64)]
    media_type: MediaType


class AgentScope2UrlSource(_V2Model):
    type: Literal["url"]
    url: Annotated[str, Field(min_length=1), AfterValidator(check_url)]
    media_type: MediaType


Source = Annotated[
    Annotated[AgentScope2Base64Source, Tag("<base64>")] | Annotated[AgentScope2UrlSource, Tag("<url>")],
    Discriminator(
        tag_by_type, custom_error_type="source_type", custom_error_message="must be a source of type base64 or url"
    ),
]


class _Block(_V2Model):
    """The common fields of all blocks, which are not read."""

    id: str | None = None
    created_at: Any = None
    finished_at: Any = None


class _Marked(_Block):
    cache_control: dict[str, Any] | None = None
    """A mark for the server's prompt cache; AgentScope itself has no such field."""


class AgentScope2TextBlock(_Marked):
    type: Literal["text"]
    text: str


class AgentScope2ThinkingBlock(_Block):
    type: Literal["thinking"]
    thinking: str


class AgentScope2DataBlock(_Marked):
    type: Literal["data"]
    source: Source
    name: str | None = None


Item = Annotated[
    Annotated[AgentScope2TextBlock, Tag("<text>")] | Annotated[AgentScope2DataBlock, Tag("<data>")],
    Discriminator(tag_by_type, custom_error_type="block_type", custom_error_message=ITEMS),
]


def _shape(value: Any) -> str | None:
    if isinstance(value, str):
        return "<string>"
    return "<blocks>" if isinstance(value, list) else None


TextOrBlocks = Annotated[
    Annotated[str, Tag("<string>")] | Annotated[list[Item], Tag("<blocks>")],
    Discriminator(_shape, custom_error_type="said_type", custom_error_message="must be a string or a list of blocks"),
]


class AgentScope2ToolCallBlock(_Block):
    """`input` is the raw JSON text."""

    type: Literal["tool_call"]
    name: str = Field(min_length=1, pattern=r"\S")
    input: str
    suggested_rules: Any = None
    state: Literal["pending", "asking", "allowed", "submitted", "finished"] = "pending"


class AgentScope2ToolResultBlock(_Marked):
    type: Literal["tool_result"]
    name: str | None = None
    output: TextOrBlocks
    state: Literal["success", "error", "interrupted", "denied", "running"] = "running"
    metadata: dict[str, Any] = {}


class AgentScope2HintBlock(_Marked):
    type: Literal["hint"]
    hint: TextOrBlocks
    source: str | None = None


Block = Annotated[
    Annotated[AgentScope2TextBlock, Tag("<text>")]
    | Annotated[AgentScope2ThinkingBlock, Tag("<thinking>")]
    | Annotated[AgentScope2DataBlock, Tag("<data>")]
    | Annotated[AgentScope2ToolCallBlock, Tag("<tool_call>")]
    | Annotated[AgentScope2ToolResultBlock, Tag("<tool_result>")]
    | Annotated[AgentScope2HintBlock, Tag("<hint>")],
    Discriminator(tag_by_type, custom_error_type="block_type", custom_error_message=BLOCKS),
]


class AgentScope2Failure(_V2Model):
    type: str
    message: str


class AgentScope2Msg(_V2Model):
    name: str
    role: Literal["user", "assistant", "system"]
    content: list[Block]
    id: str | None = None
    metadata: dict[str, Any] = {}
    created_at: str | None = None
    usage: dict[str, Any] | None = None
    finished_at: str | None = None
    finished_reason: Literal["completed", "interrupted", "exceed_max_iters", "error"] | None = None
    structured_output: Any = None
    error: AgentScope2Failure | None = None


Messages = Annotated[list[AgentScope2Msg], Field(min_length=1)]
