"""PDF pages into text."""

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
        """Raises Unreadable."""
        try:
            self._reader = PdfReader(io.BytesIO(data), strict=False)
            if self._reader.is_encrypted and not self._reader.decrypt(""):
                raise UnreadableFile("is protected by a password")
            self.count = _declared_count(self._reader)
        except (PyPdfError, ValueError, KeyError, AttributeError) as error:
            raise UnreadableFile(f"is a damaged PDF ({type(error).__name__})") from None
        if self.count > _MAX_COUNT:
            raise UnreadableFile(f"has {self.count} pages; no PDF with more than {_MAX_COUNT} is read")
        self._max_pages = max_pages

    def pages(self) -> Iterator[tuple[str, str]]:
        for number in range(min(self.count, self._max_pages)):
            yield "", _text(self._reader.pages[number])

    @property
    def has_pictures(self) -> bool:
        return any(_has_picture(self._reader.pages[number]) for number in range(min(self.count, _LOOKED_AT)))


def _declared_count(reader: PdfReader) -> int:
    """As the document says it: to count the pages is to read them all."""
    declared: Any = reader.root_object["/Pages"].get_object()
    count = declared.get("/Count")
    return int(count) if isinstance(count, int) and count > _MAX_COUNT else len(reader.pages)


def _text(page: PageObject) -> str:
    """A page that cannot be read is empty: the others still are."""
    try:
        return page.extract_text()
    except (PyPdfError, ValueError, KeyError, TypeError, AttributeError, IndexError):
        return ""


def _has_picture(page: PageObject) -> bool:
    try:
        resources: Any = page.get("/Resources", {})
        objects: Any = resources.get_object().get("/XObject", {})
        return any(one.get_object().get("/Subtype") == "/Image" for one in objects.get_object().values())
    except (PyPdfError, ValueError, KeyError, TypeError, AttributeError):
        return False
