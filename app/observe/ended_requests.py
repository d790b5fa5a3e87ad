"""`EndedRequests` hands the records of requests that have ended to those who report them; `RecentRequests` keeps the
last ones.

Requests are reported some milliseconds after their end, several in a row: for one after the other, the code of a log
line or of the metrics would have left the processor's cache each time.
"""

import logging
from collections import deque
from collections.abc import Iterable

from msgspec.structs import replace

from app.observe.request_record import RequestObserver, RequestRecord
from app.runtime.turn_queue import TurnBudget, TurnQueue

log = logging.getLogger("parley.observe")

GATHER_SECONDS = 0.01
"""How long requests are gathered."""
REPORTED_TOGETHER = 8
"""How many requests each observer is given in a row."""
MAX_RECENT = 50
MAX_MODEL_CHARACTERS = 200
"""A name is cut to this length: behind a pass-through it is any text that a caller chose."""


class EndedRequests:
    """Used in the event loop only."""

    def __init__(self, observers: Iterable[RequestObserver] = (), budget: TurnBudget | None = None) -> None:
        self.observers = list(observers)
        """Called with the record of each request for a reply, in the order of their ends."""
        self._queue: TurnQueue[RequestRecord] = TurnQueue(
            self._report, together=REPORTED_TOGETHER, delay_seconds=GATHER_SECONDS, budget=budget
        )
        self._failed: set[RequestObserver] = set()
        """The observers that have raised an exception, which was logged."""

    def add(self, record: RequestRecord) -> None:
        """Report a request that ends now, soon."""
        record.record_end()
        self._queue.add(record)

    def report(self) -> None:
        """Report all requests that have ended, now."""
        self._queue.handle_all()

    def _report(self, records: list[RequestRecord]) -> None:
        """The first exception of each observer is logged."""
        for observer in self.observers:
            for record in records:
                try:
                    observer(record)
                except Exception:
                    if observer not in self._failed:
                        self._failed.add(observer)
                        log.exception("defect in an observer of requests; it is not logged again")


class RecentRequests:
    """Keeps the last requests of this process in memory, without what may be large: their prompts and replies, and what
    callers and servers chose."""

    def __init__(self) -> None:
        self._records: deque[RequestRecord] = deque(maxlen=MAX_RECENT)

    def observe(self, record: RequestRecord) -> None:
        model, requested = record.model[:MAX_MODEL_CHARACTERS], record.requested_model[:MAX_MODEL_CHARACTERS]
        self._records.append(
            replace(
                record,
                model=model,
                requested_model=requested,
                metadata=None,
                usage=None,
                trace=None,
                content=None,
                capture=None,
                reservation=None,
            )
        )

    def list_newest_first(self) -> list[RequestRecord]:
        return list(reversed(self._records))
