"""Conversations without images, for servers that take none, refuse one for its size, or take fewer: earlier ones become
words."""

import re
from typing import Any

from app.chat.events import Fault

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
_TOO_MANY = re.compile(
    r"(?:at most|max(?:imum)?(?: number)?(?: of| is)?|limit(?: of| is)?|up to|>) ([1-9]\d{0,3})(?![\w.,]\d)\b",
    re.IGNORECASE,
)
_ABOUT_IMAGES = re.compile(r"\bimages?\b|too much media", re.IGNORECASE)
"""CherryHQ/cherry-studio#20030, anomalyco/opencode#48647, microsoft/vscode#306919, anthropics/claude-code#24541."""
_KINDS = ("image_url", "image", "input_image")
"""Parts with an image, in the three APIs that have parts of a type."""
_NO_IMAGE = "[an image, which this model cannot see]"


def describe_images(messages: list[Json], kind: str) -> list[Json]:
    """Return the messages with words in the place of images, which are parts of this type. Those of the user's last
    message stay: without them the reply would be to another question. What stands with results is theirs."""
    last = next((place for place in range(len(messages) - 1, -1, -1) if messages[place].get("role") == "user"), -1)
    if last >= 0 and _has_results(messages, last):
        last = -1
    return [message if place == last else _describe(message, kind) for place, message in enumerate(messages)]


def count_images(fault: Fault) -> str:
    """Return how many images a server takes in one request; an empty text if it says something else."""
    if TOO_LARGE.search(fault.message) or not _ABOUT_IMAGES.search(fault.message):
        return ""
    match = _TOO_MANY.search(fault.message)
    return "" if match is None else match[1]


def keep_newest(body: Json, named: str) -> Json | None:
    """Return the body with words in the place of its oldest images, but for so many; None if it has no more of them, or
    if those of the message that the user has sent now are too many."""
    name = "input" if "input" in body else "messages"
    entries = body.get(name)
    if not isinstance(entries, list) or not entries:
        return None
    kept, _ = _keep(entries, int(named))
    if kept == entries or (kept[-1] != entries[-1] and not _has_results(entries, len(entries) - 1)):
        return None
    return {**body, name: kept}


def _keep(value: Any, left: int) -> tuple[Any, int]:
    """Return a value with so many images, the last ones, and how many more it could have had."""
    if isinstance(value, list):
        kept = []
        for one in reversed(value):
            one, left = _keep(one, left)
            kept.append(one)
        return kept[::-1], left
    if not isinstance(value, dict):
        return value, left
    kind = value.get("type")
    if kind in _KINDS:
        text = {"type": "input_text" if kind == "input_image" else "text", "text": _LEFT_OUT}
        return (value, left - 1) if left else (text, 0)
    for field in ("content", "output"):
        if field in value:
            changed, left = _keep(value[field], left)
            value = {**value, field: changed}
    return value, left


_LEFT_OUT = "[an image of an earlier turn]"


def _has_results(messages: list[Any], place: int) -> bool:
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
