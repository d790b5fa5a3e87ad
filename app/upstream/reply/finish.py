"""Normalize finish reasons."""

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
