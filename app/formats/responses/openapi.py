"""`/v1/responses`: OpenAI's Responses API (docs/reference/formats/responses.md)."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import ConfigDict, Field

from app.formats import openapi
from app.formats.openai.openapi import OpenAIErrorBody
from app.formats.openapi import BodyPart, Described, FormatPart, Json, event_stream, give_examples, json_content
from app.formats.responses.body import ResponsesBody


class OutputText(Described):
    type: Literal["output_text"]
    text: str
    annotations: list[Any]
    logprobs: list[Any] | None = None


class OutputRefusal(Described):
    type: Literal["refusal"]
    refusal: str


class ReasoningText(Described):
    type: Literal["reasoning_text"]
    text: str


class SummaryText(Described):
    type: Literal["summary_text"]
    text: str


OutputPart: TypeAlias = Annotated[OutputText | OutputRefusal | ReasoningText, Field(discriminator="type")]


class OutputItem(Described):
    id: str
    status: str | None = None


class OutputMessage(OutputItem):
    type: Literal["message"]
    role: Literal["assistant"]
    content: list[Annotated[OutputText | OutputRefusal, Field(discriminator="type")]]
    audio: dict[str, Any] | None = None
    extra_content: dict[str, Any] | None = None


class OutputReasoning(OutputItem):
    type: Literal["reasoning"]
    summary: list[SummaryText]
    content: list[ReasoningText] | None = None
    encrypted_content: str | None = None
    """What the gateway wants back with a request that does not refer to a stored response."""


class OutputCall(OutputItem):
    type: Literal["function_call"]
    call_id: str
    name: str
    arguments: str
    """JSON, as the model wrote it."""
    namespace: str | None = None


class OutputCustomCall(OutputItem):
    type: Literal["custom_tool_call"]
    call_id: str
    name: str
    input: str
    namespace: str | None = None


class OutputSearchCall(OutputItem):
    """A search for tools that the client runs."""

    type: Literal["tool_search_call"]
    call_id: str
    execution: Literal["client"]
    arguments: dict[str, Any] | str
    """What the model wrote if that is not a JSON object."""


class OutputCompaction(OutputItem):
    """A summary of the conversation, for a `compaction_trigger`."""

    type: Literal["compaction"]
    encrypted_content: str
    """What the gateway wants back in the next request."""


class OutputImage(OutputItem):
    type: Literal["image_generation_call"]
    result: str | None
    """The image in base64."""


class OutputToolList(Described):
    """The tools of a server that the gateway offers."""

    type: Literal["mcp_list_tools"]
    id: str
    server_label: str
    tools: list[dict[str, Any]]
    error: str | None = None
    """Why there are none."""


class OutputServerCall(Described):
    """A call that the gateway runs, with its result."""

    type: Literal["mcp_call"]
    id: str
    server_label: str
    """Empty if the tool was not offered."""
    name: str
    """The tool's name at its server."""
    arguments: str
    status: Literal["in_progress", "completed", "incomplete", "failed"]
    approval_request_id: str | None
    output: str | None
    error: dict[str, Any] | None
    """`mcp_tool_execution_error`, `mcp_protocol_error` or `http_error`."""
    parley: dict[str, Any] | None = None
    """`ends_turn`: what follows is of another turn. Send it back."""


class OutputApprovalRequest(Described):
    """A call that waits for approval; an item `mcp_approval_response` answers it."""

    type: Literal["mcp_approval_request"]
    id: str
    server_label: str
    name: str
    arguments: str


ResponseOutput: TypeAlias = Annotated[
    OutputMessage
    | OutputReasoning
    | OutputCall
    | OutputCustomCall
    | OutputSearchCall
    | OutputCompaction
    | OutputImage
    | OutputToolList
    | OutputServerCall
    | OutputApprovalRequest,
    Field(discriminator="type"),
]


class ResponseUsage(Described):
    input_tokens: int
    output_tokens: int
    total_tokens: int
    input_tokens_details: dict[str, Any] | None = None
    output_tokens_details: dict[str, Any] | None = None


class ResponseError(Described):
    code: str
    """OpenAI's code."""
    message: str
    parley_code: str | None = None
    """Parley's own code."""


class ResponseObject(Described):
    """A Response. It repeats fields of its request; those of OpenAI's that are not listed may be there too."""

    id: str
    object: Literal["response"]
    created_at: int
    status: Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]
    model: str
    output: list[ResponseOutput]
    error: ResponseError | None
    incomplete_details: dict[str, Any] | None
    usage: ResponseUsage | None
    completed_at: int | None
    previous_response_id: str | None
    store: bool | None
    tools: list[dict[str, Any]] | None
    tool_choice: Any
    parallel_tool_calls: bool | None
    instructions: str | None = None
    metadata: dict[str, Any] | None = None
    background: bool | None = None
    parley: dict[str, Any] | None = None
    """`warnings`: an extension of Parley."""


class ResponseDeleted(Described):
    model_config = give_examples({"id": "resp_5dfe", "object": "response", "deleted": True})

    id: str
    object: Literal["response"]
    deleted: Literal[True]


class CompactionMessage(Described):
    """A message of a user, as it was."""

    type: Literal["message"]
    id: str
    status: str
    role: Literal["user"]
    content: list[dict[str, Any]]


class CompactionObject(Described):
    """What replaces the conversation. A model server that makes its own may send items of other types."""

    model_config = give_examples(
        {
            "id": "resp_5dfe",
            "object": "response.compaction",
            "created_at": 1795364882,
            "output": [
                {
                    "type": "message",
                    "id": "msg_5dfe_0",
                    "status": "completed",
                    "role": "user",
                    "content": [{"type": "input_text", "text": "What is the weather in Paris?"}],
                },
                {"type": "compaction", "id": "cmp_5dfe_1", "encrypted_content": "parley1.eyJ0ZXh0IjoiIn0"},
            ],
            "usage": {"input_tokens": 109, "output_tokens": 12, "total_tokens": 121},
        }
    )

    id: str
    object: Literal["response.compaction"]
    created_at: int
    output: list[CompactionMessage | OutputCompaction | dict[str, Any]]
    """The newest messages of users, and one item `compaction`: the `input` of the next request begins with them."""
    usage: ResponseUsage | None
    parley: dict[str, Any] | None = None
    """`warnings`: an extension of Parley."""


class CompactionBody(Described):
    """A conversation to be summarized. Other fields of a request for a response have no effect."""

    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)

    model: str = Field(min_length=1, max_length=512)
    input: str | list[dict[str, Any]] | None = None
    """The user's message, or items; needed unless `previous_response_id` is given."""
    instructions: str | None = None
    """The system message of the conversation."""
    previous_response_id: str | None = None
    """Continue this stored response."""


class InputTokens(Described):
    model_config = give_examples({"object": "response.input_tokens", "input_tokens": 11})

    object: Literal["response.input_tokens"]
    input_tokens: int


class InputItems(Described):
    """One page of the input of a response."""

    model_config = give_examples(
        {
            "object": "list",
            "data": [{"type": "message", "role": "user", "content": "Hello", "id": "msg_1"}],
            "first_id": "msg_1",
            "last_id": "msg_1",
            "has_more": False,
        }
    )

    object: Literal["list"]
    data: list[dict[str, Any]]
    first_id: str | None
    last_id: str | None
    has_more: bool


class ConversationObject(Described):
    """A conversation, to which responses add their input and output."""

    model_config = give_examples(
        {"id": "conv_1f0c", "object": "conversation", "created_at": 1795000000, "metadata": {"topic": "weather"}}
    )

    id: str
    object: Literal["conversation"]
    created_at: int
    metadata: dict[str, str]


class ConversationDeleted(Described):
    model_config = give_examples({"id": "conv_1f0c", "object": "conversation.deleted", "deleted": True})

    id: str
    object: Literal["conversation.deleted"]
    deleted: Literal[True]


class ConversationItem(Described):
    """An item of a conversation, as a Response has it."""

    model_config = ConfigDict(
        extra="allow",
        use_attribute_docstrings=True,
        json_schema_extra={"examples": [{"type": "message", "id": "msg_1", "role": "user", "content": "Hello"}]},
    )

    type: str
    id: str


class ConversationBody(Described):
    """A new conversation."""

    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)

    items: list[dict[str, Any]] | None = Field(default=None, max_length=20)
    """Its first items."""
    metadata: dict[str, str] | None = None


class ConversationChange(Described):
    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)

    metadata: dict[str, str] | None
    """Replaces what it had."""


class ConversationItemsBody(Described):
    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)

    items: list[dict[str, Any]] = Field(min_length=1, max_length=20)


class Event(Described):
    sequence_number: int
    """Counts the events of the stream from 0."""


class KeepaliveEvent(Event):
    """A heartbeat."""

    type: Literal["keepalive"]


class ResponseStateEvent(Event):
    """The Response begins, or ends."""

    type: Literal[
        "response.created",
        "response.in_progress",
        "response.completed",
        "response.incomplete",
        "response.failed",
    ]
    response: ResponseObject


class OutputItemEvent(Event):
    """An item begins, or is complete."""

    type: Literal["response.output_item.added", "response.output_item.done"]
    output_index: int
    item: ResponseOutput


class ItemEvent(Event):
    item_id: str
    output_index: int


class ContentPartEvent(ItemEvent):
    type: Literal["response.content_part.added", "response.content_part.done"]
    content_index: int
    part: OutputPart


class SummaryPartEvent(ItemEvent):
    type: Literal["response.reasoning_summary_part.added", "response.reasoning_summary_part.done"]
    summary_index: int
    part: SummaryText


class TextDeltaEvent(ItemEvent):
    """New text of a content part."""

    type: Literal["response.output_text.delta", "response.reasoning_text.delta", "response.refusal.delta"]
    content_index: int
    delta: str
    logprobs: list[Any] | None = None


class SummaryDeltaEvent(ItemEvent):
    type: Literal["response.reasoning_summary_text.delta"]
    summary_index: int
    delta: str


class TextDoneEvent(ItemEvent):
    type: Literal["response.output_text.done", "response.reasoning_text.done"]
    content_index: int
    text: str
    logprobs: list[Any] | None = None


class RefusalDoneEvent(ItemEvent):
    type: Literal["response.refusal.done"]
    content_index: int
    refusal: str


class SummaryDoneEvent(ItemEvent):
    type: Literal["response.reasoning_summary_text.done"]
    summary_index: int
    text: str


class CallDeltaEvent(ItemEvent):
    """New text of a call's arguments, or of a custom tool's input."""

    type: Literal[
        "response.function_call_arguments.delta",
        "response.custom_tool_call_input.delta",
        "response.mcp_call_arguments.delta",
    ]
    delta: str


class ArgumentsDoneEvent(ItemEvent):
    type: Literal["response.function_call_arguments.done", "response.mcp_call_arguments.done"]
    arguments: str
    name: str | None = None


class ServerToolsEvent(ItemEvent):
    """How a list of tools, or a call that the gateway runs, stands."""

    type: Literal[
        "response.mcp_list_tools.in_progress",
        "response.mcp_list_tools.completed",
        "response.mcp_list_tools.failed",
        "response.mcp_call.in_progress",
        "response.mcp_call.completed",
        "response.mcp_call.failed",
    ]


class CustomInputDoneEvent(ItemEvent):
    type: Literal["response.custom_tool_call_input.done"]
    input: str


ResponseEvent: TypeAlias = Annotated[
    ResponseStateEvent
    | OutputItemEvent
    | ContentPartEvent
    | SummaryPartEvent
    | TextDeltaEvent
    | SummaryDeltaEvent
    | TextDoneEvent
    | RefusalDoneEvent
    | SummaryDoneEvent
    | CallDeltaEvent
    | ArgumentsDoneEvent
    | ServerToolsEvent
    | CustomInputDoneEvent
    | KeepaliveEvent,
    Field(discriminator="type"),
]

_STATUSES = openapi.select(
    *("401", "402", "403", "405", "408", "409", "413", "415", "421", "429", "500", "502", "503", "504"),
    status_400="Violations, each with its JSON path; or the model server refused the request",
    status_404="Unknown model, or no such response or conversation",
    status_409="Another response is running in the conversation",
)


def _describe_paths() -> Json:
    id_: Json = {"name": "response_id", "in": "path", "required": True, "schema": {"type": "string"}}
    query: list[Json] = [
        {"name": "stream", "in": "query", "schema": {"type": "boolean"}, "description": "Send the events again."},
        {
            "name": "starting_after",
            "in": "query",
            "schema": {"type": "integer", "minimum": 0},
            "description": "The `sequence_number` of the last event that the client has.",
        },
    ]
    page: list[Json] = [
        {"name": "limit", "in": "query", "schema": {"type": "integer", "minimum": 1, "maximum": 100, "default": 20}},
        {"name": "order", "in": "query", "schema": {"type": "string", "enum": ["asc", "desc"], "default": "desc"}},
        {"name": "after", "in": "query", "schema": {"type": "string"}, "description": "The id of an item."},
    ]
    either = {**json_content("ResponseObject"), **event_stream("ResponseEvent")}
    response, deleted = json_content("ResponseObject"), json_content("ResponseDeleted")
    tokens = json_content("InputTokens")
    count = _describe("Count the tokens of a request", "count_input_tokens", tokens, body="ResponsesRequest")
    compaction = json_content("CompactionObject")
    compact = _describe("Summarize a conversation", "compact_response", compaction, body="CompactionRequest")
    path = "/v1/responses/{response_id}"
    return {
        "/v1/responses": {"post": _describe("Create a response", "create_response", either, body="ResponsesRequest")},
        "/v1/responses/input_tokens": {"post": count},
        "/v1/responses/compact": {"post": compact},
        path: {
            "get": _describe("Read a stored response, or its events", "get_response", either, [id_, *query]),
            "delete": _describe("Delete a stored response", "delete_response", deleted, [id_]),
        },
        f"{path}/cancel": {"post": _describe("Stop a response", "cancel_response", response, [id_])},
        f"{path}/input_items": {
            "get": _describe(
                "List the input of a stored response",
                "list_input_items",
                json_content("InputItems"),
                [id_, *page],
            )
        },
        **_describe_conversations(page),
    }


def _describe_conversations(page: list[Json]) -> Json:
    id_, item = (
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in ("conversation_id", "item_id")
    )
    found, items, one = (json_content(name) for name in ("ConversationObject", "InputItems", "ConversationItem"))
    deleted, path = json_content("ConversationDeleted"), "/v1/conversations/{conversation_id}"
    return {
        "/v1/conversations": {
            "post": _describe("Create a conversation", "create_conversation", found, body="ConversationBody")
        },
        path: {
            "get": _describe("Read a conversation", "get_conversation", found, [id_]),
            "post": _describe("Change a conversation", "change_conversation", found, [id_], body="ConversationChange"),
            "delete": _describe("Delete a conversation", "delete_conversation", deleted, [id_]),
        },
        f"{path}/items": {
            "get": _describe("List the items of a conversation", "list_conversation_items", items, [id_, *page]),
            "post": _describe(
                "Add items to a conversation", "add_conversation_items", items, [id_], body="ConversationItemsBody"
            ),
        },
        f"{path}/items/{{item_id}}": {
            "get": _describe("Read an item", "get_conversation_item", one, [id_, item]),
            "delete": _describe("Delete an item", "delete_conversation_item", found, [id_, item]),
        },
    }


def _describe(
    summary: str, operation_id: str, content: Json, parameters: Sequence[Json] = (), *, body: str = ""
) -> Json:
    errors = openapi.describe_errors(_STATUSES, "OpenAIErrorBody")
    names = ("responses", summary, operation_id)
    return openapi.describe_operation(names, {"200": (summary, content)}, errors, body=body, parameters=parameters)


_EXAMPLES: list[Json] = [
    {"model": "demo", "input": "What is the weather in Paris?"},
    {
        "model": "demo",
        "input": [{"role": "user", "content": "What is the weather in Paris?"}],
        "tools": [{"type": "function", "name": "get_weather", "parameters": {"type": "object"}}],
        "stream": True,
    },
]
_COMPACTION_EXAMPLES: list[Json] = [{"model": "demo", "input": "What is the weather in Paris?"}]
PART = FormatPart(
    "Responses",
    (ResponseObject,),
    "ResponseEvent",
    ResponseEvent,
    OpenAIErrorBody,
    (
        *(ResponseDeleted, InputTokens, InputItems, CompactionObject),
        *(ConversationObject, ConversationDeleted, ConversationItem),
    ),
    (
        BodyPart("ResponsesRequest", ResponsesBody, _EXAMPLES),
        BodyPart("CompactionRequest", CompactionBody, _COMPACTION_EXAMPLES),
        BodyPart("ConversationBody", ConversationBody, [{"metadata": {"topic": "weather"}}]),
        BodyPart("ConversationChange", ConversationChange, [{"metadata": {"topic": "weather"}}]),
        BodyPart("ConversationItemsBody", ConversationItemsBody, [{"items": [{"role": "user", "content": "Hi"}]}]),
    ),
    _describe_paths,
)
