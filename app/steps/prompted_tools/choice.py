"""Which functions the model may, must or must not call, as the caller said it."""

from dataclasses import dataclass
from typing import Any

from app.chat.messages import ChatRequest
from app.errors import InvalidInput, Violation

_WORDS = ("auto", "none", "required")


@dataclass(frozen=True, slots=True)
class ToolChoice:
    word: str
    """`auto`, `none`, `required` or `named`."""
    name: str = ""


def tool_choice(request: ChatRequest) -> ToolChoice:
    """Raises InvalidInput for a function that was not given. Without functions there is nothing to choose."""
    params = request.params
    field = "tool_choice" if params.get("function_choice") is None else "function_choice"
    said = params.get(field)
    names = [tool.name for tool in request.tools]
    name = _name(said)
    if name is None:
        word = "auto" if said is None else str(said)
        if word == "required" and not names:
            raise _invalid(field, "there are no functions to choose from")
        if word == "required" and len(names) == 1:
            return ToolChoice("named", names[0])
        return ToolChoice(word if names else "none")
    if not names:
        raise _invalid(field, "there are no functions to choose from")
    if name not in names:
        raise _invalid(field, f"{name!r} is none of the functions ({', '.join(sorted(names))}), auto, none or required")
    return ToolChoice("named", name)


def _name(said: Any) -> str | None:
    if isinstance(said, dict):
        function = said.get("function")
        return str(function.get("name")) if isinstance(function, dict) else ""
    return None if said is None or said in _WORDS else str(said)


def _invalid(field: str, text: str) -> InvalidInput:
    return InvalidInput([Violation(f"generate_cfg.{field}", text)])


def allows_parallel_calls(request: ChatRequest) -> bool:
    said = request.params.get("parallel_function_calls")
    return bool(request.params.get("parallel_tool_calls") if said is None else said)
