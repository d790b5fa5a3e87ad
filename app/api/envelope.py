"""What a caller of `POST /v1/chat` may say, and what it is told."""

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import islice
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import from_json

from app.api.limits import Limits, odd_values, too_many
from app.api.tools import read_tools, unknown_keys
from app.chat.messages import ChatRequest
from app.errors import BadRequest, InvalidInput, Violation
from app.formats import FORMATS
from app.formats.base import Decoded, Format, Mode, Options
from app.formats.detect import detect
from app.formats.violations import MAX_SUGGESTED, json_path, violations
from app.grouping import groups
from app.nearest import misspelt
from app.params import MAX_SECONDS, SERVER_PARAMS, GenerateCfg, at_most

FormatName = Literal["qwen", "openai", "autogen", "agentscope", "agentscope2"]


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


class Envelope(BaseModel):
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
    metadata: Annotated[dict[MetadataKey, MetadataValue] | None, at_most(MAX_METADATA)] = Field(
        default=None, description="Stands in the log line of the request; never sent to a model server."
    )

    @model_validator(mode="after")
    def _one_list(self) -> "Envelope":
        if self.functions is not None and self.tools is not None:
            raise ValueError("functions and tools are two names for one list: give one")
        return self

    @property
    def options(self) -> Options:
        return Options(self.agent, self.agent_name or "assistant", self.autogen_stream)

    @property
    def mode(self) -> Mode:
        return self.stream_mode if self.stream else "whole"


class Reading(BaseModel):
    """A request that was understood."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    envelope: Envelope
    reply_format: Format
    request: ChatRequest
    warnings: tuple[str, ...]


_HINTS = {
    **{name: f"; put it in generate_cfg: generate_cfg.{name}" for name in GenerateCfg.model_fields},
    **{name: f"; put it in cache: cache.{name}" for name in CacheControl.model_fields},
    "stream_options": "; here it is include_usage, and only OpenAI's form of a stream needs it",
    **{
        f"generate_cfg.{name}": f"; it stands beside generate_cfg: {name}"
        for name in Envelope.model_fields
        if name != "generate_cfg"
    },
}
"""What to do with a key that is known elsewhere, by its path."""


def read(raw: bytes | bytearray, limits: Limits) -> Reading:
    """The request in a body. Raises BadRequest for what is no JSON, InvalidInput with every violation of the rest."""
    try:
        envelope = Envelope.model_validate_json(raw)
    except ValidationError as error:
        raise _refused(error, raw, limits) from None
    return understood(envelope, limits)


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


def understood(envelope: Envelope, limits: Limits) -> Reading:
    """Raises InvalidInput with every violation, in the form of the reply's format."""
    name, mixed = (envelope.format, []) if envelope.format != "auto" else detect(envelope.messages)
    form, reply = FORMATS[name], FORMATS[envelope.reply_format or name]
    _refuse(list(too_many(vars(envelope), limits)), reply)
    found = list(_beyond(envelope, limits))
    decoded = form.decode(envelope.messages, envelope.options)
    found += mixed
    field = "functions" if envelope.functions is not None else "tools"
    tools, wrong = read_tools(field, envelope.functions or envelope.tools or ())
    found += [*decoded.violations, *wrong]
    if found:
        found += _gaps(decoded, functions=bool(tools))
    _refuse(found, reply)
    params = envelope.generate_cfg.given() if envelope.generate_cfg else {}
    request = ChatRequest(
        model=envelope.model or "",
        messages=decoded.messages,
        tools=tools,
        params=params,
        text_joiner=form.text_joiner,
        policy=form.policy,
        stream=envelope.stream,
    )
    return Reading.model_construct(
        envelope=envelope,
        reply_format=reply,
        request=request,
        warnings=first_warnings(
            [
                *decoded.warnings,
                *unknown_keys(field, envelope.functions or envelope.tools or ()),
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


def first_warnings(warnings: Sequence[str]) -> tuple[str, ...]:
    """The first `MAX_WARNINGS`, and how many more there are."""
    left_out = len(warnings) - MAX_WARNINGS
    if left_out <= 0:
        return tuple(warnings)
    return (*warnings[:MAX_WARNINGS], f"{left_out} more warnings were left out")


def _refuse(found: list[Violation], reply: Format) -> None:
    if found:
        refusal = InvalidInput(found)
        refusal.shape = reply.error
        raise refusal


def _refused(error: ValidationError, raw: bytes | bytearray, limits: Limits) -> BadRequest | InvalidInput:
    try:
        body = from_json(bytes(raw))
    except ValueError as wrong:
        return invalid_json(raw, wrong)
    found = violations(error, body, schema=Envelope, hints=_HINTS)
    if not isinstance(body, dict):
        return InvalidInput(found)
    refusal = InvalidInput([*found, *in_lists(body, limits)])
    name = body.get("reply_format") or body.get("format")
    refusal.shape = FORMATS[name].error if isinstance(name, str) and name in FORMATS else None
    return refusal


def in_lists(body: dict[str, Any], limits: Limits) -> list[Violation]:
    """The envelope is wrong: look at what is in it all the same, so that everything is reported at once."""
    return list(too_many(body, limits)) or list(_inside(body))


def _inside(body: dict[str, Any]) -> Iterator[Violation]:
    name, messages = body.get("format", "qwen"), body.get("messages")
    form = FORMATS.get(name) if isinstance(name, str) else None
    if form is not None and isinstance(messages, list) and messages:
        decoded = form.decode(messages, Options())
        yield from decoded.violations
        yield from _gaps(decoded, functions=bool(body.get("functions") or body.get("tools")))
    for field in ("functions", "tools"):
        if isinstance(body.get(field), list):
            yield from read_tools(field, body[field])[1]


def _gaps(decoded: Decoded, *, functions: bool) -> list[Violation]:
    """Calls without results and results without calls, told beside other violations.

    Only of messages that are all sound, or a gap might be the fault of what was refused before; and only where there
    are functions, since without them old calls may be told in words and gaps harm nobody.
    """
    if not functions or decoded.violations:
        return []
    return groups(decoded.messages)[1]


def _beyond(envelope: Envelope, limits: Limits) -> Iterator[Violation]:
    """Limits that types cannot say: how deep, and no number that JSON lacks."""
    for field in ("messages", "functions", "tools"):
        yield from odd_values(getattr(envelope, field), field, limits.max_nesting)
    if envelope.generate_cfg is not None:
        for field in (
            "extra_body",
            "response_format",
            "function_choice",
            "tool_choice",
            "stream_options",
            "logit_bias",
        ):
            yield from odd_values(getattr(envelope.generate_cfg, field), f"generate_cfg.{field}", limits.max_nesting)
