"""Converts the media of AgentScope's blocks: sources to URLs, URLs to sources, and media types to kinds."""

import re
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from app.chat import datauri
from app.chat.messages import Media, MediaKind
from app.formats.media_urls import is_remote

_DATA_URI = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,", re.IGNORECASE)
_MEDIA_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+")
_TYPES = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
    "bmp": "image/bmp",
    "svg": "image/svg+xml",
    "tif": "image/tiff",
    "tiff": "image/tiff",
    "wav": "audio/wav",
    "mp3": "audio/mpeg",
    "ogg": "audio/ogg",
    "flac": "audio/flac",
    "m4a": "audio/mp4",
    "aac": "audio/aac",
    "mp4": "video/mp4",
    "webm": "video/webm",
    "mov": "video/quicktime",
    "avi": "video/x-msvideo",
    "mkv": "video/x-matroska",
    "mpeg": "video/mpeg",
    "pdf": "application/pdf",
    "json": "application/json",
    "txt": "text/plain",
    "csv": "text/csv",
    "html": "text/html",
    "md": "text/markdown",
}
"""Media types by file extension. The standard library's table depends on the machine."""
_DEFAULTS: dict[MediaKind, str] = {
    "image": "image/png",
    "audio": "audio/wav",
    "video": "video/mp4",
    "file": "application/octet-stream",
}


def check_media_type(text: str) -> str:
    if not _MEDIA_TYPE.fullmatch(text):
        raise ValueError("must be a media type such as image/png")
    return text


def check_base64(text: str) -> str:
    """Accept base64, or a data URI as in AgentScope's documentation. Only the start is checked: it may be long."""
    if text[:5].lower() != "data:" and not datauri.may_be_base64(text):
        raise ValueError("must be base64")
    return text


def source_url(source: dict[str, Any]) -> str:
    """Return the URL of a valid source."""
    if source["type"] == "url":
        return str(source["url"])
    data: str = source["data"]
    return data if data[:5].lower() == "data:" else f"data:{source['media_type']};base64,{data}"


class InlineData(Struct, frozen=True):
    media_type: str
    data: str


def parse_inline(url: str) -> InlineData | None:
    """Return the media type and data of a data URI in base64, or None for other URLs."""
    match = _DATA_URI.match(url)
    return InlineData(match.group(1), url[match.end() :]) if match and match.end() < len(url) else None


def to_url(part: Media, url: str) -> str:
    """Return the URL; base64, which Qwen-Agent allows for audio, becomes a data URI."""
    return f"data:audio/{part.format or 'wav'};base64,{url}" if not is_remote(url) else url


def kind_of(media_type: str) -> MediaKind:
    main = media_type.partition("/")[0].lower()
    return main if main in ("image", "audio", "video") else "file"  # type: ignore[return-value]  # one of the three


def guess_type(url: str) -> str | None:
    """Guess the media type from the data URI or the extension of the path."""
    if found := parse_inline(url):
        return found.media_type
    try:
        path = urlsplit(url[:2048]).path
    except ValueError:
        return None
    return _TYPES.get(path.rpartition(".")[2].lower())


def choose_media_type(kind: MediaKind, url: str) -> str:
    """Return the guessed media type if it is of this kind, else the default of the kind."""
    guessed = guess_type(url)
    return guessed if guessed and kind_of(guessed) == kind else _DEFAULTS[kind]


def placeholder(part: Media) -> str:
    """Return the text that replaces media for which a format has no block."""
    remote = part.urls[0][:8].lower().startswith(("http://", "https://"))
    name = part.name or (part.urls[0] if remote else None)
    return f"[{part.media}: {name}]" if name else f"[{part.media}]"
