"""Images, sound, video and files as the content parts that a server of this profile takes."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from app.chat.messages import Media, Message, Part, ToolResult
from app.errors import Violation
from app.profiles import Profile

_DATA_URI = re.compile(r"data:(?:[\w.+-]+/([\w.+-]+))?[^,]{0,200};base64,", re.IGNORECASE)
_FORMATS = {"mpeg": "mp3", "mpeg3": "mp3", "x-mp3": "mp3", "x-wav": "wav", "wave": "wav", "vnd.wave": "wav"}
"""Subtypes of media types that are not the format's name."""


def violations(messages: Sequence[Message], profile: Profile) -> list[Violation]:
    """Everything in the conversation that this model cannot be sent, each with its place."""
    found = []
    for part in _all(part for message in messages for part in message.parts):
        problem = _problem(part, profile)
        if problem is not None:
            found.append(Violation(part.path, problem))
    return found


def parts(part: Media, profile: Profile) -> list[dict[str, Any]]:
    """What `violations` found nothing wrong with, as content parts."""
    url = part.urls[0]
    if part.media == "image":
        return [_image(url)]
    if part.media == "audio":
        return [_audio(part, profile)]
    if part.media == "file":
        return [{"type": "file", "file": {"filename": part.name or "file", "file_data": url}}]
    if not part.frames:
        return [{"type": "video_url", "video_url": {"url": url}}]
    if profile.video_frames == "images":
        return [_image(frame) for frame in part.urls]
    return [{"type": "video", "video": list(part.urls)}]


def _all(said: Iterator[Part]) -> Iterator[Media]:
    for part in said:
        if isinstance(part, Media):
            yield part
        elif isinstance(part, ToolResult):
            yield from (item for item in part.content if isinstance(item, Media))


def _problem(part: Media, profile: Profile) -> str | None:
    if part.media not in profile.media:
        return f"this model takes no {part.media}"
    bare = part.media == "audio" and profile.audio == "base64"
    if (bare or part.media in profile.inline_media) and any(_is_remote(url) for url in part.urls):
        return f"must be a data URI: this model's server fetches no {part.media} from a URL"
    if bare and _is_uri(part.urls[0]) and not _DATA_URI.match(part.urls[0]):
        return "must be a data URI in base64"
    if bare and _format(part) is None:
        return "must name its format, such as wav or mp3"
    return None


def _image(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def _audio(part: Media, profile: Profile) -> dict[str, Any]:
    data = part.urls[0]
    if profile.audio == "base64":
        match = _DATA_URI.match(data)
        sound = data[match.end() :] if match else data
        return {"type": "input_audio", "input_audio": {"data": sound, "format": _format(part)}}
    if profile.audio == "audio_url":
        url = data if _is_remote(data) or _is_uri(data) else f"data:audio/{part.format or 'wav'};base64,{data}"
        return {"type": "audio_url", "audio_url": {"url": url}}
    url = data if _is_remote(data) or _is_uri(data) else f"data:;base64,{data}"
    return {
        "type": "input_audio",
        "input_audio": {"data": url, "format": part.format} if part.format else {"data": url},
    }


def _format(part: Media) -> str | None:
    if part.format:
        return part.format
    match = _DATA_URI.match(part.urls[0])
    subtype = match.group(1).lower() if match and match.group(1) else None
    return _FORMATS.get(subtype, subtype) if subtype else None


def _is_remote(url: str) -> bool:
    return url[:8].lower().startswith(("http://", "https://"))


def _is_uri(url: str) -> bool:
    return url[:5].lower() == "data:"
