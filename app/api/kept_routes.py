"""`KeptRoutes`: which model each session of a virtual model was given."""

import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Callable

import msgspec

from app.runtime.throttled_log import ThrottledLog
from app.stores import NotKept, StateStore, StoreError

log = logging.getLogger("parley.routes")

MAX_KEPT = 10_000
"""How many sessions of a worker are kept in its memory."""


class KeptRoutes:
    """Kept in the store, which all workers share. Without one, and while it fails, those of this worker are in its
    memory."""

    def __init__(self, store: StateStore, clock: Callable[[], float] = time.time) -> None:
        """`clock` returns Unix seconds."""
        self._store = store
        self._clock = clock
        self._memory: OrderedDict[str, tuple[str, float]] = OrderedDict()
        """The model and the end of each session's time, those that were used last at the end."""
        self._throttled_log = ThrottledLog(log)

    async def find(self, key: str, keep_seconds: float) -> str | None:
        """Return the model of a session, which then keeps it for the whole time again; None if it has none."""
        now = self._clock()
        try:
            stored = await self._store.get(key)
        except StoreError as error:
            self._throttled_log.warn("the model of a session cannot be read", error)
            stored = None
        if stored is None:
            return self._recall(key, keep_seconds)
        model = stored.value.decode()
        # Not with each request: a write costs more than a look.
        if now - stored.stored_at > keep_seconds / 4:
            await self.keep(key, model, keep_seconds)
        else:
            self._remember(key, model, stored.stored_at + keep_seconds)
        return model

    async def keep(self, key: str, model: str, keep_seconds: float) -> None:
        self._remember(key, model, self._clock() + keep_seconds)
        try:
            await self._store.put(key, model.encode(), ttl_seconds=keep_seconds, model=model)
        except NotKept:
            pass  # the gateway has no store: then each worker has its own sessions
        except StoreError as error:
            self._throttled_log.warn("the model of a session cannot be stored", error)

    def _recall(self, key: str, keep_seconds: float) -> str | None:
        model, until = self._memory.get(key, ("", 0.0))
        if until <= self._clock():
            return None
        self._remember(key, model, self._clock() + keep_seconds)
        return model

    def _remember(self, key: str, model: str, until: float) -> None:
        self._memory[key] = model, until
        self._memory.move_to_end(key)
        if len(self._memory) > MAX_KEPT:
            self._memory.popitem(last=False)


def make_session_key(caller: str, session: bytes, agent: bytes, virtual: str, named: str) -> str:
    """Return the key of a session: `agent` is a part of the client that works beside others, such as a subagent of
    Claude Code, and `named` the model that the client asked for."""
    parts = [caller.encode(), session, agent, virtual.encode(), named.encode("utf-8", "surrogatepass")]
    return f"route {hashlib.blake2b(msgspec.msgpack.encode(parts), digest_size=16).hexdigest()}"
