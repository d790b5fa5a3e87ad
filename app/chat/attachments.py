"""What becomes of media whose bytes were read: bytes for the model, or text for it. Plain values."""

from dataclasses import dataclass
from typing import Literal, TypeAlias


@dataclass(frozen=True, slots=True)
class Section:
    """A page, a slide or a sheet."""

    text: str
    number: int = 0
    name: str = ""
    """A sheet's own name."""


Unit: TypeAlias = Literal["page", "slide", "sheet", "none"]


@dataclass(frozen=True, slots=True)
class FileText:
    sections: tuple[Section, ...]
    unit: Unit = "none"
    left_out: int = 0
    """How many units at the end were not read."""
    cut: bool = False
    """The text ends where the limit of characters was reached."""
    scanned: bool = False
    """A PDF whose pages have no text: they are pictures."""
    kind: Literal["file_text"] = "file_text"


@dataclass(frozen=True, slots=True)
class Inlined:
    """A data URI, or bare base64 where the model's server wants that and its format is known."""

    url: str
    format: str | None = None
    """Audio: `wav`, `mp3`; None: as the caller said."""
    kind: Literal["inlined"] = "inlined"


Attachment: TypeAlias = FileText | Inlined
