"""OpenRouter's `reasoning_details`: a thought's text, and its signatures and encrypted parts."""

from typing import Any


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
