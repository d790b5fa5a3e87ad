"""Whose bytes a model needs, and for what."""

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
    """Equal ones are wanted once, wherever they stand."""

    url: str
    """http(s), or a data URI."""
    media: MediaKind
    purpose: Literal["picture", "inline", "raw", "text", "resolve"]
    """`picture`: an image within `limits`, in a data URI; `inline`: a data URI; `raw`: bare base64 of sound, or a data
    URI where its format has no known name; `text`: a file; `resolve`: only a look at the URL's addresses."""
    limits: ImageLimits = ImageLimits()
    path: str = field(default="", compare=False)
    name: str = field(default="", compare=False)


def media_requests(request: ChatRequest, profile: Profile) -> list[MediaRequest]:
    """Each once, in the order of the request."""
    names = MediaNames(request)
    found: dict[MediaRequest, None] = {}
    for message in request.messages:
        for part in media_of(message):
            if message.role != "assistant" or part.media in profile.media:
                found |= dict.fromkeys(
                    one for one in find_part_requests(part, names.get(part), profile) if one is not None
                )
    return list(found)


def find_part_requests(part: Media, names: list[str], profile: Profile) -> list[MediaRequest | None]:
    """One for each URL of the part; None where it can stay as it is."""
    if part.media in profile.media:
        return [_make_native_request(part, at, names[at], profile) for at in range(len(part.urls))]
    if part.media == "file" and profile.file_text:
        return [
            MediaRequest(url, "file", "text", path=part.path, name=name)
            for url, name in zip(part.urls, names, strict=True)
        ]
    return [None] * len(part.urls)


def find_passed_urls(request: ChatRequest, profile: Profile) -> list[tuple[str, str]]:
    """(URL, place) of all that the model's server will fetch itself and that are not for it to judge."""
    if profile.passed_urls == "any":
        return []
    names = MediaNames(request)
    found = []
    for part in (one for message in request.messages for one in media_of(message)):
        if part.media in profile.media:
            needs = find_part_requests(part, names.get(part), profile)
            for at, (url, need) in enumerate(zip(part.urls, needs, strict=True)):
                if (need is None or need.purpose == "resolve") and url[:8].lower().startswith(("http://", "https://")):
                    found.append((url, f"{part.path}[{at}]" if part.frames else part.path))
    return found


def _make_native_request(part: Media, at: int, name: str, profile: Profile) -> MediaRequest | None:
    url = part.urls[at]
    if not url[:8].lower().startswith(("http://", "https://", "data:")):
        return None  # bare base64, already what a server that takes it wants
    path = f"{part.path}[{at}]" if part.frames else part.path
    picture = part.media == "image" or part.frames
    limits = ImageLimits(max_bytes=profile.max_media_bytes)
    if picture:
        limits = ImageLimits(profile.max_image_pixels, profile.max_image_short_side, profile.max_media_bytes)
    raw = part.media == "audio" and profile.audio == "base64"
    scaled = picture and limits.is_limited
    inline = raw or part.media in profile.inline_media
    if datauri.is_data(url) and not raw and not scaled and _has_declared_type(url):
        return None  # it goes on as it is: megabytes are neither decoded nor copied
    if not inline and not scaled and not datauri.is_data(url):
        return MediaRequest(url, part.media, "resolve", path=path) if profile.passed_urls == "resolved" else None
    if picture:
        return MediaRequest(url, "image", "picture", limits, path, name)
    return MediaRequest(url, part.media, "raw" if raw else "inline", limits, path, name)


def _has_declared_type(url: str) -> bool:
    """Whether the first bytes are of the declared type."""
    try:
        head = datauri.parse(url)
        start = datauri.decode_head(url[head.start : head.start + 2 * HEAD_BYTES], HEAD_BYTES) if head.base64 else b""
    except ValueError:
        return False
    return bool(start) and correct_media_type(start, head.media_type) == head.media_type
