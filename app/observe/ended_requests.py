"""`EndedRequests`: hands the records of requests that have ended to those who report them.

Requests are reported some milliseconds after their end, several in a row: for one after the other, the code of a log
line or of the metrics would have left the processor's cache each time.
"""

import asyncio
import logging
import time

from app.observe.request_record import RequestObserver, RequestRecord

log = logging.getLogger("parley.observe")

GATHER_SECONDS = 0.01
"""How long requests are gathered."""
MOST_PER_TURN = 32
"""As many are reported in one turn of the event loop, about a millisecond: many streams may end at the same time."""


class EndedRequests:
    """Used in the event loop only."""

    def __init__(self) -> None:
        self.observers: list[RequestObserver] = []
        """Called with the record of each request for a reply, in the order of their ends."""
        self._records: list[RequestRecord] = []
        self._timer: asyncio.Handle | None = None
        self._failed: set[RequestObserver] = set()
        """The observers that have raised an exception, which was logged."""

    def add(self, record: RequestRecord) -> None:
        """Report a request that ends now, soon."""
        record.ended_at, record.duration = time.time(), time.perf_counter() - record.started_at
        self._records.append(record)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(GATHER_SECONDS, self._take_turn)

    def report(self) -> None:
        """Report all requests that have ended, now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._report(len(self._records))

    def _take_turn(self) -> None:
        self._report(MOST_PER_TURN)
        self._timer = asyncio.get_running_loop().call_soon(self._take_turn) if self._records else None

    def _report(self, most: int) -> None:
        """Report so many requests. The first exception of each observer is logged."""
        records = self._records[:most]
        del self._records[:most]
        for observer in self.observers:
            for record in records:
                try:
                    observer(record)
                except Exception:
                    if observer not in self._failed:
                        self._failed.add(observer)
                        log.exception("defect in an observer of requests; it is not logged again")
