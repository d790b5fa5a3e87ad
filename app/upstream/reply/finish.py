"""Normalize finish reasons, and OpenRouter's `reasoning_details` (text, signatures, encrypted parts)."""

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
