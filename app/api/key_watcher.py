"""Applies the API keys of the state database, now and whenever another process has changed them."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping

from app.access.stored_keys import KeyRow, StoredKeys
from app.config.access import with_stored_keys
from app.config.settings import Settings
from app.config.tables.callers import Key
from app.observe.request_record import RequestRecord
from app.runtime.throttled_log import ThrottledLog
from app.state import StateError

log = logging.getLogger("parley.keys")

WATCH_SECONDS = 1.0
"""How soon a key that another process has revoked is refused here."""
USE_SECONDS = 60.0
"""How often the last use of keys is stored."""


class KeyWatcher:
    """Runs in one event loop."""

    def __init__(self, keys: StoredKeys, settings: Settings, apply: Callable[[Settings], Awaitable[None]]) -> None:
        """`settings` are those of the file. `apply` applies settings that have the stored keys too."""
        self.keys = keys
        self._settings = settings
        self._apply = apply
        self._rows: list[KeyRow] | None = None
        self._change = -1
        self._used: dict[str, float] = {}
        self._stored_use_at = time.monotonic()
        self._task: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()
        self._throttled_log = ThrottledLog(log)

    @property
    def file_keys(self) -> Mapping[str, Key]:
        """The keys of the configuration."""
        return self._settings.keys

    @property
    def has_read(self) -> bool:
        """Whether the settings have the stored keys: they are read beside the first requests, and not while the
        database cannot be used."""
        return self._change >= 0

    async def apply_file(self, settings: Settings) -> None:
        """Apply other settings of the file, with the stored keys. If `apply` raises, the settings before stay. A change
        of the keys at the same time waits, so that it does not bring them back."""
        async with self._lock:
            await self._apply(with_stored_keys(settings, self._rows or []))
            self._settings = settings

    async def start(self) -> None:
        await self.refresh()
        if not self.keys.has_admin and self._change == 0:
            return  # and none can be made
        self._task = asyncio.get_running_loop().create_task(self._watch())

    async def refresh(self) -> None:
        """Read the keys if they have changed, and apply them."""
        async with self._lock:
            try:
                change = await asyncio.to_thread(self.keys.read_change)
                if change == self._change and self._rows is not None:
                    return
                change, rows = await asyncio.to_thread(self.keys.read)
            except StateError as error:
                self._throttled_log.warn("the API keys of the state database were not read; the last ones stay", error)
                return
            self._rows = rows
            if change or self.keys.has_admin:  # also without keys: now that is known
                await self._apply(with_stored_keys(self._settings, rows))
            self._change = change

    def observe(self, record: RequestRecord) -> None:
        """Note the use of a key."""
        if record.caller:
            self._used[record.caller] = record.ended_at

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            try:
                await self.refresh()
            except Exception:  # the next round tries again: a key that was revoked must not stay for good
                log.exception("defect while applying the API keys of the state database")
            if self._used and time.monotonic() - self._stored_use_at > USE_SECONDS:
                await self.store_use()

    async def store_use(self) -> None:
        known = {row.name for row in self._rows or ()}
        used, self._used = {name: at for name, at in self._used.items() if name in known}, {}
        self._stored_use_at = time.monotonic()
        if used:
            try:
                await asyncio.to_thread(self.keys.record_use, used)
            except StateError as error:
                self._throttled_log.warn("the last use of API keys was not stored", error)

    async def aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self.store_use()
