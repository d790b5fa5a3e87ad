"""Take the opaque reasoning out of a body of the Responses API whose server has refused it."""

from typing import Any


def strip_reasoning(body: dict[str, Any]) -> dict[str, Any] | None:
    """Return the body without the items of reasoning; None if there are none."""
    items = body.get("input")
    if not isinstance(items, list):
        return None
    kept = [item for item in items if not isinstance(item, dict) or item.get("type") != "reasoning"]
    return {**body, "input": kept} if len(kept) < len(items) else None
