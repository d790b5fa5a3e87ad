"""Normalize finish reasons, usage, and OpenRouter's `reasoning_details` (text, signatures, encrypted parts)."""

from typing import Any

from app.chat.events import FinishReason


def get_details_text(details: list[Any]) -> str:
    """Return the text of `reasoning_details`, for servers that send it in no other field."""
    texts = (item.get("text") or item.get("summary") for item in details if isinstance(item, dict))
    return "".join(text for text in texts if isinstance(text, str))


def get_opaque_details(details: list[Any]) -> list[dict[str, Any]]:
    """Return the signed and encrypted items without their text; the next request must repeat them verbatim."""
    return [
        {key: value for key, value in item.items() if key not in ("text", "summary", "index")}
        for item in details
        if isinstance(item, dict) and (item.get("signature") or item.get("data"))
    ]


REASONS: dict[str, FinishReason] = {
    **dict.fromkeys(("length", "max_tokens", "max_output_tokens", "model_length", "max_length"), "length"),
    **dict.fromkeys(("tool_calls", "function_call", "tool_use", "tool_call"), "tool_calls"),
    **dict.fromkeys(
        (
            "content_filter",
            "sensitive",
            "safety",
            "recitation",
            "blocklist",
            "prohibited_content",
            "spii",
            "image_safety",
            "error_toxic",
            "content_filtered",
            "guardrail_intervened",
            "refusal",
        ),
        "content_filter",
    ),
}
"""Finish reasons by the words that servers use, in lower case; any other word means `stop`."""

FAILURES: dict[str, str] = {
    "error": "server_error",
    "network_error": "server_error",
    "insufficient_system_resource": "overloaded",
    "malformed_function_call": "tool_use_failed",
    "abort": "upstream_incomplete",
    "aborted": "upstream_incomplete",
    "cancelled": "upstream_incomplete",
}
"""Finish reasons that mean that the reply is incomplete, and the kind of fault for each."""


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
        "cachedContentTokenCount",
        "cached_content_token_count",
    ),
    ("completion_tokens_details", "reasoning_tokens"): (
        "completion_tokens_details.reasoning_tokens",
        "output_tokens_details.reasoning_tokens",
        "reasoning_tokens",
        "thoughtsTokenCount",
        "thoughts_token_count",
    ),
}
"""The fields in which servers send each number: OpenAI, DeepSeek, Moonshot, Anthropic, Ollama, Gemini."""
_PART_KEYS = frozenset(path.partition(".")[0] for paths in _PARTS.values() for path in paths)


def normalize_usage(usage: dict[str, Any] | None) -> dict[str, Any] | None:
    """Add OpenAI's names for the numbers that the server calls otherwise; its own fields stay unchanged.

    Cached and reasoning tokens are added both where OpenAI nests them and at the top level.
    """
    return usage if usage is None or _is_normal(usage) else _add_openai_names(usage)


def _add_openai_names(usage: dict[str, Any]) -> dict[str, Any]:
    added: dict[str, Any] = {}
    for name, paths in _TOTALS.items():
        value = _find_first(usage, paths)
        if value is not None and usage.get(name) is None:
            added[name] = value
    if "prompt_tokens" in added:
        added["prompt_tokens"] += _count_cached_input_tokens(usage)
    both = [_find_number(usage | added, name) for name in ("prompt_tokens", "completion_tokens")]
    if usage.get("total_tokens") is None and "total_tokens" not in added and None not in both and added:
        added["total_tokens"] = sum(filter(None, both))
    for (details, name), paths in _PARTS.items():
        value = _find_first(usage, paths)
        if value is None:
            continue
        if usage.get(name) is None:
            added[name] = value
        nested = usage.get(details)
        nested = nested if isinstance(nested, dict) else {}
        if nested.get(name) is None and (value or details not in usage):
            added[details] = {**nested, name: value}
    return usage | added


def _is_normal(usage: dict[str, Any]) -> bool:
    """Whether nothing can be added: the usual usage, with OpenAI's totals and neither cached nor reasoning tokens."""
    for name in _TOTALS:
        if type(usage.get(name)) is not int:
            return False
    parts = usage.keys() & _PART_KEYS
    return not parts or all(usage[key] is None for key in parts)


def _find_first(usage: dict[str, Any], paths: tuple[str, ...]) -> int | None:
    """Return the first number that is not zero, else zero: relays send zeros for numbers that they do not know."""
    values = [value for value in (_find_number(usage, path) for path in paths) if value is not None]
    return next((value for value in values if value), values[0] if values else None)


def _find_number(usage: dict[str, Any], path: str) -> int | None:
    outer, _, inner = path.rpartition(".")
    holder = usage.get(outer) if outer else usage
    value = holder.get(inner) if isinstance(holder, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _count_cached_input_tokens(usage: dict[str, Any]) -> int:
    """Anthropic's `input_tokens` does not include tokens read from its cache or written to it; count those."""
    if usage.get("input_tokens") is None:
        return 0
    return sum(_find_number(usage, name) or 0 for name in ("cache_read_input_tokens", "cache_creation_input_tokens"))
