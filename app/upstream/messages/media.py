"""Write images and files as content blocks of the Messages API."""

import base64
from typing import Any

from app.chat import datauri
from app.chat.messages import Media

PDF = "application/pdf"


def write_media(part: Media) -> tuple[dict[str, Any], str | None]:
    """Return the block of an image or a file, and a warning if a part of it is not sent."""
    if part.media == "image":
        lost = part.detail is not None and part.detail != "auto"
        warning = f"{part.path}: `detail` was not sent: this model's server has no such parameter" if lost else None
        return {"type": "image", "source": _write_source(part.urls[0], "image/png")}, warning
    source = _write_source(part.urls[0], PDF)
    if source["type"] == "base64" and source["media_type"] != PDF:
        source = _write_text_source(part.urls[0])
    return {"type": "document", "source": source, **({"title": part.name} if part.name else {})}, None


def find_problem(part: Media) -> str | None:
    """Return why an image or a file cannot be sent; None if it can."""
    if part.media not in ("image", "file"):
        return f"this model's server takes images and files, not {part.media}"
    url = part.urls[0]
    if not datauri.is_data(url):
        return None if url[:8].lower().startswith(("http://", "https://")) else "must be an HTTP(S) URL or a data URI"
    try:
        head = datauri.parse(url)
        if head.base64:
            datauri.clean_base64(url[head.start :])
    except ValueError as error:
        return str(error)
    if part.media == "file" and head.media_type != PDF and not head.media_type.startswith("text/"):
        return f"this model's server takes PDF and text files, not {head.media_type or 'a file without a media type'}"
    return None


def _write_source(url: str, default: str) -> dict[str, Any]:
    if not datauri.is_data(url):
        return {"type": "url", "url": url}
    head = datauri.parse(url)
    data = datauri.clean_base64(url[head.start :]) if head.base64 else base64.b64encode(datauri.decode(url)).decode()
    return {"type": "base64", "media_type": head.media_type or default, "data": data}


def _write_text_source(url: str) -> dict[str, Any]:
    text = datauri.decode(url).decode("utf-8", "replace")
    return {"type": "text", "media_type": "text/plain", "data": text}
