"""A store that stores nothing."""

from app.cache.stores.base import KnownValue, NotKept, StoredValue, StoreStats


class NullStore:
    async def get(self, key: str) -> StoredValue | None:
        return None

    def get_nowait(self, key: str) -> KnownValue:
        return None

    async def put(self, key: str, value: bytes, *, ttl_seconds: float, model: str) -> None:
        raise NotKept("this store keeps nothing")

    def put_nowait(self, key: str, value: bytes, *, ttl_seconds: float, model: str) -> bool:
        return True

    async def delete(self, key: str) -> None:
        pass

    async def purge(self, model: str | None = None) -> int:
        return 0

    async def stats(self) -> StoreStats:
        return StoreStats(0, 0, {})

    async def aclose(self) -> None:
        pass
