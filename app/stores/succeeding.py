"""A store that took the place of another one, whose values are still read."""

from app.stores.base import StateStore, StoredValue


class SucceedingStore:
    """A `StateStore`. It closes both."""

    def __init__(self, store: StateStore, older: StateStore) -> None:
        """All is written to `store`. What only `older` has is found until it expires there."""
        self._store = store
        self._older = older

    async def get(self, key: str) -> StoredValue | None:
        return await self._store.get(key) or await self._older.get(key)

    async def put(self, key: str, value: bytes, *, ttl_seconds: float, model: str) -> None:
        await self._store.put(key, value, ttl_seconds=ttl_seconds, model=model)

    async def delete(self, key: str) -> None:
        await self._older.delete(key)
        await self._store.delete(key)

    async def aclose(self) -> None:
        await self._store.aclose()
        await self._older.aclose()
