"""Every kind of file becomes text, marked where its pages begin; what is hostile or no text is refused."""

import base64
import time
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from app.attachments.documents.plain import html_text
from app.attachments.documents.protocol import JobRefused, TextJob, TextResult
from app.attachments.documents.worker_main import run_job

from tests.attachments.documents import sample_documents

LIMITS: dict[str, Any] = {
    "max_pages": 50,
    "max_characters": 10_000,
    "max_unpacked_bytes": 1 << 24,
    "cpu_seconds": 10.0,
}


def read(data: bytes, name: str = "", media_type: str = "", charset: str | None = None, **limits: Any) -> TextResult:
    reply = run_job(TextJob(data, False, name, media_type, charset, **{**LIMITS, **limits}))
    assert isinstance(reply, TextResult), reply
    return reply


def refused(data: bytes, name: str = "", **limits: Any) -> str:
    reply = run_job(TextJob(data, False, name, "", None, **{**LIMITS, **limits}))
    assert isinstance(reply, JobRefused)
    return reply.message


def text(data: bytes, name: str = "", media_type: str = "", charset: str | None = None) -> str:
    [(_, _, section_text)] = read(data, name, media_type, charset).sections
    return section_text


def test_a_pdf_is_read_page_by_page() -> None:
    found = read(sample_documents.pdf("one", "two"))
    assert found == TextResult("page", [(1, "", "one"), (2, "", "two")], 0, False, False)


def test_pages_behind_the_limit_are_left_out_and_counted() -> None:
    found = read(sample_documents.pdf("one", "two", "three"), max_pages=2)
    assert (len(found.sections), found.left_out) == (2, 1)


def test_text_behind_the_limit_is_cut_and_what_follows_left_out() -> None:
    found = read(sample_documents.pdf("one", "three", "x"), max_characters=5)
    assert found == TextResult("page", [(1, "", "one"), (2, "", "th")], 1, True, False)


def test_a_scanned_pdf_says_so() -> None:
    assert read(sample_documents.pdf(None, None)) == TextResult("page", [], 0, False, True)


def test_a_pdf_whose_pages_are_empty_is_not_scanned() -> None:
    assert read(sample_documents.pdf("")) == TextResult("page", [(1, "", "")], 0, False, False)


def test_no_more_time_than_is_there_is_spent_on_pages() -> None:
    found = read(sample_documents.pdf("one", "two", "three"), cpu_seconds=0.0)
    assert (len(found.sections), found.left_out) == (1, 2)


def test_a_docx_is_read_in_the_order_of_the_document() -> None:
    assert text(sample_documents.word()) == "## Results\nBefore the table.\na | b\n1 | 2\nAfter it."


def test_slides_are_read_with_their_tables_and_notes() -> None:
    found = read(sample_documents.slides())
    assert found.unit == "slide"
    assert found.sections == [(1, "", "First"), (2, "", "Second\nx | y\nNotes: say it slowly")]


def test_visible_sheets_are_read_as_csv() -> None:
    found = read(sample_documents.sheets())
    assert found.unit == "sheet"
    assert found.sections == [(1, "Prices", 'pear,1.5\n"plum, red",,3\n'), (2, "Notes", "none\n")]


PAGE = """<!DOCTYPE html><html><head><title>The title</title><style>x{}</style></head><body>
<script>alert(1)</script><h2>Head</h2><p>A <b>bold</b>
word</p>tail<ul><li>one<li>two</ul><table><tr><td>a<td>b</table></body></html>"""


@pytest.mark.parametrize(("name", "media_type"), [("", ""), ("x.html", ""), ("", "text/html")])
def test_html_is_read_as_it_is_seen(name: str, media_type: str) -> None:
    page = "The title\n\n## Head\nA bold word\ntail\n- one\n- two\na | b"
    assert text(PAGE.encode(), name, media_type) == page


def test_html_that_is_nested_without_end_is_read() -> None:
    assert text(b"<html><body>" + b"<div>" * 20_000 + b"deep") == "deep"


@pytest.mark.parametrize("name", ["a.csv", "a.md", "a.py", "a.txt", "a", "a.json"])
def test_text_stays_as_it_is(name: str) -> None:
    assert text(b"# a,b\n\tx = <1>\n", name) == "# a,b\n\tx = <1>\n"


@pytest.mark.parametrize(
    ("data", "charset", "expected"),
    [
        ("grün".encode(), None, "grün"),
        (b"\xef\xbb\xbfx", None, "x"),
        ("中文".encode("utf-16"), None, "中文"),
        ("这是一份中文报告".encode("gb18030"), None, "这是一份中文报告"),
        ("grün".encode("latin-1"), None, "grün"),
        ("привет".encode("koi8-r"), "koi8-r", "привет"),
        (b"gr\xfcn", "no-such-charset", "grün"),
        ('<html><meta charset="koi8-r">привет'.encode("koi8-r"), None, "привет"),
    ],
)
def test_text_is_read_in_its_encoding(data: bytes, charset: str | None, expected: str) -> None:
    assert text(data, charset=charset) == expected


def test_base64_is_read_as_it_came() -> None:
    data = base64.urlsafe_b64encode(b"hello??>>").rstrip(b"=")
    assert run_job(TextJob(data, True, "", "", None, **LIMITS)) == TextResult(
        "none", [(1, "", "hello??>>")], 0, False, False
    )
    assert isinstance(run_job(TextJob(b"!!!", True, "", "", None, **LIMITS)), JobRefused)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "is empty"),
        (b"%PDF-1.7 and nothing more", "is a damaged PDF"),
        (b"PK\x03\x04 and nothing more", "is a damaged archive"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1", "old binary Office"),
        (sample_documents.picture(2, 2), "send it as an image"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "send it as an image"),
        (b"\x7fELF" + bytes(99), "is a program"),
        (bytes(range(256)) * 9, "binary file"),
    ],
)
def test_what_is_no_text_is_refused_by_what_it_is(data: bytes, why: str) -> None:
    assert why in refused(data)


def test_an_archive_that_is_no_document_is_refused() -> None:
    assert "is a ZIP archive, but not a DOCX" in refused(
        sample_documents.zip_bomb("[Content_Types].xmlx", 0).replace(b"[Content_", b"(Content_")
    )


def test_a_zip_bomb_is_refused_before_it_is_unpacked() -> None:
    assert refused(sample_documents.zip_bomb("word/document.xml", 32 << 20)) == f"unpacks to more than {1 << 24} bytes"


def test_a_pdf_of_a_hundred_thousand_pages_is_refused() -> None:
    assert "has 100000 pages" in refused(sample_documents.long_pdf(100_000))


LAUGHS = b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "ha">%s]><w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body><w:p><w:r><w:t>%s</w:t></w:r></w:p></w:body></w:document>'


def test_a_document_cannot_read_the_gateways_files() -> None:
    entity = LAUGHS % (b'<!ENTITY f SYSTEM "file:///etc/passwd">', b"&f;")
    reply = run_job(TextJob(sample_documents.with_part("word/document.xml", entity), False, "", "", None, **LIMITS))
    assert "root:" not in repr(reply)


def test_entities_that_multiply_are_not_expanded() -> None:
    levels = b"".join(b'<!ENTITY l%d "%s">' % (at, b"&l%d;" % (at - 1) * 10 if at else b"ha") for at in range(12))
    reply = run_job(
        TextJob(
            sample_documents.with_part("word/document.xml", LAUGHS % (levels, b"&l11;")), False, "", "", None, **LIMITS
        )
    )
    assert len(repr(reply)) < 1000


@pytest.mark.parametrize("size", [20_000, 100_000, 400_000])
@pytest.mark.parametrize(
    "tags", ["<div>", "<span><i>", "<div></x>", "<span><p></span></p>", "<table><tr><td>", "<DIV a='>'>"]
)
def test_html_that_is_nested_deeply_is_read_in_time(tags: str, size: int) -> None:
    began = time.process_time()
    assert html_text(f"<html><body>begin {tags * (size // len(tags))} deep").split()[0] == "begin"
    assert time.process_time() - began < 5


def test_of_html_that_is_nested_too_deeply_all_text_is_read() -> None:
    words = [f"w{at}" for at in range(3000)]
    page = "<html><body>" + "".join(f"<div>{word}" for word in words) + "</div>" * 3000 + "<p>end"
    assert html_text(page).split() == [*words, "end"]


def test_tags_in_scripts_and_comments_are_no_depth() -> None:
    page = "<html><body><script>" + "'<b>'" * 5000 + "</script><!--" + "<b>" * 5000 + "--><h1>Title</h1><p>text"
    assert html_text(page) == "# Title\ntext"
    unclosed = "<html><body>" + "<p>x<li>y<br>" * 3000
    assert html_text(unclosed).count("- y") == 3000


# -- damaged and scanned pages --------------------------------------------------------------------------------------

FLATE = b"/Filter /FlateDecode"


@pytest.mark.parametrize(
    ("content", "filters", "reason"),
    [
        (b"no deflate stream", FLATE, "its content cannot be decoded"),
        (b"x", b"/Filter /JBIG9Decode", "it is damaged (NotImplementedError: Unsupported filter /JBIG9Decode)"),
        (zlib.compress(b"(a) Tj\n" * 300_000), FLATE, "its content has 2100000 bytes; at most 1048576 are read"),
    ],
    ids=["damaged", "an unknown filter", "too much"],
)
def test_a_page_that_cannot_be_read_is_named_with_its_reason(content: bytes, filters: bytes, reason: str) -> None:
    found = read(sample_documents.pdf_with(content, filters))
    assert found == TextResult("page", [(1, "", "one"), (3, "", "three")], 0, False, False, [(2, reason)])


def test_a_pdf_of_which_no_page_can_be_read_is_refused() -> None:
    for contents in (b"/Contents (5 0)", b"/Contents 9 0 R"):
        data = sample_documents.pdf("x").replace(b"/Contents 5 0 R", contents)
        assert refused(data) == "has no page that can be read: page 1: its content is missing"


def test_pages_without_text_are_named_if_they_have_pictures() -> None:
    found = read(sample_documents.pdf("one", None, "", "four"))
    assert [number for number, _, _ in found.sections] == [1, 3, 4]
    assert (found.pictured, found.scanned) == ([2], False)


# -- counts that a file declares ------------------------------------------------------------------------------------

SPAN = b'<w:tc><w:tcPr><w:gridSpan w:val="%d"/></w:tcPr><w:p><w:r><w:t>x</w:t></w:r></w:p></w:tc>'
TABLE = b"<w:tbl><w:tblPr/><w:tblGrid/>%s</w:tbl>"
SHAPE = b'<p:sp><p:nvSpPr><p:cNvPr id="9" name="x"/><p:cNvSpPr/><p:nvPr/></p:nvSpPr><p:spPr/></p:sp>'
FIRST_ROW = b'<row r="1"><c r="A1"><v>1</v></c></row>'


def cpu_seconds(data: bytes) -> tuple[TextResult, float]:
    started = time.process_time()
    return read(data, max_characters=400_000), time.process_time() - started


@pytest.mark.parametrize(
    ("make", "start"),
    [
        (lambda: sample_documents.sheet_of(FIRST_ROW + b'<row r="99999999999"/>'), "1\n"),
        (lambda: sample_documents.sheet_of(FIRST_ROW + b"<row/>" * 200_000), "1\n"),
        (lambda: sample_documents.text_of(b"<w:p/>" * 200_000), "\n\n"),
        (lambda: sample_documents.slide_of(SHAPE * 120_000), "First"),
    ],
    ids=["the number of a row", "empty rows", "empty paragraphs", "empty shapes"],
)
@pytest.mark.many_cases
def test_what_is_empty_is_not_read_without_end(make: Callable[[], bytes], start: str) -> None:
    found, seconds = cpu_seconds(make())
    assert found.cut and found.sections[0][2].startswith(start)
    assert seconds < 10


def test_a_cell_does_not_span_more_columns_than_a_table_has() -> None:
    found, seconds = cpu_seconds(sample_documents.text_of(TABLE % (b"<w:tr>" + SPAN % 99_999_999 + b"</w:tr>")))
    assert found.sections == [(1, "", " | ".join(["x"] * 63))]
    assert seconds < 2
    found, _ = cpu_seconds(sample_documents.text_of(TABLE % (b"<w:tr>" + SPAN % 2 + SPAN % 1 + b"</w:tr>")))
    assert found.sections == [(1, "", "x | x | x")]


def test_a_gap_between_rows_is_no_row() -> None:
    found, _ = cpu_seconds(sample_documents.sheet_of(FIRST_ROW + b'<row r="60000"><c r="A60000"><v>7</v></c></row>'))
    assert found.sections[0][2] == "1\n7\n" and not found.cut
