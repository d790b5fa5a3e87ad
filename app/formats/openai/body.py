"""The body of `POST /v1/chat/completions`, for clients of OpenAI's SDKs.

It has the parameters of `generate_cfg` at its top level. A field that no reply of Parley can answer is refused. Every
other field is passed on unchanged.
"""

from typing import Any

from msgspec.structs import replace
from pydantic import ConfigDict, Field, ValidationError

from app.chat.messages import RequestPaths
from app.errors import InvalidInput, ParleyError, Violation
from app.formats.base import DEFAULT_OPTIONS, Options
from app.formats.body import ParsedRequest, RejectedRequest, ReplySettings, find_user
from app.formats.chat_body import ChatRequestBody
from app.formats.conversation import KNOWN_PARAMS, SharedFields, find_list_violations, parse_conversation
from app.formats.json_object import list_repairs, parse_object
from app.formats.openai import OPENAI
from app.formats.openai.responses_body import is_responses_body, parse_responses_body
from app.formats.other_fields import NESTED_PARAMS, find_misspelt_fields, rename_fields
from app.formats.request_limits import RequestLimits, limit_warnings
from app.formats.request_memory import CallerMemory
from app.params import SERVER_PARAMS, GenerationParams
from app.validation.violations import json_path, to_violations


class CompletionsBody(GenerationParams, SharedFields):
    """A request in OpenAI's format. Unknown fields are passed on to the model server."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    stream: bool = False
    function_call: str | dict[str, Any] | None = Field(default=None, description="The old name of `tool_choice`.")

    logprobs: bool | None = Field(
        default=None, description="The reply has the log probabilities of its tokens, where their text is unchanged."
    )
    top_logprobs: int | None = Field(
        default=None,
        ge=0,
        le=20,
        description="How many of the most likely tokens are listed for each place. It needs `logprobs`.",
    )

    @property
    def params(self) -> dict[str, Any]:
        given = {name: getattr(self, name) for name in sorted(self.model_fields_set & _PARAMS)}
        if self.logprobs:
            given["logprobs"] = True
            if self.top_logprobs is not None:
                given["top_logprobs"] = self.top_logprobs
        if self.model_extra:
            given["extra_body"] = self.model_extra
        return given

    @property
    def options(self) -> Options:
        return _SCORED if self.logprobs else DEFAULT_OPTIONS

    @property
    def settings(self) -> ReplySettings:
        return ReplySettings(
            self.model,
            self.stream,
            "delta" if self.stream else "whole",
            include_usage=(self.stream_options or {}).get("include_usage") is True,
            unread_seconds=self.unread_seconds,
            cache=self.cache,
            metadata=self.metadata,
            user=find_user(self.model_extra) if self.model_extra else None,
        )


_PARAMS = GenerationParams.model_fields.keys() - {"stream_options"}
_SCORED = Options(logprobs=True)
_ELSEWHERE = "is a field of POST /v1/chat"
_REFUSED = {
    "audio": "is not supported: Parley's replies are text",
    "modalities": "is not supported: Parley's replies are text",
    "prediction": "is not supported",
    **NESTED_PARAMS,
    "include_usage": "is not a field of this body: put it in stream_options",
    **dict.fromkeys(
        sorted(ChatRequestBody.model_fields.keys() - CompletionsBody.model_fields - {"generate_cfg", "include_usage"}),
        _ELSEWHERE,
    ),
}
_OPTIONS = {"include_usage", "include_obfuscation"}
"""The known keys of `stream_options`. `include_obfuscation` has no effect: Parley sends no padding."""
_KNOWN = CompletionsBody.model_fields.keys() | _REFUSED.keys() | SERVER_PARAMS
_OTHER_NAMES = {"max_output_tokens": "max_tokens", "stop_sequences": "stop"}
"""The names here of fields of Responses and of Anthropic's Messages."""
_NOT_PARSED = _REFUSED.keys() | {"stream_options", "function_call"}
_PATHS = RequestPaths("", "")


def parse_completions_body(
    raw: bytes | bytearray, limits: RequestLimits, memory: CallerMemory | None = None
) -> ParsedRequest | RejectedRequest:
    """Parse a request in OpenAI's format. It is rejected with BadRequest or InvalidInput."""
    try:
        return _parse(parse_object(raw, memory), limits)
    except ParleyError as error:
        return RejectedRequest(error, OPENAI.error)


def _parse(given: dict[str, Any], limits: RequestLimits) -> ParsedRequest:
    if is_responses_body(given):
        return parse_responses_body(given, limits)
    renamed = rename_fields(given, _OTHER_NAMES)
    body, names = renamed.body, dict(renamed.names)
    violations = _find_refused(body)
    fields = _select_fields(body)
    if body.get("function_call") is not None and body.get("tool_choice") is None:
        names["function_choice"] = "function_call"
    paths = RequestPaths("", "", names=names) if names else _PATHS
    try:
        parsed = parse_conversation(CompletionsBody.model_validate(fields), OPENAI, OPENAI, paths, limits)
    except ValidationError as error:
        violations += to_violations(error, fields, schema=CompletionsBody, names=names)
        violations += find_list_violations(fields, OPENAI, limits)
    except InvalidInput as error:
        violations += error.violations
    if violations:
        raise InvalidInput(violations)
    repairs = list_repairs(given)
    warnings = [*repairs, *renamed.warnings, *_warn_of_prompts(given)]
    if not warnings:
        return parsed
    return replace(parsed, warnings=limit_warnings([*warnings, *parsed.warnings]), repairs=tuple(repairs))


def _select_fields(body: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that the schema reads. A parameter that is null removes the model's default."""
    fields = {key: body[key] for key in body if key not in _NOT_PARSED and (body[key] is not None or key in _PARAMS)}
    choice, options = body.get("function_call"), body.get("stream_options")
    if choice is not None and body.get("tool_choice") is None and not _check_function_call(choice):
        fields["function_choice"] = {"function": choice} if isinstance(choice, dict) else choice
    return fields | {"stream_options": options} if isinstance(options, dict) else fields


def _find_refused(body: dict[str, Any]) -> list[Violation]:
    unknown = [key for key in body if key not in _KNOWN and body[key] is not None]
    return [
        *(
            Violation(key, _REFUSED[key])
            for key in _REFUSED
            if key in body and body[key] not in (None, False, [], ["text"])
        ),
        *_check_top_logprobs(body),
        *_check_function_call(body.get("function_call")),
        *_check_stream_options(body.get("stream_options")),
        *find_misspelt_fields(unknown, (KNOWN_PARAMS[0], _REFUSED), body),
    ]


def _check_top_logprobs(body: dict[str, Any]) -> list[Violation]:
    if body.get("top_logprobs") and not body.get("logprobs"):
        return [Violation("top_logprobs", 'needs "logprobs": true')]
    return []


def _check_function_call(choice: Any) -> list[Violation]:
    if isinstance(choice, dict):
        text = "must be a string" if "name" in choice else "is required"
        return [] if isinstance(choice.get("name"), str) else [Violation("function_call.name", text)]
    return [] if isinstance(choice, str | None) else [Violation("function_call", "must be a string or an object")]


def _check_stream_options(options: Any) -> list[Violation]:
    if options is None:
        return []
    if not isinstance(options, dict):
        return [Violation("stream_options", "must be an object")]
    unknown = [key for key in options if key not in _OPTIONS and options[key] not in (None, False)]
    invalid = [key for key in _OPTIONS if not isinstance(options.get(key), bool | None)]
    return [
        *(Violation(json_path([key], "stream_options"), "is not a known option") for key in unknown),
        *(Violation(f"stream_options.{key}", "must be true or false") for key in sorted(invalid)),
    ]


def _warn_of_prompts(body: dict[str, Any]) -> list[str]:
    """Warn of system prompts in the fields of other APIs, which model servers ignore."""
    found = [key for key in ("system", "system_prompt", "instructions") if isinstance(body.get(key), str)]
    message = '{"role": "system", "content": "…"}'
    return [f"{key} was passed on as it is: here a system prompt is a message, {message}" for key in found]
