"""Kills a gateway that writes its cache: `python -m tests.live.crashing_process FOLDER ROUNDS`.

Each round forks a gateway, which is quick because everything is loaded already, has it asked many different questions
at once, kills it with SIGKILL after a random number of replies and opens its file: it must be sound, and every reply in
it whole and the one that the model server gives. The next gateway on the file answers from it.
"""

import asyncio
import contextlib
import json
import os
import random
import signal
import socket
import sqlite3
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Self

from app.calls.entry import load
from app.chat.events import Finish, TextDelta
from app.config.settings import Settings
from app.main import create_app
from app.server.process import ParleyServer, config
from app.stores import StoredValue
from app.stores.sqlite import SqliteStore
from typing_extensions import override

from tests.live.gateway import DONE, end, say
from tests.live.raw_client import calling, frames
from tests.scripted_server import Reply, Request, ScriptedServer

CALLERS, QUESTIONS = 6, 60
ROUNDS_A_FILE = 10
MAX_REPLIES = 80
EARLY_SECONDS, LATE_SECONDS = 0.25, 0.01
"""The longest wait before a gateway is killed that may not serve yet, and that has given enough replies."""
_BROKEN = (ConnectionError, asyncio.IncompleteReadError)


def answer(question: str) -> str:
    """What the model says to it: the question, and of some length a text that no other question gets."""
    chance = random.Random(question)
    return f"{question}:{chance.randbytes(chance.choice([10, 1_000, 20_000])).hex()}"


class Model(ScriptedServer):
    """On a socket that is there before it runs."""

    def __init__(self, listener: socket.socket) -> None:
        super().__init__()
        self._listener = listener

    @override
    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, sock=self._listener.dup())
        return self

    @override
    def reply_to(self, request: Request) -> Reply:
        text = answer(json.loads(request.body)["messages"][-1]["content"])
        half = len(text) // 2
        return Reply([say(text[:half]), say(text[half:]), end(), DONE], chunked=True)


class Replies:
    """Counts the replies by their label of the cache; `enough` is set when there are as many as wanted."""

    def __init__(self, wanted: int) -> None:
        self.by_label = Counter[str]()
        self.enough = asyncio.Event()
        self._wanted = wanted

    def add(self, label: str) -> None:
        self.by_label[label] += 1
        if self.by_label.total() >= self._wanted:
            self.enough.set()


def main(folder: str, rounds: int) -> int:
    path, chance, received = Path(folder, "cache.db"), random.Random(11), Counter[str]()
    kept: set[str] = set()
    # One for all rounds: of which model server a reply came is a part of its key.
    upstream = _listening()
    for number in range(rounds):
        if number % ROUNDS_A_FILE == 0:
            # A new file: the first moments of one are moments too.
            for left in Path(folder).glob("cache.db*"):
                left.unlink()
            kept = set()
        early = number % 4 == 3
        received += _round(path, upstream, chance, None if early else kept)
        kept = _look(path)
        received["found after the kill"] += len(kept)
        damaged = [left.name for left in Path(folder).glob("*corrupt*")]
        assert not damaged, f"round {number}: {damaged}"
    print(f"{rounds} rounds:", json.dumps(received))
    return 0


def _listening() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0), backlog=1000)


def _round(path: Path, upstream: socket.socket, chance: random.Random, kept: set[str] | None) -> Counter[str]:
    """Where the replies came from that callers read to their end. Without `kept`, it may be killed before it serves."""
    listener = _listening()
    process = _fork(path, upstream.getsockname()[1], listener)
    address = listener.getsockname()
    listener.close()
    try:
        return asyncio.run(_ask(upstream, address, process, chance, kept))
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)


def _fork(path: Path, upstream: int, listener: socket.socket) -> int:
    process = os.fork()
    if process:
        return process
    try:
        row = {"base_url": f"http://127.0.0.1:{upstream}/v1"}
        tree: dict[str, Any] = {"upstreams": {"local": row}, "passthrough": "local"}
        tree |= {"server": {"log_level": "warning"}, "cache": {"url": f"sqlite:///{path}", "max_bytes": 2**20}}
        settings = Settings.model_validate(tree)
        ParleyServer(config(settings.server, lambda: create_app(settings))).run(sockets=[listener])
    finally:
        os._exit(1)


async def _ask(
    upstream: socket.socket, address: tuple[str, int], process: int, chance: random.Random, kept: set[str] | None
) -> Counter[str]:
    received = Counter[str]()
    async with Model(upstream):
        if kept is not None:
            received["hit after the kill"] += await _ask_again(address, kept)
        replies = Replies(chance.randint(1, MAX_REPLIES))
        callers = [asyncio.create_task(_call(address, random.Random(chance.random()), replies)) for _ in range(CALLERS)]
        if kept is not None:
            await _wait_for_any(replies.enough, callers)
        await asyncio.sleep(chance.uniform(0, EARLY_SECONDS if kept is None else LATE_SECONDS))
        os.kill(process, signal.SIGKILL)
        await asyncio.gather(*callers)
    return received + replies.by_label


async def _wait_for_any(event: asyncio.Event, tasks: list[asyncio.Task[None]]) -> None:
    """Until the event is set, or one of the tasks fails."""
    waiting = asyncio.create_task(event.wait())
    await asyncio.wait([waiting, *tasks], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()


async def _ask_again(address: tuple[str, int], kept: set[str]) -> int:
    async with calling(address) as caller:
        for question in kept or {"q0"}:
            messages = [{"role": "user", "content": question}]
            status, raw = await caller.reply(messages=messages, cache={"mode": "only"})
            assert not kept or (status == 200 and _read_text(raw) == answer(question)), (
                f"{question} is lost: {raw[:200]!r}"
            )
    return len(kept)


async def _call(address: tuple[str, int], chance: random.Random, replies: Replies) -> None:
    with contextlib.suppress(*_BROKEN):
        while True:
            async with calling(address) as caller:
                question = f"q{chance.randrange(QUESTIONS)}"
                mode = chance.choice(["on", "on", "refresh"])
                messages = [{"role": "user", "content": question}]
                status, raw = await caller.reply(messages=messages, cache={"mode": mode}, stream=chance.random() < 0.5)
                assert status == 200, raw
                assert _read_text(raw) == answer(question), f"{question} was answered by {raw[:200]!r}"
                replies.add(caller.headers["x-parley-cache"])


def _read_text(raw: bytes) -> str:
    if raw.startswith(b"{"):
        return str(json.loads(raw)["messages"][-1]["content"])
    return "".join(frame.data["delta"]["content"] for frame in frames(raw) if frame.type == "message.delta")


def _look(path: Path) -> set[str]:
    """The questions whose replies are in the file."""
    if not path.exists():
        return set()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        made = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        keys = [key.decode() for (key,) in connection.execute("SELECT key FROM entries")] if made else []
    return asyncio.run(_read(path, keys))


async def _read(path: Path, keys: list[str]) -> set[str]:
    store = SqliteStore(str(path))
    try:
        found = {_question(await store.get(key)) for key in keys}
        assert len(found) == len(keys)
        assert (await store.stats()).entries == len(keys)
    finally:
        await store.aclose()
    return found


def _question(stored: StoredValue | None) -> str:
    assert stored is not None
    events = [event for batch in load(stored.value).batches for event in batch.events]
    text = "".join(event.text for event in events if isinstance(event, TextDelta))
    question = text.partition(":")[0]
    assert text == answer(question), f"what is kept for {question} is {text[:200]!r}"
    assert isinstance(events[-1], Finish)
    return question


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
