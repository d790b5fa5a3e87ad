"""Lists the media whose bytes the gateway must load, and what it needs them for."""

from dataclasses import dataclass, field
from typing import Literal

from app.chat import datauri
from app.chat.media_types import HEAD_BYTES, correct_media_type
from app.chat.messages import ChatRequest, Media, MediaKind
from app.profiles import Profile
from app.steps.media.names import MediaNames, media_of


@dataclass(frozen=True, slots=True)
class ImageLimits:
    max_pixels: int | None = None
    max_short_side: int | None = None
    max_bytes: int | None = None

    @property
    def is_limited(self) -> bool:
        return self != ImageLimits()


@dataclass(frozen=True, slots=True)
class MediaRequest:
    """One URL to load. `path` and `name` do not count for equality, so that equal requests are loaded once."""

    url: str
    """An HTTP(S) URL or a data URI."""
    media: MediaKind
    purpose: Literal["picture", "inline", "raw", "text", "resolve"]
    """`picture`: an image within `limits`, as a data URI; `inline`: a data URI; `raw`: audio as base64, or as a data
    URI if its format is unknown; `text`: the text of a file; `resolve`: only the addresses of the URL are checked."""
    limits: ImageLimits = ImageLimits()
    path: str = field(default="", compare=False)
    name: str = field(default="", compare=False)


def media_requests(request: ChatRequest, profile: Profile) -> list[MediaRequest]:
    """Return the distinct media requests, in the order of the messages."""
    names = MediaNames(request)
    found: dict[MediaRequest, None] = {}
    for message in request.messages:
        for part in media_of(message):
            if message.role != "assistant" or part.media in profile.media:
                found |= dict.fromkeys(
                    need for need in find_part_requests(part, names.get(part), profile) if need is not None
                )
    return list(found)


def find_part_requests(part: Media, names: list[str], profile: Profile) -> list[MediaRequest | None]:
    """Return one request for each URL of the part, with None for a URL that is sent unchanged."""
    if part.media in profile.media:
        return [_make_native_request(part, index, name, profile) for index, name in enumerate(names)]
    if part.media == "file" and profile.file_text:
        return [
            MediaRequest(url, "file", "text", path=part.path, name=name)
            for url, name in zip(part.urls, names, strict=True)
        ]
    return [None] * len(part.urls)


def find_passed_urls(request: ChatRequest, profile: Profile) -> list[tuple[str, str]]:
    """Return (URL, JSON path) of all URLs that the model's server fetches itself and that the gateway must check."""
    if profile.passed_urls == "any":
        return []
    names = MediaNames(request)
    found = []
    for part in (media for message in request.messages for media in media_of(message)):
        if part.media in profile.media:
            needs = find_part_requests(part, names.get(part), profile)
            for index, (url, need) in enumerate(zip(part.urls, needs, strict=True)):
                if (need is None or need.purpose == "resolve") and url[:8].lower().startswith(("http://", "https://")):
                    found.append((url, f"{part.path}[{index}]" if part.frames else part.path))
    return found


def _make_native_request(part: Media, index: int, name: str, profile: Profile) -> MediaRequest | None:
    url = part.urls[index]
    if not url[:8].lower().startswith(("http://", "https://", "data:")):
        return None  # plain base64, which the server accepts
    path = f"{part.path}[{index}]" if part.frames else part.path
    picture = part.media == "image" or part.frames
    limits = ImageLimits(max_bytes=profile.max_media_bytes)
    if picture:
        limits = ImageLimits(profile.max_image_pixels, profile.max_image_short_side, profile.max_media_bytes)
    raw = part.media == "audio" and profile.audio == "base64"
    scaled = picture and limits.is_limited
    inline = raw or part.media in profile.inline_media
    if datauri.is_data(url) and not raw and not scaled and _has_declared_type(url):
        return None  # sent unchanged, so that megabytes are neither decoded nor copied
    if not inline and not scaled and not datauri.is_data(url):
        return MediaRequest(url, part.media, "resolve", path=path) if profile.passed_urls == "resolved" else None
    if picture:
        return MediaRequest(url, "image", "picture", limits, path, name)
    return MediaRequest(url, part.media, "raw" if raw else "inline", limits, path, name)


def _has_declared_type(url: str) -> bool:
    """Return whether the first bytes match the declared media type."""
    try:
        head = datauri.parse(url)
        start = datauri.decode_head(url[head.start : head.start + 2 * HEAD_BYTES], HEAD_BYTES) if head.base64 else b""
    except ValueError:
        return False
    return bool(start) and correct_media_type(start, head.media_type) == head.media_type
