"""Gives functions names that the model's server takes, and their calls in the reply the names that the caller knows.

A name that is sent depends on nothing but the given one, so that the calls in a history have it too. It keeps what it
can of the given name, which says to the model what the function does; a digest keeps it unique.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeGuard

from msgspec.structs import replace

from app.chat.events import Event, ToolCallDelta
from app.chat.messages import ChatRequest, Message, Part, Tool, ToolCall, ToolResult
from app.profiles import Profile
from app.profiles.profile import FunctionNames

_DIGEST_DIGITS = 8
_CHOICES = ("function_choice", "tool_choice")


class _Form(NamedTuple):
    """How names are written."""

    first: str
    """The first character, for a regular expression, as are the others."""
    others: str
    prefix: str
    """What stands before a name with another first character."""


_FORMS: dict[FunctionNames, _Form] = {
    "plain": _Form("A-Za-z0-9_-", "A-Za-z0-9_-", ""),
    "letter_first": _Form("A-Za-z", "A-Za-z0-9_-", "f_"),
    "dotted": _Form("A-Za-z_", "A-Za-z0-9_.:-", "_"),
}


class _Rule(NamedTuple):
    """Which names a server takes."""

    most: int
    """In characters."""
    form: _Form


def rename_functions(request: ChatRequest, profile: Profile) -> ChatRequest:
    """Return the request with names that the server takes."""
    rule = _find_rule(profile)
    if rule is None:
        return request
    changed: dict[str, Any] = {}
    if not _are_taken(request.tools, rule):
        changed["tools"] = tuple(_rename_tool(tool, rule) for tool in request.tools)
        params = request.params
        changed["params"] = {**params, **{key: _rename_choice(params[key], rule) for key in _CHOICES if key in params}}
    messages = _rename_calls(request.messages, rule)
    if messages is not None:
        changed["messages"] = messages
    return replace(request, **changed) if changed else request


def find_renamed(request: ChatRequest, profile: Profile) -> dict[str, str]:
    """Return the functions that get another name: the given name by the one that is sent."""
    rule = _find_rule(profile)
    if rule is None or _are_taken(request.tools, rule):
        return {}
    return {_make_name(tool.name, rule): tool.name for tool in request.tools if _is_changed(tool.name, rule)}


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


def _find_rule(profile: Profile) -> _Rule | None:
    """Return the rule of names that are sent in fields of their own; None if the prompt or a parser has them."""
    most = profile.max_function_name
    if most is None or not profile.native_tools or profile.text_family is not None:
        return None
    return _Rule(most, _FORMS[profile.function_names])


def _are_taken(tools: Sequence[Tool], rule: _Rule) -> bool:
    """Whether the server takes all names, which are read at once: agents offer a hundred of them."""
    names = "\0".join([*[tool.name for tool in tools], ""])
    return names.count("\0") == len(tools) and _compile_names(rule).fullmatch(names) is not None


@cache
def _compile_names(rule: _Rule) -> re.Pattern[str]:
    return re.compile(rf"(?:(?:[{rule.form.first}][{rule.form.others}]{{0,{rule.most - 1}}})?\0)*")


def _is_changed(name: str, rule: _Rule) -> bool:
    return "\0" in name or _compile_names(rule).fullmatch(f"{name}\0") is None


def _make_name(name: str, rule: _Rule) -> str:
    """Return the name as it is sent."""
    if not _is_changed(name, rule):
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_DIGITS]
    kept = re.sub(f"[^{rule.form.others}]", "_", name)
    if not re.match(f"[{rule.form.first}]", kept):
        kept = rule.form.prefix + kept
    return f"{kept[: rule.most - _DIGEST_DIGITS - 1]}_{digest}"


def _rename_tool(tool: Tool, rule: _Rule) -> Tool:
    name = _make_name(tool.name, rule)
    return tool if name == tool.name else replace(tool, name=name, schema={**tool.schema, "name": name})


def _rename_choice(choice: Any, rule: _Rule) -> Any:
    """Return a choice of one function by the name that is sent."""
    if isinstance(choice, str):
        return _make_name(choice, rule)
    function = choice.get("function") if isinstance(choice, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        return choice
    return {**choice, "function": {**function, "name": _make_name(function["name"], rule)}}


def _rename_calls(messages: Sequence[Message], rule: _Rule) -> tuple[Message, ...] | None:
    """Return the messages with the names that are sent; None if all of them are sent as they are."""
    renamed: dict[int, Message] = {}
    for number, message in enumerate(messages):
        for part in message.parts:
            if _is_named(part) and _is_changed(part.name or "", rule):
                parts = [
                    replace(one, name=_make_name(one.name or "", rule)) if _is_named(one) else one
                    for one in message.parts
                ]
                renamed[number] = replace(message, parts=tuple(parts))
                break
    return tuple(renamed.get(number, message) for number, message in enumerate(messages)) if renamed else None


def _is_named(part: Part) -> TypeGuard[ToolCall | ToolResult]:
    return type(part) is ToolCall or (type(part) is ToolResult and part.name is not None)
