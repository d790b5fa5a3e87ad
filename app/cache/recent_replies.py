"""Stored replies that were read a short time ago, so that a hit on one of them again needs no decoding."""

from collections import OrderedDict

from app.calls.stored_reply import StoredReply

MAX_BYTES = 16 * 1024 * 1024
"""Of all replies that are kept, as they are counted; with the frames of their texts they take up to a third more."""
MAX_REPLY_BYTES = 1024 * 1024
"""A larger reply is not kept."""
MAX_REPLIES = 2000
"""The garbage collector visits about 15 objects of each."""


class RecentReplies:
    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._replies: OrderedDict[str, StoredReply] = OrderedDict()
        """By key; the most recently used last."""
        self._bytes = 0

    def get(self, key: str, data: bytes) -> StoredReply | None:
        """Return the reply that these bytes of the store, at this key, were decoded to."""
        reply = self._replies.get(key)
        if reply is None or reply.data != data:
            return None
        self._replies.move_to_end(key)
        return reply

    def add(self, key: str, reply: StoredReply) -> None:
        self._drop(key)
        if reply.size > MAX_REPLY_BYTES:
            return
        self._replies[key] = reply
        self._bytes += reply.size
        while self._bytes > self._max_bytes or len(self._replies) > MAX_REPLIES:
            self._drop(next(iter(self._replies)))

    def clear(self) -> None:
        self._replies.clear()
        self._bytes = 0

    def _drop(self, key: str) -> None:
        reply = self._replies.pop(key, None)
        if reply is not None:
            self._bytes -= reply.size
