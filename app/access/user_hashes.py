"""`UserHasher`: names end users by a keyed hash, whose key is a secret in the state database."""

import asyncio
import hashlib
import hmac
import logging
import time
from collections.abc import Callable

from app.errors import StoreDown
from app.runtime.throttled_log import ThrottledLog
from app.state import Database, StateError
from app.state.secrets import read_secret

log = logging.getLogger("parley.access")

_SECRET = "users"
_HASH_BYTES = 8
_RETRY_SECONDS = 1.0


class UserHasher:
    """All gateways of one state database have the same key. It is read when it is first needed."""

    def __init__(self, database: Database | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._key: bytes | None = None
        self._reading: asyncio.Task[None] | None = None
        self._read_at = float("-inf")
        self._throttled_log = ThrottledLog(log)

    def hash(self, caller: str, user: str) -> str:
        """Return 16 hex digits for a user of a caller. Raises StoreDown while the key could not be read."""
        if self._key is None:
            self._start()
            raise StoreDown("users cannot be told apart yet, because the state database could not be read")
        digest = hmac.new(self._key, f"{caller}\x00{user}".encode(), hashlib.sha256)
        return digest.hexdigest()[: 2 * _HASH_BYTES]

    async def prepare(self) -> None:
        """Read the key, so that the first requests need not fail for it."""
        self._start()
        if self._reading is not None:
            await asyncio.wait([self._reading])

    async def aclose(self) -> None:
        if self._reading is not None:
            await asyncio.wait([self._reading])

    def _start(self) -> None:
        if self._reading is None and self._key is None and self._clock() - self._read_at >= _RETRY_SECONDS:
            self._reading = asyncio.get_running_loop().create_task(self._read())

    async def _read(self) -> None:
        try:
            if self._database is not None:
                self._key = await asyncio.to_thread(read_secret, self._database, _SECRET)
        except StateError as error:
            self._throttled_log.warn("the key with which users are hashed could not be read", error)
        finally:
            self._read_at, self._reading = self._clock(), None
