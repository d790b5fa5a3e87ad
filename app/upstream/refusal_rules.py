"""Repairs that depend on what a server names in its refusal: the fields that it does not know, the values that it takes
instead, the number that is its limit. They are the same for all APIs."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from app.chat.events import Fault
from app.upstream.refused_betas import Headers, drop_betas, find_betas
from app.upstream.refused_images import count_images, keep_newest
from app.upstream.refused_limits import find_largest, find_room, lower_limits
from app.upstream.refused_names import read_name_rule, rename_functions
from app.upstream.refused_values import change_effort, change_roles, change_thinking, find_values
from app.upstream.unknown_fields import drop_fields, find_unknown_fields, is_option

Json = dict[str, Any]
_SWITCHES = ("enable_thinking", "thinking_budget")
"""Fields by which thinking is switched at many servers, while others refuse a request with an unknown field. A server
that does not know one knows none."""


class Rule(Struct, frozen=True):
    read: Callable[[Fault], str]
    """Returns what the server names, or an empty text if it refuses something else."""
    warning: str
    """With `{}` for what the server named."""
    change: Callable[[Json, str], Json | None] | None = None
    """Returns the changed body; None if there is nothing to change."""
    change_headers: Callable[[Headers, str], Headers | None] | None = None
    """Returns the changed headers, if the rule is about these."""
    lasts: bool = True
    """Further requests of the caller for the model need it, too."""

    def find(self, fault: Fault) -> str | None:
        return self.read(fault) or None

    def apply(self, body: Json, headers: Headers, named: str) -> tuple[Json, Headers] | None:
        """Return the changed request; None if there is nothing to change."""
        changed = body if self.change is None else self.change(body, named)
        left = headers if self.change_headers is None else self.change_headers(headers, named)
        return None if changed is None or left is None else (changed, left)

    def warn(self, named: str) -> str:
        names = dict.fromkeys([name.rpartition("*.")[2] for name in named.split(" ")])
        return self.warning.format(", ".join(names))


def _find_fields(fault: Fault) -> str:
    return " ".join(find_unknown_fields(fault.message))


def _drop_fields(body: Json, named: str) -> Json | None:
    return drop_fields(body, named.split(" "))


def _find_switches(fault: Fault) -> str:
    """Return all switches, the first of those that the server names before the others."""
    found = [name for name in _SWITCHES if name in fault.message]
    return " ".join(dict.fromkeys((*found, *_SWITCHES))) if found else ""


def _drop_switches(body: Json, named: str) -> Json | None:
    switches = named.split(" ")
    return drop_fields(body, switches) if switches[0] in body else None


_TOOL_TYPES = re.compile(
    r"\btools?\b\S{0,8}?\.type\b(?!\W{0,4}(?:is required|field required|missing))|"
    r"\btools\.\d{1,4}: invalid input\b|(?:unsupported|invalid|unknown)(?: \w{1,12})? tool type|"
    r"tool type\b[^\n]{0,60}?(?:not |un)supported|"
    r"only\b[^\n]{0,20}?\bfunction\b[^\n]{0,20}? tools? (?:is|are) supported",
    re.IGNORECASE,
)
"""LM Studio, DeepSeek, OpenRouter and proxies: lmstudio-ai/lmstudio-bug-tracker#1812, BerriAI/litellm#30722,
openai/codex#18307."""


def _find_tool_types(fault: Fault) -> str:
    return "functions" if _TOOL_TYPES.search(f"{fault.server_param} {fault.message}") else ""


def _keep_functions(body: Json, _: str) -> Json | None:
    tools = body.get("tools")
    if not isinstance(tools, list):
        return None
    kept = [tool for tool in tools if not isinstance(tool, dict) or _is_function(tool)]
    return None if not kept or len(kept) == len(tools) else {**body, "tools": kept}


def _is_function(tool: Json) -> bool:
    return tool.get("type") in (None, "function") or (tool["type"] == "custom" and "input_schema" in tool)


def _trim_last(body: Json, _: str) -> Json | None:
    """Return the body without white space at the end of the last message (caozhiyuan/copilot-api#216)."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages or messages[-1].get("role") != "assistant":
        return None
    content = messages[-1].get("content")
    trimmed = content
    if isinstance(content, str):
        trimmed = content.rstrip()
    elif content and isinstance(text := content[-1].get("text"), str):
        trimmed = [*content[:-1], {**content[-1], "text": text.rstrip()}]
    return None if trimmed == content else {**body, "messages": [*messages[:-1], {**messages[-1], "content": trimmed}]}


_PAIR = re.compile(
    r"(?<!\w)(\w{1,40})\W{1,3}(?:and|or) \W?(\w{1,40})\W? (?:cannot|can't|can not|may not|must not) (?:both )?be "
    r"(?:both )?(?:specified|set|used|given|provided|present)\b",
    re.IGNORECASE,
)
"""Claude: "`temperature` and `top_p` cannot both be specified for this model" (Vali-98/ChatterUI#564)."""


def _find_pair(fault: Fault) -> str:
    found = _PAIR.search(fault.message)
    return " ".join(found.groups()) if found else ""


def _drop_second(body: Json, named: str) -> Json | None:
    """Return the body without the second of two fields, if it has both, and this one is an option."""
    first, second = named.split(" ")
    return drop_fields(body, [second]) if first in body and is_option(second) else None


_LIMIT_LOWERED = "the limit was lowered to {}. Set max_output_tokens in the model's profile"
FUNCTION_NAMES = "function names"
"""This rule alone changes what is in the reply, too."""
VALUE_RULES: Mapping[str, Rule] = {
    "taken efforts": Rule(
        lambda fault: find_values("efforts", fault.message),
        "of efforts, this model takes {}: the nearest of them was sent. Set efforts in the model's profile",
        change_effort,
    ),
    "taken roles": Rule(
        lambda fault: find_values("roles", fault.message),
        "of roles, the model server takes {}: others were sent as the one that is meant",
        change_roles,
    ),
}
"""A server that names the values that it takes knows the field, so these come before all repairs that leave it out."""
RULES: Mapping[str, Rule] = {
    "betas": Rule(
        find_betas,
        "the model server refused values of anthropic-beta: the request was sent without {}",
        change_headers=drop_betas,
    ),
    "taken thinking": Rule(
        lambda fault: find_values("thinking", fault.message),
        "of types of thinking, this model takes {}: another one was sent. Set thinking_switch in the model's profile",
        change_thinking,
    ),
    "most images": Rule(
        count_images,
        "the model server takes no more than {} images: the oldest ones were sent as words",
        keep_newest,
    ),
    "tool types": Rule(
        _find_tool_types,
        "of tools, the model server takes {} alone: the others were left out. Set `client_tools = false` in the "
        "model's profile, and those of a client become functions",
        _keep_functions,
    ),
    FUNCTION_NAMES: Rule(
        read_name_rule,
        "the model server refused names of functions: others were sent. Set `max_function_name` in the model's profile",
        rename_functions,
    ),
    "trailing space": Rule(
        lambda fault: "space" if "trailing whitespace" in fault.message else "",
        "the model server takes no white space at the end of the assistant's last message: it was left out",
        _trim_last,
    ),
    "one of two": Rule(
        _find_pair, "of two options, the model server takes one ({}): the second was left out", _drop_second
    ),
    "largest limit": Rule(
        find_largest, f"the model server takes no larger limit of output tokens: {_LIMIT_LOWERED}", lower_limits
    ),
    "room": Rule(
        find_room,
        f"the model server has no room for as many output tokens as were asked for: {_LIMIT_LOWERED}",
        lower_limits,
        lasts=False,
    ),
    "switches": Rule(
        _find_switches,
        "the model server does not know the switch or the budget of thinking ({}): the request was sent without it. "
        "Set `thinking_switch` in the model's profile",
        _drop_switches,
    ),
    "unknown fields": Rule(
        _find_fields, "the model server does not know {}: the request was sent without it", _drop_fields
    ),
}
"""By the name under which a repair is remembered, with what the server named. The first that fits counts."""
