"""`EntryBuilder`: a reply that may be stored, gathered while it arrives.

The end of a long reply then costs hardly more than that of a short one. Many streams often end at the same time, and
by then the first events of each have left the processor's caches.
"""

import msgspec

from app.calls.codec import LARGE_ENTRY, UNENCODABLE, Batch, compress
from app.chat.accumulator import is_json_object
from app.chat.events import Event, Finish, MediaOutput, ReasoningDelta, TextDelta, ToolCallDelta

_encoder = msgspec.msgpack.Encoder()
_encode = _encoder.encode
_encode_into = _encoder.encode_into
_PAIR = b"\x92"
_ARRAY_32 = b"\xdd"
"""How msgpack announces an array of two items, and one whose length follows as four bytes."""


class EntryBuilder:
    def __init__(self) -> None:
        self._count = 0
        self._encoded: bytearray | None = bytearray()
        """The batches as `StoredEntry` has them; None if the reply is large, or holds what cannot be encoded."""
        self._last: Event | None = None
        self._has_content = False
        self._arguments: dict[int, list[str]] = {}

    def add(self, batch: Batch, size: int) -> None:
        """Add the next batch, with which the reply has about `size` bytes."""
        for event in batch.events:
            if type(event) is ToolCallDelta:
                self._add_arguments(event)
            elif type(event) is TextDelta or type(event) is ReasoningDelta or type(event) is MediaOutput:
                self._has_content = True
            self._last = event
        self._count += 1
        if size > LARGE_ENTRY:
            self._encoded = None
        if self._encoded is not None:
            self._encode(batch, self._encoded)

    def _add_arguments(self, event: ToolCallDelta) -> None:
        fragments = self._arguments.get(event.index)
        if fragments is None:
            self._arguments[event.index] = [event.arguments]
        else:
            fragments.append(event.arguments)

    def _encode(self, batch: Batch, encoded: bytearray) -> None:
        try:
            _encode_into(batch, encoded, -1)  # at the end
        except UNENCODABLE:
            self._encoded = None

    def is_cacheable(self, *, length: bool) -> bool:
        """Whether the reply may be stored: it ended normally, is not empty, and the arguments of all its calls are
        JSON objects.

        With `length`, a reply that ended at the token limit may be stored too.
        """
        last = self._last
        if type(last) is not Finish or not last.cacheable or not _ended_normally(last, length):
            return False
        if not self._arguments:
            return self._has_content
        return all(is_json_object("".join(fragments)) for fragments in self._arguments.values())

    def build(self, created: float) -> bytes | None:
        """Return what `codec.dump` does; None if the reply is large, or cannot be encoded. Raises NotEncodable if its
        encoded form is too large."""
        if self._encoded is None:
            return None
        head = _PAIR + _encode(created) + _ARRAY_32 + self._count.to_bytes(4, "big")
        return compress(head + self._encoded)


def _ended_normally(finish: Finish, length: bool) -> bool:
    return finish.reason in ("stop", "tool_calls") or (length and finish.reason == "length")
