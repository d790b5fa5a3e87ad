"""Extract text from DOCX, PPTX and XLSX: headings as in Markdown, tables as rows of cells.

Counts in these files can be of any size: how many columns a cell spans, the number of a row. None is iterated over
unless it is within what Word and Excel allow.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import docx as word
import openpyxl
import pptx as powerpoint
from docx.table import Table, _Cell
from docx.text.paragraph import Paragraph

from app.attachments.documents.parts import Budget, Part
from app.attachments.documents.protocol import UnreadableFile

_MAX_TABLE_COLUMNS = 63
"""Word's limit."""
_MAX_SHEET_COLUMNS = 16_384
"""Excel's limit."""


def docx(data: bytes, budget: Budget) -> Part:
    document = word.Document(io.BytesIO(data))
    styles = {style.style_id: style.name or "" for style in document.styles}
    lines = (line for block in document.iter_inner_content() for line in _block(block, styles))
    return Part(budget.join(lines))


def _block(block: Paragraph | Table, styles: Mapping[str, str]) -> Iterator[str]:
    if isinstance(block, Table):
        yield from (_row(_table_cells(block, row)) for row in block.rows)
        return
    level = styles.get(block._p.style or "", "").removeprefix("Heading ")
    yield f"{'#' * int(level)} {block.text}" if level in _HEADING_LEVELS else block.text


_HEADING_LEVELS = tuple("123456789")


def _table_cells(table: Table, row: Any) -> Iterator[str]:
    """Yield the text of each column; a cell that spans several has its text in each of them."""
    columns = 0
    for cell in row._tr.tc_lst:
        text = _Cell(cell, table).text
        for _ in range(min(int(cell.grid_span), _MAX_TABLE_COLUMNS - columns)):
            columns += 1
            yield text


def _row(cells: Iterable[str]) -> str:
    return " | ".join(" ".join(cell.split()) for cell in cells)


def pptx(data: bytes, budget: Budget) -> tuple[Iterator[Part], int]:
    """Return (each slide, the number of slides)."""
    slides = powerpoint.Presentation(io.BytesIO(data)).slides
    return (Part(_slide(slide, budget)) for slide in slides), len(slides)


def _slide(slide: Any, budget: Budget) -> str:
    lines = [budget.join(line for shape in slide.shapes for line in _shape(shape))]
    notes = slide.notes_slide.notes_text_frame if slide.has_notes_slide else None
    if notes is not None and notes.text.strip():
        lines.append(f"Notes: {notes.text}")
    return "\n".join(line for line in "\n".join(lines).split("\n") if line.strip())


def _shape(shape: Any) -> Iterator[str]:
    """Yield at least one line, so that shapes without text count too."""
    if hasattr(shape, "shapes"):
        for inner in shape.shapes:
            yield from _shape(inner)
    elif shape.has_text_frame:
        yield shape.text_frame.text
    elif getattr(shape, "has_table", False):
        for row in shape.table.rows:
            yield _row(cell.text for cell in row.cells)
    else:
        yield ""


def xlsx(data: bytes, budget: Budget) -> tuple[Iterator[Part], int]:
    """Return (each visible sheet as CSV, the number of sheets). Formulas give their last computed values."""
    book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True, keep_links=False)
    sheets = [sheet for sheet in book.worksheets if sheet.sheet_state == "visible"]
    return (Part(_sheet(sheet, budget), sheet.title) for sheet in sheets), len(sheets)


def _sheet(sheet: Any, budget: Budget) -> str:
    sheet.reset_dimensions()  # the size that a sheet declares may be wrong
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    before = 0
    for row in sheet.iter_rows(values_only=True):  # missing rows are empty ones
        if len(row) > _MAX_SHEET_COLUMNS:
            raise UnreadableFile(f"has a cell in column {len(row)}; at most {_MAX_SHEET_COLUMNS} are allowed")
        cells = ["" if value is None else str(value) for value in row]
        while cells and not cells[-1]:
            cells.pop()
        if cells:
            writer.writerow(cells)
        written, before = out.tell() - before, out.tell()
        if not budget.spend(written):
            break
    return out.getvalue()
