"""How a reply ended, by the server's own word, and what it cost."""

from typing import Any

from app.chat.events import FinishReason

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


def counted(usage: dict[str, Any] | None) -> dict[str, Any] | None:
    """The server's numbers unchanged; the two that servers nest in details also stand beside the others."""
    if usage is None:
        return None
    found = {}
    for details, name in (
        ("completion_tokens_details", "reasoning_tokens"),
        ("prompt_tokens_details", "cached_tokens"),
    ):
        nested = usage.get(details)
        value = nested.get(name) if isinstance(nested, dict) else None
        if value is not None and name not in usage:
            found[name] = value
    return usage | found
