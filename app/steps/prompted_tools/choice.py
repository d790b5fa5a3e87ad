"""Parses `function_choice` and `tool_choice`: which functions the model may, must or must not call."""

from typing import Any

from msgspec import Struct

from app.chat.messages import ChatRequest
from app.errors import InvalidInput, Violation

_WORDS = ("auto", "none", "required")
NO_FUNCTIONS = "needs functions to choose from, but the request has none"


class ToolChoice(Struct, frozen=True):
    word: str
    """`auto`, `none`, `required` or `named`."""
    name: str = ""


def parse_tool_choice(request: ChatRequest) -> ToolChoice:
    """Return the choice of a request; `none` if it has no functions.

    Raises:
        InvalidInput: the choice names an unknown function, or requires a call when there are no functions.
    """
    params = request.params
    field = "tool_choice" if params.get("function_choice") is None else "function_choice"
    value = params.get(field)
    names = [tool.name for tool in request.tools]
    name = _name(value)
    if name is None:
        word = "auto" if value is None else str(value)
        if word == "required" and not names:
            raise _invalid(request, field, NO_FUNCTIONS)
        if word == "required" and len(names) == 1:
            return ToolChoice("named", names[0])
        return ToolChoice(word if names else "none")
    if not names:
        raise _invalid(request, field, NO_FUNCTIONS)
    if name not in names:
        choices = ", ".join(sorted(names))
        raise _invalid(
            request, field, f"must be auto, none, required or one of the functions ({choices}), not {name!r}"
        )
    return ToolChoice("named", name)


def _name(value: Any) -> str | None:
    if isinstance(value, dict):
        function = value.get("function")
        return str(function.get("name")) if isinstance(function, dict) else ""
    return None if value is None or value in _WORDS else str(value)


def _invalid(request: ChatRequest, field: str, text: str) -> InvalidInput:
    return InvalidInput([Violation(request.paths.param(field), text)])


def allows_parallel_calls(request: ChatRequest) -> bool:
    value = request.params.get("parallel_function_calls")
    return bool(request.params.get("parallel_tool_calls") if value is None else value)
