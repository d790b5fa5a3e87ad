"""Change a body that a server has refused because of one field: without a field that says nothing of the reply, or with
a choice of tools in a form that each server knows.

Servers refuse fields that others read, and do not say so in a document. Each change is made after one refusal, and then
in every body of that caller to that model.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any

from app.upstream.api import Repair

Json = dict[str, Any]
HINTS = (
    *("prompt_cache_key", "prompt_cache_retention", "prompt_cache_options", "safety_identifier", "user", "metadata"),
    "stream_options",
)
"""Fields that say nothing of the reply: they find a cache, name a caller, or ask for the usage."""
_REFUSAL = (
    r"unknown|unsupported|unrecogni[sz]ed|unexpected|not (?:supported|permitted|allowed|recogni[sz]ed)|only allowed|"
    r"extra (?:inputs|fields)|cannot find field|no such (?:field|parameter)"
)
"""What servers say of a field that they refuse."""
_REFUSED_CHOICE = re.compile(
    r"\A(?>.*?tool_choice\b).*?(?:'object'|string values|valid string|must be a string|expected (?:a )?string)",
    re.IGNORECASE | re.DOTALL,
)
"""Its beginning is matched once: otherwise each name in a hostile message would be a new one. The sources are LM
Studio, Groq and pydantic: earendil-works/pi issue 4266, plmbr/notebook-intelligence PR 115."""


def make_hint_repairs(names: Iterable[str] = HINTS) -> dict[str, Repair]:
    """Return a repair for each of these fields, by its name (lyral-commits in NVIDIA/NemoClaw issue 10549)."""
    return {name: _make_hint_repair(name) for name in names}


def _make_hint_repair(name: str) -> Repair:
    # A name that is a common word must be quoted, or stand as a path does.
    word = rf"[`'\"]{name}[`'\"]|(?:^|\bbody\.){name}:" if "_" not in name else rf"(?<!\w){name}(?!\w)"
    both = rf"\A(?=.*?(?:{word}))(?=.*?(?:{_REFUSAL}))"  # each is looked for once, wherever the other one is
    setting = "Set `stream_usage = false`" if name == "stream_options" else f"Add {name} to `lacks`"
    warning = f"the model server refused {name}: the request was sent without it. {setting} in the model's profile"
    return Repair(re.compile(both, re.IGNORECASE | re.DOTALL), _leave_out(name), warning)


def _leave_out(name: str) -> Callable[[Json], Json | None]:
    def change(body: Json) -> Json | None:
        return {field: value for field, value in body.items() if field != name} if name in body else None

    return change


def _offer_chosen_tool(body: Json) -> Json | None:
    """Return the body with only the function that is chosen, and a demand for a call; None if none is chosen."""
    choice, tools = body.get("tool_choice"), body.get("tools")
    name = _find_name(choice) if isinstance(choice, dict) else None
    chosen = [tool for tool in tools if _find_name(tool) == name] if isinstance(tools, list) and name else []
    return {**body, "tools": chosen, "tool_choice": "required"} if chosen else None


def _find_name(holder: Any) -> Any:
    """Return the name of a function, which chat completions have in an object of its own."""
    if not isinstance(holder, dict):
        return None
    function = holder.get("function")
    return function.get("name") if isinstance(function, dict) else holder.get("name")


CHOICE_REPAIR = {
    "named_tool_choice": Repair(
        _REFUSED_CHOICE,
        _offer_chosen_tool,
        "the model server takes no object as tool_choice: only the chosen function was offered, with `required`. Set "
        "`named_tool_choice = false` in the model's profile",
    )
}
