"""Extract text from DOCX, PPTX and XLSX: headings as in Markdown, tables as rows of cells."""

import csv
import io
from collections.abc import Iterable, Iterator
from typing import Any

import docx as word
import openpyxl
import pptx as powerpoint
from docx.table import Table
from docx.text.paragraph import Paragraph


def docx(data: bytes) -> str:
    document = word.Document(io.BytesIO(data))
    return "\n".join(line for block in document.iter_inner_content() for line in _block(block))


def _block(block: Paragraph | Table) -> Iterator[str]:
    if isinstance(block, Table):
        yield from (_row(cell.text for cell in row.cells) for row in block.rows)
        return
    style = block.style.name if block.style is not None else None
    level = (style or "").removeprefix("Heading ")
    yield f"{'#' * int(level)} {block.text}" if level.isdigit() else block.text


def _row(cells: Iterable[str]) -> str:
    return " | ".join(" ".join(cell.split()) for cell in cells)


def pptx(data: bytes) -> tuple[Iterator[tuple[str, str]], int]:
    """Return ((name, text) of each slide, the number of slides). The names are empty."""
    slides = powerpoint.Presentation(io.BytesIO(data)).slides
    return (("", _slide(slide)) for slide in slides), len(slides)


def _slide(slide: Any) -> str:
    lines = [line for shape in slide.shapes for line in _shape(shape)]
    notes = slide.notes_slide.notes_text_frame if slide.has_notes_slide else None
    if notes is not None and notes.text.strip():
        lines.append(f"Notes: {notes.text}")
    return "\n".join(line for line in lines if line.strip())


def _shape(shape: Any) -> Iterator[str]:
    if hasattr(shape, "shapes"):
        for inner in shape.shapes:
            yield from _shape(inner)
    elif shape.has_text_frame:
        yield shape.text_frame.text
    elif getattr(shape, "has_table", False):
        yield from (_row(cell.text for cell in row.cells) for row in shape.table.rows)


def xlsx(data: bytes, max_characters: int) -> tuple[Iterator[tuple[str, str]], int]:
    """Return ((name, CSV) of each visible sheet, the number of sheets). Formulas give their last computed values."""
    book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True, keep_links=False)
    sheets = [sheet for sheet in book.worksheets if sheet.sheet_state == "visible"]
    return ((sheet.title, _sheet(sheet, max_characters)) for sheet in sheets), len(sheets)


def _sheet(sheet: Any, max_characters: int) -> str:
    sheet.reset_dimensions()  # the size that a sheet declares may be wrong
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for row in sheet.iter_rows(values_only=True):
        cells = ["" if value is None else str(value) for value in row]
        while cells and not cells[-1]:
            cells.pop()
        if cells:
            writer.writerow(cells)
        if out.tell() > max_characters:
            break
    return out.getvalue()
