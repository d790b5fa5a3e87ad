"""Many identical requests at once: a model server that streams equal replies to them, and clients that check these.

Each seed is a storm of its own kind. A few run with the other tests; `SEEDS=50`, or `make storms`, runs fifty.
"""

import asyncio
import json
import os
import random
import re
import socket
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from app.config.tables.storage import CacheSettings
from typing_extensions import override

from tests.frame_reader import PAYLOADS
from tests.live.caches import StorageMaker
from tests.live.gateway import DONE, Gateway, chunk, end, eventually, serving_with, settings
from tests.live.raw_client import Caller, calling, checked
from tests.scripted_server import RESET_ON_CLOSE, Reply, Request, ScriptedServer

SEEDS = range(int(os.environ.get("SEEDS", "5")))
LONG_SECONDS = 30.0
"""For what takes long on a busy machine."""


class Call:
    """One request that the model server got: nothing is said before `go`, and then the words come at a pace."""

    def __init__(self, question: str) -> None:
        self.question = question
        self.words = words(question)
        self.word_sent = [asyncio.Event() for _ in self.words]
        self.begin = asyncio.Event()

    def go(self, pace: float = 0.0) -> None:
        self.begin.set()
        loop = asyncio.get_running_loop()
        for at, word_sent in enumerate(self.word_sent):
            loop.call_later(at * pace, word_sent.set)

    def reply(self) -> Reply:
        chunks: list[bytes | asyncio.Event] = [chunk({"role": "assistant", "content": ""})]
        for at, word in enumerate(self.words):
            chunks += [
                self.word_sent[at],
                chunk({"reasoning_content" if at < len(self.words) // 3 else "content": word}),
            ]
        return Reply([*chunks, end() + DONE], hold=self.begin, chunked=True)


class Model(ScriptedServer):
    """Its calls go by themselves where a pace is given, and where a question was asked before."""

    def __init__(self, pace: float | None = None) -> None:
        super().__init__()
        self.pace = pace
        self.calls: list[Call] = []

    @override
    def reply_to(self, request: Request) -> Reply:
        if self.replies:
            return self.replies.pop(0)
        text = json.loads(request.body)["messages"][-1]["content"]
        again = self.asked[text]
        call = Call(text)
        self.calls.append(call)
        if self.pace is not None or again:
            call.go(self.pace or 0.0)
        return call.reply()

    async def call(self, text: str = "Hi") -> Call:
        """The first that asks this."""
        await eventually(lambda: text in self.asked, LONG_SECONDS)
        return next(call for call in self.calls if call.question == text)

    @property
    def asked(self) -> Counter[str]:
        """How often each question."""
        return Counter(call.question for call in self.calls)


def words(question: str) -> list[str]:
    pick = random.Random(question)
    return [pick.choice("abcdefgh") * pick.randint(1, 3) + " " for _ in range(pick.randint(6, 40))]


def question(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


@asynccontextmanager
async def caching(model: Model, url: str = "memory:", **cache: Any) -> AsyncIterator[Gateway]:
    """A gateway in this process that shares calls. When it is left, nothing may be left in it."""
    what = settings(model.url, {"commit_seconds": LONG_SECONDS}, {"first_token_seconds": LONG_SECONDS})
    kept = CacheSettings.model_validate({"url": url, "resume_seconds": 0, **cache})
    async with serving_with(what.model_copy(update={"cache": kept}), StorageMaker(linger_seconds=0.2)) as gateway:
        gateway.context.replies.resumable.sweep_seconds = 0.05
        yield gateway
        await eventually(lambda: forgotten(gateway))


def forgotten(gateway: Gateway) -> bool:
    """Of no reply anything is left but what the store has."""
    cache = gateway.context.cache
    return not (cache.calls or cache.storing or cache.in_memory or len(gateway.context.replies.resumable))


def listening(gateway: Gateway) -> int:
    """Callers that wait for, or receive, a reply in progress."""
    return gateway.context.cache.readers


class ReceivedReply:
    """What one caller received, in Qwen's format: a stream, or one JSON body."""

    def __init__(self, status: int, label: str, raw: bytes) -> None:
        self.status, self.label, self.raw = status, label, raw

    @property
    def frames(self) -> list[dict[str, Any]]:
        """Of one JSON body, that alone."""
        return [frame.data for frame in checked(self.raw)] if self.raw[:1] in b"i:" else [json.loads(self.raw)]

    @property
    def ending(self) -> str:
        """Its finish reason, or the code of its error."""
        last = self.frames[-1]
        return str(last["error"]["code"] if "error" in last else last["finish_reason"])

    @property
    def text(self) -> str:
        """Thoughts and words, in the order in which they came."""
        deltas = [frame["delta"] for frame in self.frames if "delta" in frame]
        pieces = deltas or self.frames[-1].get("messages", [])
        return "".join(piece.get(name, "") for piece in pieces for name in PAYLOADS)

    def whole(self, text: str) -> bool:
        """It is all that there is to say to the question."""
        return (self.status, self.text, self.ending) == (200, "".join(words(text)), "stop")


async def receive_heads(callers: Sequence[Caller]) -> None:
    async with asyncio.timeout(LONG_SECONDS):
        await asyncio.gather(*(caller.head() for caller in callers))


async def receive_rests(callers: Sequence[Caller]) -> list[ReceivedReply]:
    async with asyncio.timeout(LONG_SECONDS):
        raw = await asyncio.gather(*(caller.rest() for caller in callers))
    labels = [caller.headers.get("x-parley-cache", "") for caller in callers]
    return [ReceivedReply(caller.status, label, body) for caller, label, body in zip(callers, labels, raw, strict=True)]


async def receive_all(callers: Sequence[Caller]) -> list[ReceivedReply]:
    await receive_heads(callers)
    return await receive_rests(callers)


@asynccontextmanager
async def connections(*addresses: tuple[str, int]) -> AsyncIterator[list[Caller]]:
    """A connection to each of the addresses."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(calling(address)) for address in addresses]


async def kill(caller: Caller) -> None:
    """As a machine that is switched off: the connection is reset."""
    link: socket.socket = caller.writer.get_extra_info("socket")
    link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
    await caller.leave()


_OWN = re.compile(
    rb'[0-9a-f]{32}|"((created|completed|finished)_at|created|timestamp)":"?[0-9T :.Z+-]+"?'
    rb'|"cached":(true|false)|"x_parley":\{[^}]*\}'
)


def common(raw: bytes) -> bytes:
    """Without what belongs to one request only: ids, times, marks of the gateway."""
    return _OWN.sub(b"", raw)
