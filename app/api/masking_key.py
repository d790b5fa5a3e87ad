"""`MaskingKey`: the key of placeholders for a gateway whose settings have none. It is made once, and kept in the state:
signatures of reasoning and servers' prompt caches stay valid after a restart."""

import logging
import os

from app.config.settings import Settings
from app.stores import NotKept, StateStore, StoreError

log = logging.getLogger("parley.guards")

_NAME = "masking key"
_KEPT_SECONDS = 10 * 365 * 86_400.0


class MaskingKey:
    def __init__(self) -> None:
        self.value = os.urandom(32)
        self._loaded = False

    async def load(self, store: StateStore, settings: Settings) -> None:
        """Read the key, or keep the new one, if guards need it. Without a store, it is another one at each start."""
        if self._loaded or not settings.guards or settings.masking.key is not None:
            return
        self._loaded = True
        try:
            stored = await store.get(_NAME)
            if stored is not None and len(stored.value) == len(self.value):
                self.value = stored.value
            else:
                await store.put(_NAME, self.value, ttl_seconds=_KEPT_SECONDS, model="")
        except NotKept:
            pass
        except StoreError as error:
            log.warning("the state failed, so the key of placeholders is a new one until the next start: %s", error)
