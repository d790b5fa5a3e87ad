"""Detects media types from the first bytes of a file, because declared types are often wrong."""

HEAD_BYTES = 64

_STARTS = (
    (b"ID3", "audio/mpeg"),
    (b"fLaC", "audio/flac"),
    (b"OggS", "audio/ogg"),
    (b"\x1aE\xdf\xa3", "video/webm"),
    (b"FLV\x01", "video/x-flv"),
    (b"%PDF-", "application/pdf"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
)
_RIFF = {b"WAVE": "audio/wav", b"AVI ": "video/x-msvideo", b"WEBP": "image/webp"}
_BRANDS = {
    b"M4A ": "audio/mp4",
    b"M4B ": "audio/mp4",
    b"F4A ": "audio/mp4",
    b"qt  ": "video/quicktime",
    b"avif": "image/avif",
    b"heic": "image/heic",
}
_AUDIO_MP4 = {"audio/mp4", "audio/m4a", "audio/x-m4a"}
"""Declared types that override a detected `video/mp4`: brands such as `isom` and `mp42` occur in audio files too."""
_FAMILIES = ({"video/webm", "audio/webm", "video/x-matroska"}, {"audio/ogg", "video/ogg", "application/ogg"})
"""Types whose first bytes are the same, so that the declared type decides."""


def correct_media_type(head: bytes, declared: str) -> str:
    """Return the type detected from the first `HEAD_BYTES` bytes, or the declared one if nothing was detected."""
    found = detect_type(head)
    if found == "video/mp4" and declared in _AUDIO_MP4:
        return declared
    if not found or any(found in family and declared in family for family in _FAMILIES):
        return declared or found or "application/octet-stream"
    return found


def detect_type(head: bytes) -> str | None:
    """The type that the first bytes show; None where they show none that is known."""
    if head[:4] == b"RIFF":
        return _RIFF.get(head[8:12])
    if head[4:8] == b"ftyp":
        return _BRANDS.get(head[8:12], "video/mp4")
    for start, media_type in _STARTS:
        if head.startswith(start):
            return media_type
    if len(head) > 1 and head[0] == 0xFF and head[1] & 0xE6 in (0xE2, 0xE4, 0xE6):
        return "audio/mpeg"
    return None
