"""Kills writers of one SQLite store at random moments: `python -m tests.cache.crashing_writers FOLDER ROUNDS`.

Each round forks two writers, which is quick because everything is loaded already, kills them with SIGKILL and opens the
file again. What a writer got as written must be there, every value must be whole, and the file must be sound.
"""

import asyncio
import contextlib
import os
import random
import signal
import sqlite3
import sys
import time
from pathlib import Path

from app.stores import Store, StoreLimits
from app.stores.sqlite import SqliteStore

from tests.cache.stores import is_whole, sealed

WRITERS, KEYS = 2, 40
LONGEST_SECONDS = 0.06
_LIMITS = StoreLimits(max_bytes=64 * 1024 * 1024)


def main(folder: str, rounds: int) -> int:
    path, chance, reported = Path(folder, "cache.db"), random.Random(5), 0
    for number in range(rounds):
        if number % 10 == 0:
            # A new file: the first moments of one are moments too.
            for left in Path(folder).glob("cache.db*"):
                left.unlink()
            written: set[str] = set()
        written |= _round(path, chance)
        reported += len(written)
        asyncio.run(_look(str(path), written))
        _sound(path)
        damaged = [left.name for left in Path(folder).glob("*corrupt*")]
        assert not damaged, f"round {number}: {damaged}"
    print(f"{rounds} rounds, {reported} times a written value was looked for, nothing lost")
    return 0


def _round(path: Path, chance: random.Random) -> set[str]:
    """The keys that the writers know to be written."""
    writers = [_fork(path, chance.randrange(1 << 30)) for _ in range(WRITERS)]
    time.sleep(chance.uniform(0, LONGEST_SECONDS))
    for process, _ in writers:
        os.kill(process, signal.SIGKILL)
    written: set[str] = set()
    for process, pipe in writers:
        os.waitpid(process, 0)
        with os.fdopen(pipe, "rb") as pipe_output:
            written |= {line.decode() for line in pipe_output.read().split(b"\n") if line}
    return written


def _fork(path: Path, seed: int) -> tuple[int, int]:
    reading, writing = os.pipe()
    process = os.fork()
    if process:
        os.close(writing)
        return process, reading
    os.close(reading)
    with contextlib.suppress(BaseException):
        asyncio.run(_write(str(path), random.Random(seed), writing))
    os._exit(1)


async def _write(path: str, chance: random.Random, pipe_output: int) -> None:
    store = SqliteStore(path, _LIMITS)
    while True:
        keys = {f"{chance.randrange(KEYS):03}" for _ in range(3)}
        await asyncio.gather(*(_put(store, key, chance, pipe_output) for key in keys))


async def _put(store: Store, key: str, chance: random.Random, pipe_output: int) -> None:
    content = key.encode() * chance.choice([1, 100, 3_000, 60_000])
    await store.put(key, sealed(content), ttl_seconds=600, model=key[-1])
    os.write(pipe_output, key.encode() + b"\n")


async def _look(path: str, written: set[str]) -> None:
    store = SqliteStore(path, _LIMITS)
    try:
        for number in range(KEYS):
            found = await store.get(f"{number:03}")
            assert found is None or is_whole(found.value), f"{number:03} is damaged"
            assert found is not None or f"{number:03}" not in written, f"{number:03} is lost"
        await store.stats()
    finally:
        await store.aclose()


def _sound(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
