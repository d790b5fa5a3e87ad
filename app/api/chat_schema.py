"""The body of `POST /v1/chat`: its schema, and how it is parsed and checked."""

import math
from collections.abc import Iterator, Mapping, Set
from itertools import islice
from typing import Annotated, Any, Literal, TypeAlias

from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import from_json

from app.chat.messages import ChatRequest, FormatName
from app.errors import InvalidInput, Violation
from app.formats import FORMATS
from app.formats.base import DEFAULT_OPTIONS, Options, ParsedMessages
from app.formats.body import CacheChoice, CacheControl, ParsedRequest, RejectedRequest, ReplySettings
from app.formats.detect import detect
from app.formats.functions import choose_tools, find_unknown_tool_keys, parse_tools
from app.formats.json_object import invalid_json, not_an_object
from app.formats.old_media import parse_with_old_media
from app.formats.other_fields import find_misspelt
from app.formats.request_limits import RequestLimits, find_invalid_values, find_long_lists, limit_warnings
from app.openai_messages.grouping import find_call_violations
from app.params import MAX_SECONDS, SERVER_PARAMS, GenerateCfg, max_entries
from app.validation.violations import MAX_SUGGESTED, UNKNOWN, json_path, to_violations

MAX_METADATA = 16
"""The maximum number of entries of `metadata`. OpenAI has the same limit, and the same lengths of keys and values."""
MetadataKey: TypeAlias = Annotated[str, Field(max_length=64)]
MetadataValue: TypeAlias = Annotated[str, Field(max_length=512)]


class ChatRequestBody(BaseModel):
    """The body of `POST /v1/chat`."""

    model_config = ConfigDict(extra="forbid", strict=True)

    model: str | None = Field(default=None, min_length=1, max_length=512)
    messages: list[Any] = Field(min_length=1)
    format: FormatName | Literal["auto"] = "qwen"
    reply_format: FormatName | None = None
    functions: list[Any] | None = None
    tools: list[Any] | None = Field(default=None, description="An alias of `functions`.")
    generate_cfg: GenerateCfg | None = None
    stream: bool = True
    stream_mode: Literal["delta", "snapshot"] = "delta"
    completed_bodies: bool = True
    agent: str | None = Field(default=None, min_length=1, max_length=512)
    agent_name: str | None = Field(default=None, min_length=1, max_length=512)
    autogen_stream: Literal["interleaved", "compat", "model"] = "interleaved"
    include_usage: bool = Field(default=True, description="openai: the last chunk of a stream has the usage.")
    cache: CacheChoice = None
    cancel_on_disconnect: bool | Annotated[float, Field(ge=0, le=MAX_SECONDS, allow_inf_nan=False)] = Field(
        default=True,
        description="What becomes of the call of the model when its last client disconnects. True: it is cancelled at "
        "once. False: it goes on to its end. A number: it is cancelled after so many seconds, unless the client has "
        "resumed the reply.",
    )
    metadata: Annotated[dict[MetadataKey, MetadataValue] | None, max_entries(MAX_METADATA)] = Field(
        default=None, description="Written to the log line of the request; never sent to a model server."
    )

    @model_validator(mode="after")
    def _check_one_tool_list(self) -> "ChatRequestBody":
        if self.functions is not None and self.tools is not None:
            raise ValueError("functions and tools are two names of the same list: set only one of them")
        return self

    @property
    def options(self) -> Options:
        if self.agent is None and self.agent_name is None and self.autogen_stream == DEFAULT_OPTIONS.autogen_stream:
            return DEFAULT_OPTIONS
        return Options(self.agent, self.agent_name or "assistant", self.autogen_stream)

    @property
    def unread_seconds(self) -> float:
        if isinstance(self.cancel_on_disconnect, bool):
            return 0.0 if self.cancel_on_disconnect else math.inf
        return self.cancel_on_disconnect

    @property
    def settings(self) -> "ReplySettings":
        return ReplySettings(
            self.model,
            self.stream,
            self.stream_mode if self.stream else "whole",
            self.completed_bodies,
            self.include_usage,
            self.unread_seconds,
            self.cache,
            self.metadata,
        )


_OTHER_PARAMS = {
    "max_output_tokens": "; its name here is max_tokens",
    "stop_sequences": "; its name here is stop",
    "thinking": "; use enable_thinking and thinking_budget",
    "reasoning": "; use reasoning_effort",
    "function_call": "; its name here is function_choice",
    "text": "; use response_format",
    "output_config": "; use response_format and reasoning_effort",
    "output_format": "; use response_format",
    "logprobs": "; Parley's replies carry no log probabilities",
    "top_logprobs": "; Parley's replies carry no log probabilities",
}
_SYSTEM = '; a system prompt is the first message, {"role": "system", "content": "…"}'
_CONVERSATION = '; the conversation is `messages`, [{"role": "user", "content": "…"}]'
_PASSED_ON = "; put it in generate_cfg.extra_body, which is passed on to the model server"
_HINTS = {
    **{name: _PASSED_ON for name in SERVER_PARAMS},
    **{f"generate_cfg.{name}": _PASSED_ON for name in SERVER_PARAMS},
    **{f"generate_cfg.{name}": hint for name, hint in _OTHER_PARAMS.items()},
    **{name: hint.replace("here is ", "here is generate_cfg.") for name, hint in _OTHER_PARAMS.items()},
    **dict.fromkeys(("system", "system_prompt", "instructions"), _SYSTEM),
    **dict.fromkeys(("input", "prompt", "contents"), _CONVERSATION),
    **{name: f"; put it in generate_cfg: generate_cfg.{name}" for name in GenerateCfg.model_fields},
    **{name: f"; put it in cache: cache.{name}" for name in CacheControl.model_fields},
    "stream_options": "; use include_usage, which only streams in OpenAI's format need",
    **{
        f"generate_cfg.{name}": f"; put it beside generate_cfg: {name}"
        for name in ChatRequestBody.model_fields
        if name != "generate_cfg"
    },
}
"""The end of the error message for a known key in the wrong object, by its path."""


def parse_chat_body(raw: bytes | bytearray, limits: RequestLimits) -> ParsedRequest | RejectedRequest:
    """Parse a request. It is rejected with BadRequest if it is not JSON, else with InvalidInput, which lists every
    violation."""
    try:
        body = ChatRequestBody.model_validate_json(raw)
    except ValidationError as error:
        return _reject_body(error, raw, limits)
    try:
        return parse_messages(body, limits)
    except InvalidInput as error:
        return RejectedRequest(error, FORMATS[body.reply_format or _find_format(body)[0]].error)


def parse_messages(body: ChatRequestBody, limits: RequestLimits) -> ParsedRequest:
    """Parse the messages and functions of a body. Raises InvalidInput with every violation."""
    name, format_violations = _find_format(body)
    message_format, reply_format = FORMATS[name], FORMATS[body.reply_format or name]
    _raise_violations(find_long_lists(vars(body), limits))
    parsed = parse_with_old_media(message_format, body.messages, body.options)
    field, functions = ("tools", body.tools) if body.functions is None else ("functions", body.functions)
    tools, tool_violations = parse_tools(field, functions) if functions else ((), [])
    params: Mapping[str, Any] = body.generate_cfg.given_params() if body.generate_cfg else {}
    violations = [*_check_values(body, limits), *format_violations, *parsed.violations, *tool_violations]
    if not tool_violations:
        params, tools, choice_violations = choose_tools(params, tools)
        violations += choice_violations
    if violations:
        violations += _find_call_gaps(parsed, functions=bool(tools))
    _raise_violations(violations)
    request = ChatRequest(
        model=body.model or "",
        messages=parsed.messages,
        tools=tools,
        params=params,
        text_joiner=message_format.text_joiner,
        policy=message_format.policy,
        stream=body.stream,
    )
    warnings = [*parsed.warnings]
    if functions:
        warnings += find_unknown_tool_keys(field, functions)
    if params:
        warnings += _find_misspelled_params(params, body.model_fields_set - {"stream"})
    options = body.options
    if custom := tuple([tool.name for tool in tools if tool.custom]):
        options = replace(options, custom_tools=custom)
    return ParsedRequest(body.settings, reply_format, request, limit_warnings(warnings), options)


_PARAMS = GenerateCfg.model_fields.keys() | {"model", "messages", "stream", "tools", "functions", "function_call"}
KNOWN_PARAMS = (sorted(_PARAMS - {"extra_body"}), sorted(SERVER_PARAMS))
"""What a misspelt parameter can mean, the gateway's own parameters first."""


def _find_misspelled_params(params: Mapping[str, Any], fields: Set[str]) -> Iterator[str]:
    """Yield a warning for each key of `extra_body` that misspells a known parameter. A parameter that the request has
    is not suggested. `fields` are the request's fields beside `generate_cfg`."""
    extra = params.get("extra_body") or {}
    unknown = (key for key in extra if key not in SERVER_PARAMS and key not in _PARAMS)
    for key in islice(unknown, MAX_SUGGESTED):
        suggestion = find_misspelt(key, KNOWN_PARAMS)
        if suggestion is not None and not any(suggestion in names for names in (params, extra, fields)):
            path = json_path([key], "generate_cfg.extra_body")
            yield f"`{path}` was passed on as it is; did you mean `{suggestion}`?"


def _find_format(body: ChatRequestBody) -> tuple[str, list[Violation]]:
    """Return the name of the messages' format. With `auto`, also the violations of messages of mixed formats."""
    return (body.format, []) if body.format != "auto" else detect(body.messages)


def _raise_violations(violations: list[Violation]) -> None:
    if violations:
        raise InvalidInput(violations)


def _reject_body(error: ValidationError, raw: bytes | bytearray, limits: RequestLimits) -> RejectedRequest:
    try:
        body = from_json(bytes(raw))
    except ValueError as json_error:
        return RejectedRequest(invalid_json(raw, json_error), None)
    if not isinstance(body, dict):
        return RejectedRequest(not_an_object(body), None)
    violations = to_violations(
        error, body, schema=ChatRequestBody, hints={**_find_misspelt_params_beside(body), **_HINTS}
    )
    violations = [_suggest_extra_body(violation) for violation in violations]
    name = body.get("reply_format") or body.get("format")
    write_error = FORMATS[name].error if isinstance(name, str) and name in FORMATS else None
    return RejectedRequest(InvalidInput([*violations, *find_list_violations(body, limits)]), write_error)


def _suggest_extra_body(violation: Violation) -> Violation:
    """Say where an unknown parameter goes."""
    path = violation.path.removeprefix("generate_cfg.")
    if violation.message != UNKNOWN or "." in path or "[" in path:
        return violation
    text = "what only the model server knows goes into generate_cfg.extra_body"
    return Violation(violation.path, f"{UNKNOWN}; {text}")


def _find_misspelt_params_beside(body: dict[str, Any]) -> dict[str, str]:
    """Return hints for misspelt parameters that are beside `generate_cfg` instead of in it, by their paths."""
    unknown = (key for key in body if key not in ChatRequestBody.model_fields)
    hints = {}
    for key in islice(unknown, MAX_SUGGESTED):
        found = None if find_misspelt(key, _FIELDS) else find_misspelt(key, _PARAM_NAMES)
        if found is not None:
            hints[json_path([key])] = f"; did you mean `generate_cfg.{found}`?"
    return hints


_FIELDS, _PARAM_NAMES = (sorted(ChatRequestBody.model_fields),), (sorted(GenerateCfg.model_fields),)


def find_list_violations(body: dict[str, Any], limits: RequestLimits) -> list[Violation]:
    """Return the violations in the lists of a body that is invalid itself, so that all are reported at once."""
    return find_long_lists(body, limits) or list(_check_messages_and_tools(body))


def _check_messages_and_tools(body: dict[str, Any]) -> Iterator[Violation]:
    name, messages = body.get("format", "qwen"), body.get("messages")
    message_format = FORMATS.get(name) if isinstance(name, str) else None
    if message_format is not None and isinstance(messages, list) and messages:
        parsed = message_format.parse(messages, Options())
        yield from parsed.violations
        yield from _find_call_gaps(parsed, functions=bool(body.get("functions") or body.get("tools")))
    for field in ("functions", "tools"):
        if isinstance(body.get(field), list):
            yield from parse_tools(field, body[field])[1]


def _find_call_gaps(parsed: ParsedMessages, *, functions: bool) -> list[Violation]:
    """Return the calls without results and the results without calls, to report them with other violations.

    Returns nothing if a message is invalid, because a gap may be its consequence; and nothing without functions,
    because earlier calls may then be sent as text, which needs no results.
    """
    if not functions or parsed.violations:
        return []
    return find_call_violations(parsed.messages)


def _check_values(body: ChatRequestBody, limits: RequestLimits) -> Iterator[Violation]:
    """Check the limits that types cannot express: nesting, and numbers that JSON cannot express."""
    for field, value in {"messages": body.messages, "functions": body.functions, "tools": body.tools}.items():
        if value:
            yield from find_invalid_values(value, field, limits.max_nesting)
    if body.generate_cfg is not None:
        for field in (
            "extra_body",
            "response_format",
            "function_choice",
            "tool_choice",
            "stream_options",
            "logit_bias",
        ):
            yield from find_invalid_values(
                getattr(body.generate_cfg, field), f"generate_cfg.{field}", limits.max_nesting
            )
