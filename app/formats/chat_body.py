"""The body of `POST /v1/chat`: its schema, and how it is parsed and checked."""

from itertools import islice
from typing import Any, Literal

from msgspec.structs import replace
from pydantic import ConfigDict, Field, ValidationError

from app.chat.messages import CHAT_PATHS, FormatName
from app.errors import InvalidInput, ParleyError, Violation
from app.formats import FORMATS
from app.formats.base import DEFAULT_OPTIONS, Format, Options
from app.formats.body import CacheControl, ParsedRequest, RejectedRequest, ReplySettings
from app.formats.conversation import SharedFields, find_list_violations, parse_conversation
from app.formats.detect import detect
from app.formats.json_object import list_repairs, parse_object
from app.formats.other_fields import find_misspelt
from app.formats.request_limits import RequestLimits, limit_warnings
from app.formats.request_memory import CallerMemory
from app.params import SERVER_PARAMS, GenerateCfg, RagConfig
from app.validation.violations import MAX_SUGGESTED, UNKNOWN, json_path, to_violations


class ChatRequestBody(SharedFields):
    """The body of `POST /v1/chat`."""

    model_config = ConfigDict(extra="forbid", strict=True)

    format: FormatName | Literal["auto"] = "qwen"
    reply_format: FormatName | None = None
    generate_cfg: GenerateCfg | None = None
    rag_cfg: RagConfig | None = Field(
        default=None, description="Long files are searched with the question, and their best passages are put in."
    )
    stream: bool = True
    stream_mode: Literal["delta", "snapshot"] = "delta"
    completed_bodies: bool = True
    agent: str | None = Field(default=None, min_length=1, max_length=512)
    agent_name: str | None = Field(default=None, min_length=1, max_length=512)
    autogen_stream: Literal["interleaved", "compat", "model"] = "interleaved"
    include_usage: bool = Field(default=True, description="openai: the last chunk of a stream has the usage.")

    @property
    def params(self) -> dict[str, Any]:
        return self.generate_cfg.given_params() if self.generate_cfg else {}

    @property
    def options(self) -> Options:
        if self.agent is None and self.agent_name is None and self.autogen_stream == DEFAULT_OPTIONS.autogen_stream:
            return DEFAULT_OPTIONS
        return Options(self.agent, self.agent_name or "assistant", self.autogen_stream)

    @property
    def settings(self) -> ReplySettings:
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
    **dict.fromkeys(
        ("logprobs", "top_logprobs"),
        "; only replies of POST /v1/chat/completions and POST /v1/responses carry log probabilities",
    ),
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


def parse_chat_body(
    raw: bytes | bytearray, limits: RequestLimits, memory: CallerMemory | None = None
) -> ParsedRequest | RejectedRequest:
    """Parse a request. It is rejected with BadRequest if it is not JSON, else with InvalidInput, which lists every
    violation."""
    try:
        given = parse_object(raw, memory)
    except ParleyError as error:
        return RejectedRequest(error, None)
    try:
        body = ChatRequestBody.model_validate(given)
    except ValidationError as error:
        return _reject_body(error, given, limits)
    try:
        parsed = parse_messages(body, limits)
    except InvalidInput as error:
        return RejectedRequest(error, FORMATS[body.reply_format or _find_format(body)[0]].error)
    repairs = list_repairs(given)
    if not repairs:
        return parsed
    return replace(parsed, warnings=limit_warnings([*repairs, *parsed.warnings]), repairs=tuple(repairs))


def parse_messages(body: ChatRequestBody, limits: RequestLimits) -> ParsedRequest:
    """Parse the messages and functions of a body. Raises InvalidInput with every violation."""
    name, violations = _find_format(body)
    reply_format = FORMATS[body.reply_format or name]
    parsed = parse_conversation(body, FORMATS[name], reply_format, CHAT_PATHS, limits, violations)
    if body.rag_cfg is None:
        return parsed
    request = replace(parsed.request, passages=body.rag_cfg.to_search())
    return replace(parsed, request=request, warnings=[*parsed.warnings, *body.rag_cfg.list_warnings()])


def _find_format(body: ChatRequestBody) -> tuple[str, list[Violation]]:
    """Return the name of the messages' format. With `auto`, also the violations of messages of mixed formats."""
    return (body.format, []) if body.format != "auto" else detect(body.messages)


def _reject_body(error: ValidationError, body: dict[str, Any], limits: RequestLimits) -> RejectedRequest:
    violations = to_violations(
        error, body, schema=ChatRequestBody, hints={**_find_misspelt_params_beside(body), **_HINTS}
    )
    violations = [_suggest_extra_body(violation) for violation in violations]
    violations += find_list_violations(body, _find_row(body.get("format", "qwen")), limits)
    reply_format = _find_row(body.get("reply_format") or body.get("format"))
    return RejectedRequest(InvalidInput(violations), None if reply_format is None else reply_format.error)


def _find_row(name: Any) -> Format | None:
    return FORMATS.get(name) if isinstance(name, str) else None


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
