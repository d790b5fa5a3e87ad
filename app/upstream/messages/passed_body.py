"""Build a body of the Messages API from that of a client of the same API, so that nothing of it is lost.

Only the model is replaced, and what the gateway itself reads is taken out. Fields and blocks that the gateway does not
know are sent as they are.
"""

from typing import Any

from app.chat.messages import BILLING_HEADER, ChatRequest
from app.params import GenerateCfg, find_max_tokens
from app.profiles import Profile
from app.upstream.api import encode_tools, list_entries
from app.upstream.messages.blank_texts import leave_out_blank_texts, leave_out_of_system
from app.upstream.messages.thinking import choose_thinking

Json = dict[str, Any]
_EXTENSIONS = (
    frozenset(GenerateCfg.model_fields).difference(("temperature", "top_p", "top_k", "max_tokens", "tool_choice"))
) | {"cache", "chat_template_kwargs"}
"""Fields of a body that are the gateway's own: parameters that the API does not have, and the use of the cache."""
_THINKING = ("enable_thinking", "thinking_budget", "reasoning_effort")


def build_passed(request: ChatRequest, model: str, profile: Profile) -> tuple[Json, list[str]]:
    """Return the body, and a warning for each option that is not sent. `request.passed` must be set."""
    assert request.passed is not None
    given, params = request.passed.body, request.params
    body: Json = {name: value for name, value in given.items() if name not in _EXTENSIONS}
    body["model"] = model
    warnings = _convert_conversation(body, request, profile)
    encode_tools(body, request.known)
    if profile.caches_prefixes and isinstance(system := body.get("system"), list):
        body["system"] = [block for block in system if not _is_billing_header(block)]
    for name in ("temperature", "top_p", "top_k"):
        if name not in body and params.get(name) is not None:
            body[name] = params[name]
    if "max_tokens" not in body:
        body["max_tokens"] = find_max_tokens({}, params) or profile.default_max_tokens
    if "stop_sequences" not in body and params.get("stop"):
        stop = params["stop"]
        body["stop_sequences"] = [stop] if isinstance(stop, str) else list(stop)
    if "thinking" not in body and any(params.get(name) is not None for name in _THINKING):
        thinking = choose_thinking(params, profile, body["max_tokens"], request.paths)
        warnings += thinking.warnings
        if thinking.field is not None:
            body["thinking"] = thinking.field
        if thinking.effort is not None:
            body["output_config"] = {"effort": thinking.effort, **(body.get("output_config") or {})}
    ignored = sorted(_EXTENSIONS.intersection(given) - {"cache", "stop", *_THINKING})
    warnings += (f"{name} was not sent: this model's server has no such parameter" for name in ignored)
    return body, warnings


def _convert_conversation(body: Json, request: ChatRequest, profile: Profile) -> list[str]:
    """Set the conversation of a new body, without what the server refuses; return warnings."""
    warnings: list[str] = []

    def convert(message: Any) -> Any:
        kept = _drop_unsigned(message) if profile.unsigned_thinking == "drop" else message
        if profile.blank_texts or kept is None:
            return kept
        entries, lost = leave_out_blank_texts((kept,))
        warnings.extend(lost)
        return entries[0] if entries else None

    rule = (profile.unsigned_thinking, profile.blank_texts)
    body["messages"] = list_entries(body["messages"], convert, rule, request.known)
    if not profile.blank_texts and "system" in body:
        system, lost = leave_out_of_system(body.pop("system"))
        warnings += lost
        if system is not None:
            body["system"] = system
    return warnings


def _is_billing_header(block: Any) -> bool:
    text = block.get("text") if isinstance(block, dict) else None
    return isinstance(text, str) and text.startswith(BILLING_HEADER)


def _drop_unsigned(message: Any) -> Any:
    """Leave out unsigned thinking; None if nothing else is in the message, because an empty one is refused."""
    content = message.get("content") if isinstance(message, dict) else None
    if not isinstance(content, list):
        return message
    kept = [block for block in content if not _is_unsigned(block)]
    if len(kept) == len(content):
        return message
    return {**message, "content": kept} if kept else None


def _is_unsigned(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == "thinking" and block.get("signature") == ""
