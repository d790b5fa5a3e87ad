"""Writes content parts of OpenAI's messages; media as a server of this profile accepts them."""

from collections.abc import Sequence
from typing import Any

from app.chat import datauri
from app.chat.messages import CacheMark, Media, Message, ToolResult
from app.errors import Violation
from app.profiles import Profile


def find_violations(messages: Sequence[Message], profile: Profile) -> list[Violation]:
    """Return a violation for each media part of the conversation that cannot be sent to this model."""
    found = []
    for message in messages:
        for part in message.parts:
            if type(part) is Media or type(part) is ToolResult:
                found += [
                    Violation(media.path, problem)
                    for media in (part.content if type(part) is ToolResult else (part,))
                    if type(media) is Media and (problem := find_problem(media, profile)) is not None
                ]
    return found


def write_parts(part: Media, profile: Profile) -> list[dict[str, Any]]:
    """Write a media part for which `find_violations` found no violation."""
    url = part.urls[0]
    if part.media == "image":
        return [_image(url, part.detail)]
    if part.media == "audio":
        return [_audio(part, profile)]
    if part.media == "file":
        return [{"type": "file", "file": {"filename": part.name or "file", "file_data": url}}]
    if part.frames and profile.video_frames == "images":
        return [_image(frame) for frame in part.urls]
    return [write_video(part)]


def write_text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def write_video(part: Media) -> dict[str, Any]:
    if part.frames:
        return {"type": "video", "video": list(part.urls)}
    return {"type": "video_url", "video_url": {"url": part.urls[0]}}


def add_mark(written: dict[str, Any], mark: CacheMark | None) -> dict[str, Any]:
    return {**written, "cache_control": dict(mark.value)} if mark else written


def find_problem(part: Media, profile: Profile) -> str | None:
    """Return why a part cannot be sent to this model; None if it can."""
    if part.media not in profile.media:
        return f"this model does not accept {part.media} input"
    plain_base64 = part.media == "audio" and profile.audio == "base64"
    if (plain_base64 or part.media in profile.inline_media) and any(_is_remote(url) for url in part.urls):
        return f"must be a data URI: this model's server does not fetch {part.media} URLs"
    if plain_base64 and datauri.is_data(part.urls[0]) and _parse_base64_uri(part.urls[0]) is None:
        return "must be a data URI in base64"
    if plain_base64 and _format(part) is None:
        return 'must have a format, such as "wav" or "mp3"'
    return None


def _image(url: str, detail: str | None = None) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url} | ({"detail": detail} if detail else {})}


def _audio(part: Media, profile: Profile) -> dict[str, Any]:
    data = part.urls[0]
    if profile.audio == "base64":
        head = _parse_base64_uri(data)
        encoded = data[head.start :] if head else data
        return {"type": "input_audio", "input_audio": {"data": encoded, "format": _format(part)}}
    if profile.audio == "audio_url":
        url = data if _is_remote(data) or datauri.is_data(data) else f"data:audio/{part.format or 'wav'};base64,{data}"
        return {"type": "audio_url", "audio_url": {"url": url}}
    url = data if _is_remote(data) or datauri.is_data(data) else f"data:;base64,{data}"
    return {
        "type": "input_audio",
        "input_audio": {"data": url, "format": part.format} if part.format else {"data": url},
    }


def _format(part: Media) -> str | None:
    if part.format:
        return part.format
    head = _parse_base64_uri(part.urls[0])
    if head is None:
        return None
    family, _, subtype = head.media_type.partition("/")
    return datauri.AUDIO_FORMATS.get(head.media_type) or (subtype if family == "audio" and subtype else None)


def _parse_base64_uri(url: str) -> datauri.DataUri | None:
    """Return the head of a data URI in base64, or None for any other URL."""
    try:
        head = datauri.parse(url)
    except ValueError:
        return None
    return head if head.base64 else None


def _is_remote(url: str) -> bool:
    return url[:8].lower().startswith(("http://", "https://"))
