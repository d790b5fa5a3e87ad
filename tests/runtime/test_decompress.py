"""Compressed bodies, cut anywhere."""

import gzip
import tracemalloc
import zlib
from random import Random
from typing import Any

import pytest
import zstandard
from app.runtime.decompress import MAX_MEMBERS, PIECE_BYTES, ExpandsTooFar, decompress_pieces, decompressor_for

from tests.cuts import every_cut, whole

TEXT = b'data: {"choices": []}\n\n' * 3


def bare(data: bytes) -> bytes:
    deflate = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return deflate.compress(data) + deflate.flush()


BODIES = {
    "gzip": ("gzip", gzip.compress(TEXT, mtime=0)),
    "two members": ("x-gzip", gzip.compress(TEXT[:9], mtime=0) + gzip.compress(TEXT[9:], mtime=0)),
    "zlib": ("deflate", zlib.compress(TEXT)),
    "bare": ("Deflate ", bare(TEXT)),
    "plain": (None, TEXT),
    "identity": ("identity", TEXT),
    "none": ("none", TEXT),
    "a charset": ("UTF-8", TEXT),
}


@pytest.mark.parametrize(("encoding", "body"), BODIES.values(), ids=BODIES)
def test_any_cut_of_a_body_inflates_to_the_same_text(encoding: str | None, body: bytes) -> None:
    for parts in [whole(body), *every_cut(body)]:
        inflate = decompressor_for(encoding)
        assert b"".join(map(inflate.feed, parts)) == TEXT


def test_what_can_be_inflated_of_a_body_that_was_cut_off_is_given() -> None:
    deflate = zlib.compressobj(wbits=31)
    flushed = deflate.compress(TEXT) + deflate.flush(zlib.Z_SYNC_FLUSH)
    assert decompressor_for("gzip").feed(flushed) == TEXT


@pytest.mark.parametrize("body", [TEXT, gzip.compress(TEXT, mtime=0) + b"more"])
def test_bytes_that_are_not_compressed_are_an_error(body: bytes) -> None:
    with pytest.raises(ValueError, match="cannot be decompressed|is not compressed"):
        decompressor_for("gzip").feed(body)


def test_an_unknown_encoding_is_an_error_that_names_it() -> None:
    with pytest.raises(ValueError, match="'br'"):
        decompressor_for("br")


def test_a_body_that_expands_without_end_is_refused() -> None:
    bomb = zlib.compress(b"\n" * 64 * 1024 * 1024)
    with pytest.raises(ValueError, match="expands to more than"):
        decompressor_for("deflate").feed(bomb)


def test_the_reader_of_a_body_may_set_a_limit_of_its_own() -> None:
    body = zlib.compress(bytes(1000))
    assert decompressor_for("deflate").feed(body, 1001) == bytes(1000)
    with pytest.raises(ExpandsTooFar, match="more than 999 bytes"):
        decompressor_for("deflate").feed(body, 999)


@pytest.mark.parametrize(("encoding", "body"), BODIES.values(), ids=BODIES)
def test_a_compressed_body_is_complete_at_its_last_byte(encoding: str | None, body: bytes) -> None:
    decompressor = decompressor_for(encoding)
    decompressor.feed(body[:-1])
    compressed = encoding not in (None, "identity", "none", "UTF-8")
    assert decompressor.complete is not compressed
    decompressor.feed(body[-1:])
    assert decompressor.complete


def test_a_read_of_many_empty_members_is_refused() -> None:
    """Each costs a copy of all the bytes behind it."""
    with pytest.raises(ValueError, match="more than 256 gzip members"):
        decompressor_for("gzip").feed(gzip.compress(b"", mtime=0) * 300)


def stream_zstd(data: bytes) -> bytes:
    """A frame that does not say its length."""
    compress = zstandard.ZstdCompressor().compressobj()
    return compress.compress(data) + compress.flush()


REQUESTS = {
    "gzip": ("gzip", lambda data: gzip.compress(data, mtime=0)),
    "two members": ("gzip", lambda data: gzip.compress(data[:9], mtime=0) + gzip.compress(data[9:], mtime=0)),
    "zlib": ("deflate", zlib.compress),
    "bare": ("deflate", bare),
    "zstd": ("zstd", zstandard.compress),
    "zstd of unknown length": ("zstd", stream_zstd),
    "two frames": ("zstd", lambda data: zstandard.compress(data[:9]) + zstandard.compress(data[9:])),
}
each_request = pytest.mark.parametrize(("encoding", "compress"), REQUESTS.values(), ids=REQUESTS)


@each_request
@pytest.mark.parametrize("size", [0, 1, 40, PIECE_BYTES + 1, 3 * PIECE_BYTES])
def test_the_body_of_a_request_comes_in_pieces_of_limited_length(encoding: str, compress: Any, size: int) -> None:
    for data in (b"a" * size, Random(1).randbytes(size)):
        pieces = list(decompress_pieces(compress(data), encoding))
        assert b"".join(pieces) == data
        assert all(0 < len(piece) <= PIECE_BYTES for piece in pieces)


@each_request
def test_a_body_is_not_decompressed_beyond_the_limit(encoding: str, compress: Any) -> None:
    tracemalloc.start()
    pieces = decompress_pieces(bytearray(compress(b"a" * 64 * PIECE_BYTES)), encoding)
    tracemalloc.reset_peak()
    assert len(next(pieces)) + len(next(pieces)) > PIECE_BYTES
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 6 * PIECE_BYTES


@each_request
def test_the_body_of_a_request_that_is_cut_off_or_damaged_is_an_error(encoding: str, compress: Any) -> None:
    data = Random(1).randbytes(1000)
    body = compress(data)
    for wrong in (body[:2] + b"no" + body[4:], b"{}"):
        with pytest.raises(ValueError, match="^it "):
            list(decompress_pieces(wrong, encoding))
    if encoding == "zstd":
        found = b"".join(decompress_pieces(body[:-5], encoding))
        assert found != data and data.startswith(found)
    else:
        with pytest.raises(ValueError, match="ends too early"):
            list(decompress_pieces(body[:-5], encoding))


def test_a_body_of_very_many_members_or_with_a_large_window_is_an_error() -> None:
    with pytest.raises(ValueError, match="gzip members"):
        list(decompress_pieces(gzip.compress(b"", mtime=0) * (MAX_MEMBERS + 1), "gzip"))
    parameters = zstandard.ZstdCompressionParameters(window_log=27)
    compress = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    with pytest.raises(ValueError, match="cannot be decompressed"):
        list(decompress_pieces(compress.compress(b"a" * 100) + compress.flush(), "zstd"))
