"""Take the opaque reasoning out of a body of the Messages API whose server has refused it."""

from typing import Any

_OPAQUE = ("thinking", "redacted_thinking")


def strip_reasoning(body: dict[str, Any]) -> dict[str, Any] | None:
    """Return the body without thinking blocks; None if there are none, or if its caller wants the refusal.

    With `thinking` of type `enabled` the server demands reasoning before the calls that the last results answer, so
    that is left out, too.
    """
    thinking = body.get("thinking")
    thinking = thinking if isinstance(thinking, dict) else {}
    binding = thinking.get("block_binding")
    if isinstance(binding, dict) and binding.get("prefix_mismatch_behavior") == "error":
        return None
    messages, found = [], False
    for message in body["messages"]:
        content = message.get("content")
        if message.get("role") != "assistant" or not isinstance(content, list):
            messages.append(message)
            continue
        kept = [block for block in content if not isinstance(block, dict) or block.get("type") not in _OPAQUE]
        found = found or len(kept) < len(content)
        if kept:
            messages.append({**message, "content": kept})
    if not found:
        return None
    stripped = {**body, "messages": messages}
    if thinking.get("type") == "enabled" and _ends_with_result(messages):
        del stripped["thinking"]
    return stripped


def _ends_with_result(messages: list[dict[str, Any]]) -> bool:
    content = messages[-1].get("content") if messages else None
    return isinstance(content, list) and any(
        isinstance(block, dict) and block.get("type") == "tool_result" for block in content
    )
