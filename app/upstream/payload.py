"""A request into the body that one model server takes. Equal requests give equal bytes: keys stand in a fixed order.

`extra_body` is the caller's own word and wins over everything but the fields of `_OURS`: which
model is asked and how its reply is read.
"""

from collections.abc import Mapping
from typing import Any

from app.chat.messages import ChatRequest, Tool
from app.errors import InvalidInput, Violation
from app.params import UNSENT
from app.profiles import Profile
from app.upstream.history import openai_messages

_TRANSLATED = frozenset(
    {
        "max_tokens",
        "max_completion_tokens",
        "function_choice",
        "tool_choice",
        "parallel_function_calls",
        "parallel_tool_calls",
        "enable_thinking",
        "thinking_budget",
        "extra_body",
    }
)
_OURS = ("model", "messages", "stream", "stream_options")


def build(request: ChatRequest, model: str, profile: Profile) -> tuple[dict[str, Any], list[str]]:
    """The body to send and what the caller must know was not sent as asked.

    `model` is the server's own name for it. Raises InvalidInput for a conversation or an option that cannot be sent.
    """
    warnings: list[str] = []
    body: dict[str, Any] = {
        "model": model,
        "messages": openai_messages(request.messages, profile, request.text_joiner),
        "stream": True,
    }
    if profile.stream_usage:
        body["stream_options"] = {"include_usage": True}
    params = request.params
    for name in sorted(params):
        if name not in _TRANSLATED and name not in UNSENT and params[name] is not None:
            _plain(name, params[name], profile, body, warnings)
    _max_tokens(params, profile, body)
    _tools(request.tools, params, profile, body, warnings)
    _thinking(params, profile, body, warnings)
    _extra_body(params, body)
    return body, warnings


def _plain(name: str, value: Any, profile: Profile, body: dict[str, Any], warnings: list[str]) -> None:
    sent = profile.renamed.get(name, name)
    if sent is None:
        warnings.append(f"generate_cfg.{name} was not sent: this model's server has no such parameter")
    else:
        body[sent] = value


def _max_tokens(params: Mapping[str, Any], profile: Profile, body: dict[str, Any]) -> None:
    """Exactly one of the two names that servers have for it."""
    value = params.get("max_tokens")
    value = params.get("max_completion_tokens") if value is None else value
    if value is not None:
        body[profile.max_tokens_field] = value


def _tools(
    tools: tuple[Tool, ...], params: Mapping[str, Any], profile: Profile, body: dict[str, Any], warnings: list[str]
) -> None:
    field = "tool_choice" if params.get("function_choice") is None else "function_choice"
    choice = params.get(field)
    if not tools:
        if choice is not None and choice not in ("auto", "none"):
            raise InvalidInput([Violation(f"generate_cfg.{field}", "there are no functions to choose from")])
        return
    body["tools"] = [{"type": "function", "function": dict(tool.schema)} for tool in tools]
    if choice is not None:
        _tool_choice(field, choice, tools, profile, body, warnings)
    parallel = params.get("parallel_function_calls")
    parallel = params.get("parallel_tool_calls") if parallel is None else parallel
    if parallel is not None and profile.parallel_tool_calls:
        body["parallel_tool_calls"] = parallel
    elif parallel is False:
        warnings.append("generate_cfg.parallel_function_calls was not sent: this model's server has no such parameter")


def _tool_choice(
    field: str, choice: Any, tools: tuple[Tool, ...], profile: Profile, body: dict[str, Any], warnings: list[str]
) -> None:
    names = {tool.name for tool in tools}
    named = _chosen_name(choice, names)
    if named is not None:
        if named not in names:
            text = f"{named!r} is none of the functions ({', '.join(sorted(names))}), auto, none or required"
            raise InvalidInput([Violation(f"generate_cfg.{field}", text)])
        if profile.named_tool_choice:
            body["tool_choice"] = {"type": "function", "function": {"name": named}}
            return
        choice = "required"
    word = profile.tool_choice_required if choice == "required" else choice
    if word is None:
        warnings.append(f"generate_cfg.{field} was not sent: this model's server cannot be made to call")
    else:
        body["tool_choice"] = word


def _chosen_name(choice: Any, names: set[str]) -> str | None:
    """The function that must be called, if the choice is one. A function called `auto` is named by the object form."""
    if isinstance(choice, dict):
        function = choice.get("function")
        return str(function.get("name")) if isinstance(function, dict) else ""
    return None if choice in ("auto", "none", "required") else str(choice)


def _thinking(params: Mapping[str, Any], profile: Profile, body: dict[str, Any], warnings: list[str]) -> None:
    enabled, budget = params.get("enable_thinking"), params.get("thinking_budget")
    if enabled is not None:
        _switch(enabled, profile, body, warnings)
    if budget is None or enabled is False or budget < 1:
        return
    if profile.max_thinking_budget is not None and budget > profile.max_thinking_budget:
        warnings.append(
            f"generate_cfg.thinking_budget was lowered to {profile.max_thinking_budget}, this server's most"
        )
        budget = profile.max_thinking_budget
    if profile.thinking_budget == "thinking_budget":
        body["thinking_budget"] = budget
    elif profile.thinking_budget == "reasoning_max_tokens":
        body.setdefault("reasoning", {})["max_tokens"] = budget
    elif profile.thinking_budget == "chat_template_kwargs":
        body.setdefault("chat_template_kwargs", {})["thinking_budget"] = budget
    else:
        warnings.append("generate_cfg.thinking_budget was not sent: this model's server has no such parameter")


def _switch(enabled: bool, profile: Profile, body: dict[str, Any], warnings: list[str]) -> None:
    switch = profile.thinking_switch
    if switch == "enable_thinking":
        body["enable_thinking"] = enabled
    elif switch == "chat_template_kwargs":
        # Qwen3's and GLM's templates read the one name, DeepSeek's and Kimi's the other; unknown ones are harmless.
        body["chat_template_kwargs"] = {"enable_thinking": enabled, "thinking": enabled}
    elif switch == "thinking_type":
        body["thinking"] = {"type": "enabled" if enabled else "disabled"}
    elif switch == "reasoning_effort":
        body.setdefault("reasoning_effort", "medium" if enabled else "none")
    elif switch == "reasoning_object":
        body["reasoning"] = {"enabled": enabled}
    else:
        warnings.append("generate_cfg.enable_thinking was not sent: this model's server has no such switch")


def _extra_body(params: Mapping[str, Any], body: dict[str, Any]) -> None:
    extra = params.get("extra_body") or {}
    for name in sorted(extra):
        if name in _OURS:
            text = "is decided by the gateway"
            raise InvalidInput([Violation(f"generate_cfg.extra_body.{name}", text)])
        body[name] = extra[name]
