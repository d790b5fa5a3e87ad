"""Take the signatures out of a body of chat completions whose server has refused them."""

from typing import Any

_SKIP = "skip_thought_signature_validator"
"""The signature that Gemini does not check (ai.google.dev/gemini-api/docs/thought-signatures, FAQ)."""


def strip_reasoning(body: dict[str, Any]) -> dict[str, Any] | None:
    """Return the body with a value that the server does not check in the place of each signature, and with the first
    call of each turn; None if that changes nothing."""
    messages = [_skip_signatures(message) for message in body["messages"]]
    return None if messages == body["messages"] else {**body, "messages": messages}


def _skip_signatures(message: dict[str, Any]) -> dict[str, Any]:
    calls = message.get("tool_calls")
    if not isinstance(calls, list) or not calls:
        return message
    return {**message, "tool_calls": [_skip_signature(call, place) for place, call in enumerate(calls)]}


def _skip_signature(call: dict[str, Any], place: int) -> dict[str, Any]:
    content = call.get("extra_content")
    given = content if isinstance(content, dict) else {}
    google = given.get("google")
    own = google if isinstance(google, dict) else {}
    if place and "thought_signature" not in own:
        return call
    return {**call, "extra_content": {**given, "google": {**own, "thought_signature": _SKIP}}}
