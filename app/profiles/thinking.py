"""Whether a model thinks before it answers."""

from collections.abc import Mapping
from typing import Any

from app.profiles.profile import Profile


def is_thinking(body: Mapping[str, Any], profile: Profile) -> bool:
    """Return whether the model thinks before it answers this body, as far as the body and the profile say."""
    switch = find_switch(body)
    return profile.thinks_by_default if switch is None else switch


def find_switch(body: Mapping[str, Any]) -> bool | None:
    """Return whether a body switches thinking on or off; None if it does neither."""
    return next((switch for switch in _find_switches(body) if isinstance(switch, bool)), None)


def _find_switches(body: Mapping[str, Any]) -> "list[bool | None]":
    """Return what each field says of thinking, the most explicit first; None if it says nothing."""
    thinking, reasoning, variables = (body.get(name) for name in ("thinking", "reasoning", "chat_template_kwargs"))
    effort = body.get("reasoning_effort")
    found: list[bool | None] = [
        thinking["type"] != "disabled" if isinstance(thinking, dict) and "type" in thinking else None,
        body.get("enable_thinking"),
    ]
    if isinstance(variables, dict):
        found += (variables.get("enable_thinking"), variables.get("thinking"))
    if isinstance(reasoning, dict):
        inner = reasoning.get("effort")
        found += (reasoning.get("enabled"), inner != "none" if isinstance(inner, str) else None)
        found.append(True if reasoning.get("max_tokens") else None)
    found.append(effort != "none" if isinstance(effort, str) else None)
    return found
