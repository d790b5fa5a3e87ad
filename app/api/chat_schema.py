"""What a caller of `POST /v1/chat` may say, and what it is told.

The functions that a caller offers the model, bare or wrapped as OpenAI wraps them.
"""

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import from_json

from app.api.request_limits import RequestLimits, find_invalid_values, find_long_lists
from app.chat.messages import CacheMark, ChatRequest, Tool
from app.errors import BadRequest, InvalidInput, ParleyError, Violation
from app.format_names import FormatName
from app.formats import FORMATS
from app.formats.base import Format, Options, ParsedMessages, ReplyMode, WriteError
from app.formats.detect import detect
from app.nearest import misspelt
from app.openai_messages.grouping import group_messages
from app.params import MAX_SECONDS, SERVER_PARAMS, GenerateCfg, max_entries
from app.validation import MAX_SUGGESTED, json_path, to_violations

_MARK = "cache_control"
_WRAPPER = ("type", "function", _MARK)
_FUNCTION = (
    *("name", "description", "parameters", "strict", "type", _MARK),
    *("name_for_model", "name_for_human", "description_for_model", "args_format"),
)
"""OpenAI's, and those that Qwen-Agent reads besides."""


def read_tools(field: str, items: Sequence[Any]) -> tuple[tuple[Tool, ...], list[Violation]]:
    tools: list[Tool] = []
    wrong: list[Violation] = []
    names: set[str] = set()
    for place, item in enumerate(items):
        path = f"{field}[{place}]"
        wrapped = _is_wrapped(item)
        schema = item["function"] if wrapped else item
        problem = _wrapper_problem(item) if wrapped else None
        path += ".function" if wrapped and problem is None else ""
        problem = problem or _tool_problem(schema, names)
        if problem is None:
            names.add(schema["name"])
            tools.append(_tool(item, schema, f"{field}[{place}]", path))
        else:
            wrong.append(Violation(path + problem[0], problem[1]))
    return tuple(tools), wrong


def find_unknown_tool_keys(field: str, items: Sequence[Any]) -> list[str]:
    """Warnings of keys that no function has, for tools that `read_tools` takes. Those of a function itself are sent."""
    found: list[str] = []
    for place, item in enumerate(items):
        path = f"{field}[{place}]"
        wrapped = _is_wrapped(item)
        beside = [key for key in item if key not in _WRAPPER] if wrapped else []
        found += (f"{json_path([key], path)} is not a field of a tool and was ignored" for key in beside)
        schema, path = (item["function"], f"{path}.function") if wrapped else (item, path)
        unknown = (key for key in schema if key not in _FUNCTION)
        found += (f"{json_path([key], path)} is not a field of a function and was sent as it is" for key in unknown)
    return found


def _tool(item: dict[str, Any], schema: dict[str, Any], outer: str, inner: str) -> Tool:
    """A mark for the server's cache stands beside the function or in it; it is sent beside it."""
    found = [(one[_MARK], path) for one, path in ((schema, inner), (item, outer)) if isinstance(one.get(_MARK), dict)]
    if _MARK in schema:
        schema = {key: value for key, value in schema.items() if key != _MARK}
    mark = CacheMark(found[0][0], f"{found[0][1]}.{_MARK}") if found else None
    return Tool(schema["name"], schema, mark)


def _is_wrapped(item: Any) -> bool:
    """Whether the function stands inside the tool, as OpenAI writes it."""
    return isinstance(item, dict) and "function" in item and ("name" not in item or item.get("type") == "function")


def _wrapper_problem(tool: dict[str, Any]) -> tuple[str, str] | None:
    """Of a tool as OpenAI writes it: `{"type": "function", "function": {…}}`."""
    if tool.get("type") is None:
        return ".type", 'is required: write {"type": "function", "function": {…}}'
    if tool["type"] != "function":
        return ".type", "must be function: other tools are not known here"
    if not isinstance(tool["function"], dict):
        return ".function", "must be a function object with a name"
    return None


def _tool_problem(schema: Any, names: set[str]) -> tuple[str, str] | None:
    if not isinstance(schema, dict):
        return "", "must be a function object with a name"
    if isinstance(schema.get("type"), str) and schema["type"] != "function":
        return ".type", "must be function: other tools are not known here"
    if "name" not in schema:
        return (".function", "is required") if schema.get("type") == "function" else (".name", "is required")
    name = schema["name"]
    if not isinstance(name, str) or not name.strip():
        return ".name", "must be a string that is not blank"
    if name in names:
        return ".name", f"there are two functions {name!r}"
    if not isinstance(schema.get("description", ""), str | None):
        return ".description", "must be a string"
    if not isinstance(schema.get(_MARK), dict | None):
        return f".{_MARK}", "must be an object"
    if not isinstance(schema.get("parameters", {}), dict | list | None):
        return ".parameters", "must be a JSON schema"
    return None


MAX_METADATA = 16
"""Entries of `metadata`; this and the lengths of its keys and values are OpenAI's own limits."""
MetadataKey: TypeAlias = Annotated[str, Field(max_length=64)]
MetadataValue: TypeAlias = Annotated[str, Field(max_length=512)]
MAX_WARNINGS = 200
"""Told of one request; one more counts the others."""


class CacheControl(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    mode: Literal["on", "off", "refresh", "only"] = "on"
    ttl_seconds: int | None = Field(default=None, ge=1, le=MAX_SECONDS)


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
    include_usage: bool = Field(default=True, description="openai: a stream ends with a chunk of usage.")
    cache: CacheControl | None = None
    cancel_on_disconnect: bool = Field(
        default=True, description="False: the reply goes on without its caller, who can come back for the rest."
    )
    metadata: Annotated[dict[MetadataKey, MetadataValue] | None, max_entries(MAX_METADATA)] = Field(
        default=None, description="Stands in the log line of the request; never sent to a model server."
    )

    @model_validator(mode="after")
    def _check_one_tool_list(self) -> "ChatRequestBody":
        if self.functions is not None and self.tools is not None:
            raise ValueError("functions and tools are two names for one list: give one")
        return self

    @property
    def options(self) -> Options:
        return Options(self.agent, self.agent_name or "assistant", self.autogen_stream)

    @property
    def mode(self) -> ReplyMode:
        return self.stream_mode if self.stream else "whole"


@dataclass(frozen=True, slots=True)
class RejectedRequest:
    """A request that is answered with an error."""

    error: ParleyError
    write_error: WriteError | None
    """Writes the error in the format of the request; None: that format is not known."""


class ParsedRequest(BaseModel):
    """A request that is valid."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    body: ChatRequestBody
    reply_format: Format
    request: ChatRequest
    warnings: tuple[str, ...]


_HINTS = {
    **{name: f"; put it in generate_cfg: generate_cfg.{name}" for name in GenerateCfg.model_fields},
    **{name: f"; put it in cache: cache.{name}" for name in CacheControl.model_fields},
    "stream_options": "; here it is include_usage, and only OpenAI's form of a stream needs it",
    **{
        f"generate_cfg.{name}": f"; it stands beside generate_cfg: {name}"
        for name in ChatRequestBody.model_fields
        if name != "generate_cfg"
    },
}
"""What to do with a key that is known elsewhere, by its path."""


def parse_chat_body(raw: bytes | bytearray, limits: RequestLimits) -> ParsedRequest | RejectedRequest:
    """The request in a body. It is rejected with BadRequest if it is not JSON, else with InvalidInput, which lists
    every violation."""
    try:
        body = ChatRequestBody.model_validate_json(raw)
    except ValidationError as error:
        return _reject_body(error, raw, limits)
    try:
        return parse_messages(body, limits)
    except InvalidInput as error:
        return RejectedRequest(error, FORMATS[body.reply_format or _find_format(body)[0]].error)


def invalid_json(raw: bytes | bytearray, error: ValueError) -> BadRequest:
    """The error for a body that `from_json` refused."""
    if not raw.strip():
        return BadRequest("the request body is empty: send a JSON object")
    found = _JSON_ERROR.fullmatch(str(error))
    if found is None:
        return BadRequest(f"the request body is not valid JSON: {error}")
    what = _JSON_WORDS.get(found[1], found[1])
    return BadRequest(f"the request body is not valid JSON: {what} at line {found[2]}, column {found[3]}")


_JSON_ERROR = re.compile(r"(.*) at line (\d+) column (\d+)", re.DOTALL)
_JSON_WORDS = {
    "EOF while parsing a value": "it ends where a value must follow",
    "EOF while parsing an object": "it ends inside an object",
    "EOF while parsing a list": "it ends inside a list",
    "EOF while parsing a string": "it ends inside a string",
    "key must be a string": "a key must be a string in double quotes",
    "expected ident": "expected true, false or null",
    "expected value": "expected a value",
    "trailing characters": "something follows the JSON value",
    "recursion limit exceeded": "it is nested too deeply",
    "number out of range": "a number has too many digits",
    "invalid unicode code point": "the text is not UTF-8",
    "unexpected end of hex escape": "half of a surrogate pair",
    "control character (\\u0000-\\u001F) found while parsing a string": "a control character inside a string",
}
"""The words of the parser, in plainer ones."""


def parse_messages(envelope: ChatRequestBody, limits: RequestLimits) -> ParsedRequest:
    """Raises InvalidInput with every violation."""
    name, mixed = _find_format(envelope)
    form, reply = FORMATS[name], FORMATS[envelope.reply_format or name]
    _raise_violations(list(find_long_lists(vars(envelope), limits)))
    found = list(_check_values(envelope, limits))
    decoded = form.parse(envelope.messages, envelope.options)
    found += mixed
    field = "functions" if envelope.functions is not None else "tools"
    tools, wrong = read_tools(field, envelope.functions or envelope.tools or ())
    found += [*decoded.violations, *wrong]
    if found:
        found += _find_call_gaps(decoded, functions=bool(tools))
    _raise_violations(found)
    params = envelope.generate_cfg.given_params() if envelope.generate_cfg else {}
    request = ChatRequest(
        model=envelope.model or "",
        messages=decoded.messages,
        tools=tools,
        params=params,
        text_joiner=form.text_joiner,
        policy=form.policy,
        stream=envelope.stream,
    )
    return ParsedRequest.model_construct(
        body=envelope,
        reply_format=reply,
        request=request,
        warnings=limit_warnings(
            [
                *decoded.warnings,
                *find_unknown_tool_keys(field, envelope.functions or envelope.tools or ()),
                *_misspelt_params(params, envelope.model_fields_set - {"stream"}),
            ]
        ),
    )


_PARAMS = GenerateCfg.model_fields.keys() | {"model", "messages", "stream", "tools", "functions", "function_call"}
_OUR_PARAMS, _SERVER_PARAMS = sorted(_PARAMS - {"extra_body"}), sorted(SERVER_PARAMS)


def _misspelt_params(params: Mapping[str, Any], fields: Set[str]) -> Iterator[str]:
    """Warnings of keys in `extra_body` that are known parameters but for a letter or two. A parameter that is given,
    too, is not what was meant. `fields`: what is given beside `generate_cfg`."""
    extra = params.get("extra_body") or {}
    unknown = (key for key in extra if key not in SERVER_PARAMS and key not in _PARAMS)
    for key in islice(unknown, MAX_SUGGESTED):
        meant = misspelt(key, _OUR_PARAMS) or misspelt(key, _SERVER_PARAMS)
        if meant is not None and not any(meant in given for given in (params, extra, fields)):
            place = json_path([key], "generate_cfg.extra_body")
            yield f"`{place}` was passed on as it is; did you mean `{meant}`?"


def limit_warnings(warnings: Sequence[str]) -> tuple[str, ...]:
    """The first `MAX_WARNINGS`, and how many more there are."""
    left_out = len(warnings) - MAX_WARNINGS
    if left_out <= 0:
        return tuple(warnings)
    return (*warnings[:MAX_WARNINGS], f"{left_out} more warnings were left out")


def _find_format(body: ChatRequestBody) -> tuple[str, list[Violation]]:
    """The format of the messages, and what speaks against it where it is `auto`."""
    return (body.format, []) if body.format != "auto" else detect(body.messages)


def _raise_violations(found: list[Violation]) -> None:
    if found:
        raise InvalidInput(found)


def _reject_body(error: ValidationError, raw: bytes | bytearray, limits: RequestLimits) -> RejectedRequest:
    try:
        body = from_json(bytes(raw))
    except ValueError as wrong:
        return RejectedRequest(invalid_json(raw, wrong), None)
    found = to_violations(error, body, schema=ChatRequestBody, hints=_HINTS)
    if not isinstance(body, dict):
        return RejectedRequest(InvalidInput(found), None)
    name = body.get("reply_format") or body.get("format")
    write_error = FORMATS[name].error if isinstance(name, str) and name in FORMATS else None
    return RejectedRequest(InvalidInput([*found, *find_list_violations(body, limits)]), write_error)


def find_list_violations(body: dict[str, Any], limits: RequestLimits) -> list[Violation]:
    """The envelope is wrong: look at what is in it all the same, so that everything is reported at once."""
    return list(find_long_lists(body, limits)) or list(_check_messages_and_tools(body))


def _check_messages_and_tools(body: dict[str, Any]) -> Iterator[Violation]:
    name, messages = body.get("format", "qwen"), body.get("messages")
    form = FORMATS.get(name) if isinstance(name, str) else None
    if form is not None and isinstance(messages, list) and messages:
        decoded = form.parse(messages, Options())
        yield from decoded.violations
        yield from _find_call_gaps(decoded, functions=bool(body.get("functions") or body.get("tools")))
    for field in ("functions", "tools"):
        if isinstance(body.get(field), list):
            yield from read_tools(field, body[field])[1]


def _find_call_gaps(decoded: ParsedMessages, *, functions: bool) -> list[Violation]:
    """Calls without results and results without calls, told beside other violations.

    Only of messages that are all sound, or a gap might be the fault of what was refused before; and only where there
    are functions, since without them old calls may be told in words and gaps harm nobody.
    """
    if not functions or decoded.violations:
        return []
    return group_messages(decoded.messages)[1]


def _check_values(envelope: ChatRequestBody, limits: RequestLimits) -> Iterator[Violation]:
    """Limits that types cannot say: how deep, and no number that JSON lacks."""
    for field in ("messages", "functions", "tools"):
        yield from find_invalid_values(getattr(envelope, field), field, limits.max_nesting)
    if envelope.generate_cfg is not None:
        for field in (
            "extra_body",
            "response_format",
            "function_choice",
            "tool_choice",
            "stream_options",
            "logit_bias",
        ):
            yield from find_invalid_values(
                getattr(envelope.generate_cfg, field), f"generate_cfg.{field}", limits.max_nesting
            )
