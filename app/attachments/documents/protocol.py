"""The protocol between the gateway and its document workers, and the limits of one job.

A frame is a four-byte length and a msgpack value. An empty frame tells the worker to stop its job.
"""

import struct
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct


class DocumentLimits(Struct, frozen=True):
    workers: int
    workers_per_caller: int
    """How many workers one caller may use at the same time; the others are left to other callers."""
    max_waiting: int
    """How many jobs may wait for a worker; further ones are refused with 503."""
    queue_seconds: float
    """How long a job may wait for a worker before it is refused with 503."""
    wall_seconds: float
    cpu_seconds: int
    memory_bytes: int
    """The address space of the process that runs a job."""
    max_pages: int
    """How many pages, slides or sheets are read; the others are left out."""
    max_characters: int
    max_searched_characters: int
    """The limit of a file that is searched, of which only passages are put in."""
    max_unpacked_bytes: int
    """The limit of an Office document after decompression."""
    max_pixels: int
    """A larger image is refused without being decoded."""


HEAD = struct.Struct(">I")


class TextJob(msgspec.Struct, tag="text", frozen=True):
    data: bytes
    base64: bool
    """Whether `data` is base64 text."""
    name: str
    media_type: str
    charset: str | None
    max_pages: int
    max_characters: int
    max_unpacked_bytes: int
    cpu_seconds: float


class PictureJob(msgspec.Struct, tag="picture", frozen=True):
    data: bytes
    base64: bool
    decode_pixels: int
    """A larger image is refused."""
    max_pixels: int | None = None
    """A larger image is scaled down."""
    max_short_side: int | None = None
    max_bytes: int | None = None
    formats: tuple[str, ...] = ("png", "jpeg", "gif", "webp")
    """An image in another format is converted."""
    decode: bool = False
    """Decode the image even where its bytes are not changed, to find out whether it is damaged."""


class SearchJob(msgspec.Struct, tag="search", frozen=True):
    """Rank the passages of the files of a request by their match with a question."""

    files: list[list[str]]
    """The texts of the pages, slides or sheets of each file."""
    question: str
    max_tokens: int
    """Files that together have at most so many need no search."""
    passage_tokens: int
    overlap_tokens: int
    keywords: bool
    front: bool
    """Put the first passages of the only file before all others."""
    max_others: int = 0
    """So many passages without a word of the question are returned too, for a comparison by their meaning."""


class TextResult(msgspec.Struct, tag="read", frozen=True):
    unit: Literal["page", "slide", "sheet", "none"]
    sections: list[tuple[int, str, str]]
    """(number, name, text)"""
    left_out: int
    cut: bool
    scanned: bool
    unread: list[tuple[int, str]] = []
    """(number, reason) of the pages that could not be read; they have no section."""
    pictured: list[int] = []
    """The numbers of the pages that have images and no text, while others have text; they have no section."""


class PictureResult(msgspec.Struct, tag="seen", frozen=True):
    media_type: str
    width: int
    height: int
    data: bytes | None
    """None if the original bytes can be used."""


class FoundPassage(msgspec.Struct, frozen=True, array_like=True):
    """`files[file][section][start:end]`."""

    file: int
    section: int
    start: int
    end: int
    tokens: int
    number: int
    """Of the passage in its file, from 1."""
    front: bool
    cut: bool = False
    """Only the beginning of the passage is put in: the rest did not fit."""


class SearchResult(msgspec.Struct, tag="found", frozen=True):
    fits: bool
    """The files have no more tokens than may be put in."""
    totals: list[int] = []
    """How many passages each file has."""
    passages: list[FoundPassage] = []
    """The best first; without a word that matches, those at the beginnings of the files."""
    matching: int = 0
    """How many of the first of `passages` have a word of the question or are at the front."""
    others: list[FoundPassage] = []
    """Passages without a word of the question, from all parts of the files."""
    by_words: bool = True
    """Some of `passages` have a word of the question."""


class JobRefused(msgspec.Struct, tag="refused", frozen=True):
    message: str


Job: TypeAlias = TextJob | PictureJob | SearchJob
JobResult: TypeAlias = TextResult | PictureResult | SearchResult | JobRefused

_encoder = msgspec.msgpack.Encoder()
decode_job = msgspec.msgpack.Decoder(Job).decode
decode_reply = msgspec.msgpack.Decoder(JobResult).decode


class UnreadableFile(Exception):
    """A document or image cannot be read; the message is meant for the caller."""


def encode_frame(item: Job | JobResult) -> bytes:
    payload = _encoder.encode(item)
    return HEAD.pack(len(payload)) + payload


STOP = HEAD.pack(0)
