"""Schema of the messages of AutoGen's core: in a list with AgentChat's, or in the context of a handoff."""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Tag, WithJsonSchema, model_validator

from app.formats.autogen.value_types import AssistantContent, FunctionExecutionResult, UserContent


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
