"""Writes the log of a call to Redis as it grows, for the gateways that follow the call."""

import logging

from app.cache.codec import Batch
from app.cache.inflight import InFlightCall
from app.cache.shared.lease import CallLease
from app.chat.events import Failed, Fault
from app.errors import UpstreamFailed

log = logging.getLogger("parley.cache")

JOINABLE_AFTER_END_MS = 2000
"""How long identical requests may join a call that has ended normally: until the store has its reply."""
CRASHED = Fault("upstream_protocol", "the gateway that received this reply could not read it", False)


class Publisher:
    """Writes the log of a call to Redis, from its present end on: Redis has the part before. It does not count as a
    reader, but a call without readers goes on while another gateway follows it."""

    def __init__(self, call: InFlightCall, lease: CallLease, joinable_ms: int = JOINABLE_AFTER_END_MS) -> None:
        self._call = call
        self._lease = lease
        self._joinable_ms = joinable_ms
        self.position = call.log.end_position
        if call.resumable:
            lease.set_resumable()
        lease.attach(self)
        call.publish(self, lease.keys.id, lease.fence)
        if call.ended:
            self.advance()

    @property
    def has_followers(self) -> bool:
        return self._lease.has_followers

    def on_unused(self) -> None:
        self._lease.end_unless_followed()

    def on_used(self) -> None:
        self._lease.cancel_end_unless_followed()

    def advance(self) -> None:
        """Write what is new. If that raises, another gateway can take the call over."""
        call = self._call
        try:
            if call.resumable:
                self._lease.set_resumable()
            if not call.aborted:
                self._write_new_batches()
            if call.ended:
                self._end()
        except Exception:
            log.exception("defect while writing a reply for other gateways")
            self._lease.resign()
        else:
            if not call.ended:
                return
        self._lease.detach()
        call.unpublish(self)

    def _write_new_batches(self) -> None:
        written = self._call.log
        for batch in written.batches[self.position - written.first_batch :]:
            self._lease.append(batch)
        self.position = written.end_position

    def _end(self) -> None:
        call, lease = self._call, self._lease
        if isinstance(call.error, UpstreamFailed):
            lease.write_failure(call.error.fault)
        elif call.aborted or call.error is not None:
            lease.resign()
        elif call.log.defect is not None:
            lease.append(Batch(0.0, [Failed(CRASHED)]))
            lease.end()
        else:
            joinable = call.log.is_cacheable(length=False)
            lease.end(self._joinable_ms if joinable else 0)

    # Called by the lease.

    def on_renewed(self, has_followers: bool) -> None:
        if has_followers:
            self._call.on_followed()
        self._call.update_backpressure()

    def on_unfollowed(self) -> None:
        self._call.unpublish(self)

    def on_lost(self) -> None:
        self._call.unpublish(self)
