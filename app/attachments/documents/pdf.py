"""Extract text from PDF pages."""

import io
from collections.abc import Iterator
from typing import Any

from pypdf import PageObject, PdfReader
from pypdf.errors import PyPdfError

from app.attachments.documents.protocol import UnreadableFile

_MAX_COUNT = 20_000
_LOOKED_AT = 20


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

    def pages(self) -> Iterator[tuple[str, str]]:
        for number in range(min(self.count, self._max_pages)):
            yield "", _text(self._reader.pages[number])

    @property
    def has_pictures(self) -> bool:
        return any(_has_picture(self._reader.pages[number]) for number in range(min(self.count, _LOOKED_AT)))


def _declared_count(reader: PdfReader) -> int:
    """Return the page count that the document declares if it is too large: counting reads every page."""
    declared: Any = reader.root_object["/Pages"].get_object()
    count = declared.get("/Count")
    return int(count) if isinstance(count, int) and count > _MAX_COUNT else len(reader.pages)


def _text(page: PageObject) -> str:
    """Return a page's text; empty if the page is damaged, because the others may still be readable."""
    try:
        return page.extract_text()
    except (PyPdfError, ValueError, KeyError, TypeError, AttributeError, IndexError):
        return ""


def _has_picture(page: PageObject) -> bool:
    try:
        resources: Any = page.get("/Resources", {})
        objects: Any = resources.get_object().get("/XObject", {})
        return any(item.get_object().get("/Subtype") == "/Image" for item in objects.get_object().values())
    except (PyPdfError, ValueError, KeyError, TypeError, AttributeError):
        return False
