"""The type of a file by its first bytes."""

from app.chat.media_types import correct_media_type, detect_type, is_whole_image

from tests.each_case import each_case


@each_case(
    ("head", "found"),
    [
        (b"%PDF-1.7", "application/pdf"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "image/webp"),
        (b"RIFF\x00\x00\x00\x00????", None),
        (b"\x00\x00\x00\x18ftypM4A ", "audio/mp4"),
        (b"\x00\x00\x00\x18ftypisom", "video/mp4"),
        (b"\xff\xfb\x90\x00", "audio/mpeg"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"BM" + bytes(12) + b"\x28\x00\x00\x00", "image/bmp"),
        (b"BM" + bytes(12) + b"\x29\x00\x00\x00", None),
        (b"hello", None),
        (b"", None),
    ],
)
def test_a_type_is_detected_from_the_first_bytes(head: bytes, found: str | None) -> None:
    assert detect_type(head) == found


@each_case(
    ("head", "declared", "expected"),
    [
        (b"ID3\x04", "", "audio/mpeg"),
        (b"\xff\xfb\x90\x00", "audio/mp3", "audio/mpeg"),
        (b"fLaC", "audio/wav", "audio/flac"),
        (b"\x00\x00\x00\x18ftypM4A ", "", "audio/mp4"),
        (b"\x00\x00\x00\x18ftypmp42", "video/quicktime", "video/mp4"),
        (b"\x00\x00\x00\x18ftypM4A ", "video/mp4", "audio/mp4"),
        (b"\x00\x00\x00\x18ftypM4B ", "audio/mpeg", "audio/mp4"),
        (b"\x00\x00\x00\x18ftypisom", "audio/mp4", "audio/mp4"),
        (b"\x00\x00\x00\x18ftypmp42", "audio/x-m4a", "audio/x-m4a"),
        (b"\x00\x00\x00\x18ftypisom", "", "video/mp4"),
        (b"\x00\x00\x00\x18ftypisom", "audio/mpeg", "video/mp4"),
        (b"\x1aE\xdf\xa3", "audio/webm", "audio/webm"),
        (b"\x1aE\xdf\xa3", "", "video/webm"),
        (b"OggS", "video/ogg", "video/ogg"),
        (b"%PDF-1.7", "text/plain", "application/pdf"),
        (b"\x89PNG\r\n\x1a\n", "", "image/png"),
        (b"RIFF\x00\x00\x00\x00WEBP", "", "image/webp"),
        (b"RIFF\x00\x00\x00\x00????", "audio/x", "audio/x"),
        (b"", "", "application/octet-stream"),
        (b"%PDF-1.7", "image/png", "application/pdf"),
        (b"OggS", "image/png", "audio/ogg"),
        (b"hello", "text/plain", "text/plain"),
        (b"hello", "", "application/octet-stream"),
    ],
)
def test_a_type_is_what_the_first_bytes_say(head: bytes, declared: str, expected: str) -> None:
    assert correct_media_type(head, declared) == expected


@each_case(
    ("media_type", "head", "tail", "size", "whole"),
    [
        ("image/png", b"", b"\x00\x00\x00\x00IEND\xaeB`\x82", 99, True),
        ("image/png", b"", b"\x00\x00\x00\x00IEND", 99, False),
        ("image/jpeg", b"", b"ab\xff\xd9", 99, True),
        ("image/jpeg", b"", b"ab\xff", 99, False),
        ("image/gif", b"", b"\x00;", 99, True),
        ("image/gif", b"", b"\x00", 99, False),
        ("image/webp", b"RIFF\x0c\x00\x00\x00WEBP", b"", 20, True),
        ("image/webp", b"RIFF\x0c\x00\x00\x00WEBP", b"", 19, False),
        ("image/bmp", b"BM\x14\x00\x00\x00", b"", 20, True),
        ("image/bmp", b"BM\x14\x00\x00\x00", b"", 19, False),
        ("image/tiff", b"II*\x00", b"\xff\xd9", 20, False),
    ],
)
def test_the_end_of_an_image_shows_that_it_is_whole(
    media_type: str, head: bytes, tail: bytes, size: int, whole: bool
) -> None:
    assert is_whole_image(media_type, head, tail, size) is whole
