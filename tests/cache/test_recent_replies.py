"""A reply is kept decoded only as what the store has at its key, and within a limit of memory."""

from app.cache.recent_replies import MAX_REPLIES, MAX_REPLY_BYTES, RecentReplies
from app.calls.codec import Batch, StoredEntry, dump
from app.calls.stored_reply import StoredReply
from app.chat.events import Finish, TextDelta


def stored(key: str, text: str = "Hi") -> StoredReply:
    entry = StoredEntry(5.0, [Batch(0.0, [TextDelta(text), Finish("stop")])])
    return StoredReply(key, entry, dump(entry))


def data_of(reply: StoredReply) -> bytes:
    assert reply.data is not None
    return bytes(bytearray(reply.data))  # a copy


def test_a_reply_is_found_by_its_key_and_its_bytes() -> None:
    recent = RecentReplies()
    first, second = stored("a"), stored("a", "Ho")
    recent.add("a", first)
    assert recent.get("a", data_of(first)) is first
    assert recent.get("b", data_of(first)) is None
    assert recent.get("a", data_of(second)) is None, "the store has another reply now"
    recent.add("a", second)
    assert recent.get("a", data_of(second)) is second
    assert recent.get("a", data_of(first)) is None


def test_the_reply_that_was_not_used_for_longest_is_dropped() -> None:
    replies = {key: stored(key) for key in "abcd"}
    size = replies["a"].size
    recent = RecentReplies(max_bytes=3 * size)
    for key in "abc":
        recent.add(key, replies[key])
    assert recent.get("a", data_of(replies["a"])) is not None
    recent.add("a", replies["a"])
    recent.add("d", replies["d"])
    assert [key for key in "abcd" if recent.get(key, data_of(replies[key]))] == ["a", "c", "d"]


def test_the_number_of_replies_is_limited() -> None:
    recent, reply = RecentReplies(), stored("a")
    for number in range(MAX_REPLIES + 1):
        recent.add(str(number), reply)
    assert recent.get("0", data_of(reply)) is None
    assert recent.get("1", data_of(reply)) is recent.get(str(MAX_REPLIES), data_of(reply)) is reply


def test_a_large_reply_is_not_kept() -> None:
    recent, large = RecentReplies(), stored("a", "x" * MAX_REPLY_BYTES)
    recent.add("a", stored("a"))
    recent.add("a", large)
    assert recent.get("a", data_of(large)) is None


def test_nothing_is_left_of_what_is_cleared() -> None:
    reply = stored("a")
    recent = RecentReplies(max_bytes=reply.size)
    recent.add("a", reply)
    recent.clear()
    assert recent.get("a", data_of(reply)) is None
    recent.add("b", reply)
    assert recent.get("b", data_of(reply)) is reply, "the memory counts as free again"
