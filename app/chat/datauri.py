"""Parses data URIs (RFC 2397) and decodes their data."""

import base64
import binascii
import re
from urllib.parse import unquote_to_bytes

from msgspec import Struct

_MAX_HEAD = 1024
EXTENSIONS = {
    "image/png": "png",
    "image/jpeg": "jpg",
    "image/gif": "gif",
    "image/webp": "webp",
    "image/bmp": "bmp",
    "image/tiff": "tiff",
    "image/svg+xml": "svg",
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/wave": "wav",
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
    "audio/ogg": "ogg",
    "audio/flac": "flac",
    "audio/x-flac": "flac",
    "audio/aac": "aac",
    "audio/mp4": "m4a",
    "audio/m4a": "m4a",
    "video/mp4": "mp4",
    "video/webm": "webm",
    "video/quicktime": "mov",
    "application/pdf": "pdf",
    "application/json": "json",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": "pptx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "text/plain": "txt",
    "text/csv": "csv",
    "text/html": "html",
    "text/markdown": "md",
}

AUDIO_FORMATS = {
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/wave": "wav",
    "audio/vnd.wave": "wav",
    "audio/mpeg": "mp3",
    "audio/mpeg3": "mp3",
    "audio/mp3": "mp3",
    "audio/x-mp3": "mp3",
    "audio/flac": "flac",
    "audio/x-flac": "flac",
    "audio/ogg": "ogg",
    "audio/mp4": "m4a",
    "audio/x-m4a": "m4a",
}
"""The audio format names of OpenAI's `input_audio`, by media type."""


class DataUri(Struct, frozen=True):
    media_type: str
    """Lower case, without parameters; empty if the URI names none."""
    charset: str | None
    base64: bool
    start: int
    """The offset of the data in the URI: reading the head copies none of the data, which may be megabytes."""


def is_data(url: str) -> bool:
    return url[:5].lower() == "data:"


def parse(url: str) -> DataUri:
    """Parse the head of a data URI.

    Raises:
        ValueError: there is no comma in the first 1,024 characters.
    """
    comma = url.find(",", 5, _MAX_HEAD)
    if not is_data(url) or comma < 0:
        raise ValueError("a data URI must have a comma before its data")
    media_type, *parameters = (field.strip() for field in url[5:comma].split(";"))
    charset = next((value[8:].strip('"') for value in parameters if value[:8].lower() == "charset="), None)
    encoded = bool(parameters) and parameters[-1].lower() == "base64"
    return DataUri(media_type.lower(), charset, encoded, comma + 1)


def decode(url: str) -> bytes:
    """Return the decoded data.

    Raises:
        ValueError: the URI has no comma, or its data are not the base64 that its head declares.
    """
    head = parse(url)
    return decode_base64(url[head.start :]) if head.base64 else unquote_to_bytes(url[head.start :])


def may_be_base64(text: str) -> bool:
    """Return whether the first 1,024 characters look like media in base64.

    An absolute file path is rejected, although its characters are in the base64 alphabet.
    """
    start = text[:_MAX_CHECKED_CHARS]
    return _BASE64.fullmatch(start) is not None and _PATH.match(start) is None


def decode_base64(text: str | bytes) -> bytes:
    """Decode base64 as leniently as browsers do.

    Percent escapes, white space, the URL-safe alphabet and missing padding are accepted.

    Raises:
        ValueError: the text is not base64.
    """
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    data = unquote_to_bytes(data) if b"%" in data else data
    data = data.translate(_ALPHABET, _BLANKS).rstrip(b"=")
    try:
        return base64.b64decode(data + b"=" * (-len(data) % 4), validate=True)
    except binascii.Error as error:
        raise ValueError(f"is not base64: {error}") from None


def is_clean_base64(text: str, start: int = 0) -> bool:
    """Return whether the text from `start` is base64 that strict decoders accept.

    Only characters that occur in base64 of clients and in texts that were shortened are looked for, because that takes
    a tenth of the time that a look at each character takes.
    """
    if (len(text) - start) % 4 or not text.isascii():
        return False
    return all(text.find(character, start) < 0 for character in _UNCLEAN)


def clean_base64(text: str) -> str:
    """Return base64 for strict decoders: in the standard alphabet, padded, without white space and percent escapes.

    Raises:
        ValueError: the text is not base64.
    """
    if is_clean_base64(text):
        return text
    data = text.encode("utf-8", "surrogatepass")
    data = unquote_to_bytes(data) if b"%" in data else data
    data = data.translate(_ALPHABET, _BLANKS)
    if data.translate(None, _STANDARD):
        raise ValueError("is not base64")
    data = data.rstrip(b"=")
    return (data + b"=" * (-len(data) % 4)).decode("ascii")


def normalize(url: str, media_type: str) -> str:
    """Return a data URI as strict servers expect it: `data:` and `base64` in lower case, this media type without
    parameters, and clean base64.

    Raises:
        ValueError: see `decode`.
    """
    head = parse(url)
    if not head.base64:
        return encode(media_type, decode(url))
    start = f"data:{media_type};base64,"
    if url.startswith(start) and is_clean_base64(url, head.start):
        return url
    return start + clean_base64(url[head.start :])


def decode_head(text: str, size: int) -> bytes:
    """Decode about the first `size` bytes, enough to detect the media type.

    Raises:
        ValueError: the text is not base64.
    """
    data = unquote_to_bytes(text[: size * 2]).translate(_ALPHABET, _BLANKS).rstrip(b"=")
    data = data[: size // 4 * 4]
    return decode_base64(data[:-1] if len(data) % 4 == 1 else data)


_MAX_CHECKED_CHARS = 1024
_BASE64 = re.compile(r"[A-Za-z0-9+/_\-\s]+={0,2}\s*")
# Base64 of media begins with a slash only for JPEG, MP3 and AAC frames, and the byte order marks of UTF-16.
_PATH = re.compile(r"\s*/(?!9j|/|\+|v8)")
_ALPHABET = bytes.maketrans(b"-_", b"+/")
_STANDARD = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="
_BLANKS = b" \t\r\n\f"
_UNCLEAN = (*" \t\r\n\f%-_.[<",)


def encode(media_type: str, data: bytes) -> str:
    return f"data:{media_type};base64,{base64.b64encode(data).decode('ascii')}"
