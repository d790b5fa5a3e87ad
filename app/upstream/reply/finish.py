"""How a reply ended, by the server's own word, and what it cost.

OpenRouter's `reasoning_details`: a thought's text, and its signatures and encrypted parts.
"""

from typing import Any

from app.chat.events import FinishReason


def details_text(details: list[Any]) -> str:
    """For where no other field has the text."""
    pieces = (item.get("text") or item.get("summary") for item in details if isinstance(item, dict))
    return "".join(piece for piece in pieces if isinstance(piece, str))


def details_opaque(details: list[Any]) -> list[dict[str, Any]]:
    """What must go back verbatim."""
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
"""Finish reasons by the servers' words, in lower case; any other word means stop."""

FAILURES: dict[str, str] = {
    "error": "server_error",
    "network_error": "server_error",
    "insufficient_system_resource": "overloaded",
    "malformed_function_call": "tool_use_failed",
    "abort": "upstream_incomplete",
    "aborted": "upstream_incomplete",
    "cancelled": "upstream_incomplete",
}
"""Finish reasons that say that the reply is not whole, and the kind of fault each is."""


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
"""Where servers have each number: OpenAI's names, DeepSeek's, Moonshot's, Anthropic's, Ollama's, Gemini's."""


def normalize_usage(usage: dict[str, Any] | None) -> dict[str, Any] | None:
    """The server's numbers unchanged, and beside them OpenAI's names for those that it calls otherwise.

    The tokens from the server's cache and those of thoughts also stand where OpenAI nests them, and at the top.
    """
    if usage is None:
        return None
    found: dict[str, Any] = {}
    for name, places in _TOTALS.items():
        value = _first(usage, places)
        if value is not None and usage.get(name) is None:
            found[name] = value
    if "prompt_tokens" in found:
        found["prompt_tokens"] += _cached_input_tokens(usage)
    both = [(usage | found).get(name) for name in ("prompt_tokens", "completion_tokens")]
    if usage.get("total_tokens") is None and "total_tokens" not in found and None not in both and found:
        found["total_tokens"] = sum(both)
    for (details, name), places in _PARTS.items():
        value = _first(usage, places)
        if value is None:
            continue
        if usage.get(name) is None:
            found[name] = value
        nested = usage.get(details)
        nested = nested if isinstance(nested, dict) else {}
        if nested.get(name) is None and (value or details not in usage):
            found[details] = {**nested, name: value}
    return usage | found


def _first(usage: dict[str, Any], places: tuple[str, ...]) -> int | None:
    """Zero counts only where no other place says more: relays fill in zeros for what they do not know."""
    values = [value for value in (_number(usage, place) for place in places) if value is not None]
    return next((value for value in values if value), values[0] if values else None)


def _number(usage: dict[str, Any], place: str) -> int | None:
    outer, _, inner = place.rpartition(".")
    holder = usage.get(outer) if outer else usage
    value = holder.get(inner) if isinstance(holder, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _cached_input_tokens(usage: dict[str, Any]) -> int:
    """Anthropic does not count among `input_tokens` what was read from its cache or written to it."""
    if usage.get("input_tokens") is None:
        return 0
    return sum(_number(usage, name) or 0 for name in ("cache_read_input_tokens", "cache_creation_input_tokens"))
