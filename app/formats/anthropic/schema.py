"""Schema of Anthropic's messages, lenient where clients and API versions differ, strict where content could be lost.

Unknown keys of blocks are ignored with a warning.
"""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag

from app.chat.datauri import is_data
from app.formats.media_urls import NEVER_READ, describe_remedy, is_bare_base64
from app.validation.chat_completions import refuse_roles, refuse_tool_calls


class _Wire(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True)


_Name = Annotated[str, Field(min_length=1, pattern=r"\S")]


class _Marked(_Wire):
    cache_control: dict[str, Any] | None = None
    """A mark for the server's prompt cache."""


_AS_DATA = 'send a source {"type": "base64", "media_type": "image/png", "data": "<its bytes in base64>"}'


def _check_url(value: str) -> str:
    if value[:8].lower().startswith(("http://", "https://")):
        return value
    if not value:
        raise ValueError("must not be empty")
    if is_data(value) or is_bare_base64(value):
        raise ValueError(f"must be an http(s) URL: this is base64, so {_AS_DATA}")
    raise ValueError(f"must be an http(s) URL: {NEVER_READ}. {describe_remedy(value, _AS_DATA)}")


class AnthropicBase64Source(_Wire):
    type: Literal["base64"]
    media_type: str = Field(min_length=1, pattern=r"^[\w.+-]+/[\w.+-]+$")
    data: str
    """Data that are not base64, or empty, are refused when they are read, and only in the newest message."""


class AnthropicUrlSource(_Wire):
    type: Literal["url"]
    url: Annotated[str, AfterValidator(_check_url)]


class AnthropicTextSource(_Wire):
    type: Literal["text"]
    data: str
    media_type: str | None = None


def _tag(value: Any) -> str | None:
    kind = value.get("type") if isinstance(value, dict) else None
    return f"<{kind}>" if isinstance(kind, str) else None


ImageSource = Annotated[
    Annotated[AnthropicBase64Source, Tag("<base64>")] | Annotated[AnthropicUrlSource, Tag("<url>")],
    Discriminator(
        _tag,
        custom_error_type="source_type",
        custom_error_message="must be a source of type base64 or url: the gateway cannot read files stored at a "
        "provider",
    ),
]


class AnthropicTextBlock(_Marked):
    type: Literal["text"]
    text: str


class AnthropicImageBlock(_Marked):
    type: Literal["image"]
    source: ImageSource


ContentItem = Annotated[
    Annotated[AnthropicTextBlock, Tag("<text>")] | Annotated[AnthropicImageBlock, Tag("<image>")],
    Discriminator(
        _tag, custom_error_type="anthropic_block_type", custom_error_message="must be a block of type text or image"
    ),
]


def _tag_shape(value: Any) -> str | None:
    if isinstance(value, str):
        return "<string>"
    if isinstance(value, list):
        return "<blocks>"
    return "<null>" if value is None else None


class AnthropicContentSource(_Wire):
    type: Literal["content"]
    content: Annotated[
        Annotated[str, Tag("<string>")] | Annotated[list[ContentItem], Tag("<blocks>")],
        Discriminator(
            _tag_shape, custom_error_type="content_type", custom_error_message="must be a string or a list of blocks"
        ),
    ]


DocumentSource = Annotated[
    Annotated[AnthropicBase64Source, Tag("<base64>")]
    | Annotated[AnthropicUrlSource, Tag("<url>")]
    | Annotated[AnthropicTextSource, Tag("<text>")]
    | Annotated[AnthropicContentSource, Tag("<content>")],
    Discriminator(
        _tag,
        custom_error_type="source_type",
        custom_error_message="must be a source of type base64, url, text or content: the gateway cannot read files "
        "stored at a provider",
    ),
]


class AnthropicDocumentBlock(_Marked):
    type: Literal["document"]
    source: DocumentSource
    title: str | None = None
    context: str | None = None
    citations: dict[str, Any] | None = None


class AnthropicSearchResultBlock(_Marked):
    type: Literal["search_result"]
    source: str
    title: str
    content: list[AnthropicTextBlock]
    citations: dict[str, Any] | None = None


class AnthropicToolReferenceBlock(_Marked):
    """A tool that a search for tools has found: one of the request's tools with `defer_loading`, which is offered from
    now on."""

    type: Literal["tool_reference"]
    tool_name: str | None = None


class AnthropicCompactionBlock(_Marked):
    """A summary of what precedes it. Null content: the summary failed."""

    type: Literal["compaction"]
    content: str | None = None
    encrypted_content: Any = None
    signature: Any = None
    tool_changes: Any = None


class AnthropicToolChangeBlock(_Marked):
    """A tool that is offered, or no longer offered, from here on. `find_tool_changes` reads it."""

    type: Literal["tool_addition", "tool_removal"]
    tool: dict[str, Any]


class AnthropicHiddenBlock(_Wire):
    """A block that Anthropic's servers do not show to the model either."""

    model_config = ConfigDict(extra="ignore", strict=True)
    type: Literal["fallback", "mcp_tool_listing"]


class AnthropicThinkingBlock(_Wire):
    type: Literal["thinking"]
    thinking: str
    signature: str | None = None


class AnthropicRedactedThinkingBlock(_Wire):
    type: Literal["redacted_thinking"]
    data: str


class AnthropicToolUseBlock(_Marked):
    type: Literal["tool_use", "server_tool_use", "mcp_tool_use"]
    id: str = Field(min_length=1)
    name: _Name
    input: Any
    """An object; or what else the model wrote, which clients return as they got it."""
    caller: Any = None
    server_name: Any = None


ResultItem = Annotated[
    Annotated[AnthropicTextBlock, Tag("<text>")]
    | Annotated[AnthropicImageBlock, Tag("<image>")]
    | Annotated[AnthropicDocumentBlock, Tag("<document>")]
    | Annotated[AnthropicSearchResultBlock, Tag("<search_result>")]
    | Annotated[AnthropicToolReferenceBlock, Tag("<tool_reference>")],
    Discriminator(
        _tag,
        custom_error_type="anthropic_block_type",
        custom_error_message="must be a block of type text, image, document, search_result or tool_reference",
    ),
]


class AnthropicToolResultBlock(_Marked):
    type: Literal["tool_result"]
    tool_use_id: str = Field(min_length=1)
    content: Annotated[
        Annotated[str, Tag("<string>")] | Annotated[list[ResultItem], Tag("<blocks>")] | Annotated[None, Tag("<null>")],
        Discriminator(
            _tag_shape, custom_error_type="content_type", custom_error_message="must be a string or a list of blocks"
        ),
    ] = None
    is_error: bool | None = None


class AnthropicServerResultBlock(_Marked):
    """The result of a tool that the provider ran; `type` ends with `_tool_result`."""

    type: str
    tool_use_id: str = Field(min_length=1)
    content: Any = None
    caller: Any = None
    is_error: bool | None = None
    encrypted_content: Any = None
    """What the gateway has sealed of a search that has found no page."""


_BLOCKS = (
    "text",
    "image",
    "document",
    "search_result",
    "tool_reference",
    "thinking",
    "redacted_thinking",
    "compaction",
)
_OTHER_TAGS = {
    **dict.fromkeys(("tool_addition", "tool_removal"), "<tool_change>"),
    **dict.fromkeys(("fallback", "mcp_tool_listing"), "<hidden>"),
}


def _tag_block(value: Any) -> str | None:
    kind = value.get("type") if isinstance(value, dict) else None
    if not isinstance(kind, str):
        return None
    if kind in _OTHER_TAGS:
        return _OTHER_TAGS[kind]
    if kind in _BLOCKS or kind == "tool_result":
        return f"<{kind}>"
    if kind.endswith("tool_use"):
        return "<tool_use>"
    return "<server_result>" if kind.endswith("_tool_result") else None


Block = Annotated[
    Annotated[AnthropicTextBlock, Tag("<text>")]
    | Annotated[AnthropicImageBlock, Tag("<image>")]
    | Annotated[AnthropicDocumentBlock, Tag("<document>")]
    | Annotated[AnthropicSearchResultBlock, Tag("<search_result>")]
    | Annotated[AnthropicToolReferenceBlock, Tag("<tool_reference>")]
    | Annotated[AnthropicThinkingBlock, Tag("<thinking>")]
    | Annotated[AnthropicCompactionBlock, Tag("<compaction>")]
    | Annotated[AnthropicToolChangeBlock, Tag("<tool_change>")]
    | Annotated[AnthropicHiddenBlock, Tag("<hidden>")]
    | Annotated[AnthropicRedactedThinkingBlock, Tag("<redacted_thinking>")]
    | Annotated[AnthropicToolUseBlock, Tag("<tool_use>")]
    | Annotated[AnthropicToolResultBlock, Tag("<tool_result>")]
    | Annotated[AnthropicServerResultBlock, Tag("<server_result>")],
    Discriminator(
        _tag_block,
        custom_error_type="anthropic_block_type",
        custom_error_message=f"must be a block with one of the types {', '.join(_BLOCKS)}, tool_use or tool_result",
    ),
]


_RESULT = "OpenAI's messages: here the result of a call is a block of type tool_result in a message of role user"
_SYSTEM = "OpenAI's messages: here instructions are the request's `system`, or a message of role system"
_OTHER_ROLES = {"tool": _RESULT, "function": _RESULT, "developer": _SYSTEM}
_CALL = """\
OpenAI's messages: here a call is a block {"type": "tool_use", "id": "…", "name": "…", "input": {}} of `content`"""


class AnthropicMessage(_Wire):
    role: Annotated[
        Literal["user", "assistant", "system"],
        refuse_roles({"tool": _RESULT, "function": _RESULT, "developer": _SYSTEM}),
    ]
    content: Annotated[
        Annotated[str, Tag("<string>")] | Annotated[list[Block], Tag("<blocks>")],
        Discriminator(
            _tag_shape, custom_error_type="content_type", custom_error_message="must be a string or a list of blocks"
        ),
    ]

    _no_calls = refuse_tool_calls(_CALL)


AnthropicMessages = Annotated[list[AnthropicMessage], Field(min_length=1)]
