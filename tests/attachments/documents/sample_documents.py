"""Documents made on the spot: small ones of every kind, and hostile ones."""

import functools
import io
import struct
import zipfile
import zlib

import docx
import openpyxl
import pptx
from PIL import Image
from pypdf import PdfWriter


def pdf(*pages: str | None, count: int | None = None) -> bytes:
    """A PDF with a line on every page; None: a page that is only a picture."""
    kids = " ".join(f"{4 + 2 * at} 0 R" for at in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {count or len(pages)} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for at, text in enumerate(pages):
        xobject = b"" if text is not None else b"/XObject << /I %d 0 R >>" % (5 + 2 * at)
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 99 99] /Resources << /Font << /F 3 0 R >> %s >> "
            b"/Contents %d 0 R >>" % (xobject, 5 + 2 * at)
        )
        drawn = b"" if text is None else f"BT /F 9 Tf 9 9 Td ({text}) Tj ET".encode()
        picture = b"" if text is not None else b"/Type /XObject /Subtype /Image /Width 1 /Height 1"
        objects.append(b"<< /Length %d %s >>\nstream\n%s\nendstream" % (len(drawn), picture, drawn))
    out, places = bytearray(b"%PDF-1.4\n"), []
    for number, content in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    out += b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % (len(objects) + 1, table)
    return bytes(out)


def pdf_with(content: bytes, filters: bytes = b"") -> bytes:
    """A PDF of three pages, of which the second has this content."""
    sound = pdf("one", "two", "three")
    stream = b"BT /F 9 Tf 9 9 Td (two) Tj ET"
    old = b"<< /Length %d  >>\nstream\n%s\nendstream" % (len(stream), stream)
    assert old in sound
    return sound.replace(old, b"<< /Length %d %s >>\nstream\n%s\nendstream" % (len(content), filters, content))


def office(original: bytes, part: str, content: bytes) -> bytes:
    """A document with another content of one of its parts."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(original)) as sound, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as changed:
        for entry in sound.infolist():
            changed.writestr(entry.filename, content if entry.filename == part else sound.read(entry))
    return out.getvalue()


def sheet_of(rows: bytes) -> bytes:
    """An XLSX file whose first sheet has these rows."""
    space = b'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    content = b"<worksheet %s><sheetData>%s</sheetData></worksheet>" % (space, rows)
    return office(sheets(), "xl/worksheets/sheet1.xml", content)


def slide_of(shapes: bytes) -> bytes:
    """A PPTX file whose first slide has these shapes more."""
    original = slides()
    with zipfile.ZipFile(io.BytesIO(original)) as archive:
        slide = archive.read("ppt/slides/slide1.xml")
    return office(original, "ppt/slides/slide1.xml", slide.replace(b"</p:spTree>", shapes + b"</p:spTree>"))


def text_of(body: bytes) -> bytes:
    """A DOCX file with this body."""
    space = b'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    return office(word(), "word/document.xml", b"<w:document %s><w:body>%s</w:body></w:document>" % (space, body))


def locked_pdf() -> bytes:
    """A PDF that only a password opens."""
    writer, out = PdfWriter(), io.BytesIO()
    writer.append(io.BytesIO(pdf("secret")))
    writer.encrypt("password", algorithm="RC4-40")
    writer.write(out)
    return out.getvalue()


def long_pdf(pages: int) -> bytes:
    """One page object, listed over and over."""
    single = pdf("x")
    kids = b"[" + b"4 0 R " * pages + b"]"
    return single.replace(b"[4 0 R]", kids).replace(b"/Count 1", b"/Count %d" % pages)


def word() -> bytes:
    document = docx.Document()
    document.add_heading("Results", 2)
    document.add_paragraph("Before the table.")
    table = document.add_table(2, 2)
    for at, text in enumerate(("a", "b", "1", "2")):
        table.cell(at // 2, at % 2).text = text
    document.add_paragraph("After it.")
    return _saved(document)


def slides() -> bytes:
    deck = pptx.Presentation()
    for title in ("First", "Second"):
        slide = deck.slides.add_slide(deck.slide_layouts[1])
        slide.shapes.title.text = title
    table = slide.shapes.add_table(1, 2, 0, 0, 9, 9).table
    table.cell(0, 0).text, table.cell(0, 1).text = "x", "y"
    slide.notes_slide.notes_text_frame.text = "say it slowly"
    return _saved(deck)


def sheets() -> bytes:
    book = openpyxl.Workbook()
    book.active.title = "Prices"
    book.active.append(["pear", 1.5, None])
    book.active.append([])
    book.active.append(["plum, red", None, 3])
    book.create_sheet("Notes").append(["none"])
    book.create_sheet("Secret").sheet_state = "hidden"
    return _saved(book)


def _saved(document: object) -> bytes:
    out = io.BytesIO()
    document.save(out)  # type: ignore[attr-defined]  # all three have it
    return out.getvalue()


@functools.cache
def zip_bomb(part: str, size: int) -> bytes:
    """A document one part of which unpacks to `size` bytes."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(word())) as sound, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as bomb:
        for entry in sound.infolist():
            if entry.filename != part:
                bomb.writestr(entry.filename, sound.read(entry))
        with bomb.open(part, "w", force_zip64=True) as file:
            for _ in range(size // (1 << 20)):
                file.write(bytes(1 << 20))
    return out.getvalue()


def with_part(part: str, content: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(word())) as sound, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as changed:
        for entry in sound.infolist():
            changed.writestr(entry.filename, content if entry.filename == part else sound.read(entry))
    return out.getvalue()


def picture(width: int, height: int, form: str = "PNG", mode: str = "RGB", **options: object) -> bytes:
    out = io.BytesIO()
    Image.effect_noise((width, height), 80).convert(mode).save(out, form, **options)
    return out.getvalue()


def huge_png(width: int, height: int) -> bytes:
    """Says that it is huge; decoded it would fill the memory."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = zlib.compress(bytes(1 << 20))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
