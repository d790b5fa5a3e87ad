"""What the gateway sends instead of media whose bytes it has read: a data URI, or the text of a file; or why it could
not read them."""

from typing import Literal, TypeAlias

from msgspec import Struct


class Section(Struct, frozen=True):
    """The text of one page, slide or sheet."""

    text: str
    number: int = 0
    name: str = ""
    """The name of a sheet."""


Unit: TypeAlias = Literal["page", "slide", "sheet", "none"]


class UnreadSection(Struct, frozen=True):
    """A page, slide or sheet that could not be read."""

    number: int
    reason: str


PassageChoice: TypeAlias = Literal["match", "unmatched", "beginning", "no_room"]
"""Why passages of a file were put in, or none. `match`: they match the question best, or none does. `unmatched`: the
beginnings of the files, because no passage has a word of the question. `beginning`: only these were wanted.
`no_room`: those of other files come first, and took what may be put in."""


class PassageSearch(Struct, frozen=True):
    """How the passages of long files are chosen: those that match the question in the newest message of the user."""

    max_tokens: int = 20_000
    """For the passages of all files together. Files that have no more are put in whole."""
    passage_tokens: int = 500
    overlap_tokens: int = 50
    max_passages: int | None = None
    keywords: bool = True
    """Rank passages by the words of the question."""
    front: bool = True
    """The first passages of the only file come before all others."""
    embedding_model: str | None = None
    """Rank passages by their embeddings too, from this model of the upstream."""
    min_similarity: float | None = None
    """Leave out passages whose embedding is less similar to that of the question."""


class FileText(Struct, frozen=True):
    """The text of a file. Its sections and those that could not be read are in the order of their numbers."""

    sections: tuple[Section, ...]
    unit: Unit = "none"
    left_out: int = 0
    """The number of units at the end that were not read."""
    cut: bool = False
    """The text was cut at the limit of characters."""
    scanned: bool = False
    """The file is a PDF whose pages are images without text."""
    unread: tuple[UnreadSection, ...] = ()
    pictured: tuple[int, ...] = ()
    """The numbers of the pages that have images and no text, while others have text."""
    passages: tuple[int, ...] = ()
    """The numbers of the passages that the sections are made of, from 1. Empty: the sections are the whole text."""
    passage_count: int = 0
    """How many passages the whole text has."""
    passage_choice: PassageChoice = "match"
    cut_passage: int = 0
    """The number of the passage that was cut to the tokens that were left; 0: none was."""
    search_problem: str = ""
    """What went wrong when the file was searched; continues a sentence about the file."""
    kind: Literal["file_text"] = "file_text"


class Inlined(Struct, frozen=True):
    """A data URI, or plain base64 if the model's server wants that and the audio format is known."""

    url: str
    format: str | None = None
    """The audio format (`wav`, `mp3`). None keeps the format that the caller gave."""
    kind: Literal["inlined"] = "inlined"


class Unreadable(Struct, frozen=True):
    """A medium of a tool result or an earlier turn that the model cannot be sent."""

    reason: str
    """Continues a sentence about the medium: `is a damaged image`."""
    kind: Literal["unreadable"] = "unreadable"


Attachment: TypeAlias = FileText | Inlined | Unreadable
