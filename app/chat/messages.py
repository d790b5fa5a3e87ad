"""What is said in a conversation: pure values that belong to no client format.

Role stands on the message, never on the part. What a format cannot say in these words rides in `Message.extra`
and is never sent upstream.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]
MediaKind: TypeAlias = Literal["image", "audio", "video", "file"]

NOTHING: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True)
class CacheMark:
    """`cache_control` of a content part or a tool: up to here the model's server is to cache the prompt."""

    value: Mapping[str, Any]
    """As the caller wrote it."""
    path: str
    """Where it stood in the request, for warnings."""


@dataclass(frozen=True, slots=True)
class Text:
    text: str
    mark: CacheMark | None = None
    kind: Literal["text"] = "text"


@dataclass(frozen=True, slots=True)
class Reasoning:
    text: str
    kind: Literal["reasoning"] = "reasoning"


@dataclass(frozen=True, slots=True)
class Media:
    media: MediaKind
    urls: tuple[str, ...]
    """http(s) URLs or data URIs; several only for the frames of a video."""
    frames: bool = False
    format: str | None = None
    """Audio: the codec's name as the caller gave it (`wav`, `mp3`)."""
    detail: str | None = None
    """Image: how closely to look (OpenAI's `low`, `high`, `auto`)."""
    path: str = ""
    """Where it stood in the request, for errors."""
    name: str | None = None
    """The file's name where the caller gave one; else it is read from the URL."""
    mark: CacheMark | None = None
    kind: Literal["media"] = "media"


@dataclass(frozen=True, slots=True)
class ToolCall:
    name: str
    arguments: str
    """Raw JSON text, exactly as the model or the caller wrote it; it may be broken."""
    id: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Opaque fields that must go back on this call (`extra_content` of Gemini)."""
    path: str = field(default="", compare=False, repr=False)
    """Where it stood in the request, for errors; empty: in `function_call` of its message."""
    kind: Literal["tool_call"] = "tool_call"


@dataclass(frozen=True, slots=True)
class ToolResult:
    content: "tuple[Text | Media, ...]"
    name: str | None = None
    id: str | None = None
    is_error: bool | None = None
    kind: Literal["tool_result"] = "tool_result"


Part: TypeAlias = Text | Reasoning | Media | ToolCall | ToolResult


@dataclass(frozen=True, slots=True)
class Message:
    role: Role
    parts: tuple[Part, ...]
    name: str | None = None
    turn: str | None = None
    """Messages with equal `turn` came from one model response."""
    path: str = ""
    """Where it stood in the request (`messages[2]`), for errors."""
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    schema: Mapping[str, Any]
    """The function object as the caller gave it, without a wrapper."""
    mark: CacheMark | None = None


NamedMedia: TypeAlias = Literal["never", "untaken", "with_tools"]
"""Which media of users and systems are described to the model in words, before all else that they say: none, those that
the model does not take, or, where there are tools, all."""


@dataclass(frozen=True, slots=True)
class PromptPolicy:
    """What is done to a conversation because of the format that it came in, as the framework of that format does it
    before a model sees it. The default is nothing: most clients send what was said as it was said."""

    name_media: NamedMedia = "never"
    localized: bool = False
    """What the gateway writes around the text of a file is in the language of the conversation."""
    folds_last: bool = False
    """A last assistant message is put behind the user's message, where the server cannot continue it."""
    separates_users: bool = False
    """Where old calls are told in words, an assistant's "..." stands between two messages of the user."""


PLAIN = PromptPolicy()


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What a model is asked, in no client's format."""

    model: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    params: Mapping[str, Any] = field(default_factory=dict)
    """Generation parameters under the gateway's own names (`generate_cfg` of the public contract)."""
    text_joiner: str = "\n"
    """Stands between the text items of one message where a server wants a string."""
    policy: PromptPolicy = PLAIN
    continue_last: bool = False
    """The last message is an assistant's that the model is to go on writing."""
    stream: bool = True
    """The caller wants the reply as it comes."""
