"""Tool calls for models whose server has none: the prompt explains the tools, and calls are parsed from the reply."""

from typing import Any, Literal, TypeAlias

from app.chat.messages import ChatRequest
from app.chat.stage import Stage
from app.profiles import Profile
from app.steps.prompted_tools.choice import allows_parallel_calls, parse_tool_choice
from app.steps.prompted_tools.nous import NousStage, nous_request
from app.steps.prompted_tools.qwen import STOP_WORDS, QwenStage, qwen_request, with_stop_words
from app.steps.prompted_tools.wording import convert_calls_to_text, has_calls, without_tools

Prompt: TypeAlias = Literal["nous", "qwen"]

__all__ = [
    "NousStage",
    "QwenStage",
    "uses_prompted_tools",
    "add_tool_prompt",
    "prompted_tool_stage",
    "prompt_stop_words",
    "prompted_tool_traits",
    "writes_calls_as_text",
]


def uses_prompted_tools(request: ChatRequest, profile: Profile) -> Prompt | None:
    """Return the prompt that replaces the server's tool calling, or None if the server's is used."""
    if profile.native_tools and request.params.get("use_raw_api") is not False:
        return None
    requested = request.params.get("fncall_prompt_type")
    return "qwen" if (requested or profile.fncall_prompt_type) == "qwen" else "nous"


def writes_calls_as_text(request: ChatRequest, profile: Profile) -> bool:
    """Return whether old calls and results become text of user messages, because the model may call nothing.

    Raises:
        InvalidInput: see `tool_choice`.
    """
    return uses_prompted_tools(request, profile) is not None and parse_tool_choice(request).word == "none"


def add_tool_prompt(request: ChatRequest, profile: Profile) -> tuple[ChatRequest, list[str]]:
    """Return (the request with tools and calls as text, warnings), if `uses_prompted_tools`.

    Raises:
        InvalidInput: see `tool_choice`.
    """
    choice, warnings = parse_tool_choice(request), list[str]()
    if choice.word == "none":
        messages = convert_calls_to_text(request) if has_calls(request.messages) else request.messages
        plain = without_tools(request, messages)
        return (with_stop_words(plain) if uses_prompted_tools(request, profile) == "qwen" else plain), warnings
    if uses_prompted_tools(request, profile) == "qwen":
        if choice.word == "required":
            path = request.paths.param("function_choice")
            warnings.append(f"{path} was not applied: the qwen prompt can force only a named one")
        return qwen_request(request), warnings
    if request.params.get("parallel_function_calls") is False or request.params.get("parallel_tool_calls") is False:
        path = request.paths.param("parallel_function_calls")
        warnings.append(f"{path} has no effect: the nous prompt allows several calls")
    return nous_request(request, code=profile.special_code_mode), warnings


def prompted_tool_stage(request: ChatRequest, profile: Profile, reply_id: str) -> Stage | None:
    """Return the stage for the reply, or None if no calls are parsed. `request` is the one before `add_tool_prompt`."""
    prompt, choice = uses_prompted_tools(request, profile), parse_tool_choice(request)
    if prompt is None or choice.word == "none":
        return None
    if prompt == "qwen":
        return QwenStage(reply_id, request.tools, parallel=allows_parallel_calls(request), forced=choice.name)
    thinking = bool(request.params.get("thought_in_content"))
    return NousStage(reply_id, request.tools, thought_in_content=thinking, code=profile.special_code_mode)


def prompt_stop_words(request: ChatRequest, profile: Profile) -> tuple[str, ...]:
    """Return the prompt's stop words. `request` is the one before `add_tool_prompt`.

    Qwen-Agent's `qwen` prompt stops at its commands even without tools; with tools, `QwenStage` handles them.
    """
    return (
        STOP_WORDS
        if uses_prompted_tools(request, profile) == "qwen" and parse_tool_choice(request).word == "none"
        else ()
    )


def prompted_tool_traits(request: ChatRequest, profile: Profile) -> dict[str, Any]:
    """Return everything in a request that `prompted_tool_stage` depends on, as JSON."""
    prompt, choice = uses_prompted_tools(request, profile), parse_tool_choice(request)
    if prompt is None or choice.word == "none":
        return {}
    traits = {"prompt": prompt, "tools": [tool.schema for tool in request.tools]}
    if prompt == "qwen":
        return traits | {"parallel": allows_parallel_calls(request), "forced": choice.name}
    return traits | {"thought_in_content": bool(request.params.get("thought_in_content"))}
