"""Write media as parts of the Gemini API (ai.google.dev/api/caching, Part)."""

import base64
import mimetypes
from typing import Any
from urllib.parse import urlsplit

from app.chat import datauri
from app.chat.messages import Media

Json = dict[str, Any]
_AUDIO = {"audio/mpeg": "audio/mp3", "audio/x-wav": "audio/wav", "audio/wave": "audio/wav"}
"""The names of the API for types that have several (ai.google.dev/gemini-api/docs/audio)."""
_DEFAULTS = {"image": "image/png", "audio": "audio/wav", "video": "video/mp4", "file": "application/pdf"}
_FILES = ("text/", "image/", "audio/", "video/")
_TEXT_TYPES = {
    "application/json": "text/plain",
    "application/xml": "text/xml",
    "application/javascript": "text/javascript",
}


def write_media(part: Media) -> list[Json]:
    """Write a medium for which `find_problem` has found nothing: a part for each of its URLs, which are more than one
    for the frames of a video."""
    return [_write_url(part, url) for url in part.urls]


def find_problem(part: Media) -> str | None:
    """Return why a medium cannot be sent; None if it can."""
    for url in part.urls:
        if _is_remote(url):
            continue
        if not datauri.is_data(url):
            if part.media != "audio":
                return "must be an HTTP(S) URL or a data URI"
            continue
        try:
            head = datauri.parse(url)
            if head.base64:
                datauri.clean_base64(url[head.start :])
        except ValueError as error:
            return str(error)
        type_ = _TEXT_TYPES.get(head.media_type, head.media_type)
        if part.media == "file" and type_ and type_ != _DEFAULTS["file"] and not type_.startswith(_FILES):
            return f"this model's server takes PDF, text and media files, not {type_}"
    return None


def _write_url(part: Media, url: str) -> Json:
    if _is_remote(url):
        return {"fileData": {"mimeType": _guess_type(part, url), "fileUri": url}}
    if not datauri.is_data(url):
        return _write_data(f"audio/{part.format or 'wav'}", datauri.clean_base64(url))
    head = datauri.parse(url)
    data = datauri.clean_base64(url[head.start :]) if head.base64 else base64.b64encode(datauri.decode(url)).decode()
    default = "image/jpeg" if part.frames else _DEFAULTS[part.media]
    return _write_data(head.media_type or default, data)


def _write_data(type_: str, data: str) -> Json:
    return {"inlineData": {"mimeType": _TEXT_TYPES.get(type_) or _AUDIO.get(type_, type_), "data": data}}


def _guess_type(part: Media, url: str) -> str:
    """Return the media type that the ending of a URL says."""
    guessed = mimetypes.guess_type(urlsplit(url).path)[0]
    type_ = guessed or (f"audio/{part.format}" if part.format else _DEFAULTS[part.media])
    return _AUDIO.get(type_, type_)


def _is_remote(url: str) -> bool:
    return url[:8].lower().startswith(("http://", "https://"))
