"""What the API has items and fields of its own for: the opaque parts of a reply of a server of the same API.

The client gets them as the server would have sent them, because its next request goes to such a server.
"""

from collections.abc import Sequence
from typing import Any

from app.chat.accumulator import ReplyMessage
from app.formats.responses.parse import FORMAT

Json = dict[str, Any]


def make_native_item(detail: Any) -> Json | None:
    """Return the item that the detail was, or has its place in; None if it is not of this API."""
    if not isinstance(detail, dict) or detail.get("format") != FORMAT:
        return None
    match detail:
        case {"type": "provider.item", "item": dict(item)}:
            return item
        case {"type": "reasoning.encrypted", "data": str(data), **rest}:
            named = {"id": rest["id"]} if "id" in rest else {}
            return {**named, "type": "reasoning", "summary": [], "encrypted_content": data}
        case _:
            return None


def find_encrypted(details: Sequence[Any]) -> str | None:
    """Return the encrypted content of a reasoning message that was one item; None if it has none of this API."""
    item = make_native_item(details[0]) if len(details) == 1 else None
    found = item.get("encrypted_content") if item is not None and item.get("type") == "reasoning" else None
    return found if isinstance(found, str) else None


def read_native_fields(message: ReplyMessage) -> Json:
    """Return the opaque fields of a message that items of this API have."""
    match message.extra.get("extra_content"):
        case {"openai": dict(fields)}:
            return {name: value for name, value in fields.items() if name != "custom"}
        case _:
            return {}


def has_native_image(message: ReplyMessage) -> bool:
    """Whether the image is in an item of the server that comes before its message."""
    details = message.extra.get("reasoning_details") or ()
    items = [make_native_item(detail) for detail in details] if message.media is not None else []
    return any(item is not None and item.get("type") == "image_generation_call" for item in items)
