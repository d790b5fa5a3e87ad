"""Requests that a stored reply has answered, as they were parsed and prepared.

A program that repeats a request usually sends the same bytes. What was parsed, checked and hashed of them is then used
again, which saves a sixth of the work for a hit.
"""

from collections import OrderedDict

from msgspec import Struct

from app.api.live_configuration import LiveConfiguration
from app.formats.body import ParsedRequest
from app.routing import ModelRoute, PreparedRequest

MAX_BODY_BYTES = 16 * 1024
"""A request with a larger body is not kept."""
MAX_BYTES = 1024 * 1024
"""Of all bodies that are kept. What was parsed and prepared of them takes a few times as much."""
MAX_REQUESTS = 500
"""The garbage collector visits about 20 objects of each."""


class RepeatedRequest(Struct, frozen=True):
    body: bytes
    parsed: ParsedRequest
    route: ModelRoute
    """The route for which it was prepared."""
    prepared: PreparedRequest


class RepeatedRequests:
    """Those of one endpoint, all of the same configuration."""

    def __init__(self) -> None:
        self._live: LiveConfiguration | None = None
        self._requests: OrderedDict[bytes, RepeatedRequest] = OrderedDict()
        """By body; the most recently used last."""
        self._bytes = 0

    def find(self, body: bytes, live: LiveConfiguration) -> RepeatedRequest | None:
        """Return the request that had this body, if it was parsed with this configuration."""
        request = self._requests.get(body)
        if request is None or live is not self._live:
            return None
        self._requests.move_to_end(body)
        return request

    def add(self, request: RepeatedRequest, live: LiveConfiguration) -> None:
        """Keep a request that was parsed with this configuration; those of another one are dropped."""
        if live is not self._live:
            self._live, self._bytes = live, 0
            self._requests.clear()
        self._drop(request.body)
        self._requests[request.body] = request
        self._bytes += len(request.body)
        while self._bytes > MAX_BYTES or len(self._requests) > MAX_REQUESTS:
            self._drop(next(iter(self._requests)))

    def _drop(self, body: bytes) -> None:
        if self._requests.pop(body, None) is not None:
            self._bytes -= len(body)
