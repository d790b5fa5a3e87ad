"""Schema of AgentScope's messages: those of 1.x, and those of 0.1 where they differ.

AgentScope validates no blocks; the gateway validates them where something could be lost. Unknown keys are kept, but not
read.
"""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

from app.formats.agentscope.common_schema import tag_by_type
from app.formats.agentscope.media import check_base64, check_media_type
from app.formats.media_urls import check_url

Url = Annotated[str, Field(min_length=1), AfterValidator(check_url)]
BLOCKS = "must be a block of type text, thinking, image, audio, video, file, tool_use or tool_result"
ITEMS = "must be a block of type text, image, audio, video or file"


class _V1Model(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True)


class AgentScopeBase64Source(_V1Model):
    type: Literal["base64"]
    media_type: Annotated[str, AfterValidator(check_media_type)]
    data: Annotated[str, Field(min_length=1), AfterValidator(check_base64)]


class AgentScopeUrlSource(_V1Model):
    type: Literal["url"]
    url: Url


Source = Annotated[
    Annotated[AgentScopeBase64Source, Tag("<base64>")] | Annotated[AgentScopeUrlSource, Tag("<url>")],
    Discriminator(
        tag_by_type, custom_error_type="source_type", custom_error_message="must be a source of type base64 or url"
    ),
]


class _Marked(_V1Model):
    cache_control: dict[str, Any] | None = None
    """A mark for the server's prompt cache; AgentScope itself has no such field."""


class AgentScopeTextBlock(_Marked):
    type: Literal["text"]
    text: str


class AgentScopeThinkingBlock(_V1Model):
    type: Literal["thinking"]
    thinking: str


class _MediaBlock(_Marked):
    """A block with `source`, or with `url` as in 0.1."""

    source: Source | None = None
    url: Url | None = None

    @model_validator(mode="after")
    def _check_one_source(self) -> "_MediaBlock":
        if (self.source is None) == (self.url is None):
            raise ValueError("must have a source")
        return self


class AgentScopeImageBlock(_MediaBlock):
    type: Literal["image"]


class AgentScopeAudioBlock(_MediaBlock):
    type: Literal["audio"]


class AgentScopeVideoBlock(_MediaBlock):
    type: Literal["video"]


class AgentScopeFileBlock(_MediaBlock):
    """A block that only 0.1 has."""

    type: Literal["file"]


class AgentScopeToolUseBlock(_V1Model):
    type: Literal["tool_use"]
    id: str | None = None
    name: str = Field(min_length=1, pattern=r"\S")
    input: dict[str, Any]
    raw_input: str | None = None


Item = Annotated[
    Annotated[AgentScopeTextBlock, Tag("<text>")]
    | Annotated[AgentScopeImageBlock, Tag("<image>")]
    | Annotated[AgentScopeAudioBlock, Tag("<audio>")]
    | Annotated[AgentScopeVideoBlock, Tag("<video>")]
    | Annotated[AgentScopeFileBlock, Tag("<file>")],
    Discriminator(tag_by_type, custom_error_type="block_type", custom_error_message=ITEMS),
]


def _shape(value: Any) -> str | None:
    if isinstance(value, str):
        return "<string>"
    if isinstance(value, list):
        return "<blocks>"
    return "<null>" if value is None else None


Output = Annotated[
    Annotated[str, Tag("<string>")] | Annotated[list[Item], Tag("<blocks>")] | Annotated[None, Tag("<null>")],
    Discriminator(_shape, custom_error_type="output_type", custom_error_message="must be a string or a list of blocks"),
]


class AgentScopeToolResultBlock(_Marked):
    type: Literal["tool_result"]
    id: str | None = None
    name: str | None = None
    output: Output


Block = Annotated[
    Annotated[AgentScopeTextBlock, Tag("<text>")]
    | Annotated[AgentScopeThinkingBlock, Tag("<thinking>")]
    | Annotated[AgentScopeImageBlock, Tag("<image>")]
    | Annotated[AgentScopeAudioBlock, Tag("<audio>")]
    | Annotated[AgentScopeVideoBlock, Tag("<video>")]
    | Annotated[AgentScopeFileBlock, Tag("<file>")]
    | Annotated[AgentScopeToolUseBlock, Tag("<tool_use>")]
    | Annotated[AgentScopeToolResultBlock, Tag("<tool_result>")],
    Discriminator(tag_by_type, custom_error_type="block_type", custom_error_message=BLOCKS),
]
Content = Annotated[
    Annotated[str, Tag("<string>")] | Annotated[list[Block], Tag("<blocks>")] | Annotated[None, Tag("<null>")],
    Discriminator(
        _shape, custom_error_type="content_type", custom_error_message="must be a string or a list of blocks"
    ),
]


Links = Annotated[
    Annotated[Url, Tag("<string>")] | Annotated[list[Url], Tag("<blocks>")] | Annotated[None, Tag("<null>")],
    Discriminator(_shape, custom_error_type="links_type", custom_error_message="must be a URL or a list of URLs"),
]


class AgentScopeMsg(_V1Model):
    """`content` can be null, as 1.0.0 writes it; only 0.1 has `url`."""

    id: str | None = None
    name: str
    role: Literal["user", "assistant", "system"]
    content: Content
    metadata: dict[str, Any] | None = None
    timestamp: str | None = None
    invocation_id: str | None = None
    url: Links = None


Messages = Annotated[list[AgentScopeMsg], Field(min_length=1)]
