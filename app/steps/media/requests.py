"""Lists the media whose bytes the gateway must load, and what it needs them for.

A medium that cannot be read is refused only where the caller can still take it back: in the newest message of the user.
In a tool result or an earlier turn it would end the conversation forever, so the model gets a note in words instead.
"""

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field
from typing import Literal

from app.chat import datauri
from app.chat.fetched_urls import find_addresses
from app.chat.media_types import HEAD_BYTES, detect_type, is_whole_image
from app.chat.messages import ChatRequest, Media, MediaKind, Message
from app.profiles import Profile
from app.steps.media.names import MediaNames, is_web_url, media_of

_TAIL_CHARACTERS = 64
_CONVERSATIONS = ("messages[", "input[", "contents[")
"""How the paths in the conversation of a client's own body begin."""


@dataclass(frozen=True, slots=True)
class ImageLimits:
    max_pixels: int | None = None
    max_short_side: int | None = None
    max_bytes: int | None = None
    formats: tuple[str, ...] = ("png", "jpeg", "gif", "webp")
    """The formats that the model's server reads; images in others are converted."""

    @property
    def scales(self) -> bool:
        return (self.max_pixels, self.max_short_side, self.max_bytes) != (None, None, None)


@dataclass(frozen=True, slots=True)
class MediaRequest:
    """One URL to load. `path`, `name` and `required` do not count for equality, so that identical requests are loaded
    once."""

    url: str
    """An HTTP(S) URL or a data URI."""
    media: MediaKind
    purpose: Literal["picture", "inline", "raw", "text", "check", "resolve"]
    """`picture`: an image within `limits`, as a data URI; `inline`: a data URI; `raw`: audio as base64, or as a data
    URI if its format is unknown; `text`: the text of a file; `check`: nothing is loaded, only the text of the URL is
    checked, which the model's server fetches itself; `resolve`: its addresses are checked too."""
    limits: ImageLimits = ImageLimits()
    path: str = field(default="", compare=False)
    name: str = field(default="", compare=False)
    required: bool = field(default=True, compare=False)
    """The request is refused if this cannot be loaded. If false, it becomes an `Unreadable`, and an image is decoded
    even where its bytes are sent unchanged."""


def find_required(messages: Sequence[Message]) -> frozenset[int]:
    """Return the indexes of the messages whose media must be readable: the user's newest, and system messages that no
    turn of the model follows. An assistant message at the end is a reply to be continued, not a turn."""
    required = set()
    index = len(messages) - 1
    while index >= 0 and messages[index].role == "assistant":
        index -= 1
    has_user = False
    while index >= 0 and messages[index].role in ("user", "system"):
        is_user = messages[index].role == "user"
        if not (is_user and has_user):
            required.add(index)
        has_user = has_user or is_user
        index -= 1
    return frozenset(required)


def find_native_media(request: ChatRequest, profile: Profile) -> Set[MediaKind]:
    """Return the kinds of media that the model's server is sent. Files that are searched, or that guards look at, are
    text instead."""
    native = frozenset(profile.media)
    return native - {"file"} if _must_read_files(request) else native


def reads_files(request: ChatRequest, profile: Profile) -> bool:
    """Whether the text of files is put in that the model's server is not sent."""
    return profile.file_text or _must_read_files(request)


def _must_read_files(request: ChatRequest) -> bool:
    return request.passages is not None or (request.guard is not None and request.guard.reads_files)


def media_requests(request: ChatRequest, profile: Profile) -> list[MediaRequest]:
    """Return the distinct media requests, in the order of the messages."""
    names, required = MediaNames(request), find_required(request.messages)
    native = find_native_media(request, profile)
    found: dict[MediaRequest, MediaRequest] = {}
    for index, message in enumerate(request.messages):
        for part in media_of(message):
            if message.role != "assistant" or part.media in native:
                for need in find_part_requests(part, names, request, profile, required=index in required):
                    if need is not None and (need not in found or (need.required and not found[need].required)):
                        found[need] = need
    return list(found.values())


def passed_url_requests(request: ChatRequest, profile: Profile) -> list[MediaRequest]:
    """Return a check of each URL in a client's own body that its server would fetch.

    An entry with a URL that fails is translated, which treats it as any other medium; elsewhere, and where the
    gateway cannot read the conversation, it is required."""
    own = request.passed or request.source
    if own is None or profile.passed_urls == "any":
        return []
    return [
        MediaRequest(url, "file", _choose_check(profile), path=path, required=required)
        for path, url in own.urls
        if (required := request.refusal is not None or not path.startswith(_CONVERSATIONS)) or is_web_url(url)
    ]


def extra_url_requests(request: ChatRequest, profile: Profile) -> list[MediaRequest]:
    """Return a check of each URL in the parameters that only the model's server knows."""
    extra = request.params.get("extra_body")
    return make_url_requests(find_addresses(extra, request.paths.extra_body), profile) if extra else []


def make_url_requests(urls: Iterable[tuple[str, str]], profile: Profile) -> list[MediaRequest]:
    """Return a check of each URL (JSON path, URL), without which the request is not sent."""
    if profile.passed_urls == "any":
        return []
    return [MediaRequest(url, "file", _choose_check(profile), path=path) for path, url in urls]


def _choose_check(profile: Profile) -> Literal["check", "resolve"]:
    return "resolve" if profile.passed_urls == "resolved" else "check"


def is_sent_unchanged(part: Media, request: ChatRequest, profile: Profile) -> bool:
    """Whether a medium is sent as it came, without a look at it."""
    if part.media not in find_native_media(request, profile):
        return False
    if (profile.name_media or request.policy.name_media) != "never":
        return False
    keeps = keeps_media(request, profile)
    urls = range(len(part.urls))
    return not any(_make_native_request(part, index, profile, required=False, keeps=keeps) for index in urls)


def accepts_uploads(request: ChatRequest, profile: Profile) -> bool:
    """Return whether the model gets the media of all user and system messages, at least as text or by their names."""
    if (profile.name_media or request.policy.name_media) != "never":
        return True
    accepted = {*profile.media, "file"} if reads_files(request, profile) else {*profile.media}
    uploads = (part for message in request.messages if message.role in ("user", "system") for part in message.parts)
    return all(not isinstance(part, Media) or part.media in accepted for part in uploads)


def find_part_requests(
    part: Media, names: MediaNames, request: ChatRequest, profile: Profile, *, required: bool
) -> list[MediaRequest | None]:
    """Return one request for each URL of the part, with None for a URL that is sent without a look at it."""
    if part.media in find_native_media(request, profile):
        keeps = keeps_media(request, profile)
        urls = range(len(part.urls))
        return [_make_native_request(part, index, profile, required=required, keeps=keeps) for index in urls]
    if part.media == "file" and reads_files(request, profile):
        return [
            MediaRequest(url, "file", "text", path=part.path, name=name, required=required)
            for url, name in zip(part.urls, names.get(part), strict=True)
        ]
    return [None] * len(part.urls)


def keeps_media(request: ChatRequest, profile: Profile) -> bool:
    """Whether the model's server is sent a client's own media in their own form."""
    return request.source is not None and request.source.knows_model and profile.takes == "all"


def _make_native_request(
    part: Media, index: int, profile: Profile, *, required: bool, keeps: bool = False
) -> MediaRequest | None:
    url = part.urls[index]
    is_data = datauri.is_data(url)
    if not is_data and not is_web_url(url):
        return None  # plain base64, which the server accepts
    path = f"{part.path}[{index}]" if part.frames else part.path
    picture = part.media == "image" or part.frames
    limits = ImageLimits(max_bytes=profile.max_media_bytes)
    if picture:
        sizes = (profile.max_image_pixels, profile.max_image_short_side, profile.max_media_bytes)
        limits = ImageLimits(*sizes, profile.image_formats)
    raw = part.media == "audio" and profile.audio == "base64"
    scaled = picture and limits.scales
    looks = picture and not keeps
    if is_data and not raw and not scaled and (not looks or _is_ready(url, profile, checks_end=not required)):
        return None  # megabytes are neither decoded nor copied
    if not is_data and not raw and not scaled and (keeps or part.media not in profile.inline_media):
        if profile.passed_urls == "any":
            return None
        purpose: Literal["check", "resolve"] = "resolve" if profile.passed_urls == "resolved" else "check"
        return MediaRequest(url, part.media, purpose, path=path, required=required)
    if picture:
        return MediaRequest(url, "image", "picture", limits, path, required=required)
    return MediaRequest(url, part.media, "raw" if raw else "inline", limits, path, required=required)


def _is_ready(url: str, profile: Profile, *, checks_end: bool) -> bool:
    """Return whether the first bytes of a data URI are those of an image in a format that the server reads, and, if
    `checks_end`, the last ones those of an image that was not cut."""
    try:
        start = datauri.parse(url)
        if not start.base64:
            return False
        head = datauri.decode_head(url[start.start : start.start + 2 * HEAD_BYTES], HEAD_BYTES)
        media_type = detect_type(head) or ""
        if media_type.removeprefix("image/") not in profile.image_formats:
            return False
        if not checks_end:
            return True
        length = len(url) - start.start
        if not datauri.is_clean_base64(url, start.start):
            return False
        tail = datauri.decode_base64(url[-min(length, _TAIL_CHARACTERS) :])
        return is_whole_image(media_type, head, tail, length // 4 * 3 - url.count("=", len(url) - 2))
    except ValueError:
        return False
