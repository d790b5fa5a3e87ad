"""Bytes and addresses of files become media, or are refused at their place."""

import pytest
from app.chat.messages import Media, MediaKind
from app.errors import Violation
from app.formats.gemini.media import find_kind, guess_kind, read_blob, read_file
from app.formats.gemini.schema import GeminiBlob, GeminiFile

from tests.each_case import each_case

KINDS: list[tuple[str, MediaKind | None]] = [
    ("image/png", "image"),
    ("IMAGE/PNG", "image"),
    ("audio/L16;rate=24000", "audio"),
    ("video/mp4", "video"),
    ("text/csv", "file"),
    ("application/pdf", "file"),
    ("application/zip", None),
    ("application/octet-stream", None),
    ("image", None),
]


@each_case(("media_type", "kind"), KINDS)
def test_the_type_says_the_kind(media_type: str, kind: MediaKind | None) -> None:
    assert find_kind(media_type) == kind


def test_bytes_in_either_alphabet_become_a_data_uri() -> None:
    blob = GeminiBlob(mimeType="image/png", data="-_8", displayName="a.png")
    wanted = Media("image", ("data:image/png;base64,+/8=",), path="p.data", name="a.png")
    assert read_blob(blob, "p") == wanted


@each_case(
    ("blob", "path"),
    [
        (GeminiBlob(mimeType="application/zip", data="AA=="), "p.mimeType"),
        (GeminiBlob(mimeType="image/png", data="é"), "p.data"),
    ],
)
def test_other_bytes_are_refused(blob: GeminiBlob, path: str) -> None:
    found = read_blob(blob, "p")
    assert isinstance(found, Violation)
    assert found.path == path


@each_case(
    ("file", "kind"),
    [
        (GeminiFile(fileUri="https://h/a", mimeType="audio/mp3"), "audio"),
        (GeminiFile(fileUri="https://h/a.JPEG?x=1"), "image"),
        (GeminiFile(fileUri="https://h/a.mp4"), "video"),
        (GeminiFile(fileUri="https://h/a"), "file"),
        (GeminiFile(fileUri="data:image/png;base64,AA==", mimeType="image/png"), "image"),
    ],
)
def test_an_address_is_read(file: GeminiFile, kind: MediaKind) -> None:
    assert read_file(file, "p") == Media(kind, (file.fileUri,), path="p.fileUri")


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("gs://bucket/a.png", "Google Cloud Storage"),
        ("files/abc", "Files API"),
        ("https://generativelanguage.googleapis.com/v1beta/files/abc", "Files API"),
        ("https://www.youtube.com/watch?v=x", "YouTube"),
        ("https://youtu.be/x", "YouTube"),
        ("/etc/passwd", "never read"),
        ("http://[", "not a valid URL"),
    ],
)
def test_what_only_google_reads_is_refused_with_what_to_do(uri: str, words: str) -> None:
    found = read_file(GeminiFile(fileUri=uri), "p")
    assert isinstance(found, Violation)
    assert found.path == "p.fileUri"
    assert words in found.message


def test_a_file_of_another_type_is_refused() -> None:
    found = read_file(GeminiFile(fileUri="https://h/a", mimeType="application/zip"), "p")
    assert isinstance(found, Violation)
    assert found.path == "p.mimeType"


def test_an_ending_says_the_kind() -> None:
    assert [guess_kind(f"https://h/a{ending}") for ending in (".png", ".mov", ".pdf", "")] == [
        "image",
        "video",
        "file",
        "file",
    ]
