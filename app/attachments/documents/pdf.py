"""Extract text from PDF pages."""

import io
from collections.abc import Iterator
from typing import Any

from pypdf import PageObject, PdfReader
from pypdf.errors import PyPdfError
from pypdf.generic import StreamObject

from app.attachments.documents.parts import Part
from app.attachments.documents.protocol import UnreadableFile

_MAX_COUNT = 20_000
_MAX_CONTENT_BYTES = 1024 * 1024
"""A page of text has some kilobytes. pypdf takes seconds for each megabyte."""


class Pdf:
    def __init__(self, data: bytes, max_pages: int) -> None:
        """Open a PDF. Raises UnreadableFile."""
        try:
            self._reader = PdfReader(io.BytesIO(data), strict=False)
            if self._reader.is_encrypted and not self._reader.decrypt(""):
                raise UnreadableFile("is protected by a password")
            self.count = _declared_count(self._reader)
        except (PyPdfError, ValueError, KeyError, AttributeError) as error:
            raise UnreadableFile(f"is a damaged PDF ({type(error).__name__})") from None
        if self.count > _MAX_COUNT:
            raise UnreadableFile(f"has {self.count} pages; at most {_MAX_COUNT} are allowed")
        self._max_pages = max_pages

    def pages(self) -> Iterator[Part]:
        for number in range(min(self.count, self._max_pages)):
            yield _read_page(self._reader, number)


def _declared_count(reader: PdfReader) -> int:
    """Return the page count that the document declares if it is too large: counting reads every page."""
    declared: Any = reader.root_object["/Pages"].get_object()
    count = declared.get("/Count")
    return int(count) if isinstance(count, int) and count > _MAX_COUNT else len(reader.pages)


def _read_page(reader: PdfReader, number: int) -> Part:
    """Read one page. If it is damaged, the others may still be readable, so it has a reason instead of a text."""
    try:
        page = reader.pages[number]
        if not _has_streams(page):
            return Part(problem="its content is missing")
        contents = page.get_contents()
        size = 0 if contents is None else len(contents.get_data())
        if size > _MAX_CONTENT_BYTES:
            return Part(problem=f"its content has {size} bytes; at most {_MAX_CONTENT_BYTES} are read")
        text = page.extract_text()
        if not text.strip():
            return Part(text=text, problem=_find_lost_content(page, size), pictured=_has_picture(page))
        return Part(text=text)
    except MemoryError:
        return Part(problem="it needs too much memory")
    except Exception as error:  # what pypdf raises for a damaged page is of many types
        detail = f": {str(error)[:100]}" if isinstance(error, PyPdfError | NotImplementedError) and str(error) else ""
        return Part(problem=f"it is damaged ({type(error).__name__}{detail})")


def _find_lost_content(page: PageObject, size: int) -> str:
    """Return why a page without text has none, if its content is there and cannot be decoded: pypdf makes it empty."""
    if size > 0:
        return ""
    return "its content cannot be decoded" if any(stream._data for stream in _find_streams(page)) else ""


def _has_streams(page: PageObject) -> bool:
    """Return whether the page's content, if it has any, can be found. pypdf raises for some that cannot, and takes
    others for empty."""
    return all(isinstance(stream, StreamObject) for stream in _find_streams(page))


def _find_streams(page: PageObject) -> list[Any]:
    if "/Contents" not in page:
        return []
    contents: Any = page["/Contents"]
    return [item.get_object() for item in contents] if isinstance(contents, list) else [contents]


def _has_picture(page: PageObject) -> bool:
    try:
        resources: Any = page.get("/Resources", {})
        objects: Any = resources.get_object().get("/XObject", {})
        return any(item.get_object().get("/Subtype") == "/Image" for item in objects.get_object().values())
    except (PyPdfError, ValueError, KeyError, TypeError, AttributeError):
        return False
