"""An `EntryBuilder` of batches that are all there."""

from collections.abc import Iterable

from app.cache.codec import Batch
from app.cache.entry_builder import EntryBuilder
from app.cache.log import events_size


def built(batches: Iterable[Batch]) -> EntryBuilder:
    builder = EntryBuilder()
    for batch in batches:
        builder.add(batch, events_size(batch.events))
    return builder
