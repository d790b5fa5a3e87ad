"""`POST /v1/chat/completions`: the same journey for clients of OpenAI's SDKs.

What the gateway knows by a name of its own is translated; everything else a caller says is passed on as it is, as
`extra_body` is, except what would need more than one reply or a reply that is not told. Violations are named as this
caller said them: what `POST /v1/chat` has in `generate_cfg` stands at the top here.
"""

import re
from dataclasses import replace
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json

from app.api.chat_schema import (
    ChatRequestBody,
    ParsedRequest,
    RejectedRequest,
    find_list_violations,
    invalid_json,
    parse_messages,
)
from app.api.request_limits import RequestLimits
from app.errors import BadRequest, InvalidInput, ParleyError, Violation
from app.formats.base import Format, ReplyInfo, ReplyMode
from app.formats.openai import OPENAI
from app.params import GenerateCfg
from app.validation import json_path, to_violations

_ENVELOPE = {"model", "messages", "tools", "functions", "stream", "metadata", "cache"}
_KNOWN = set(GenerateCfg.model_fields) - {"extra_body", "stream_options"}
_ELSEWHERE = "is a field of POST /v1/chat"
_REFUSED = {
    "logprobs": "the gateway does not tell log probabilities",
    "top_logprobs": "the gateway does not tell log probabilities",
    "audio": "the gateway tells replies as text",
    "modalities": "the gateway tells replies as text",
    "prediction": "is not known here",
    "extra_body": "its fields stand at the top of the body",
    "generate_cfg": f"{_ELSEWHERE}; here its keys stand at the top of the body",
    "include_usage": "stands in stream_options",
    **dict.fromkeys(set(ChatRequestBody.model_fields) - _ENVELOPE - {"generate_cfg", "include_usage"}, _ELSEWHERE),
}
_OPTIONS = {"include_usage", "include_obfuscation"}
"""Of `stream_options`. Padding against listeners is never sent, and nobody can rely on it."""
_TRANSLATED = {"stream_options", "function_call"}
_INNER = re.compile(r"(`?)generate_cfg\.(extra_body(\.|(?=\[)))?")


def parse_completions_body(raw: bytes | bytearray, limits: RequestLimits) -> ParsedRequest | RejectedRequest:
    """The request in a body of OpenAI's form. It is rejected with BadRequest or InvalidInput."""
    reply_format = COMPLETIONS
    try:
        body = _parse_object(raw)
        reply_format = _FUNCTION_CALL_FORMAT if _uses_function_call(body) else COMPLETIONS
        return _parse_request(body, limits).model_copy(update={"reply_format": reply_format})
    except ParleyError as error:
        return RejectedRequest(error, reply_format.error)


def _parse_object(raw: bytes | bytearray) -> dict[str, Any]:
    try:
        body = from_json(bytes(raw))
    except ValueError as error:
        raise invalid_json(raw, error) from None
    if not isinstance(body, dict):
        raise BadRequest("the request body must be a JSON object")
    return body


def _parse_request(body: dict[str, Any], limits: RequestLimits) -> ParsedRequest:
    options = body.get("stream_options")
    refused = [Violation(key, _REFUSED[key]) for key in _REFUSED if body.get(key) not in (None, False, [], ["text"])]
    refused += [*_choice_problems(body.get("function_call")), *_option_problems(options)]
    try:
        envelope = ChatRequestBody.model_validate(_translate(body, options if isinstance(options, dict) else {}))
        reading = parse_messages(envelope, limits)
    except ValidationError as error:
        refused += [
            *to_violations(error, _with_generate_cfg(body), schema=ChatRequestBody),
            *find_list_violations(body | {"format": "openai"}, limits),
        ]
    except InvalidInput as error:
        refused += error.violations
    if refused:
        raise InvalidInput(refused)
    return reading


def _with_generate_cfg(body: dict[str, Any]) -> dict[str, Any]:
    """The body with places for both ways of saying an option."""
    return body | {"generate_cfg": body}


def _uses_function_call(body: dict[str, Any]) -> bool:
    return body.get("function_call") is not None and body.get("tool_choice") is None


def _choice_problems(choice: Any) -> list[Violation]:
    if isinstance(choice, dict):
        text = "must be a string" if "name" in choice else "is required"
        return [] if isinstance(choice.get("name"), str) else [Violation("function_call.name", text)]
    return [] if isinstance(choice, str | None) else [Violation("function_call", "must be a string or an object")]


def _option_problems(options: Any) -> list[Violation]:
    if options is None:
        return []
    if not isinstance(options, dict):
        return [Violation("stream_options", "must be an object")]
    unknown = [key for key in options if key not in _OPTIONS and options[key] not in (None, False)]
    wrong = [key for key in _OPTIONS if not isinstance(options.get(key), bool | None)]
    return [
        *(Violation(json_path([key], "stream_options"), "is not known here") for key in unknown),
        *(Violation(f"stream_options.{key}", "must be true or false") for key in sorted(wrong)),
    ]


def _translate(body: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    given = {key: value for key, value in body.items() if value is not None}
    params = {key: value for key, value in body.items() if key in _KNOWN}  # null: without the model's default
    if _uses_function_call(body) and not _choice_problems(choice := given["function_call"]):
        params["function_choice"] = {"function": choice} if isinstance(choice, dict) else choice
    rest = given.keys() - _ENVELOPE - _KNOWN - _TRANSLATED - _REFUSED.keys()
    if rest:
        params["extra_body"] = {key: given[key] for key in given if key in rest}
    return {
        **{key: value for key, value in given.items() if key in _ENVELOPE},
        "stream": given.get("stream", False),
        "format": "openai",
        "generate_cfg": params,
        "include_usage": options.get("include_usage") is True,
    }


def _rename_error_paths(error: dict[str, Any], choice: str) -> dict[str, Any]:
    """The places of an error are those of a body in which functions are chosen by this field."""
    places = {key: _rename_path(error[key], choice) for key in ("message", "param") if error[key]}
    found = [one | {"param": one["param"] and _rename_path(one["param"], choice)} for one in _get_violations(error)]
    return error | places | ({"violations": found} if found else {})


def _get_violations(error: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = error.get("violations", [])
    return found


def _rename_path(place: str, choice: str = "function_choice") -> str:
    found = _INNER.match(place)
    inner = found[1] + place[found.end() :] if found else place
    return choice + inner.removeprefix("function_choice") if inner.startswith("function_choice") else inner


class _CompletionsEncoder:
    """OpenAI's, with the warnings and the errors of this face."""

    def __init__(self, info: ReplyInfo, mode: ReplyMode, choice: str) -> None:
        made = OPENAI.reply_encoder(replace(info, warnings=[_rename_path(text) for text in info.warnings]), mode)
        self.open, self.feed = made.open, made.feed
        self._fail, self._choice = made.fail, choice

    def fail(self, error: dict[str, Any]) -> bytes:
        return self._fail(_rename_error_paths(error, self._choice))


def _make_format(choice: str) -> Format:
    """For callers that choose functions by this field."""
    return replace(
        OPENAI,
        reply_encoder=lambda info, mode: _CompletionsEncoder(info, mode, choice),
        error=lambda error: OPENAI.error(_rename_error_paths(error, choice)),
        warning=_rename_path,
    )


COMPLETIONS = _make_format("function_choice")
_FUNCTION_CALL_FORMAT = _make_format("function_call")
