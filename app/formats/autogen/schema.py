"""Schema of AutoGen's messages and events: the union of what AgentChat 0.4 to 0.7.5 writes."""

from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    TypeAdapter,
    WithJsonSchema,
    model_validator,
)

from app.formats.autogen.value_types import (
    AssistantContent,
    AutogenFunctionCall,
    CodeBlock,
    CodeResult,
    FunctionExecutionResult,
    MemoryContent,
    Piece,
    Usage,
    UserContent,
)


class BaseItem(BaseModel):
    """Unknown keys are ignored with a warning."""

    model_config = ConfigDict(extra="allow")

    metadata: dict[str, str] | None = None
    """The core's messages have no metadata. Here they carry the sidecar, which AutoGen ignores."""


class SystemMessage(BaseItem):
    content: str
    type: Literal["SystemMessage"]


class UserMessage(BaseItem):
    content: UserContent
    source: str
    type: Literal["UserMessage"]


class AssistantMessage(BaseItem):
    content: AssistantContent
    thought: str | None = None
    source: str
    type: Literal["AssistantMessage"]


class FunctionExecutionResultMessage(BaseItem):
    content: list[FunctionExecutionResult]
    type: Literal["FunctionExecutionResultMessage"]


def _refuse(value: Any) -> Any:
    shown = repr(value) if isinstance(value, str) and len(value) < 80 else "this"
    raise ValueError(f"{shown} is not a type of AutoGen message that is allowed here")


class UnknownItem(BaseModel):
    """Refuses every value, with an error at the path of its `type`."""

    type: Annotated[Any, AfterValidator(_refuse)]

    @model_validator(mode="before")
    @classmethod
    def _object(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            raise ValueError("must be an object with a type")
        return value


UnknownTag: TypeAlias = Annotated[UnknownItem, Tag("<unknown>"), WithJsonSchema({"not": {}})]
CORE = frozenset({"SystemMessage", "UserMessage", "AssistantMessage", "FunctionExecutionResultMessage"})


def _core_tag(value: Any) -> str:
    type_ = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return f"<{type_}>" if isinstance(type_, str) and type_ in CORE else "<unknown>"


CoreMessage: TypeAlias = SystemMessage | UserMessage | AssistantMessage | FunctionExecutionResultMessage
ContextMessage: TypeAlias = Annotated[
    Annotated[SystemMessage, Tag("<SystemMessage>")]
    | Annotated[UserMessage, Tag("<UserMessage>")]
    | Annotated[AssistantMessage, Tag("<AssistantMessage>")]
    | Annotated[FunctionExecutionResultMessage, Tag("<FunctionExecutionResultMessage>")]
    | UnknownTag,
    Discriminator(_core_tag),
]


def _check_time(value: datetime | None) -> datetime:
    if value is None:
        raise ValueError("must be a time")
    return value


Time = Annotated[
    datetime | None, AfterValidator(_check_time), WithJsonSchema({"type": "string", "format": "date-time"})
]


class AgentItem(BaseItem):
    """The common fields of AgentChat's messages and events. Older versions write only some of them."""

    id: str | None = None
    source: str
    models_usage: Usage | None = None
    created_at: Time = None


class TextMessage(AgentItem):
    content: str
    type: Literal["TextMessage"]


class StopMessage(AgentItem):
    content: str
    type: Literal["StopMessage"]


class MultiModalMessage(AgentItem):
    content: list[Piece]
    type: Literal["MultiModalMessage"]


class ToolCallSummaryMessage(AgentItem):
    content: str
    type: Literal["ToolCallSummaryMessage"]
    tool_calls: list[AutogenFunctionCall] = []
    results: list[FunctionExecutionResult] = []


class HandoffMessage(AgentItem):
    content: str
    target: str
    context: list[ContextMessage] = []
    type: Literal["HandoffMessage"]


class StructuredMessage(AgentItem):
    content: dict[str, Any]
    format_string: str | None = None
    type: Annotated[str, Field(pattern=r"^StructuredMessage\[.+\]$")]


class ToolCallRequestEvent(AgentItem):
    content: list[AutogenFunctionCall]
    type: Literal["ToolCallRequestEvent"]


class ToolCallExecutionEvent(AgentItem):
    content: list[FunctionExecutionResult]
    type: Literal["ToolCallExecutionEvent"]


class ThoughtEvent(AgentItem):
    content: str
    type: Literal["ThoughtEvent"]


class CodeGenerationEvent(AgentItem):
    retry_attempt: int = 0
    content: str
    code_blocks: list[CodeBlock] = []
    type: Literal["CodeGenerationEvent"]


class CodeExecutionEvent(AgentItem):
    retry_attempt: int = 0
    result: CodeResult
    type: Literal["CodeExecutionEvent"]


class ModelClientStreamingChunkEvent(AgentItem):
    content: str
    full_message_id: str | None = None
    type: Literal["ModelClientStreamingChunkEvent"]


class UserInputRequestedEvent(AgentItem):
    request_id: str
    content: Literal[""] = ""
    type: Literal["UserInputRequestedEvent"]


class MemoryQueryEvent(AgentItem):
    content: list[MemoryContent]
    type: Literal["MemoryQueryEvent"]


class SelectSpeakerEvent(AgentItem):
    content: list[str]
    type: Literal["SelectSpeakerEvent"]


class SelectorEvent(AgentItem):
    content: str
    type: Literal["SelectorEvent"]


TextItem: TypeAlias = TextMessage | StopMessage | MultiModalMessage | StructuredMessage | CodeGenerationEvent
AsideItem: TypeAlias = (
    ModelClientStreamingChunkEvent | UserInputRequestedEvent | MemoryQueryEvent | SelectSpeakerEvent | SelectorEvent
)
"""Items that a model does not see."""
ActionItem: TypeAlias = ToolCallRequestEvent | ToolCallExecutionEvent | ToolCallSummaryMessage | HandoffMessage
AutogenItem: TypeAlias = CoreMessage | TextItem | AsideItem | ActionItem | ThoughtEvent | CodeExecutionEvent

_CLASSES: tuple[type[BaseItem], ...] = (
    SystemMessage,
    UserMessage,
    AssistantMessage,
    FunctionExecutionResultMessage,
    TextMessage,
    StopMessage,
    MultiModalMessage,
    ToolCallSummaryMessage,
    HandoffMessage,
    StructuredMessage,
    ToolCallRequestEvent,
    ToolCallExecutionEvent,
    ThoughtEvent,
    CodeGenerationEvent,
    CodeExecutionEvent,
    ModelClientStreamingChunkEvent,
    UserInputRequestedEvent,
    MemoryQueryEvent,
    SelectSpeakerEvent,
    SelectorEvent,
)
_NAMES = frozenset(one.__name__ for one in _CLASSES)


def _tag(value: Any) -> str:
    type_ = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    name = type_.partition("[")[0] if isinstance(type_, str) else ""
    return f"<{name}>" if name in _NAMES else "<unknown>"


def _union() -> Any:
    """Make a union with a branch for each class, so that an error refers to the class that the item names."""
    union: Any = UnknownTag
    for one in _CLASSES:
        union = union | Annotated[one, Tag(f"<{one.__name__}>")]
    return Annotated[union, Discriminator(_tag)]


AutogenMessage: Any = _union()
AutogenMessages: Any = Annotated[list[AutogenMessage], Field(min_length=1)]
one_item: TypeAdapter[Any] = TypeAdapter(AutogenMessage)
all_items: TypeAdapter[Any] = TypeAdapter(AutogenMessages)
