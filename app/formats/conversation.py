"""The conversation in the body of `POST /v1/chat` or of chat completions: messages, functions and parameters."""

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import islice
from typing import Annotated, Any, Protocol, TypeAlias

from msgspec.structs import replace
from pydantic import BaseModel, BeforeValidator, Field, model_validator

from app.chat.messages import ChatRequest, RequestPaths, Tool
from app.chat.tool_asks import ServerAsk, ServerTools
from app.errors import InvalidInput, Violation
from app.formats.base import Format, Options, ParsedMessages
from app.formats.body import MAX_METADATA_CHARACTERS, CacheChoice, ParsedRequest, ReplySettings, join_tags
from app.formats.functions import choose_tools, find_unknown_tool_keys, list_paths, parse_tools
from app.formats.hosted_asks import read_search_options
from app.formats.old_media import parse_with_old_media
from app.formats.other_fields import find_misspelt
from app.formats.request_limits import RequestLimits, find_invalid_values, find_long_lists, limit_warnings
from app.formats.server_asks import (
    NOTHING_ASKED,
    ToolApprovalBody,
    list_function_paths,
    make_server_tools,
    read_approvals,
    read_asks,
    settle_waiting_calls,
)
from app.params import MAX_SECONDS, SERVER_PARAMS, GenerateCfg, max_entries
from app.validation.violations import MAX_SUGGESTED, json_path

MAX_METADATA = 16
"""The maximum number of entries of `metadata`. OpenAI has the same limit, and the same lengths of keys and values."""
MetadataKey: TypeAlias = Annotated[str, Field(max_length=64)]
MetadataValue: TypeAlias = Annotated[str, Field(max_length=MAX_METADATA_CHARACTERS)]
_GivenMetadata: TypeAlias = dict[MetadataKey, MetadataValue | list[str]] | None
Metadata: TypeAlias = Annotated[
    dict[MetadataKey, MetadataValue] | None,
    max_entries(MAX_METADATA),
    BeforeValidator(join_tags, json_schema_input_type=_GivenMetadata),
]
"""The values are texts; `tags` may be a list of them."""


class SharedFields(BaseModel):
    """The fields that both bodies have."""

    model: str | None = Field(
        default=None,
        min_length=1,
        max_length=512,
        description="A name of `GET /v1/models`; needed unless there is a default model.",
    )
    messages: list[Any] = Field(min_length=1)
    functions: list[Any] | None = None
    tools: list[Any] | None = Field(default=None, description="An alias of `functions`.")
    tool_approvals: list[ToolApprovalBody] | None = Field(
        default=None, description="The answers to calls of the gateway's tools that wait for approval."
    )
    cache: CacheChoice = None
    cancel_on_disconnect: bool | Annotated[float, Field(ge=0, le=MAX_SECONDS, allow_inf_nan=False)] = Field(
        default=True,
        description="What becomes of the call of the model when its last client disconnects. True: it is cancelled at "
        "once. False: it goes on to its end. A number: it is cancelled after so many seconds, unless the client has "
        "resumed the reply.",
    )
    metadata: Metadata = Field(
        default=None,
        description="Written to the log line of the request; never sent to a model server. Usage is grouped by `tags`.",
    )

    @model_validator(mode="after")
    def _check_one_tool_list(self) -> "SharedFields":
        if self.functions is not None and self.tools is not None:
            raise ValueError("functions and tools are two names of the same list: set only one of them")
        return self

    @property
    def unread_seconds(self) -> float:
        if isinstance(self.cancel_on_disconnect, bool):
            return 0.0 if self.cancel_on_disconnect else math.inf
        return self.cancel_on_disconnect


class ConversationBody(Protocol):
    """A body whose fields are valid."""

    @property
    def messages(self) -> list[Any]: ...
    @property
    def functions(self) -> list[Any] | None: ...
    @property
    def tools(self) -> list[Any] | None: ...
    @property
    def tool_approvals(self) -> list[ToolApprovalBody] | None: ...
    @property
    def params(self) -> dict[str, Any]:
        """What the caller gave, under the names of `generate_cfg`."""

    @property
    def model_fields_set(self) -> Set[str]: ...
    @property
    def settings(self) -> ReplySettings: ...
    @property
    def options(self) -> Options: ...


def parse_conversation(
    body: ConversationBody,
    message_format: Format,
    reply_format: Format,
    paths: RequestPaths,
    limits: RequestLimits,
    more_violations: Sequence[Violation] = (),
) -> ParsedRequest:
    """Parse the messages and functions of a body. Raises InvalidInput with every violation; `more_violations` are those
    that were found before."""
    _raise_violations(
        find_long_lists({"messages": body.messages, "functions": body.functions, "tools": body.tools}, limits)
    )
    options, settings = body.options, body.settings
    parsed = parse_with_old_media(message_format, body.messages, options)
    field, functions = ("tools", body.tools) if body.functions is None else ("functions", body.functions)
    tools, tool_violations = parse_tools(field, functions) if functions else ((), [])
    params: Mapping[str, Any] = body.params
    found = read_asks(field, functions) if functions and len(tools) < len(functions) else NOTHING_ASKED
    tool_violations += found.violations
    violations = [*_check_values(body, params, paths, limits), *more_violations, *parsed.violations, *tool_violations]
    asks = found.asks
    if not tool_violations:
        params, tools, asks, choice_violations = choose_tools(params, tools, asks, paths)
        violations += choice_violations
    _raise_violations(violations)
    can_answer = bool(asks or body.tool_approvals or parsed.approvals)
    request = ChatRequest(
        model=settings.model or "",
        messages=settle_waiting_calls(parsed, can_answer=can_answer),
        tools=tools,
        params=params,
        text_joiner=message_format.text_joiner,
        policy=message_format.policy,
        stream=settings.stream,
        paths=paths,
        server_tools=_make_server_tools(
            body, parsed, asks, tools, field, functions, (params.get("extra_body") or {}).get(_SEARCH_OPTIONS)
        ),
    )
    warnings = [*parsed.warnings, *found.warnings]
    if functions:
        warnings += find_unknown_tool_keys(field, functions)
    if params:
        warnings += _find_misspelled_params(params, body.model_fields_set - {"stream"}, paths)
    if request.server_tools is not None and request.server_tools.approvals:
        options = replace(options, answers_calls=True)
    if custom := tuple([tool.name for tool in tools if tool.custom]):
        options = replace(options, custom_tools=custom)
    return ParsedRequest(settings, reply_format, request, limit_warnings(warnings), options)


_SEARCH_OPTIONS = "web_search_options"


def _make_server_tools(
    body: ConversationBody,
    parsed: ParsedMessages,
    asks: tuple[ServerAsk, ...],
    tools: Sequence[Tool],
    field: str,
    functions: Sequence[Any] | None,
    search_options: Any = None,
) -> ServerTools | None:
    hosted = None if search_options is None else read_search_options(search_options, _SEARCH_OPTIONS)
    if not asks and not body.tool_approvals and not parsed.approvals and hosted is None:
        return None
    approvals = (*parsed.approvals, *read_approvals(body.tool_approvals))
    function_paths = list_function_paths(tools, list_paths(field, functions or ()))
    return make_server_tools(asks, approvals, function_paths=function_paths, hosted=hosted)


_PARAMS = GenerateCfg.model_fields.keys() | {"model", "messages", "stream", "tools", "functions", "function_call"}
KNOWN_PARAMS = (sorted(_PARAMS - {"extra_body"}), sorted(SERVER_PARAMS))
"""What a misspelt parameter can mean, the gateway's own parameters first."""


def _find_misspelled_params(params: Mapping[str, Any], fields: Set[str], paths: RequestPaths) -> Iterator[str]:
    """Yield a warning for each key of `extra_body` that misspells a known parameter. A parameter that the request has
    is not suggested. `fields` are the request's fields beside the parameters."""
    extra = params.get("extra_body") or {}
    unknown = (key for key in extra if key not in SERVER_PARAMS and key not in _PARAMS)
    for key in islice(unknown, MAX_SUGGESTED):
        suggestion = find_misspelt(key, KNOWN_PARAMS)
        if suggestion is not None and not any(suggestion in names for names in (params, extra, fields)):
            path = json_path([key], paths.extra_body)
            yield f"`{path}` was passed on as it is; did you mean `{suggestion}`?"


def _raise_violations(violations: list[Violation]) -> None:
    if violations:
        raise InvalidInput(violations)


def find_list_violations(
    body: Mapping[str, Any], message_format: Format | None, limits: RequestLimits
) -> list[Violation]:
    """Return the violations in the lists of a body that is invalid itself, so that all are reported at once."""
    return find_long_lists(body, limits) or list(_check_messages_and_tools(body, message_format))


def _check_messages_and_tools(body: Mapping[str, Any], message_format: Format | None) -> Iterator[Violation]:
    messages = body.get("messages")
    if message_format is not None and isinstance(messages, list) and messages:
        parsed = message_format.parse(messages, Options())
        yield from parsed.violations
    for field in ("functions", "tools"):
        if isinstance(body.get(field), list):
            yield from parse_tools(field, body[field])[1]
            yield from read_asks(field, body[field]).violations


_OPEN_PARAMS = ("extra_body", "response_format", "function_choice", "tool_choice", "stream_options", "logit_bias")
"""Parameters whose values no type describes."""


def _check_values(
    body: ConversationBody, params: Mapping[str, Any], paths: RequestPaths, limits: RequestLimits
) -> Iterator[Violation]:
    """Check the limits that types cannot express: nesting, and numbers that JSON cannot express."""
    for field, value in (("messages", body.messages), ("functions", body.functions), ("tools", body.tools)):
        if value:
            yield from find_invalid_values(value, field, limits.max_nesting)
    for name in _OPEN_PARAMS:
        if params.get(name) is not None:
            path = paths.extra_body if name == "extra_body" else paths.param(name)
            yield from find_invalid_values(params[name], path, limits.max_nesting)
