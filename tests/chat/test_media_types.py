"""The type of a file by its first bytes."""

from app.chat.media_types import correct_media_type, detect_type

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
        (b"hello", None),
        (b"", None),
    ],
)
def test_a_type_is_detected_from_the_first_bytes(head: bytes, found: str | None) -> None:
    assert detect_type(head) == found


@each_case(
    ("head", "declared", "type_"),
    [
        (b"%PDF-1.7", "image/png", "application/pdf"),
        (b"\x00\x00\x00\x18ftypisom", "audio/mp4", "audio/mp4"),
        (b"OggS", "video/ogg", "video/ogg"),
        (b"OggS", "image/png", "audio/ogg"),
        (b"hello", "text/plain", "text/plain"),
        (b"hello", "", "application/octet-stream"),
    ],
)
def test_a_declared_type_counts_where_the_bytes_do_not_contradict_it(head: bytes, declared: str, type_: str) -> None:
    assert correct_media_type(head, declared) == type_
