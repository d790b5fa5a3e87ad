"""The bodies of `POST /v1/messages` and of its token count, for clients of Anthropic's Messages API.

What a model server can be asked for is translated; what only Anthropic's servers do is refused, or ignored with a
warning where the request makes sense without it. Fields that this module does not know are ignored with a warning: new
ones appear every month, and refusing them would break clients.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from msgspec.structs import replace
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from app.chat.known_conversation import KnownConversation
from app.chat.messages import ChatRequest, Message, RequestPaths, Source, Tool
from app.chat.token_estimate import estimate_prompt_tokens
from app.errors import InvalidInput, ParleyError, Unsupported, Violation
from app.formats.anthropic import ANTHROPIC
from app.formats.anthropic.context_edits import read_edits
from app.formats.anthropic.parse import parse_system
from app.formats.anthropic.passed import make_passed_request
from app.formats.anthropic.tools import (
    AnthropicToolChoice,
    check_tool_choice,
    find_tools,
    is_about_type,
    is_hosted,
    is_toolset,
    name_own_tools,
    parse_tools,
    read_choice_form,
    read_hosted_tools,
    read_servers,
    translate_choice,
)
from app.formats.base import Options, ReplyMode
from app.formats.body import CacheChoice, ParsedRequest, RejectedRequest, ReplySettings, keep_texts, select_native
from app.formats.json_object import list_repairs, parse_object
from app.formats.old_media import parse_with_old_media
from app.formats.other_fields import NESTED_PARAMS, find_misspelt_fields, rename_fields, warn_of_unknown_fields
from app.formats.request_limits import RequestLimits, find_invalid_fields, find_long_lists, limit_warnings
from app.formats.request_memory import CallerMemory
from app.formats.server_asks import make_server_tools
from app.params import PREFERRED_EFFORT, GenerateCfg, Int64
from app.validation.violations import find_unknown_keys, to_violations

_STRICT = ConfigDict(extra="allow", strict=True)


class AnthropicThinking(BaseModel):
    model_config = _STRICT

    type: Literal["enabled", "disabled", "adaptive", "between_tools"]
    budget_tokens: Int64 | None = Field(default=None, ge=1)
    display: Any = None
    """`summarized` or `omitted`. Others, which new clients send, are read as the first."""


class AnthropicOutputFormat(BaseModel):
    model_config = _STRICT

    type: Literal["json_schema"]
    schema_: dict[str, Any] = Field(alias="schema")


class AnthropicOutputConfig(BaseModel):
    model_config = _STRICT

    format: AnthropicOutputFormat | None = None
    effort: Any = None
    """One of `_EFFORTS`. Others are ignored, so that new clients are served."""


class CountTokensRequest(BaseModel):
    """A request of `POST /v1/messages/count_tokens`. Unknown fields are ignored with a warning."""

    model_config = _STRICT

    model: str = Field(min_length=1, max_length=512)
    messages: list[Any] = Field(min_length=1)
    system: str | list[Any] | None = None
    tools: list[Any] | None = None
    tool_choice: Annotated[AnthropicToolChoice | None, BeforeValidator(read_choice_form)] = None
    thinking: AnthropicThinking | None = None
    output_config: AnthropicOutputConfig | None = None
    output_format: AnthropicOutputFormat | None = None


def _list_words(value: Any) -> Any:
    """Accept one stop word, as in chat completions."""
    return [value] if isinstance(value, str) else value


class MessagesRequest(CountTokensRequest):
    """The body of a request in Anthropic's format. It may also have the fields of `generate_cfg`."""

    max_tokens: int = Field(ge=1, lt=2**63)
    stop_sequences: Annotated[list[str] | None, BeforeValidator(_list_words)] = None
    stream: bool = False
    metadata: dict[str, Any] | None = None
    cache: CacheChoice = Field(default=None, description="An extension of Parley: how to use the cache.")


_DROPPED = frozenset(
    {
        "mcp_servers",
        "cache_control",
        "service_tier",
        "speed",
        "inference_geo",
        "diagnostics",
        "user_profile_id",
        "workspace_id",
        "context_management",
        "container",
        "thread",
    }
)
"""Fields that are ignored silently, or that are read as they are."""
_NOT_PASSED = {
    *("extra_body", "stream_options", "stop", "max_tokens", "max_completion_tokens", "tool_choice", "function_choice"),
    *("parallel_tool_calls", "parallel_function_calls", "use_raw_api"),
}
_PASSED = frozenset(set(GenerateCfg.model_fields) - _NOT_PASSED)
"""Parameters of `generate_cfg` that clients put at the top level of the body (`extra_body` of the SDKs)."""
_TYPED = MessagesRequest.model_fields.keys() | _PASSED
_KNOWN = frozenset(MessagesRequest.model_fields) | _DROPPED | _PASSED | {"chat_template_kwargs", "response_format"}
_OTHER_NAMES = {
    "max_completion_tokens": "max_tokens",
    "max_output_tokens": "max_tokens",
    "stop": "stop_sequences",
    "instructions": "system",
    "functions": "tools",
}
"""The names here of fields of OpenAI's APIs."""
_INSTEAD = {
    **_OTHER_NAMES,
    "reasoning": "output_config.effort, or thinking",
    "text": "output_config.format",
    "function_call": "tool_choice",
    "parallel_tool_calls": "tool_choice.disable_parallel_tool_use",
    "input": "messages",
}
"""What fields of OpenAI's APIs that are ignored are here."""
_EXPECTED = _KNOWN | _INSTEAD.keys() | NESTED_PARAMS.keys()
"""No other field misspells one of them."""
_PATHS = RequestPaths(
    params="",
    extra_body="",
    names={
        "stop": "stop_sequences",
        "thinking_budget": "thinking.budget_tokens",
        "enable_thinking": "thinking",
        PREFERRED_EFFORT: "output_config.effort",
        "parallel_tool_calls": "tool_choice.disable_parallel_tool_use",
        "response_format": "output_config.format",
    },
)
_EFFORTS = ("low", "medium", "high", "xhigh", "max")
_NATIVE = frozenset(("temperature", "top_p", "top_k", "max_tokens", "tool_choice"))
"""Parameters of `generate_cfg` that are fields of the API."""


def parse_messages_body(
    raw: bytes | bytearray, limits: RequestLimits, memory: CallerMemory | None = None
) -> ParsedRequest | RejectedRequest:
    """Parse a request of `POST /v1/messages`. It is rejected with BadRequest, InvalidInput or Unsupported."""
    return _parse(raw, limits, memory, MessagesRequest)


def parse_count_tokens_body(
    raw: bytes | bytearray, limits: RequestLimits, memory: CallerMemory | None = None
) -> ParsedRequest | RejectedRequest:
    """Parse a request of `POST /v1/messages/count_tokens`, which need not have `max_tokens`."""
    return _parse(raw, limits, memory, CountTokensRequest)


def _parse(
    raw: bytes | bytearray, limits: RequestLimits, memory: CallerMemory | None, schema: type[CountTokensRequest]
) -> ParsedRequest | RejectedRequest:
    body: dict[str, Any] = {}
    try:
        body = parse_object(raw, memory)
        renamed = rename_fields(body, _OTHER_NAMES)
        known = None if memory is None else memory.conversation
        parsed = _parse_request(renamed.body, renamed.names, limits, schema, known)
    except ParleyError as error:
        rejected = RejectedRequest(error, ANTHROPIC.error)
        needs_max_tokens = schema is MessagesRequest
        return replace(rejected, passed=_pass_refused(body, error, limits, needs_max_tokens=needs_max_tokens))
    repairs = list_repairs(body)
    warnings = [*repairs, *renamed.warnings, *parsed.warnings]
    return replace(parsed, warnings=limit_warnings(warnings), repairs=tuple(repairs)) if warnings else parsed


def _pass_refused(
    body: dict[str, Any], error: ParleyError, limits: RequestLimits, *, needs_max_tokens: bool
) -> ParsedRequest | None:
    """Return a request that the gateway cannot read, for servers of this API, which may know more; None if it can be
    sent to none."""
    request = make_passed_request(body, error, limits, _PATHS, needs_max_tokens=needs_max_tokens)
    if request is None:
        return None
    mode: ReplyMode = "delta" if request.stream else "whole"
    settings = ReplySettings(request.model, request.stream, mode, metadata=keep_texts(body.get("metadata")))
    repairs = tuple(list_repairs(body))
    return ParsedRequest(settings, ANTHROPIC, request, repairs, Options(), repairs)


def _parse_request(
    body: dict[str, Any],
    names: Mapping[str, str],
    limits: RequestLimits,
    schema: type[CountTokensRequest],
    known: KnownConversation | None,
) -> ParsedRequest:
    """`names` has the caller's names of fields."""
    if body.get("thread") is not None:
        raise Unsupported("threads are not supported: send the whole conversation", "thread")
    tools_path, system_path = names.get("tools", "tools"), names.get("system", "system")
    head, violations = _read_head(body, names, schema)
    foreign = _check_container(body)
    violations += find_long_lists({"messages": body.get("messages"), tools_path: body.get("tools")}, limits)
    if any(violation.path in ("messages", tools_path) for violation in violations):
        raise InvalidInput(violations + foreign)  # too long, or not a list: the entries are not looked at
    system = parse_system(body.get("system") if isinstance(body.get("system"), str | list) else None, system_path)
    parsed = parse_with_old_media(ANTHROPIC, body.get("messages") or [], Options())
    found = find_tools(body, tools_path)
    toolsets = [one for one in found if is_toolset(one[1])]
    asks = read_servers(body.get("mcp_servers"), toolsets)
    functions = [one for one in found if not is_toolset(one[1])] if toolsets else found
    tools, tool_violations, warnings = parse_tools(functions) if functions else ((), [], [])
    warnings += asks.warnings
    foreign += [one for one in tool_violations if is_about_type(one)]
    violations += [*system.violations, *parsed.violations, *asks.violations]
    violations += [one for one in tool_violations if not is_about_type(one)]
    violations += find_invalid_fields(body, names, _TYPED, limits.max_nesting)
    if head is None:
        raise InvalidInput(violations + foreign)
    if head.tool_choice is not None:
        foreign += check_tool_choice(head.tool_choice, tools, asks.asks)
    hosted = None
    if warnings or tool_violations:  # each search has one of them
        hosted = read_hosted_tools(functions, tools, head.tool_choice, asks.asks, foreign)
    edits = read_edits(body.get("context_management"))
    violations += edits.violations
    params = _translate_params(head, body, violations, has_tools=bool(tools or asks.asks))
    if violations:
        violations += foreign
        raise InvalidInput(violations)
    warnings = [*system.warnings, *parsed.warnings, *warnings, *edits.warnings]
    warnings += [*_warn_of_unknown_fields(head, body), *_warn_of_unknown_values(head)]
    messages = (*system.messages, *parsed.messages)
    given = head if isinstance(head, MessagesRequest) else MessagesRequest.model_construct(model=head.model)
    request = ChatRequest(
        model=head.model,
        messages=messages,
        tools=tools,
        params=params,
        text_joiner=ANTHROPIC.text_joiner,
        policy=ANTHROPIC.policy,
        stream=given.stream,
        server_tools=make_server_tools(
            asks.asks, (), function_paths=[path for path, one in functions if not is_hosted(one)], hosted=hosted
        ),
        paths=_PATHS if not names else replace(_PATHS, names={**_PATHS.names, **_name_params(names)}),
        edits=edits.edits or (),
        known=known,
        source=_make_source(body, messages, tools, params, foreign),
    )
    return ParsedRequest(
        _read_settings(given),
        ANTHROPIC,
        request,
        tuple(warnings),
        Options(
            stop_words=tuple(given.stop_sequences or ()),
            hide_thinking=head.thinking is not None and head.thinking.display == "omitted",
            input_tokens=estimate_prompt_tokens(request) if given.stream else 0,
            applied_edits=None if edits.edits is None else (),
        ),
    )


def _read_head(
    body: dict[str, Any], names: Mapping[str, str], schema: type[CountTokensRequest]
) -> tuple[CountTokensRequest | None, list[Violation]]:
    """Return the fields with a schema, None if one is invalid, and what is wrong with the body's fields."""
    head: CountTokensRequest | None = None
    violations: list[Violation] = []
    try:
        head = schema.model_validate(body)
    except ValidationError as error:
        violations += to_violations(error, body, schema=schema, names=names)
    violations += _check_refused(body)
    unknown = [key for key in body if key not in _EXPECTED and body[key] is not None]
    if unknown:
        violations += find_misspelt_fields(unknown, [sorted(_KNOWN)], body)
    return head, violations


def _make_source(
    body: dict[str, Any],
    messages: tuple[Message, ...],
    tools: tuple[Tool, ...],
    params: Mapping[str, Any],
    foreign: list[Violation],
) -> Source:
    """Return the client's own body, for servers of this API."""
    native = select_native(params, body, _NATIVE)
    own_tools = name_own_tools(body["tools"]) if body.get("tools") else {}
    return Source("messages", body, body["messages"], messages, tools, native, own_tools, violations=tuple(foreign))


def _name_params(names: Mapping[str, str]) -> dict[str, str]:
    """Return the caller's names of parameters by the gateway's."""
    found = {"max_tokens": names.get("max_tokens"), "stop": names.get("stop_sequences")}
    return {param: name for param, name in found.items() if name is not None}


def _read_settings(given: MessagesRequest) -> ReplySettings:
    metadata = keep_texts(given.metadata)
    mode: ReplyMode = "delta" if given.stream else "whole"
    return ReplySettings(given.model, given.stream, mode, cache=given.cache, metadata=metadata)


def _check_container(body: dict[str, Any]) -> list[Violation]:
    return [Violation("container", "is not supported: no code is run here")] if body.get("container") else []


def _check_refused(body: dict[str, Any]) -> Iterator[Violation]:
    for key, message in NESTED_PARAMS.items():
        if body.get(key) is not None:
            yield Violation(key, message)
    metadata = body.get("chat_template_kwargs")
    if metadata is not None and not isinstance(metadata, dict):
        yield Violation("chat_template_kwargs", "must be an object")


def _warn_of_unknown_fields(head: CountTokensRequest, body: dict[str, Any]) -> Iterator[str]:
    yield from warn_of_unknown_fields(body, _KNOWN | NESTED_PARAMS.keys(), instead=_INSTEAD)
    for name in ("tool_choice", "thinking", "output_config", "output_format"):
        value = getattr(head, name)
        for path in () if value is None else find_unknown_keys(value, name):
            yield f"{path} is not known here and was ignored"


def _warn_of_unknown_values(head: CountTokensRequest) -> Iterator[str]:
    """Warn of values of optional fields that are not known here. Claude Code sends a refused request again without
    features, one after the other."""
    display = None if head.thinking is None else head.thinking.display
    if display not in (None, "summarized", "omitted"):
        yield "thinking.display has a value that is not known here, and was read as summarized"
    effort = None if head.output_config is None else head.output_config.effort
    if effort is not None and effort not in _EFFORTS:
        yield "output_config.effort has a value that is not known here, and was ignored"


def _translate_params(
    head: CountTokensRequest, body: dict[str, Any], violations: list[Violation], *, has_tools: bool
) -> Mapping[str, Any]:
    """Return the parameters of the request under the gateway's names, and add what is wrong with them."""
    given = {key: value for key, value in body.items() if key in _PASSED}
    try:
        params = GenerateCfg.model_validate(given).given_params()
    except ValidationError as error:
        violations += to_violations(error, given, schema=GenerateCfg)
        return {}
    if isinstance(head, MessagesRequest):
        params["max_tokens"] = head.max_tokens
        if head.stop_sequences:
            params["stop"] = head.stop_sequences
    if head.tool_choice is not None and has_tools:
        choice = head.tool_choice
        params["tool_choice"] = translate_choice(choice)
        if choice.disable_parallel_tool_use:
            params["parallel_tool_calls"] = False
    if head.thinking is not None:
        params |= _translate_thinking(head.thinking)
    config = head.output_config
    output = (config.format if config is not None else None) or head.output_format
    if output is not None:
        schema = {"name": "response", "schema": output.schema_, "strict": True}
        params["response_format"] = {"type": "json_schema", "json_schema": schema}
    if config is not None and config.effort in _EFFORTS:
        params[PREFERRED_EFFORT] = config.effort
    if body.get("chat_template_kwargs"):
        params["extra_body"] = {"chat_template_kwargs": body["chat_template_kwargs"]}
    return params


def _translate_thinking(thinking: AnthropicThinking) -> dict[str, Any]:
    if thinking.type == "enabled":
        # Moonshot, z.ai and DeepSeek take it without a budget (experientiallabs/experiential#905)
        budget = thinking.budget_tokens
        return {"enable_thinking": True} | ({} if budget is None else {"thinking_budget": budget})
    return {"enable_thinking": False} if thinking.type == "disabled" else {}
