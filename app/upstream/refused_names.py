"""Give functions other names where a server has refused theirs. Their calls in the reply get the given ones back."""

import re
from collections.abc import Callable, Iterable
from typing import Any

from app.chat.events import Fault
from app.openai_messages.function_names import NameRule, find_name_rule

Json = dict[str, Any]
_REFUSED = re.compile(
    r"function name is invalid|invalid function name|\bname\W{1,3}must be at most \d|"
    r"\bname\W{1,4}string (?:does not|should) match|\bname\W{1,4}string too long|"
    r"toolspec\.name\W{1,3}failed to satisfy",
    re.IGNORECASE,
)
"""decolua/9router#3622, openai/codex#8174, github/copilot-cli#2581, BerriAI/litellm#24668."""
_MOST = re.compile(
    r"\{1,(\d{2,3})\}|(?:at most|maximum length(?: of)?|less than or equal to) (\d{2,3})\b", re.IGNORECASE
)
_USUAL = 64
_LEAST = 16


def read_name_rule(fault: Fault) -> str:
    """Return the longest name that a server takes, and their form; an empty text if it refuses something else."""
    if not _REFUSED.search(fault.message):
        return ""
    found = _MOST.search(fault.message)
    most = max(int(found[1] or found[2]), _LEAST) if found else _USUAL
    return f"{most} {'letter_first' if 'start with a letter' in fault.message else 'plain'}"


def _find_rule(named: str) -> NameRule:
    most, form = named.split(" ")
    return find_name_rule(int(most), "letter_first" if form == "letter_first" else "plain")


def rename_functions(body: Json, named: str) -> Json | None:
    """Return the body with names that the server takes; None if it has no others."""
    make = _find_rule(named).make
    changed = {
        name: _rename_all(value, make) if name in ("tools", "messages", "input") else value
        for name, value in body.items()
    }
    choice = body.get("tool_choice")
    if isinstance(choice, dict):
        changed["tool_choice"] = _rename_function(_give_name(choice, make), make)
    return None if changed == body else changed


def _rename_all(entries: Any, make: Callable[[str], str]) -> Any:
    if not isinstance(entries, list):
        return entries
    return [_rename(entry, make) if isinstance(entry, dict) else entry for entry in entries]


def _rename(entry: Json, make: Callable[[str], str]) -> Json:
    """Return a tool, a message, a call or a choice of one with the names that are sent."""
    renamed = _rename_function(_give_name(entry, make) if _is_named(entry) else entry, make)
    lists: Json = {field: _rename_all(entry[field], make) for field in ("tool_calls", "content") if field in entry}
    return {**renamed, **lists} if lists else renamed


def _rename_function(holder: Json, make: Callable[[str], str]) -> Json:
    function = holder.get("function")
    return {**holder, "function": _give_name(function, make)} if isinstance(function, dict) else holder


def _give_name(holder: Json, make: Callable[[str], str]) -> Json:
    name = holder.get("name")
    return {**holder, "name": make(name)} if isinstance(name, str) else holder


def _is_named(entry: Json) -> bool:
    """Whether its name is that of a function: that of a message of a user is none."""
    kind = entry.get("type")
    return kind in ("function", "function_call", "tool_use") or "input_schema" in entry or entry.get("role") == "tool"


def find_given_names(body: Json, rules: Iterable[str]) -> dict[str, str]:
    """Return the functions of a body that get another name by these rules, one after the other: the given name by that
    which is sent."""
    given: dict[str, str] = {}
    for named in rules:
        rule, tools = _find_rule(named), body.get("tools")
        names = [_find_name(tool) for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []
        given |= {rule.make(name): given.get(name, name) for name in names if name is not None and rule.changes(name)}
        body = rename_functions(body, named) or body
    return given


def _find_name(tool: Json) -> str | None:
    holder = tool["function"] if isinstance(tool.get("function"), dict) else tool
    name = holder.get("name")
    return name if isinstance(name, str) and (holder is not tool or _is_named(tool)) else None
