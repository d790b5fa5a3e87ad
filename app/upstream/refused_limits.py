"""A limit of output tokens that a server has refused, lowered to what the prompt leaves room for.

Clients ask for as many tokens as their largest model takes, whatever the model is: the limit is a bound, and no demand.
"""

from collections.abc import Mapping
from typing import Any

from app.chat.events import Fault

MIN_ROOM = 1024
"""Tokens of a context that must be left for a reply. With fewer an agent's call would be cut in the middle, again in
each turn: the error tells it to shorten its conversation."""
_NAMES = ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens")


def lower_limits(options: Mapping[str, Any], fault: Fault) -> dict[str, Any] | None:
    """Return the options with limits that the server takes; None if it does not say enough, or has no room.

    vLLM counts a prompt no further than it must to refuse a request ("at least"): then it is the half of what is left
    (vllm-project/vllm#42474).
    """
    fits = _find_room(fault)
    if fits is None or fits < 1:
        return None
    lowered = {name: fits for name in _NAMES if type(value := options.get(name)) is int and value > fits}
    thinking = options.get("thinking")
    budget = thinking.get("budget_tokens") if isinstance(thinking, dict) else None
    if not lowered or (type(budget) is int and budget >= fits):
        return None
    return {**options, **lowered}


def _find_room(fault: Fault) -> int | None:
    detail = fault.detail if isinstance(fault.detail, dict) else {}
    context, prompt, largest = (detail.get(f"{name}_tokens") for name in ("context", "input", "largest_max"))
    if not isinstance(context, int) or not isinstance(prompt, int):
        return largest if isinstance(largest, int) else None
    room = (context - prompt) // 2 if "at least" in fault.message else context - prompt
    if room < MIN_ROOM:
        return None
    return min(room, largest) if isinstance(largest, int) else room
