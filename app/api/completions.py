"""Parse the body of `POST /v1/chat/completions`, for clients of OpenAI's SDKs, into a request of `POST /v1/chat`.

Fields that `POST /v1/chat` has under another name or in `generate_cfg` are translated. A field that no reply of Parley
can answer is refused. Every other field is passed on unchanged in `extra_body`. Errors and warnings name fields as this
body does: the keys of `generate_cfg` are at its top level.
"""

import re
from typing import Any

from msgspec.structs import replace
from pydantic import ValidationError

from app.api.chat_schema import KNOWN_PARAMS, ChatRequestBody, find_list_violations, parse_messages
from app.errors import InvalidInput, ParleyError, Violation
from app.formats.base import Format, ReplyInfo, ReplyMode
from app.formats.body import ParsedRequest, RejectedRequest
from app.formats.json_object import parse_object
from app.formats.openai import OPENAI
from app.formats.other_fields import NESTED_PARAMS, find_misspelt_fields, rename_fields
from app.formats.request_limits import RequestLimits, limit_warnings
from app.params import SERVER_PARAMS, GenerateCfg
from app.validation.violations import json_path, to_violations

_SHARED_FIELDS = {"model", "messages", "tools", "functions", "stream", "metadata", "cache", "cancel_on_disconnect"}
_GENERATE_CFG = set(GenerateCfg.model_fields) - {"extra_body", "stream_options"}
_ELSEWHERE = "is a field of POST /v1/chat"
_REFUSED = {
    "logprobs": "is not supported: Parley's replies carry no log probabilities",
    "top_logprobs": "is not supported: Parley's replies carry no log probabilities",
    "audio": "is not supported: Parley's replies are text",
    "modalities": "is not supported: Parley's replies are text",
    "prediction": "is not supported",
    **NESTED_PARAMS,
    "include_usage": "is not a field of this body: put it in stream_options",
    **dict.fromkeys(set(ChatRequestBody.model_fields) - _SHARED_FIELDS - {"generate_cfg", "include_usage"}, _ELSEWHERE),
}
_OPTIONS = {"include_usage", "include_obfuscation"}
"""The known keys of `stream_options`. `include_obfuscation` has no effect: Parley sends no padding."""
_TRANSLATED = {"stream_options", "function_call"}
_KNOWN = _SHARED_FIELDS | _GENERATE_CFG | _TRANSLATED | _REFUSED.keys() | SERVER_PARAMS
_OTHER_NAMES = {"max_output_tokens": "max_tokens", "stop_sequences": "stop"}
"""The names here of fields of Responses and of Anthropic's Messages."""
_INNER = re.compile(r"(`?)generate_cfg\.(extra_body(\.|(?=\[)))?")


def parse_completions_body(raw: bytes | bytearray, limits: RequestLimits) -> ParsedRequest | RejectedRequest:
    """Parse a request in OpenAI's format. It is rejected with BadRequest or InvalidInput."""
    reply_format = COMPLETIONS
    try:
        body = parse_object(raw)
        reply_format = _FUNCTION_CALL_FORMAT if _uses_function_call(body) else COMPLETIONS
        return replace(_parse_request(body, limits), reply_format=reply_format)
    except ParleyError as error:
        return RejectedRequest(error, reply_format.error)


def _parse_request(given: dict[str, Any], limits: RequestLimits) -> ParsedRequest:
    renamed = rename_fields(given, _OTHER_NAMES)
    try:
        parsed = _parse_fields(renamed.body, limits)
    except InvalidInput as error:
        raise renamed.restore(error) from None
    warnings = [*renamed.list_warnings(), *_warn_of_prompts(given)]
    return replace(parsed, warnings=limit_warnings([*warnings, *parsed.warnings])) if warnings else parsed


def _warn_of_prompts(body: dict[str, Any]) -> list[str]:
    """Warn of system prompts in the fields of other APIs, which model servers ignore."""
    found = [key for key in ("system", "system_prompt", "instructions") if isinstance(body.get(key), str)]
    message = '{"role": "system", "content": "…"}'
    return [f"{key} was passed on as it is: here a system prompt is a message, {message}" for key in found]


def _parse_fields(body: dict[str, Any], limits: RequestLimits) -> ParsedRequest:
    options = body.get("stream_options")
    refused = [
        Violation(key, _REFUSED[key])
        for key in _REFUSED
        if key in body and body[key] not in (None, False, [], ["text"])
    ]
    refused += [*_check_function_call(body.get("function_call")), *_check_stream_options(options)]
    unknown = [key for key in body if key not in _KNOWN and body[key] is not None]
    refused += find_misspelt_fields(unknown, (KNOWN_PARAMS[0], _REFUSED), body)
    try:
        chat_body = ChatRequestBody.model_validate(_translate(body, options if isinstance(options, dict) else {}))
        parsed = parse_messages(chat_body, limits)
    except ValidationError as error:
        refused += [
            *to_violations(error, _with_generate_cfg(body), schema=ChatRequestBody),
            *find_list_violations(body | {"format": "openai"}, limits),
        ]
    except InvalidInput as error:
        refused += error.violations
    if refused:
        raise InvalidInput(refused)
    return parsed


def _with_generate_cfg(body: dict[str, Any]) -> dict[str, Any]:
    """Return the body with `generate_cfg` in it, so that the paths of both formats lead to its values."""
    return body | {"generate_cfg": body}


def _uses_function_call(body: dict[str, Any]) -> bool:
    return body.get("function_call") is not None and body.get("tool_choice") is None


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


def _translate(body: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    translated: dict[str, Any] = {
        "stream": False,
        "format": "openai",
        "include_usage": options.get("include_usage") is True,
    }
    params: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for key, value in body.items():
        if key in _GENERATE_CFG:
            params[key] = value  # null removes the model's default
        elif value is None or key in _TRANSLATED or key in _REFUSED:
            continue
        elif key in _SHARED_FIELDS:
            translated[key] = value
        else:
            extra[key] = value
    if _uses_function_call(body) and not _check_function_call(choice := body["function_call"]):
        params["function_choice"] = {"function": choice} if isinstance(choice, dict) else choice
    if extra:
        params["extra_body"] = extra
    if params:
        translated["generate_cfg"] = params
    return translated


def _rename_error_paths(error: dict[str, Any], choice: str) -> dict[str, Any]:
    """Rewrite the paths in an error as those of this body, in which the field `choice` chooses the function."""
    renamed = {key: _rename_path(error[key], choice) for key in ("message", "param") if error[key]}
    violations = [
        violation | {"param": violation["param"] and _rename_path(violation["param"], choice)}
        for violation in _get_violations(error)
    ]
    return error | renamed | ({"violations": violations} if violations else {})


def _get_violations(error: dict[str, Any]) -> list[dict[str, Any]]:
    violations: list[dict[str, Any]] = error.get("violations", [])
    return violations


def _rename_path(path: str, choice: str = "function_choice") -> str:
    match = _INNER.match(path)
    inner = match[1] + path[match.end() :] if match else path
    return choice + inner.removeprefix("function_choice") if inner.startswith("function_choice") else inner


class _CompletionsEncoder:
    """OpenAI's encoder, with the warnings and errors of this endpoint."""

    def __init__(self, info: ReplyInfo, mode: ReplyMode, choice: str) -> None:
        if info.warnings:
            info = replace(info, warnings=[_rename_path(text) for text in info.warnings])
        made = OPENAI.reply_encoder(info, mode)
        self.open, self.feed, self.heartbeat = made.open, made.feed, made.heartbeat
        self._fail, self._choice = made.fail, choice

    def fail(self, error: dict[str, Any]) -> bytes:
        return self._fail(_rename_error_paths(error, self._choice))


def _make_format(choice: str) -> Format:
    """Return the format for requests in which the field `choice` chooses the function."""
    return replace(
        OPENAI,
        reply_encoder=lambda info, mode: _CompletionsEncoder(info, mode, choice),
        error=lambda error: OPENAI.error(_rename_error_paths(error, choice)),
        warning=_rename_path,
    )


COMPLETIONS = _make_format("function_choice")
_FUNCTION_CALL_FORMAT = _make_format("function_call")
