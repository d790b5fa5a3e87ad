"""What the gateway and its workers say to each other: frames of a length and msgpack. An empty frame says: stop.

How much the reading of one document or picture may cost.
"""

import struct
from dataclasses import dataclass
from typing import Literal, TypeAlias

import msgspec


@dataclass(frozen=True, slots=True)
class DocumentLimits:
    workers: int
    max_waiting: int
    """Jobs that wait for a worker; one more is told to come back later."""
    wall_seconds: float
    cpu_seconds: int
    memory_bytes: int
    """Address space of the process that reads."""
    max_pages: int
    """Pages, slides or sheets whose text is read; the others are left out."""
    max_characters: int
    max_unpacked_bytes: int
    """Of the archive that an Office document is."""
    max_pixels: int
    """An image with more is refused undecoded."""


HEAD = struct.Struct(">I")


class TextJob(msgspec.Struct, tag="text", frozen=True):
    data: bytes
    base64: bool
    """The data are base64, as it came."""
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
    """With more it is refused."""
    max_pixels: int | None = None
    """With more it is scaled."""
    max_short_side: int | None = None
    max_bytes: int | None = None


class TextResult(msgspec.Struct, tag="read", frozen=True):
    unit: Literal["page", "slide", "sheet", "none"]
    sections: list[tuple[int, str, str]]
    """(number, name, text)"""
    left_out: int
    cut: bool
    scanned: bool


class PictureResult(msgspec.Struct, tag="seen", frozen=True):
    media_type: str
    width: int
    height: int
    data: bytes | None
    """None where the bytes can stay as they are."""


class JobRefused(msgspec.Struct, tag="refused", frozen=True):
    message: str


Job: TypeAlias = TextJob | PictureJob
JobResult: TypeAlias = TextResult | PictureResult | JobRefused

_encoder = msgspec.msgpack.Encoder()
decode_job = msgspec.msgpack.Decoder(Job).decode
decode_reply = msgspec.msgpack.Decoder(JobResult).decode


class UnreadableFile(Exception):
    """Why a document is not read, in words for the caller."""


def encode_frame(item: Job | JobResult) -> bytes:
    payload = _encoder.encode(item)
    return HEAD.pack(len(payload)) + payload


STOP = HEAD.pack(0)
