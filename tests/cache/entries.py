"""Entries of the cache with any events, and an encoder of batches that are all there."""

from collections.abc import Iterable
from typing import Any

from app.calls.entry import Batch, StoredEntry
from app.calls.log import EntryEncoder, events_size
from app.chat.events import Event, Extra, Finish, FinishReason, ReasoningDelta, TextDelta, ToolCallDelta
from hypothesis import strategies as st

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(TEXTS, JSON, max_size=3)
REASONS: tuple[FinishReason, ...] = ("stop", "tool_calls", "length", "content_filter")
EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.builds(ReasoningDelta, TEXTS),
    st.builds(TextDelta, TEXTS, st.booleans()),
    st.builds(ToolCallDelta, st.integers(0, 9), TEXTS, TEXTS, TEXTS),
    st.builds(Extra, OBJECTS, st.integers(-1, 9)),
    st.builds(Finish, st.sampled_from(REASONS), st.none() | OBJECTS, st.none() | TEXTS),
)
BATCHES = st.builds(Batch, st.floats(0, 1e6), st.lists(EVENTS, max_size=4))
ENTRIES = st.builds(StoredEntry, st.floats(0, 2e9), st.lists(BATCHES, max_size=4))


def built(batches: Iterable[Batch]) -> EntryEncoder:
    encoder, size = EntryEncoder(), 0
    for batch in batches:
        size += events_size(batch.events)
        encoder.add(batch, size)
    return encoder
