"""Gives functions names that the model's server takes, and their calls in the reply the names that the caller knows.

A name that is sent depends on nothing but the given one, so that the calls in a history have it too. It keeps what it
can of the given name, which says to the model what the function does; a digest keeps it unique.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, TypeGuard

from msgspec.structs import replace

from app.chat.events import Event, ToolCallDelta
from app.chat.messages import ChatRequest, Message, Part, Tool, ToolCall, ToolResult
from app.profiles import Profile

_DIGEST_DIGITS = 8
_UNSENDABLE = re.compile(r"[^A-Za-z0-9_-]")
_CHOICES = ("function_choice", "tool_choice")


def rename_functions(request: ChatRequest, profile: Profile) -> ChatRequest:
    """Return the request with names that the server takes."""
    most = _find_limit(profile)
    if most is None:
        return request
    changed: dict[str, Any] = {}
    if not _are_taken(request.tools, most):
        changed["tools"] = tuple(_rename_tool(tool, most) for tool in request.tools)
        params = request.params
        changed["params"] = {**params, **{key: _rename_choice(params[key], most) for key in _CHOICES if key in params}}
    messages = _rename_calls(request.messages, most)
    if messages is not None:
        changed["messages"] = messages
    return replace(request, **changed) if changed else request


def find_renamed(request: ChatRequest, profile: Profile) -> dict[str, str]:
    """Return the functions that get another name: the given name by the one that is sent."""
    most = _find_limit(profile)
    if most is None or _are_taken(request.tools, most):
        return {}
    return {_make_name(tool.name, most): tool.name for tool in request.tools if _is_changed(tool.name, most)}


class FunctionNameStage:
    """Gives calls the names that the caller knows."""

    def __init__(self, names: Mapping[str, str]) -> None:
        """`names` is what `find_renamed` returns."""
        self._names = names

    def feed(self, events: list[Event]) -> list[Event]:
        return [
            replace(event, name=self._names.get(event.name, event.name))
            if type(event) is ToolCallDelta and event.name
            else event
            for event in events
        ]


def _find_limit(profile: Profile) -> int | None:
    """Return the limit of names that are sent in fields of their own; None if the prompt or a parser has them."""
    return profile.max_function_name if profile.native_tools and profile.text_family is None else None


def _are_taken(tools: Sequence[Tool], most: int) -> bool:
    """Whether the server takes all names, which are read at once: agents offer a hundred of them."""
    names = "\0".join([*[tool.name for tool in tools], ""])
    return names.count("\0") == len(tools) and _compile_names(most).fullmatch(names) is not None


@cache
def _compile_names(most: int) -> re.Pattern[str]:
    return re.compile(rf"(?:[A-Za-z0-9_-]{{0,{most}}}\0)*")


def _is_changed(name: str, most: int) -> bool:
    return len(name) > most or _UNSENDABLE.search(name) is not None


def _make_name(name: str, most: int) -> str:
    """Return the name as it is sent."""
    if not _is_changed(name, most):
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_DIGITS]
    return f"{_UNSENDABLE.sub('_', name)[: most - _DIGEST_DIGITS - 1]}_{digest}"


def _rename_tool(tool: Tool, most: int) -> Tool:
    name = _make_name(tool.name, most)
    return tool if name == tool.name else replace(tool, name=name, schema={**tool.schema, "name": name})


def _rename_choice(choice: Any, most: int) -> Any:
    """Return a choice of one function by the name that is sent."""
    if isinstance(choice, str):
        return _make_name(choice, most)
    function = choice.get("function") if isinstance(choice, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        return choice
    return {**choice, "function": {**function, "name": _make_name(function["name"], most)}}


def _rename_calls(messages: Sequence[Message], most: int) -> tuple[Message, ...] | None:
    """Return the messages with the names that are sent; None if all of them are sent as they are."""
    renamed: dict[int, Message] = {}
    for number, message in enumerate(messages):
        for part in message.parts:
            if _is_named(part) and _is_changed(part.name or "", most):
                parts = [
                    replace(one, name=_make_name(one.name or "", most)) if _is_named(one) else one
                    for one in message.parts
                ]
                renamed[number] = replace(message, parts=tuple(parts))
                break
    return tuple(renamed.get(number, message) for number, message in enumerate(messages)) if renamed else None


def _is_named(part: Part) -> TypeGuard[ToolCall | ToolResult]:
    return type(part) is ToolCall or (type(part) is ToolResult and part.name is not None)
