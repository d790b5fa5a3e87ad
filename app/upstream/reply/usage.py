"""Put together the usage of a reply and normalize it: the numbers that servers call by many names get OpenAI's."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from app.chat.token_usage import MAX_COST, MAX_COUNT, read_count

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
        "input_tokens_details.cache_write_tokens",
        "cache_write_tokens",
        "cache_creation_input_tokens",
    ),
    ("completion_tokens_details", "reasoning_tokens"): (
        "completion_tokens_details.reasoning_tokens",
        "output_tokens_details.reasoning_tokens",
        "output_tokens_details.thinking_tokens",
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
_TICKS_PER_USD = 10**10
"""xAI's unit in `cost_in_usd_ticks`."""
_DECIMAL = re.compile(r"([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_PART_KEYS = {name: frozenset(path.partition(".")[0] for path in paths) for name, paths in _PARTS.items()}
"""The fields of a usage in which each number, or the object around it, may be."""
_RARE_KEYS = frozenset(("cost", "cost_in_usd_ticks")).union(*_PART_KEYS.values())
_COUNTS = frozenset((*_TOTALS, *(name for _, name in _PARTS), "audio_tokens"))
"""OpenAI's names for numbers of tokens."""
_DETAILS = frozenset(details for details, _ in _PARTS)
_ALL_COUNTS = _COUNTS.union(*_TOTALS.values(), (path.rpartition(".")[2] for paths in _PARTS.values() for path in paths))
"""All names of numbers of tokens."""
_PARTS_OF_TOTAL = frozenset((*_TOTALS["prompt_tokens"], *_TOTALS["completion_tokens"]))


def lacks_counts(holder: Mapping[str, Any], *names: str) -> bool:
    """Whether the usage of an event has not all of these numbers, without which clients cannot read it."""
    usage = holder.get("usage")
    return not isinstance(usage, dict) or any(type(usage.get(name)) is not int for name in names)


def merge_usage(known: dict[str, Any], later: dict[str, Any]) -> dict[str, Any]:
    """Return the usage in which each number is the last one that the server sent.

    Null does not replace a number, and neither does zero, by which relays mean that they do not know it, nor what
    cannot be a number of tokens. A total that the later numbers do not have is left out if one of its parts changed.
    """
    merged = dict(known)
    changed = False
    for name, value in later.items():
        before = known.get(name)
        if type(value) is dict and type(before) is dict:
            merged[name] = merge_usage(before, value)
        elif before is None or _replaces(name, value):
            merged[name] = value
            changed = changed or (value != before and name in _PARTS_OF_TOTAL)
    if changed and not any(later.get(name) for name in _TOTALS["total_tokens"]):
        for name in _TOTALS["total_tokens"]:
            merged.pop(name, None)
    return merged


def _replaces(name: str, value: Any) -> bool:
    """Whether a value is to replace an earlier one that was not null."""
    if name in _ALL_COUNTS:
        return bool(read_count(value))
    return value is not None if type(value) not in (int, float) else value > 0


def normalize_usage(usage: dict[str, Any] | None) -> dict[str, Any] | None:
    """Add OpenAI's names for the numbers that the server calls otherwise. Its own fields stay unchanged, but one
    with OpenAI's name for a number of tokens is left out if it cannot be one. None if none of OpenAI's
    three totals is known.

    Cached, written and reasoning tokens are added both where OpenAI nests them and at the top level. The number of the
    prompt or of the reply follows from the total, if that is the only one that is missing. `cost` is always a number,
    as OpenRouter sends it: a decimal string becomes one, an object moves to `cost_details`, and what cannot be a cost
    is left out.
    """
    if usage is None or _is_normal(usage):
        return usage
    normalized = _add_openai_names(usage)
    return None if all(normalized.get(name) is None for name in _TOTALS) else normalized


def _correct_counts(usage: dict[str, Any]) -> dict[str, Any]:
    """Leave out what has one of OpenAI's names and is neither a number of tokens nor null."""
    corrected: dict[str, Any] = {}
    for name, value in usage.items():
        if name in _DETAILS and isinstance(value, dict):
            corrected[name] = _correct_counts(value)
        elif name not in _COUNTS or value is None:
            corrected[name] = value
        elif (count := read_count(value)) is not None:
            corrected[name] = count
    return corrected


def _add_openai_names(usage: dict[str, Any]) -> dict[str, Any]:
    usage = _correct_counts(usage)
    added: dict[str, Any] = {}
    for name, paths in _TOTAL_PATHS.items():
        value = None if usage.get(name) else _find_first(usage, paths)
        if value is not None and value != usage.get(name):
            added[name] = value
    if "prompt_tokens" in added:
        added["prompt_tokens"] += _count_cached_input_tokens(usage)
    added |= _derive_total(usage | added)
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
    return _normalize_cost(usage | added)


def _derive_total(usage: dict[str, Any]) -> dict[str, Any]:
    """Return the number that follows from the two others, if exactly one of the prompt's, the reply's and the total is
    missing."""
    prompt, completion, total = (read_count(usage.get(name)) for name in _TOTALS)
    if prompt is not None and completion is not None:
        return {} if total else {"total_tokens": prompt + completion}
    if prompt is not None and total is not None and total >= prompt:
        return {"completion_tokens": total - prompt}
    if completion is not None and total is not None and total >= completion:
        return {"prompt_tokens": total - completion}
    return {}


def _normalize_cost(usage: dict[str, Any]) -> dict[str, Any]:
    """Return the usage with a cost that is a number, or without one."""
    cost, ticks = usage.get("cost"), usage.get("cost_in_usd_ticks")
    normalized = {name: value for name, value in usage.items() if name != "cost"}
    if isinstance(cost, dict):
        normalized.setdefault("cost_details", cost)
        totals = [_read_amount(cost.get(name)) for name in _COST_TOTALS]
    else:
        totals = [_read_amount(cost)]
    if (usd_ticks := _read_amount(ticks, MAX_COST * _TICKS_PER_USD)) is not None:
        totals.append(usd_ticks / _TICKS_PER_USD)
    known = [total for total in totals if total is not None]
    return normalized | {"cost": known[0]} if known else normalized


def _read_amount(value: Any, most: int = MAX_COST) -> float | None:
    """Return an amount of money, which some servers send as a decimal string; None if it is not a number from 0 to
    `most`."""
    if type(value) is str and _DECIMAL.fullmatch(value):
        value = float(value)
    return value if type(value) in (int, float) and 0 <= value <= most else None


def _is_normal(usage: dict[str, Any]) -> bool:
    """Whether nothing changes: the usual usage has OpenAI's totals, but no cached or reasoning tokens, and no cost."""
    for name in _TOTALS:
        value = usage.get(name)
        if type(value) is not int or not 0 < value <= MAX_COUNT:
            return False
    if _RARE_KEYS.isdisjoint(usage):
        return True
    return "cost" not in usage and all(usage[key] is None for key in usage.keys() & _RARE_KEYS)


def _find_first(usage: dict[str, Any], paths: Iterable[tuple[str, str]]) -> int | None:
    """Return the first number that is not zero, else zero: relays send zeros for numbers that they do not know."""
    found: int | None = None
    for outer, inner in paths:
        holder = usage.get(outer) if outer else usage
        value = read_count(holder.get(inner)) if isinstance(holder, dict) else None
        if value:
            return value
        if value is not None:
            found = value
    return found


def _count_cached_input_tokens(usage: dict[str, Any]) -> int:
    """Anthropic's `input_tokens` does not include tokens read from its cache or written to it; count those."""
    if usage.get("input_tokens") is None:
        return 0
    return sum(read_count(usage.get(name)) or 0 for name in ("cache_read_input_tokens", "cache_creation_input_tokens"))
