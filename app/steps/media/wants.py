"""Whose bytes a model needs, and for what."""

from dataclasses import dataclass, field
from typing import Literal

from app.chat import datauri
from app.chat.messages import ChatRequest, Media, MediaKind
from app.chat.sniff import HEAD_BYTES, corrected
from app.profiles import Profile
from app.steps.media.names import Names, media_of


@dataclass(frozen=True, slots=True)
class ImageLimits:
    max_pixels: int | None = None
    max_short_side: int | None = None
    max_bytes: int | None = None

    @property
    def any(self) -> bool:
        return self != ImageLimits()


@dataclass(frozen=True, slots=True)
class Wanted:
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


def wanted(request: ChatRequest, profile: Profile) -> list[Wanted]:
    """Each once, in the order of the request."""
    names = Names(request)
    found: dict[Wanted, None] = {}
    for message in request.messages:
        for part in media_of(message):
            if message.role != "assistant" or part.media in profile.media:
                found |= dict.fromkeys(one for one in wants(part, names.of(part), profile) if one is not None)
    return list(found)


def wants(part: Media, names: list[str], profile: Profile) -> list[Wanted | None]:
    """One for each URL of the part; None where it can stay as it is."""
    if part.media in profile.media:
        return [_native(part, at, names[at], profile) for at in range(len(part.urls))]
    if part.media == "file" and profile.file_text:
        return [
            Wanted(url, "file", "text", path=part.path, name=name) for url, name in zip(part.urls, names, strict=True)
        ]
    return [None] * len(part.urls)


def passed_urls(request: ChatRequest, profile: Profile) -> list[tuple[str, str]]:
    """(URL, place) of all that the model's server will fetch itself and that are not for it to judge."""
    if profile.passed_urls == "any":
        return []
    names = Names(request)
    found = []
    for part in (one for message in request.messages for one in media_of(message)):
        if part.media in profile.media:
            needs = wants(part, names.of(part), profile)
            for at, (url, need) in enumerate(zip(part.urls, needs, strict=True)):
                if (need is None or need.purpose == "resolve") and url[:8].lower().startswith(("http://", "https://")):
                    found.append((url, f"{part.path}[{at}]" if part.frames else part.path))
    return found


def _native(part: Media, at: int, name: str, profile: Profile) -> Wanted | None:
    url = part.urls[at]
    if not url[:8].lower().startswith(("http://", "https://", "data:")):
        return None  # bare base64, already what a server that takes it wants
    path = f"{part.path}[{at}]" if part.frames else part.path
    picture = part.media == "image" or part.frames
    limits = ImageLimits(max_bytes=profile.max_media_bytes)
    if picture:
        limits = ImageLimits(profile.max_image_pixels, profile.max_image_short_side, profile.max_media_bytes)
    raw = part.media == "audio" and profile.audio == "base64"
    scaled = picture and limits.any
    inline = raw or part.media in profile.inline_media
    if datauri.is_data(url) and not raw and not scaled and _is_what_it_says(url):
        return None  # it goes on as it is: megabytes are neither decoded nor copied
    if not inline and not scaled and not datauri.is_data(url):
        return Wanted(url, part.media, "resolve", path=path) if profile.passed_urls == "resolved" else None
    if picture:
        return Wanted(url, "image", "picture", limits, path, name)
    return Wanted(url, part.media, "raw" if raw else "inline", limits, path, name)


def _is_what_it_says(url: str) -> bool:
    """Whether the first bytes are of the declared type."""
    try:
        head = datauri.parse(url)
        start = datauri.beginning(url[head.start : head.start + 2 * HEAD_BYTES], HEAD_BYTES) if head.base64 else b""
    except ValueError:
        return False
    return bool(start) and corrected(start, head.media_type) == head.media_type
