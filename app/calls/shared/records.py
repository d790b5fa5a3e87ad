"""The records of a call in its Redis stream, which the leader writes and the followers read."""

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from app.calls.entry import Batch
from app.chat.events import Fault


class CallStarted(msgspec.Struct, array_like=True, frozen=True, tag="begun"):
    """The model server has begun to answer."""

    fallback_model: str | None = None
    """The model that answers in place of the one that was requested."""


class BatchesWritten(msgspec.Struct, array_like=True, frozen=True, tag="spoken"):
    batches: list[Batch]


class CallFailed(msgspec.Struct, array_like=True, frozen=True, tag="refused"):
    """The reply never began. Nothing follows."""

    fault: Fault


class LeaseReleased(msgspec.Struct, array_like=True, frozen=True, tag="left"):
    """The leader has released its lease. Nothing follows."""


Record: TypeAlias = CallStarted | BatchesWritten | CallFailed | LeaseReleased


class _EncodedBatches(msgspec.Struct, array_like=True, frozen=True, tag="spoken"):
    batches: Sequence[msgspec.Raw]


class UnencodableBatch(ValueError):
    """A record cannot hold these events exactly."""


_encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[Record] = msgspec.msgpack.Decoder(Record)


def write(record: Record) -> bytes:
    return _encode(record)


def write_batch(batch: Batch) -> bytes:
    """Encode a batch for `write_batches`. Raises UnencodableBatch."""
    try:
        return _encode(batch)
    except (OverflowError, RecursionError, UnicodeEncodeError, TypeError) as error:
        raise UnencodableBatch(str(error)) from None


def write_batches(batches: Sequence[bytes]) -> bytes:
    return _encode(_EncodedBatches([msgspec.Raw(batch) for batch in batches]))


def read(data: bytes) -> Record | None:
    """Decode a record; None if another version wrote it, or if it is damaged."""
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
