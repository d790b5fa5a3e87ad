"""A limit of output tokens that a server has refused, lowered to what it takes, or to what the prompt leaves room for.

Clients ask for as many tokens as their largest model takes, whatever the model is: the limit is a bound, and no demand.
"""

from typing import Any

from app.chat.events import Fault

Json = dict[str, Any]
MIN_ROOM = 1024
"""Tokens of a context that must be left for a reply. With fewer an agent's call would be cut in the middle, again in
each turn: the error tells it to shorten its conversation."""
_NAMES = ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens")
_HOLDER = "generationConfig"
"""Where Gemini's API has its options."""


def find_largest(fault: Fault) -> str:
    """Return the largest limit that the server takes for any prompt; an empty text if it says something else."""
    context, prompt, largest = _read(fault)
    return str(largest) if largest and (context is None or prompt is None) else ""


def find_room(fault: Fault) -> str:
    """Return the limit that the prompt leaves room for; an empty text if the server does not say enough, or if there is
    no room.

    vLLM counts a prompt no further than it must to refuse a request ("at least"): then it is the half of what is left
    (vllm-project/vllm#42474).
    """
    context, prompt, largest = _read(fault)
    if context is None or prompt is None:
        return ""
    room = (context - prompt) // 2 if "at least" in fault.message else context - prompt
    if room < MIN_ROOM:
        return ""
    return str(room if largest is None else min(room, largest))


def _read(fault: Fault) -> list[int | None]:
    detail = fault.detail if isinstance(fault.detail, dict) else {}
    given = (detail.get(f"{name}_tokens") for name in ("context", "input", "largest_max"))
    return [number if isinstance(number, int) else None for number in given]


def lower_limits(body: Json, named: str) -> Json | None:
    """Return the body with limits that the server takes; None if it has no larger one."""
    holder = body.get(_HOLDER)
    if isinstance(holder, dict):
        lowered = lower_limits(holder, named)
        return None if lowered is None else {**body, _HOLDER: lowered}
    fits = int(named)
    limits = {name: fits for name in _NAMES if type(value := body.get(name)) is int and value > fits}
    thinking = body.get("thinking")
    budget = thinking.get("budget_tokens") if isinstance(thinking, dict) else None
    if not limits or (type(budget) is int and budget >= fits):
        return None
    return {**body, **limits}
