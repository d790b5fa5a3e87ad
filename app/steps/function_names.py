"""Gives functions names that the model's server takes, and their calls in the reply the names that the caller knows."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from msgspec.structs import replace

from app.chat.events import Event, ToolCallDelta
from app.chat.messages import ChatRequest, Message, Part, Tool, ToolCall, ToolResult
from app.openai_messages.function_names import NameRule, find_name_rule
from app.profiles import Profile

_CHOICES = ("function_choice", "tool_choice")


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
    return {rule.make(tool.name): tool.name for tool in request.tools if rule.changes(tool.name)}


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


def _find_rule(profile: Profile) -> NameRule | None:
    """Return the rule of names that are sent in fields of their own; None if the prompt or a parser has them."""
    most = profile.max_function_name
    if most is None or not profile.native_tools or profile.text_family is not None:
        return None
    return find_name_rule(most, profile.function_names)


def _are_taken(tools: Sequence[Tool], rule: NameRule) -> bool:
    return rule.takes([tool.name for tool in tools])


def _rename_tool(tool: Tool, rule: NameRule) -> Tool:
    name = rule.make(tool.name)
    return tool if name == tool.name else replace(tool, name=name, schema={**tool.schema, "name": name})


def _rename_choice(choice: Any, rule: NameRule) -> Any:
    """Return a choice of one function by the name that is sent."""
    if isinstance(choice, str):
        return rule.make(choice)
    function = choice.get("function") if isinstance(choice, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        return choice
    return {**choice, "function": {**function, "name": rule.make(function["name"])}}


def _rename_calls(messages: Sequence[Message], rule: NameRule) -> tuple[Message, ...] | None:
    """Return the messages with the names that are sent; None if all of them are sent as they are."""
    renamed: dict[int, Message] = {}
    for number, message in enumerate(messages):
        for part in message.parts:
            if _is_named(part) and rule.changes(part.name or ""):
                parts = [
                    replace(one, name=rule.make(one.name or "")) if _is_named(one) else one for one in message.parts
                ]
                renamed[number] = replace(message, parts=tuple(parts))
                break
    return tuple(renamed.get(number, message) for number, message in enumerate(messages)) if renamed else None


def _is_named(part: Part) -> TypeGuard[ToolCall | ToolResult]:
    return type(part) is ToolCall or (type(part) is ToolResult and part.name is not None)
