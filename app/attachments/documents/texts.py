"""Extract a document's text. Its first bytes decide the type; name and declared type only tell HTML from plain text."""

import io
import zipfile
from collections.abc import Iterable
from dataclasses import replace
from typing import Literal, TypeAlias

from app.attachments.documents import office, pdf, plain
from app.attachments.documents.parts import Budget, Part
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
    budget = Budget(job.max_characters, job.cpu_seconds * _CPU_SHARE)
    if b"%PDF-" in data[:1024]:
        document = pdf.Pdf(data, job.max_pages)
        return _collect_sections(job, budget, "page", document.pages(), document.count)
    if data[:4] == b"PK\x03\x04":
        return _office(job, budget, data)
    if (detect_type(data[:HEAD_BYTES]) or "").startswith("image/"):
        raise UnreadableFile("is an image: send it as an image")
    for magic, description in _MAGIC.items():
        if data.startswith(magic):
            raise UnreadableFile(f"is {description}")
    text = plain.decode_text(data, job.charset)
    if plain.is_html(text, job.name, job.media_type):
        text = plain.html_text(text)
    return _collect_sections(job, budget, "none", [Part(text)], 1)


def _office(job: TextJob, budget: Budget, data: bytes) -> TextResult:
    kind = _zip_kind(data, job.max_unpacked_bytes)
    if kind == "docx":
        return _collect_sections(job, budget, "none", [office.docx(data, budget)], 1)
    if kind == "pptx":
        slides, count = office.pptx(data, budget)
        return _collect_sections(job, budget, "slide", slides, count)
    sheets, count = office.xlsx(data, budget)
    return _collect_sections(job, budget, "sheet", sheets, count)


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


def _collect_sections(job: TextJob, budget: Budget, unit: Unit, parts: Iterable[Part], count: int) -> TextResult:
    """Collect parts up to the limits of the job.

    A PDF without any text but with images counts as scanned. Raises UnreadableFile if no part can be read.
    """
    read: dict[int, Part] = {}
    characters_left = job.max_characters
    number, cut = 0, False
    for number, part in enumerate(parts, 1):
        cut = budget.exhausted or len(part.text) > characters_left
        read[number] = replace(part, text=part.text[:characters_left])
        characters_left -= len(part.text)
        if cut or number >= job.max_pages or budget.is_late():
            break
    unread = [(at, part.problem) for at, part in read.items() if part.problem]
    if unread and len(unread) == len(read):
        raise UnreadableFile(f"has no {unit} that can be read: {unit} {unread[0][0]}: {unread[0][1]}")
    blank = not any(part.text.strip() for part in read.values())
    pictured = [at for at, part in read.items() if part.pictured and not part.problem]
    if blank and pictured:
        return TextResult(unit, [], count - number, cut, True, unread)
    dropped = {*pictured, *(at for at, _ in unread)}
    sections = [(at, part.name, part.text) for at, part in read.items() if at not in dropped]
    return TextResult(unit, sections, count - number, cut, False, unread, pictured)
