"""What the schemas of AgentScope 1.x and 2.x have in common."""

from typing import Any


def tag_by_type(value: Any) -> str | None:
    """Return the type in brackets, so that it does not become a step of an error's path."""
    kind = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return f"<{kind}>" if isinstance(kind, str) else None
