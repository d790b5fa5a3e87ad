"""Parse the body of `POST /v1/messages`, for clients of Anthropic's Messages API, into a request of `POST /v1/chat`.

What a model server can be asked for is translated; what only Anthropic's servers do is refused, or ignored with a
warning where the request makes sense without it. Fields that this module does not know are ignored with a warning: new
ones appear every month, and refusing them would break clients. Errors and warnings name fields as this body does.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec.structs import replace
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from app.api.chat_schema import ChatRequestBody
from app.chat.messages import CacheMark, ChatRequest, Tool
from app.chat.token_estimate import estimate_prompt_tokens
from app.errors import InvalidInput, ParleyError, Unsupported, Violation
from app.formats.anthropic import ANTHROPIC
from app.formats.anthropic.parse import parse_system
from app.formats.base import Encoder, ErrorWriter, Format, Options, ReplyInfo, ReplyMode
from app.formats.body import CacheChoice, ParsedRequest, RejectedRequest
from app.formats.json_object import parse_object
from app.formats.old_media import parse_with_old_media
from app.formats.other_fields import NESTED_PARAMS, find_misspelt_fields, rename_fields
from app.formats.request_limits import RequestLimits, find_invalid_values, find_long_lists, limit_warnings
from app.openai_messages.grouping import find_call_violations
from app.other_apis import NO_PARAMETERS, read_choice, read_function_tool
from app.params import PREFERRED_EFFORT, GenerateCfg, Int64
from app.validation.violations import find_unknown_keys, json_path, to_violations

_STRICT = ConfigDict(extra="allow", strict=True)


class _ToolChoice(BaseModel):
    model_config = _STRICT

    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class _Thinking(BaseModel):
    model_config = _STRICT

    type: Literal["enabled", "disabled", "adaptive", "between_tools"]
    budget_tokens: Int64 | None = Field(default=None, ge=1)
    display: Literal["summarized", "omitted"] | None = None


def _read_choice_form(value: Any) -> Any:
    """Write a choice of OpenAI's APIs in Anthropic's form."""
    if isinstance(value, dict) and value.get("type") in ("auto", "any", "tool", "none"):
        return value
    choice = read_choice(value)
    if isinstance(choice, dict):
        return {"type": "tool", "name": choice["function"]["name"]}
    if choice in ("auto", "none", "required"):
        return {"type": "any" if choice == "required" else choice}
    return value if choice is None else {"type": "tool", "name": choice}


class _OutputFormat(BaseModel):
    model_config = _STRICT

    type: Literal["json_schema"]
    schema_: dict[str, Any] = Field(alias="schema")


class _OutputConfig(BaseModel):
    model_config = _STRICT

    format: _OutputFormat | None = None
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None


class CountTokensRequest(BaseModel):
    """A request of `POST /v1/messages/count_tokens`. Unknown fields are ignored with a warning."""

    model_config = _STRICT

    model: str = Field(min_length=1, max_length=512)
    messages: list[Any] = Field(min_length=1)
    system: str | list[Any] | None = None
    tools: list[Any] | None = None
    tool_choice: Annotated[_ToolChoice | None, BeforeValidator(_read_choice_form)] = None
    thinking: _Thinking | None = None
    output_config: _OutputConfig | None = None
    output_format: _OutputFormat | None = None


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


class _MessagesBody(ChatRequestBody):
    """The request as `POST /v1/chat` would have it, with the options of the reply."""

    reply_options: Options = Options()

    model_config = ConfigDict(arbitrary_types_allowed=True)

    @property
    def options(self) -> Options:
        return self.reply_options


_DROPPED = frozenset(
    {
        "cache_control",
        "service_tier",
        "speed",
        "inference_geo",
        "diagnostics",
        "user_profile_id",
        "workspace_id",
        "context_management",
        "container",
        "mcp_servers",
        "thread",
    }
)
"""Fields that are ignored silently, or that `_check_refused` and `_warn_of_edits` look at."""
_NOT_PASSED = {
    *("extra_body", "stream_options", "stop", "max_tokens", "max_completion_tokens", "tool_choice", "function_choice"),
    *("parallel_tool_calls", "parallel_function_calls", "use_raw_api"),
}
_PASSED = frozenset(set(GenerateCfg.model_fields) - _NOT_PASSED)
"""Parameters of `generate_cfg` that clients put at the top level of the body (`extra_body` of the SDKs)."""
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
_PROVIDER_TOOLS = (*("web_search_", "web_fetch_", "code_execution_", "tool_search_", "mcp_toolset", "advisor"),)
_TOOL_KEYS = frozenset(
    {
        *("type", "name", "description", "input_schema", "strict", "cache_control"),
        *("defer_loading", "eager_input_streaming", "allowed_callers", "input_examples"),
    }
)
_DATED = re.compile(r"_\d{8}$")
"""The end of a type of tools that Anthropic defines."""
_MAX_SHOWN = 40
_TOOL_FORM = '{"name": "…", "description": "…", "input_schema": {…}}'
_WORDS = {"auto": "auto", "none": "none", "any": "required"}
_MAX_METADATA_CHARACTERS = 512


def parse_messages_body(raw: bytes | bytearray, limits: RequestLimits) -> ParsedRequest | RejectedRequest:
    """Parse a request of `POST /v1/messages`. It is rejected with BadRequest, InvalidInput or Unsupported."""
    return _parse(raw, limits, MessagesRequest)


def parse_count_tokens_body(raw: bytes | bytearray, limits: RequestLimits) -> ParsedRequest | RejectedRequest:
    """Parse a request of `POST /v1/messages/count_tokens`, which need not have `max_tokens`."""
    return _parse(raw, limits, CountTokensRequest)


def _parse(
    raw: bytes | bytearray, limits: RequestLimits, schema: type[CountTokensRequest]
) -> ParsedRequest | RejectedRequest:
    try:
        return _parse_renamed(parse_object(raw), limits, schema)
    except ParleyError as error:
        return RejectedRequest(error, MESSAGES.error)


def _parse_renamed(body: dict[str, Any], limits: RequestLimits, schema: type[CountTokensRequest]) -> ParsedRequest:
    """Parse a request of which some fields may have the names of OpenAI's APIs."""
    renamed = rename_fields(body, _OTHER_NAMES)
    try:
        parsed = _parse_request(renamed.body, limits, schema)
    except InvalidInput as error:
        raise renamed.restore(error) from None
    warnings = renamed.list_warnings()
    return replace(parsed, warnings=limit_warnings([*warnings, *parsed.warnings])) if warnings else parsed


def _parse_request(body: dict[str, Any], limits: RequestLimits, schema: type[CountTokensRequest]) -> ParsedRequest:
    if body.get("thread") is not None:
        raise Unsupported("threads are not supported: send the whole conversation", "thread")
    head: CountTokensRequest | None = None
    violations: list[Violation] = []
    try:
        head = schema.model_validate(body)
    except ValidationError as error:
        violations += to_violations(error, body, schema=schema)
    violations += _check_refused(body)
    unknown = [key for key in body if key not in (*_KNOWN, *_INSTEAD, *NESTED_PARAMS) and body[key] is not None]
    violations += find_misspelt_fields(unknown, [sorted(_KNOWN)], body)
    violations += find_long_lists(body, limits)
    if any(violation.path in ("messages", "tools") for violation in violations):
        raise InvalidInput(violations)  # too long, or not a list: the entries are not looked at
    system = parse_system(body.get("system") if isinstance(body.get("system"), str | list) else None)
    parsed = parse_with_old_media(ANTHROPIC, body.get("messages") or [], Options())
    tools, tool_violations, warnings = _parse_tools(_find_tools(body))
    violations += [*system.violations, *parsed.violations, *tool_violations]
    for field in ("messages", "system", "tools", "output_config", "output_format", "chat_template_kwargs"):
        violations += find_invalid_values(body.get(field), field, limits.max_nesting)
    if head is None:
        raise InvalidInput(violations)
    violations += _check_tool_choice(head.tool_choice, tools)
    violations += _check_thinking(head.thinking)
    params = _translate_params(head, body, tools, violations)
    messages = (*system.messages, *parsed.messages)
    if violations:
        if tools and not parsed.violations:
            violations += find_call_violations(messages)
        raise InvalidInput(violations)
    warnings = [*system.warnings, *parsed.warnings, *warnings, *_warn_of_edits(body.get("context_management"))]
    warnings += _warn_of_unknown_fields(head, body)
    stream = head.stream if isinstance(head, MessagesRequest) else False
    request = ChatRequest(
        model=head.model,
        messages=messages,
        tools=tools,
        params=params,
        text_joiner=ANTHROPIC.text_joiner,
        policy=ANTHROPIC.policy,
        stream=stream,
    )
    chat_body = _make_chat_body(head, request)
    return ParsedRequest(
        settings=chat_body.settings,
        reply_format=MESSAGES,
        request=request,
        warnings=limit_warnings(warnings),
        options=chat_body.options,
    )


def _make_chat_body(head: CountTokensRequest, request: ChatRequest) -> ChatRequestBody:
    given = head if isinstance(head, MessagesRequest) else None
    options = Options(
        stop_words=tuple(given.stop_sequences or ()) if given else (),
        hide_thinking=head.thinking is not None and head.thinking.display == "omitted",
        input_tokens=estimate_prompt_tokens(request),
    )
    metadata = (given.metadata if given else None) or {}
    return _MessagesBody.model_construct(
        model=head.model,
        messages=head.messages,
        format="anthropic",
        stream=request.stream,
        stream_mode="delta",
        completed_bodies=True,
        include_usage=True,
        cancel_on_disconnect=True,
        cache=given.cache if given else None,
        metadata={key: value[:_MAX_METADATA_CHARACTERS] for key, value in metadata.items() if isinstance(value, str)},
        reply_options=options,
    )


def _check_refused(body: dict[str, Any]) -> Iterator[Violation]:
    if body.get("container"):
        yield Violation("container", "is not supported: no code is run here")
    if body.get("mcp_servers"):
        yield Violation("mcp_servers", "is not supported: connect to MCP servers in the client, and send their tools")
    for key, message in NESTED_PARAMS.items():
        if body.get(key) is not None:
            yield Violation(key, message)
    metadata = body.get("chat_template_kwargs")
    if metadata is not None and not isinstance(metadata, dict):
        yield Violation("chat_template_kwargs", "must be an object")


def _warn_of_edits(management: Any) -> Iterator[str]:
    """Warn of edits of the context. Claude Code always asks to keep all reasoning, which is what happens here."""
    edits = management.get("edits") if isinstance(management, dict) else None
    for place, edit in enumerate(edits if isinstance(edits, list) else ()):
        kept = isinstance(edit, dict) and edit.get("type") == "clear_thinking_20251015" and edit.get("keep") == "all"
        if not kept:
            yield f"context_management.edits[{place}] was ignored: the context is not edited here"


def _warn_of_unknown_fields(head: CountTokensRequest, body: dict[str, Any]) -> Iterator[str]:
    for key in body:
        if key not in _KNOWN and key not in NESTED_PARAMS and body[key] is not None:
            hint = f": its name here is {_INSTEAD[key]}" if key in _INSTEAD else ""
            yield f"{json_path([key])} is not known here and was ignored{hint}"
    for name in ("tool_choice", "thinking", "output_config", "output_format"):
        for path in find_unknown_keys(getattr(head, name), name):
            yield f"{path} is not known here and was ignored"


def _find_tools(body: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return the tools that are offered at the end of the conversation, each with its path: those of `tools`, and those
    that messages define, without those that messages withdraw."""
    tools = [(f"tools[{place}]", item) for place, item in enumerate(body.get("tools") or ())]
    withdrawn: set[str] = set()
    for path, block in _find_tool_changes(body.get("messages")):
        tool = block["tool"]
        if block["type"] == "tool_removal":
            withdrawn.add(str(tool.get("name")))
        elif tool.get("type") == "tool_definition":
            defined = tool.get("definition")
            name = defined.get("name") if isinstance(defined, dict) else None
            tools = [one for one in tools if name is None or _get_name(one[1]) != name]
            tools.append((f"{path}.tool.definition", defined))
            withdrawn.discard(str(name))
        else:
            withdrawn.discard(str(tool.get("name")))
    return [one for one in tools if _get_name(one[1]) not in withdrawn]


def _find_tool_changes(messages: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    for place, message in enumerate(messages if isinstance(messages, list) else ()):
        content = message.get("content") if isinstance(message, dict) else None
        for at, block in enumerate(content if isinstance(content, list) else ()):
            is_change = isinstance(block, dict) and block.get("type") in ("tool_addition", "tool_removal")
            if is_change and isinstance(block.get("tool"), dict):
                yield f"messages[{place}].content[{at}]", block


def _get_name(tool: Any) -> Any:
    return tool.get("name") if isinstance(tool, dict) else None


def _parse_tools(items: Sequence[tuple[str, Any]]) -> tuple[tuple[Tool, ...], list[Violation], list[str]]:
    """Parse tools, each with its path. Return (tools, violations, warnings)."""
    tools: list[Tool] = []
    violations: list[Violation] = []
    warnings: list[str] = []
    names: set[str] = set()
    for path, given in items:
        item = _read_tool_form(given)
        problem = _check_tool(item, names)
        if problem is not None:
            violations.append(Violation(path + problem[0], problem[1]))
            continue
        names.add(item["name"])
        tools.append(_parse_tool(item, path))
        unknown = (key for key in item if key not in _TOOL_KEYS and item[key] not in (None, [], {}))
        warnings += (f"{json_path([key], path)} is not a field of a tool and was ignored" for key in unknown)
    return tuple(tools), violations, warnings


def _read_tool_form(tool: Any) -> Any:
    """Return a tool of OpenAI's APIs or of MCP in Anthropic's form; anything else as it is."""
    function = None if isinstance(tool, dict) and "input_schema" in tool else read_function_tool(tool)
    if function is None:
        return tool
    rest = {key: value for key, value in function.items() if key != "parameters"}
    return {**rest, "input_schema": function.get("parameters", NO_PARAMETERS)}


def _check_tool(item: Any, names: set[str]) -> tuple[str, str] | None:
    """Return the (path, message) of what is invalid."""
    if not isinstance(item, dict):
        return "", f"must be an object with a name and an input_schema: write {_TOOL_FORM}"
    problem = _check_tool_type(item)
    if problem is not None:
        return problem
    name, schema = item.get("name"), item.get("input_schema")
    if not isinstance(name, str) or not name.strip():
        return ".name", f"is required: write {_TOOL_FORM}" if name is None else "must be a string that is not blank"
    if name in names:
        return ".name", f"must be unique: there are two tools named {name!r}"
    if not isinstance(schema, dict):
        text = f"is required: write {_TOOL_FORM}" if schema is None else "must be a JSON schema, which is an object"
        return ".input_schema", text
    if not isinstance(item.get("description"), str | None):
        return ".description", "must be a string"
    if not isinstance(item.get("cache_control"), dict | None):
        return ".cache_control", "must be an object"
    return None


def _check_tool_type(item: dict[str, Any]) -> tuple[str, str] | None:
    kind = item.get("type")
    if "functionDeclarations" in item or "function_declarations" in item:
        return "", f"has the form of Gemini's API: write each function as {_TOOL_FORM}"
    if kind is None or kind == "custom":
        return None
    if not isinstance(kind, str):
        return ".type", "must be a string"
    if kind.startswith(_PROVIDER_TOOLS):
        text = f"{kind} is run by Anthropic's servers: send a tool with an input_schema, and run it in the client"
        return ".type", text
    if item.get("input_schema") is not None:
        return None
    if kind == "function":
        return "", f"has no name, or not where OpenAI's tools have it: write {_TOOL_FORM}"
    if _DATED.search(kind):
        return ".type", f"{kind} has a schema that only Anthropic's models know: send a tool with an input_schema"
    return ".type", f"must be custom, or left out, not {kind[:_MAX_SHOWN]!r}: tools run in the client, none runs here"


def _parse_tool(item: dict[str, Any], path: str) -> Tool:
    schema: dict[str, Any] = {"name": item["name"]}
    if item.get("description") is not None:
        schema["description"] = item["description"]
    schema["parameters"] = item["input_schema"]
    if item.get("strict") is True:
        schema["strict"] = True
    mark = CacheMark(item["cache_control"], f"{path}.cache_control") if item.get("cache_control") else None
    return Tool(item["name"], schema, mark)


def _check_tool_choice(choice: _ToolChoice | None, tools: Sequence[Tool]) -> Iterator[Violation]:
    if choice is None or choice.type in ("auto", "none"):
        return
    names = [tool.name for tool in tools]
    if not tools:
        yield Violation("tool_choice", "needs tools to choose from, but the request has none")
    elif choice.type == "tool" and choice.name is None:
        yield Violation("tool_choice.name", "is required")
    elif choice.type == "tool" and choice.name not in names:
        yield Violation(
            "tool_choice.name", f"must be one of the tools ({', '.join(sorted(names))}), not {choice.name!r}"
        )


def _check_thinking(thinking: _Thinking | None) -> Iterator[Violation]:
    if thinking is not None and thinking.type == "enabled" and thinking.budget_tokens is None:
        yield Violation("thinking.budget_tokens", "is required")


def _translate_params(
    head: CountTokensRequest, body: dict[str, Any], tools: Sequence[Tool], violations: list[Violation]
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
    if head.tool_choice is not None and tools:
        choice = head.tool_choice
        params["tool_choice"] = _WORDS.get(choice.type) or {"function": {"name": choice.name}}
        if choice.disable_parallel_tool_use:
            params["parallel_tool_calls"] = False
    if head.thinking is not None:
        params |= _translate_thinking(head.thinking)
    config = head.output_config
    output = (config.format if config is not None else None) or head.output_format
    if output is not None:
        schema = {"name": "response", "schema": output.schema_, "strict": True}
        params["response_format"] = {"type": "json_schema", "json_schema": schema}
    if config is not None and config.effort is not None:
        params[PREFERRED_EFFORT] = config.effort
    if body.get("chat_template_kwargs"):
        params["extra_body"] = {"chat_template_kwargs": body["chat_template_kwargs"]}
    return params


def _translate_thinking(thinking: _Thinking) -> dict[str, Any]:
    if thinking.type == "enabled":
        return {"enable_thinking": True, "thinking_budget": thinking.budget_tokens}
    return {"enable_thinking": False} if thinking.type == "disabled" else {}


_PATHS = {
    "stop": "stop_sequences",
    "thinking_budget": "thinking.budget_tokens",
    "enable_thinking": "thinking",
    PREFERRED_EFFORT: "output_config.effort",
    "parallel_tool_calls": "tool_choice.disable_parallel_tool_use",
    "response_format": "output_config.format",
}
"""Fields of this body by the parameters of `generate_cfg` that they become."""
_INNER = re.compile(r"(`?)generate_cfg\.(?:extra_body\.)?(\w*)")


def _rename_path(path: str) -> str:
    """Rewrite a path, or one at the start of a text, as a path of this body."""
    return _INNER.sub(lambda match: match[1] + _PATHS.get(match[2], match[2]), path, count=1)


def _rename_error_paths(error: dict[str, Any]) -> dict[str, Any]:
    renamed: dict[str, Any] = {key: _rename_path(error[key]) for key in ("message", "param") if error[key]}
    if "violations" in error:
        renamed["violations"] = [
            violation | {"param": violation["param"] and _rename_path(violation["param"])}
            for violation in error["violations"]
        ]
    return error | renamed


class _MessagesEncoder:
    """Anthropic's encoder, with the warnings and errors of this endpoint."""

    def __init__(self, info: ReplyInfo, mode: ReplyMode) -> None:
        made = ANTHROPIC.reply_encoder(replace(info, warnings=[_rename_path(text) for text in info.warnings]), mode)
        self.open, self.feed, self.heartbeat = made.open, made.feed, made.heartbeat
        self._fail = made.fail

    def fail(self, error: dict[str, Any]) -> bytes:
        return self._fail(_rename_error_paths(error))


def _make_encoder(info: ReplyInfo, mode: ReplyMode) -> Encoder:
    return _MessagesEncoder(info, mode)


def _make_error_writer() -> ErrorWriter:
    writer = ANTHROPIC.error
    assert isinstance(writer, ErrorWriter)
    return replace(writer, body=lambda error: writer(_rename_error_paths(error)))


MESSAGES: Format = replace(ANTHROPIC, reply_encoder=_make_encoder, error=_make_error_writer(), warning=_rename_path)
