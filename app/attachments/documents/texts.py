"""Extract a document's text. Its first bytes decide the type; name and declared type only tell HTML from plain text."""

import io
import time
import zipfile
from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

from app.attachments.documents import office, pdf, plain
from app.attachments.documents.protocol import TextJob, TextResult, UnreadableFile
from app.chat.media_types import HEAD_BYTES, detect_type

Unit: TypeAlias = Literal["page", "slide", "sheet", "none"]

_MAX_ENTRIES = 10_000
_CPU_SHARE = 0.7
"""The share of the CPU time after which no further page is started: part of a document is better than none."""
_OFFICE = {"word/": "docx", "ppt/": "pptx", "xl/": "xlsx"}
_MAGIC = {
    b"\xd0\xcf\x11\xe0": "an old binary Office file; save it as DOCX, XLSX or PPTX",
    b"\x1f\x8b": "a compressed archive",
    b"Rar!": "a compressed archive",
    b"7z\xbc\xaf": "a compressed archive",
    b"\x7fELF": "a program",
    b"MZ\x90": "a program",
}


def extract_text(job: TextJob, data: bytes) -> TextResult:
    """Extract the text of a job's document, decoded to `data`. Raises UnreadableFile."""
    if not data:
        raise UnreadableFile("is empty")
    if b"%PDF-" in data[:1024]:
        document = pdf.Pdf(data, job.max_pages)
        return _collect_sections(job, "page", document.pages(), document.count, document.has_pictures)
    if data[:4] == b"PK\x03\x04":
        return _office(job, data)
    if (detect_type(data[:HEAD_BYTES]) or "").startswith("image/"):
        raise UnreadableFile("is an image: send it as an image")
    for magic, description in _MAGIC.items():
        if data.startswith(magic):
            raise UnreadableFile(f"is {description}")
    text = plain.decode_text(data, job.charset)
    if plain.is_html(text, job.name, job.media_type):
        text = plain.html_text(text)
    return _collect_sections(job, "none", [("", text)], 1)


def _office(job: TextJob, data: bytes) -> TextResult:
    kind = _zip_kind(data, job.max_unpacked_bytes)
    if kind == "docx":
        return _collect_sections(job, "none", [("", office.docx(data))], 1)
    if kind == "pptx":
        slides, count = office.pptx(data)
        return _collect_sections(job, "slide", slides, count)
    sheets, count = office.xlsx(data, job.max_characters)
    return _collect_sections(job, "sheet", sheets, count)


def _zip_kind(data: bytes, max_unpacked_bytes: int) -> str:
    """Return the type of an Office document, after checking its declared size: nothing is unpacked before."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        raise UnreadableFile("is a damaged archive") from None
    if len(entries) > _MAX_ENTRIES or sum(entry.file_size for entry in entries) > max_unpacked_bytes:
        raise UnreadableFile(f"unpacks to more than {max_unpacked_bytes} bytes")
    names = [entry.filename for entry in entries]
    if "[Content_Types].xml" in names:
        for prefix, kind in _OFFICE.items():
            if any(name.startswith(prefix) for name in names):
                return kind
    raise UnreadableFile("is a ZIP archive, but not a DOCX, PPTX or XLSX file")


def _collect_sections(
    job: TextJob, unit: Unit, parts: Iterable[tuple[str, str]], count: int, has_pictures: bool = False
) -> TextResult:
    """Collect parts up to the limits of the job. Without any text but with images, the document counts as scanned."""
    sections: list[tuple[int, str, str]] = []
    characters_left, cut = job.max_characters, False
    for number, (name, text) in enumerate(_limit_parts(parts, job), 1):
        cut = len(text) > characters_left
        sections.append((number, name, text[:characters_left]))
        characters_left -= len(text)
        if cut:
            break
    blank = not any(text.strip() for _, _, text in sections)
    if blank and has_pictures:
        sections = []
    return TextResult(
        unit, sections, 0 if blank and has_pictures else count - len(sections), cut, blank and has_pictures
    )


def _limit_parts(parts: Iterable[tuple[str, str]], job: TextJob) -> Iterator[tuple[str, str]]:
    end = time.process_time() + job.cpu_seconds * _CPU_SHARE
    for at, part in enumerate(parts):
        yield part
        if at + 1 >= job.max_pages or time.process_time() > end:
            return
