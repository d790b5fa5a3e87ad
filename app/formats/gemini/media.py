"""Media in the parts of Gemini's contents: bytes, or the address of a file."""

from collections.abc import Mapping
from urllib.parse import urlsplit

from app.chat import datauri
from app.chat.messages import Media, MediaKind
from app.errors import Violation
from app.formats.gemini.schema import GeminiBlob, GeminiFile
from app.formats.media_urls import check_url

_KINDS: Mapping[str, MediaKind] = {"image": "image", "audio": "audio", "video": "video", "text": "file"}
"""By the first half of a media type."""
_FILES = frozenset(
    {
        *("application/pdf", "application/json", "application/xml", "application/rtf", "application/x-yaml"),
        *("application/yaml", "application/javascript", "application/x-javascript", "application/typescript"),
        *("application/x-python", "application/x-python-code", "application/x-ipynb+json", "application/sql"),
        *(name for name in datauri.EXTENSIONS if name.startswith("application/")),
    }
)
"""Media types that begin with `application/` and whose files have a text."""
_BY_ENDING = {ending: name for name, ending in reversed(datauri.EXTENSIONS.items())} | {"jpeg": "image/jpeg"}
_GOOGLE_FILES = "generativelanguage.googleapis.com"
_YOUTUBE = ("youtube.com", "youtu.be")
_INSTEAD = "send its bytes as inlineData, or an http(s) URL that everyone can read"


def find_kind(media_type: str) -> MediaKind | None:
    plain = media_type.partition(";")[0].strip().lower()
    main, slash, _ = plain.partition("/")
    if plain in _FILES:
        return "file"
    return _KINDS.get(main) if slash else None


def read_blob(blob: GeminiBlob, path: str) -> Media | Violation:
    kind = find_kind(blob.mimeType)
    if kind is None:
        known = "image/…, audio/…, video/…, text/… or application/pdf"
        return Violation(f"{path}.mimeType", f"must be {known}, not {blob.mimeType[:80]!r}")
    try:
        data = datauri.clean_base64(blob.data)
    except ValueError:
        return Violation(f"{path}.data", "must be the bytes in base64")
    media_type = blob.mimeType.replace(",", "").strip()
    url = f"data:{media_type};base64,{data}"
    return Media(kind, (url,), path=f"{path}.data", name=_get_name(blob.displayName))


def read_file(file: GeminiFile, path: str) -> Media | Violation:
    problem = find_google_only(file.fileUri) or _find_problem(file.fileUri)
    return Violation(f"{path}.fileUri", problem) if problem is not None else read_address(file, path)


def read_address(file: GeminiFile, path: str) -> Media | Violation:
    """Read a file whose address may be one that only Google's servers know."""
    kind = find_kind(file.mimeType) if file.mimeType else guess_kind(file.fileUri)
    if kind is None:
        return Violation(f"{path}.mimeType", f"must be that of an image, audio, a video or a text: {_INSTEAD}")
    return Media(kind, (file.fileUri,), path=f"{path}.fileUri", name=_get_name(file.displayName))


def guess_kind(url: str) -> MediaKind:
    """Return the kind of media that the ending of a URL tells; `file` for one that is not known."""
    media_type = _BY_ENDING.get(urlsplit(url).path.rpartition(".")[2].lower(), "")
    return find_kind(media_type) or "file"


def find_google_only(uri: str) -> str | None:
    """Return why no other server than Google's can read a file; None if one can."""
    try:
        parts = urlsplit(uri)
        host = (parts.hostname or "").lower()
    except ValueError:
        return None
    if uri.startswith("files/") or (host == _GOOGLE_FILES and "/files/" in parts.path):
        return f"is a file of Google's Files API, which is not served here: {_INSTEAD}"
    if parts.scheme.lower() == "gs":
        return f"is a file of Google Cloud Storage, which only Google's servers read: {_INSTEAD}"
    if any(host == name or host.endswith(f".{name}") for name in _YOUTUBE):
        return f"is a video of YouTube, which only Google's servers read: {_INSTEAD}"
    return None


def _find_problem(uri: str) -> str | None:
    try:
        urlsplit(uri)
    except ValueError:
        return "is not a valid URL"
    try:
        check_url(uri)
    except ValueError as error:
        return str(error)
    return None


def _get_name(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
