"""Schema of the items of OpenAI's Responses API: lenient where clients differ, strict where content could be lost.

An item without `type` is a message. Clients send back output items with only some of their fields, so nothing that is
not needed here is required.
"""

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
from app.formats.media_urls import Url, is_remote
from app.validation.chat_completions import refuse_roles, refuse_tool_calls

STORED_FILE = "is not supported: the gateway cannot read files stored at a provider; send the content itself"
_Name = Annotated[str, Field(min_length=1, pattern=r"\S")]


def _check_data(value: str) -> str:
    if not is_remote(value) and not may_be_base64(value):
        raise ValueError("must be base64, an http(s) URL or a data URI")
    return value


def _refuse_file_id(value: str | None) -> str | None:
    if value is not None:
        raise ValueError(STORED_FILE)
    return value


_Data = Annotated[str, AfterValidator(_check_data), Field(min_length=1)]
_FileId = Annotated[str | None, AfterValidator(_refuse_file_id)]


class _Item(BaseModel):
    """Unknown keys are ignored with a warning."""

    model_config = ConfigDict(extra="allow", strict=True)


class InputText(_Item):
    type: Literal["input_text", "output_text", "text", "summary_text", "reasoning_text"]
    text: str
    annotations: Any = None
    logprobs: Any = None


class Refusal(_Item):
    type: Literal["refusal"]
    refusal: str


def _read_image_url(value: Any) -> Any:
    """Return the URL in an object of chat completions."""
    return value["url"] if isinstance(value, dict) and "url" in value else value


class InputImage(_Item):
    type: Literal["input_image"]
    image_url: Annotated[Url | None, BeforeValidator(_read_image_url)] = None
    file_id: _FileId = None
    detail: str | None = None

    @model_validator(mode="after")
    def _check_url_is_given(self) -> "InputImage":
        if self.image_url is None:
            raise ValueError("must have its content in image_url")
        return self


class InputFile(_Item):
    type: Literal["input_file"]
    file_data: _Data | None = None
    file_url: Url | None = None
    filename: str | None = None
    file_id: _FileId = None
    detail: str | None = None

    @model_validator(mode="after")
    def _check_content_is_given(self) -> "InputFile":
        if self.file_data is None and self.file_url is None:
            raise ValueError("must have its content in file_data or file_url")
        return self


class AudioBody(_Item):
    data: _Data
    format: str | None = None


class InputAudio(_Item):
    """`audio_url` is Codex's."""

    type: Literal["input_audio"]
    input_audio: AudioBody | None = None
    audio_url: Url | None = None

    @model_validator(mode="after")
    def _check_content_is_given(self) -> "InputAudio":
        if self.input_audio is None and self.audio_url is None:
            raise ValueError("must have its content in input_audio")
        return self


class InputVideo(_Item):
    """Not OpenAI's: servers with models for video take it in their own Responses APIs."""

    type: Literal["input_video"]
    video_url: Url


_PARTS = {
    **dict.fromkeys(("input_text", "output_text", "text", "summary_text", "reasoning_text"), "<text>"),
    "refusal": "<refusal>",
    "input_image": "<image>",
    "input_file": "<file>",
    "input_audio": "<audio>",
    "input_video": "<video>",
}


def _get_part_type(value: Any) -> str | None:
    kind = value.get("type") if isinstance(value, dict) else None
    return _PARTS.get(kind) if isinstance(kind, str) else None


Part = Annotated[
    Annotated[InputText, Tag("<text>")]
    | Annotated[Refusal, Tag("<refusal>")]
    | Annotated[InputImage, Tag("<image>")]
    | Annotated[InputFile, Tag("<file>")]
    | Annotated[InputAudio, Tag("<audio>")]
    | Annotated[InputVideo, Tag("<video>")],
    Discriminator(
        _get_part_type,
        custom_error_type="responses_part_type",
        custom_error_message=f"must be a part with one of the types {', '.join(_PARTS)}",
    ),
]


def _get_content_kind(value: Any) -> str | None:
    if isinstance(value, str):
        return "<string>"
    return "<parts>" if isinstance(value, list) else None


Content = Annotated[
    Annotated[str, Tag("<string>")] | Annotated[list[Part], Tag("<parts>")],
    Discriminator(
        _get_content_kind, custom_error_type="content_type", custom_error_message="must be a string or a list of parts"
    ),
]


_RESULT = """\
chat completions: here the result of a call is the item \
{"type": "function_call_output", "call_id": "…", "output": "…"}"""
_OTHER_ROLES = {"tool": _RESULT, "function": _RESULT}
_CALL = """\
chat completions: here each call is an item \
{"type": "function_call", "call_id": "…", "name": "…", "arguments": "{}"} of its own"""


class MessageItem(_Item):
    type: Literal["message"] = "message"
    role: Annotated[
        Literal["user", "assistant", "system", "developer"], refuse_roles({"tool": _RESULT, "function": _RESULT})
    ]
    content: Content
    id: str | None = None
    status: str | None = None
    phase: str | None = None
    extra_content: dict[str, Any] | None = None

    _no_calls = refuse_tool_calls(_CALL)


class ReasoningItem(_Item):
    type: Literal["reasoning"]
    id: str | None = None
    content: list[Part] | None = None
    summary: list[Part] | None = None
    encrypted_content: str | None = None
    status: str | None = None


class FunctionCallItem(_Item):
    type: Literal["function_call"]
    call_id: _Name
    name: _Name
    arguments: str
    namespace: str | None = None
    id: str | None = None
    status: str | None = None


class CustomCallItem(_Item):
    type: Literal["custom_tool_call"]
    call_id: _Name
    name: _Name
    input: str
    namespace: str | None = None
    id: str | None = None
    status: str | None = None


class CallOutputItem(_Item):
    """Without `call_id` it is the output of a tool that the model has not called: Codex sends events so."""

    type: Literal["function_call_output", "custom_tool_call_output"]
    call_id: _Name | None = None
    output: Content
    id: str | None = None
    status: str | None = None
    name: str | None = None
    namespace: str | None = None
    caller: Any = None

    @model_validator(mode="after")
    def _check_call_is_named(self) -> "CallOutputItem":
        if self.call_id is None and self.name is None:
            raise ValueError("must have the call_id of its call")
        return self


class SearchCallItem(_Item):
    """A search for tools. It has a `call_id` if the client runs it."""

    type: Literal["tool_search_call"]
    call_id: _Name | None = None
    arguments: Any = None
    execution: str | None = None
    id: str | None = None
    status: str | None = None


class SearchOutputItem(_Item):
    """The tools that a search has found. They are offered from here on."""

    type: Literal["tool_search_output"]
    call_id: _Name | None = None
    tools: list[Any]
    execution: str | None = None
    id: str | None = None
    status: str | None = None


class ShellCallItem(_Item):
    """Commands for the shell of a client."""

    type: Literal["shell_call"]
    call_id: _Name
    action: dict[str, Any]
    environment: Any = None
    caller: Any = None
    id: str | None = None
    status: str | None = None
    created_by: Any = None


class ShellOutput(_Item):
    stdout: str = ""
    stderr: str = ""
    outcome: dict[str, Any] | None = None
    created_by: Any = None


class ShellOutputItem(_Item):
    type: Literal["shell_call_output"]
    call_id: _Name
    output: list[ShellOutput]
    max_output_length: Any = None
    caller: Any = None
    id: str | None = None
    status: str | None = None
    created_by: Any = None


class LocalShellCallItem(_Item):
    """A command for the shell of a client, of the tool before `shell`."""

    type: Literal["local_shell_call"]
    action: dict[str, Any]
    call_id: _Name | None = None
    id: str | None = None
    status: str | None = None

    @model_validator(mode="after")
    def _check_id_is_given(self) -> "LocalShellCallItem":
        if self.call_id is None and not self.id:
            raise ValueError("must have a call_id")
        return self


class LocalShellOutputItem(_Item):
    """`id` is that of the call; clients also send its `call_id`."""

    type: Literal["local_shell_call_output"]
    output: str
    call_id: _Name | None = None
    id: str | None = None
    status: str | None = None

    @model_validator(mode="after")
    def _check_id_is_given(self) -> "LocalShellOutputItem":
        if self.call_id is None and not self.id:
            raise ValueError("must have the call_id of its call")
        return self


class PatchCallItem(_Item):
    """A change of a file that a client makes."""

    type: Literal["apply_patch_call"]
    call_id: _Name
    operation: dict[str, Any]
    caller: Any = None
    id: str | None = None
    status: str | None = None
    created_by: Any = None


class PatchOutputItem(_Item):
    type: Literal["apply_patch_call_output"]
    call_id: _Name
    status: str | None = None
    output: str | None = None
    caller: Any = None
    id: str | None = None
    created_by: Any = None


class AgentMessageItem(_Item):
    """What one of Codex's agents says to another one."""

    type: Literal["agent_message"]
    author: str
    recipient: str
    content: list[Any]
    id: str | None = None


class McpCallItem(_Item):
    """A call of a server's tool, with its result."""

    type: Literal["mcp_call"]
    id: _Name
    server_label: str
    name: _Name
    arguments: str = ""
    output: str | None = None
    error: str | dict[str, Any] | None = None
    """A text, or one of OpenAI's three objects: `mcp_tool_execution_error`, `mcp_protocol_error`, `http_error`."""
    status: str | None = None
    approval_request_id: str | None = None
    parley: dict[str, Any] | None = None
    """`ends_turn`: what the assistant says next is of another turn."""


class McpListItem(_Item):
    """The tools of a server, which are not listed again. They are offered only if the request names the server."""

    type: Literal["mcp_list_tools"]
    server_label: str
    tools: Any = None
    error: Any = None
    id: str | None = None


class McpApprovalRequestItem(_Item):
    """A call of a server's tool that waits for approval."""

    type: Literal["mcp_approval_request"]
    id: _Name
    server_label: str
    name: _Name
    arguments: str = ""


class McpApprovalResponseItem(_Item):
    type: Literal["mcp_approval_response"]
    approval_request_id: _Name
    approve: bool
    reason: str | None = None
    id: str | None = None


SERVER_ITEMS = (McpCallItem, McpListItem, McpApprovalRequestItem, McpApprovalResponseItem)
"""The items of servers' tools."""
COMPACTIONS = ("compaction", "compaction_summary", "context_compaction")


class CompactionItem(_Item):
    """A summary of what precedes it."""

    type: Literal["compaction", "compaction_summary", "context_compaction"]
    encrypted_content: str | None = None
    id: str | None = None
    created_by: Any = None


class AdditionalToolsItem(_Item):
    """Tools that are offered from here on."""

    type: Literal["additional_tools"]
    tools: list[Any]
    role: str | None = None
    id: str | None = None


class ConfigurationItem(_Item):
    """Settings that replace those of the request from here on."""

    type: Literal["configuration_update"]
    reasoning: dict[str, Any] | None = None
    text: dict[str, Any] | None = None
    id: str | None = None


class CompactionTriggerItem(_Item):
    """Asks for a summary of the conversation instead of a reply."""

    type: Literal["compaction_trigger"]
    id: str | None = None


def describe_unknown_item(id_: str) -> str:
    return f"there is no stored item {id_!r}: it expired, was deleted, or was not stored; send the item itself"


def _refuse_reference(id_: str) -> str:
    raise ValueError(describe_unknown_item(id_))


class ItemReference(_Item):
    """It is replaced by the stored item before the items are parsed; one that is left has no stored item."""

    type: Literal["item_reference"] = "item_reference"
    id: Annotated[str, AfterValidator(_refuse_reference)]


class HostedItem(_Item):
    """An item of a tool that runs at a provider, or one that only a provider can read. Only a server of this API gets
    it."""

    type: str


HOSTED_ITEMS = frozenset(
    {
        *("web_search_call", "file_search_call", "image_generation_call", "code_interpreter_call", "computer_call"),
        *("computer_call_output", "program", "program_output"),
    }
)
_ITEMS = {
    "message": "<message>",
    "reasoning": "<reasoning>",
    "function_call": "<function_call>",
    "custom_tool_call": "<custom_call>",
    "function_call_output": "<output>",
    "custom_tool_call_output": "<output>",
    "tool_search_call": "<search_call>",
    "tool_search_output": "<search_output>",
    "shell_call": "<shell_call>",
    "shell_call_output": "<shell_output>",
    "local_shell_call": "<local_shell_call>",
    "local_shell_call_output": "<local_shell_output>",
    "apply_patch_call": "<patch_call>",
    "apply_patch_call_output": "<patch_output>",
    "agent_message": "<agent_message>",
    "mcp_call": "<mcp_call>",
    "mcp_list_tools": "<mcp_list_tools>",
    "mcp_approval_request": "<mcp_approval_request>",
    "mcp_approval_response": "<mcp_approval_response>",
    **dict.fromkeys(COMPACTIONS, "<compaction>"),
    "additional_tools": "<additional_tools>",
    "configuration_update": "<configuration>",
    "compaction_trigger": "<compaction_trigger>",
    "item_reference": "<reference>",
    **dict.fromkeys(sorted(HOSTED_ITEMS), "<hosted>"),
}


def _get_item_type(value: Any) -> str | None:
    if not isinstance(value, dict):
        return "<message>"
    kind = value.get("type")
    if kind is None:
        return "<message>" if "role" in value or value.keys() != {"id"} else "<reference>"
    return _ITEMS.get(kind, "<unknown>") if isinstance(kind, str) else "<unknown>"


def _refuse_type(value: str) -> str:
    known = ", ".join(kind for kind, tag in _ITEMS.items() if tag != "<hosted>")
    raise ValueError(f"is not a type of item that is known here ({known}); a message may leave it out, and has a role")


class UnknownItem(_Item):
    type: Annotated[str, AfterValidator(_refuse_type)]


Item = Annotated[
    Annotated[MessageItem, Tag("<message>")]
    | Annotated[ReasoningItem, Tag("<reasoning>")]
    | Annotated[FunctionCallItem, Tag("<function_call>")]
    | Annotated[CustomCallItem, Tag("<custom_call>")]
    | Annotated[CallOutputItem, Tag("<output>")]
    | Annotated[SearchCallItem, Tag("<search_call>")]
    | Annotated[SearchOutputItem, Tag("<search_output>")]
    | Annotated[ShellCallItem, Tag("<shell_call>")]
    | Annotated[ShellOutputItem, Tag("<shell_output>")]
    | Annotated[LocalShellCallItem, Tag("<local_shell_call>")]
    | Annotated[LocalShellOutputItem, Tag("<local_shell_output>")]
    | Annotated[PatchCallItem, Tag("<patch_call>")]
    | Annotated[PatchOutputItem, Tag("<patch_output>")]
    | Annotated[AgentMessageItem, Tag("<agent_message>")]
    | Annotated[McpCallItem, Tag("<mcp_call>")]
    | Annotated[McpListItem, Tag("<mcp_list_tools>")]
    | Annotated[McpApprovalRequestItem, Tag("<mcp_approval_request>")]
    | Annotated[McpApprovalResponseItem, Tag("<mcp_approval_response>")]
    | Annotated[CompactionItem, Tag("<compaction>")]
    | Annotated[AdditionalToolsItem, Tag("<additional_tools>")]
    | Annotated[ConfigurationItem, Tag("<configuration>")]
    | Annotated[CompactionTriggerItem, Tag("<compaction_trigger>")]
    | Annotated[ItemReference, Tag("<reference>")]
    | Annotated[HostedItem, Tag("<hosted>")]
    | Annotated[UnknownItem, Tag("<unknown>"), WithJsonSchema({"not": {}})],
    Discriminator(_get_item_type),
]
ResponsesItems = Annotated[list[Item], Field(min_length=1)]
