"""Take the signatures out of a body of chat completions whose server has refused them."""

from typing import Any

from app.openai_messages.messages import UNCHECKED, sign


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
    google = content.get("google") if isinstance(content, dict) else None
    is_signed = isinstance(google, dict) and "thought_signature" in google
    return call if place and not is_signed else sign(call, UNCHECKED)
