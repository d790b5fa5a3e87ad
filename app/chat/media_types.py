"""Detects media types from the first bytes of a file, because declared types are often wrong, and whether an image was
cut."""

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
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
)
_RIFF = {b"WAVE": "audio/wav", b"AVI ": "video/x-msvideo", b"WEBP": "image/webp"}
_BRANDS = {
    b"M4A ": "audio/mp4",
    b"M4B ": "audio/mp4",
    b"F4A ": "audio/mp4",
    b"qt  ": "video/quicktime",
    b"avif": "image/avif",
    b"avis": "image/avif",
    b"heic": "image/heic",
    b"heix": "image/heic",
    b"heim": "image/heic",
    b"heis": "image/heic",
    b"mif1": "image/heif",
}
_BITMAP_HEADERS = (12, 40, 52, 56, 64, 108, 124)
"""The sizes of the second header of a BMP file; `BM` alone could begin a text."""
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
    if head[:2] == b"BM" and int.from_bytes(head[14:18], "little") in _BITMAP_HEADERS:
        return "image/bmp"
    if len(head) > 1 and head[0] == 0xFF and head[1] & 0xE6 in (0xE2, 0xE4, 0xE6):
        return "audio/mpeg"
    return None


def is_whole_image(media_type: str, head: bytes, tail: bytes, size: int) -> bool:
    """Return whether the end of an image shows that it was not cut. If False, it may be whole all the same.

    `tail` holds its last bytes, at least 12 of them, and `size` is the number of all.
    """
    match media_type:
        case "image/png":
            return tail.endswith(b"\x00\x00\x00\x00IEND\xaeB`\x82")
        case "image/jpeg":
            return tail.endswith(b"\xff\xd9")
        case "image/gif":
            return tail.endswith(b";")
        case "image/webp":
            return size == int.from_bytes(head[4:8], "little") + 8
        case "image/bmp":
            return size == int.from_bytes(head[2:6], "little")
    return False
