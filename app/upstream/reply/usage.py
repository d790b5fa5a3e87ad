"""Normalize the usage of a reply: the numbers that servers call by many names get those of OpenAI."""

from collections.abc import Iterable
from typing import Any

_TOTALS: dict[str, tuple[str, ...]] = {
    "prompt_tokens": ("prompt_tokens", "input_tokens", "prompt_eval_count", "promptTokenCount", "prompt_token_count"),
    "completion_tokens": (
        "completion_tokens",
        "output_tokens",
        "eval_count",
        "candidatesTokenCount",
        "candidates_token_count",
    ),
    "total_tokens": ("total_tokens", "totalTokenCount", "total_token_count"),
}
_PARTS: dict[tuple[str, str], tuple[str, ...]] = {
    ("prompt_tokens_details", "cached_tokens"): (
        "prompt_tokens_details.cached_tokens",
        "input_tokens_details.cached_tokens",
        "cached_tokens",
        "prompt_cache_hit_tokens",
        "cache_read_input_tokens",
        "num_cached_tokens",
        "cachedContentTokenCount",
        "cached_content_token_count",
    ),
    ("prompt_tokens_details", "cache_write_tokens"): (
        "prompt_tokens_details.cache_write_tokens",
        "cache_write_tokens",
        "cache_creation_input_tokens",
    ),
    ("completion_tokens_details", "reasoning_tokens"): (
        "completion_tokens_details.reasoning_tokens",
        "output_tokens_details.reasoning_tokens",
        "reasoning_tokens",
        "thoughtsTokenCount",
        "thoughts_token_count",
    ),
}
"""The fields in which servers send each number: OpenAI, DeepSeek, Moonshot, Anthropic, Mistral, Ollama, Gemini."""


def _split_paths(paths: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return the name of the object around each number, empty if there is none, and the name of the number."""
    return tuple((outer, inner) for outer, _, inner in (path.rpartition(".") for path in paths))


_TOTAL_PATHS = {name: _split_paths(paths) for name, paths in _TOTALS.items()}
_PART_PATHS = {name: _split_paths(paths) for name, paths in _PARTS.items()}
_COST_TOTALS = ("total_cost", "usd")
"""Where a cost that is an object has its total: at Perplexity, and at Charm's relay."""
_USD_PER_TICK = 1e-10
"""xAI's unit in `cost_in_usd_ticks`."""
_PART_KEYS = {name: frozenset(path.partition(".")[0] for path in paths) for name, paths in _PARTS.items()}
"""The fields of a usage in which each number, or the object around it, may be."""
_RARE_KEYS = frozenset(("cost", "cost_in_usd_ticks")).union(*_PART_KEYS.values())


def normalize_usage(usage: dict[str, Any] | None) -> dict[str, Any] | None:
    """Add OpenAI's names for the numbers that the server calls otherwise; its own fields stay unchanged.

    Cached, written and reasoning tokens are added both where OpenAI nests them and at the top level. `cost` is always a
    number, as OpenRouter sends it: a cost that is an object moves to `cost_details`.
    """
    return usage if usage is None or _is_normal(usage) else _add_openai_names(usage)


def _add_openai_names(usage: dict[str, Any]) -> dict[str, Any]:
    added: dict[str, Any] = {}
    for name, paths in _TOTAL_PATHS.items():
        value = _find_first(usage, paths) if usage.get(name) is None else None
        if value is not None:
            added[name] = value
    if "prompt_tokens" in added:
        added["prompt_tokens"] += _count_cached_input_tokens(usage)
    if usage.get("total_tokens") is None and "total_tokens" not in added and added:
        both = [_read_number(usage | added, name) for name in ("prompt_tokens", "completion_tokens")]
        if None not in both:
            added["total_tokens"] = sum(filter(None, both))
    for (details, name), paths in _PART_PATHS.items():
        value = None if _PART_KEYS[details, name].isdisjoint(usage) else _find_first(usage, paths)
        if value is None:
            continue
        if usage.get(name) is None:
            added[name] = value
        nested = usage.get(details)
        nested = nested if isinstance(nested, dict) else {}
        if nested.get(name) is None and (value or details not in usage):
            added[details] = {**nested, name: value}
            usage = usage | {details: added[details]}
    return usage | added | _normalize_cost(usage)


def _normalize_cost(usage: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that make the cost a number; none if it is one, or is unknown."""
    cost, ticks = usage.get("cost"), usage.get("cost_in_usd_ticks")
    if isinstance(cost, dict):
        totals = [cost.get(name) for name in _COST_TOTALS]
        total = next((value for value in totals if type(value) in (int, float)), None)
        return {"cost": total, "cost_details": usage.get("cost_details", cost)}
    if cost is None and type(ticks) is int:
        return {"cost": ticks * _USD_PER_TICK}
    return {}


def _is_normal(usage: dict[str, Any]) -> bool:
    """Whether nothing can be added: the usual usage, with OpenAI's totals, neither cached nor reasoning tokens, and no
    cost."""
    for name in _TOTALS:
        if type(usage.get(name)) is not int:
            return False
    return _RARE_KEYS.isdisjoint(usage) or all(usage[key] is None for key in usage.keys() & _RARE_KEYS)


def _find_first(usage: dict[str, Any], paths: Iterable[tuple[str, str]]) -> int | None:
    """Return the first number that is not zero, else zero: relays send zeros for numbers that they do not know."""
    found: int | None = None
    for outer, inner in paths:
        holder = usage.get(outer) if outer else usage
        value = _read_number(holder, inner) if isinstance(holder, dict) and inner in holder else None
        if value:
            return value
        if value is not None:
            found = value
    return found


def _read_number(holder: dict[str, Any], name: str) -> int | None:
    value = holder.get(name)
    return value if type(value) is int and value >= 0 else None


def _count_cached_input_tokens(usage: dict[str, Any]) -> int:
    """Anthropic's `input_tokens` does not include tokens read from its cache or written to it; count those."""
    if usage.get("input_tokens") is None:
        return 0
    return sum(_read_number(usage, name) or 0 for name in ("cache_read_input_tokens", "cache_creation_input_tokens"))
