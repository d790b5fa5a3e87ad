"""`EndedRequests`: hands the records of requests that have ended to those who report them.

Requests are reported some milliseconds after their end, several in a row: for one after the other, the code of a log
line or of the metrics would have left the processor's cache each time.
"""

import asyncio
import logging
import time

from app.observe.request_record import RequestObserver, RequestRecord
from app.turn_budget import TurnBudget

log = logging.getLogger("parley.observe")

GATHER_SECONDS = 0.01
"""How long requests are gathered."""
REPORTED_TOGETHER = 8
"""How many requests each observer is given in a row."""


class EndedRequests:
    """Used in the event loop only."""

    def __init__(self, budget: TurnBudget | None = None) -> None:
        self._budget = budget or TurnBudget()
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
        self._budget.end()
        while self._records:
            self._report_some()

    def _take_turn(self) -> None:
        self._budget.begin_turn()
        while self._records and not self._budget.is_spent():
            self._report_some()
        if self._records:
            self._timer = asyncio.get_running_loop().call_soon(self._take_turn)
        else:
            self._timer = None
            self._budget.end()

    def _report_some(self) -> None:
        """Report the first requests. The first exception of each observer is logged."""
        records = self._records[:REPORTED_TOGETHER]
        del self._records[:REPORTED_TOGETHER]
        for observer in self.observers:
            for record in records:
                try:
                    observer(record)
                except Exception:
                    if observer not in self._failed:
                        self._failed.add(observer)
                        log.exception("defect in an observer of requests; it is not logged again")
