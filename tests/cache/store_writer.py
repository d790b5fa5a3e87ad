"""A process that writes into a store: `python -m tests.cache.store_writer URL NAME COUNT`."""

import asyncio
import random
import sys

from app.stores import Store

from tests.cache.stores import is_whole, patient_store, sealed


async def main(url: str, name: str, count: int) -> None:
    store, chance = patient_store(url), random.Random(name)
    try:
        for number in range(0, count, 5):
            await asyncio.gather(*(_write(store, chance, name, number + more) for more in range(5)))
        found = [await store.get(f"{name} {number}") for number in range(count)]
        print(f"{sum(bool(one and is_whole(one.value)) for one in found)} of {count} found")
    finally:
        await store.aclose()


async def _write(store: Store, chance: random.Random, name: str, number: int) -> None:
    content = f"{name} {number}".encode() * chance.randrange(1, 5000)
    await store.put(f"{name} {number}", sealed(content), ttl_seconds=600, model=name)
    await store.put(f"shared {number % 10}", sealed(content), ttl_seconds=600, model="shared")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
