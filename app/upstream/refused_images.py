"""Conversations without images, for servers that take none, or refuse one for its size: earlier ones become words."""

import re
from typing import Any

Json = dict[str, Any]
UNKNOWN = re.compile(
    r"unknown variant .?image|(?:image|vision|multimodal)\w*(?: inputs?| content)? (?:is|are) not supported|"
    r"(?:does not|doesn't|not) support (?:image|vision|multimodal)|support image input|not a multimodal model|"
    r"at most 0 image|mmproj|only .?text.?(?: content)? (?:type |parts? )?(?:is|are) supported",
    re.IGNORECASE,
)
UNKNOWN_WARNING = (
    "the model server takes no images: those of earlier turns and of results were sent as words. Set `media = []` in "
    "the model's profile"
)
TOO_LARGE = re.compile(r"image dimensions exceed|image exceeds \d|dimension limit for many-image", re.IGNORECASE)
"""anthropics/claude-code#24630."""
TOO_LARGE_WARNING = (
    "the model server refused an image for its size: those of earlier turns and of results were sent as words. Set "
    "`max_image_pixels` or `max_media_bytes` in the model's profile"
)
_NO_IMAGE = "[an image, which this model cannot see]"


def describe_images(messages: list[Json], kind: str) -> list[Json]:
    """Return the messages with words in the place of images, which are parts of this type. Those of the user's last
    message stay: without them the reply would be to another question. What stands with results is theirs."""
    last = next((place for place in range(len(messages) - 1, -1, -1) if messages[place].get("role") == "user"), -1)
    if last >= 0 and _has_results(messages, last):
        last = -1
    return [message if place == last else _describe(message, kind) for place, message in enumerate(messages)]


def _has_results(messages: list[Json], place: int) -> bool:
    content = messages[place].get("content")
    if place and messages[place - 1].get("role") == "tool":
        return True
    return isinstance(content, list) and any(
        isinstance(part, dict) and part.get("type") == "tool_result" for part in content
    )


def _describe(holder: Json, kind: str) -> Json:
    content = holder.get("content")
    if not isinstance(content, list):
        return holder
    parts = [
        {"type": "text", "text": _NO_IMAGE}
        if isinstance(part, dict) and part.get("type") == kind
        else _describe(part, kind)
        if isinstance(part, dict)
        else part
        for part in content
    ]
    return holder if parts == content else {**holder, "content": parts}
