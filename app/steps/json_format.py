"""Asks for JSON in the prompt where the server does not enforce the request's `response_format`."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from app.chat.messages import ChatRequest
from app.profiles import Profile
from app.profiles.thinking import is_thinking
from app.steps.prompt_language import Language
from app.steps.prompted_tools.wording import add_system_block

_OBJECT_TEXT: dict[Language, str] = {
    "en": "Reply with one JSON object and nothing else.",
    "zh": "请只回复一个 JSON 对象，不要输出其他内容。",
}
_SCHEMA_TEXT: dict[Language, str] = {
    "en": "Reply with JSON that is valid against this JSON schema, and nothing else:\n{schema}",
    "zh": "请只回复符合以下 JSON Schema 的 JSON，不要输出其他内容：\n{schema}",
}


def is_enforced(request: ChatRequest, profile: Profile) -> bool:
    """Whether the server enforces the response format of the request, or the request has none."""
    return _find_type(request) not in {"json_object", "json_schema"} - set(_list_formats(request, profile))


def _list_formats(request: ChatRequest, profile: Profile) -> Sequence[str]:
    """Return the types of response formats that can be sent with this request."""
    return () if _find_obstacle(request, profile) else profile.response_formats


def _find_obstacle(request: ChatRequest, profile: Profile) -> str:
    """Return what no response format is sent beside, in words; "" if there is nothing."""
    source = request.source
    is_known = source is not None and source.knows_model and profile.takes == "all"
    if request.tools and not profile.formats_beside_tools and not is_known:
        return " beside tools"
    rule = profile.formats_while_thinking
    explains = rule == "explain" or (rule == "thinking_off" and profile.thinking_switch == "none")
    return " while the model thinks" if explains and _is_thinking(request.params, profile) else ""


def _is_thinking(params: Mapping[str, Any], profile: Profile) -> bool:
    return is_thinking({**params, **(params.get("extra_body") or {})}, profile)


def adapt_response_format(request: ChatRequest, profile: Profile, language: Language) -> tuple[ChatRequest, list[str]]:
    """Replace a response format that the server does not enforce; return (the request, warnings)."""
    if is_enforced(request, profile):
        return request, []
    wanted, formats = _find_type(request), _list_formats(request, profile)
    schema = _find_schema(request.params["response_format"])
    if wanted == "json_object" and "json_schema" in formats:
        named = {"name": "object", "schema": schema or {"type": "object"}}
        return _with_format(request, {"type": "json_schema", "json_schema": named}), []
    text = _OBJECT_TEXT[language]
    if schema is not None:
        text = _SCHEMA_TEXT[language].format(schema=json.dumps(schema, ensure_ascii=False))
    asked = replace(request, messages=add_system_block(request.messages, text, request.text_joiner))
    beside = _find_obstacle(request, profile) if profile.response_formats else ""
    lacking = f"this model's server does not enforce {wanted}{beside}, so the prompt asks for it"
    path = request.paths.param("response_format")
    if "json_object" in formats:
        warning = f"{path} was sent as json_object: {lacking}"
        return _with_format(asked, {"type": "json_object"}), [warning]
    return _with_format(asked, None), [f"{path} was not sent: {lacking}"]


def _find_type(request: ChatRequest) -> Any:
    given = request.params.get("response_format")
    return given.get("type") if isinstance(given, dict) else None


def _find_schema(response_format: dict[str, Any]) -> Any:
    is_object = response_format.get("type") == "json_object"  # llama.cpp has a schema beside this type
    holder = response_format if is_object else response_format.get("json_schema")
    return holder.get("schema") if isinstance(holder, dict) else None


def _with_format(request: ChatRequest, response_format: dict[str, Any] | None) -> ChatRequest:
    return replace(request, params={**request.params, "response_format": response_format})
