"""The load of `bench/agent-mix`: what coding agents send while several of them work. Measured are turns a second, how
much later a turn ends than the model server alone would end it, and the CPU time of a turn."""

import asyncio
import itertools
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import quantiles
from typing import Any

from agent_bodies import WRITERS, Conversation, make_conversation
from agent_turn import MODEL_PREFIXES, TurnServer
from paced_replies import REPLY_SECONDS
from processes import RigError
from scenarios import NO_STORE

MARK = "session-000000000000"
"""In the first message of each conversation; each run of a script puts another number there."""
FUNCTIONS, SUBAGENT_FUNCTIONS = 60, 20
STARTS = (0, 20, 40, 60, 80)
"""After how many rounds the conversations begin that sessions go on with: half a megabyte are 100 rounds."""
SCRIPTS = 20
TURNS, SUBAGENT_TURNS, TURNS_AFTER = 8, 3, 4
SUMMARY_ROUNDS = 1
WARM_UP_SECONDS, SECONDS = 3.0, 6.0
TURNS_AT_LEAST, SECONDS_AT_MOST = 300, 30.0
"""Of each number of sessions: with fewer turns, one of a hundred would be the slowest of all."""
AT = 20
"""Sessions at which costs are compared; every server is measured with so many."""
PATHS = ("/v1/messages", "/v1/responses", "/v1/chat/completions")
BOUND_MS = 10.0
"""How much later the 99th of 100 turns may end than without a gateway."""
KEPT = f"turns/s with p99 within {BOUND_MS:g} ms"
CPU = f"CPU-ms of a turn, {AT} sessions"
P99 = f"p99 added, {AT} sessions, ms"
FIGURES = (KEPT, CPU, P99)


class MixFailed(RigError):
    """A server did not answer a request with status 200."""


@dataclass(frozen=True, slots=True)
class MixRequest:
    kind: str
    """`title`, `first`, `continued`, `subagent`, `count` or `compaction`."""
    path: str
    body: bytes
    stream: bool

    @property
    def seconds(self) -> float:
        """How long the model server alone takes."""
        return 0.0 if self.kind == "count" else REPLY_SECONDS


def make_script(path: str, number: int, model: str) -> list[MixRequest]:
    """Return the requests of one session in their order, as its agent sends them: Claude Code (`/v1/messages`) with a
    title without tools and a count of tokens, Codex (`/v1/responses`) without, OpenCode with the title alone."""
    start = STARTS[number % len(STARTS)]
    whole = _marked(make_conversation(start + TURNS + TURNS_AFTER, FUNCTIONS, number))
    helper = _marked(make_conversation(SUBAGENT_TURNS, SUBAGENT_FUNCTIONS, 1_000 + number))
    after = _marked(make_conversation(SUMMARY_ROUNDS + TURNS_AFTER, FUNCTIONS, number))
    write = WRITERS[path]

    def stream(kind: str, conversation: Conversation) -> MixRequest:
        return MixRequest(kind, path, write(conversation, model, stream=True), stream=True)

    script: list[MixRequest] = []
    if path != "/v1/responses":
        title = replace(whole, system=("Write a title of at most five words.",), functions=(), rounds=())
        script.append(MixRequest("title", path, write(title, model), stream=False))
    script.append(stream("first", whole.until(start)))
    script += [stream("continued", whole.until(start + count)) for count in range(1, TURNS + 1)]
    script += [stream("subagent", helper.until(count)) for count in range(1, SUBAGENT_TURNS + 1)]
    script += [stream("continued", whole.until(start + TURNS + count)) for count in range(1, TURNS_AFTER)]
    if path == "/v1/messages":
        script.append(MixRequest("count", f"{path}/count_tokens", _count_body(whole, model), stream=False))
    script.append(stream("compaction", replace(whole, functions=())))
    script.append(stream("first", after.until(SUMMARY_ROUNDS)))
    script += [stream("continued", after.until(SUMMARY_ROUNDS + count)) for count in range(1, TURNS_AFTER + 1)]
    return script


def _marked(conversation: Conversation) -> Conversation:
    return replace(conversation, question=f"{MARK} {conversation.question}")


def _count_body(conversation: Conversation, model: str) -> bytes:
    """Anthropic's `count_tokens` refuses `max_tokens`, `stream` and `metadata`."""
    body = json.loads(WRITERS["/v1/messages"](conversation, model))
    counted = {name: value for name, value in body.items() if name not in ("max_tokens", "stream", "metadata")}
    return json.dumps(counted, separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True)
class Rung:
    """What was measured with so many sessions at a time."""

    sessions: int
    turns_per_second: float
    added_p99_ms: float
    cpu_ms: float
    """Of a turn, of all processes of the server; 0 without one."""

    @property
    def kept(self) -> bool:
        return self.added_p99_ms <= BOUND_MS


class _Session:
    """Sends a script again and again, each time as another session, over one connection."""

    def __init__(self, server: TurnServer, script: Sequence[MixRequest], numbers: Iterator[int], start: int) -> None:
        self._server, self._script, self._numbers, self._next = server, script, numbers, start
        self.added_ms: list[float] = []
        self.stopped = False
        self._mark = b""

    async def run(self, until: float) -> None:
        """Raises: MixFailed."""
        port = self._server.server.port
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**22)
        self._renew()
        try:
            while not self.stopped and time.monotonic() < until:
                place = self._next % len(self._script)
                if place == 0:
                    self._renew()
                self._next += 1
                request = self._script[place]
                began = time.perf_counter()
                await self._send(reader, writer, request)
                self.added_ms.append((time.perf_counter() - began - request.seconds) * 1e3)
        finally:
            writer.transport.abort()

    def _renew(self) -> None:
        self._mark = f"session-{next(self._numbers):012d}".encode()

    async def _send(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: MixRequest) -> None:
        body = request.body.replace(MARK.encode(), self._mark, 1)
        lines = [f"POST {request.path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json", NO_STORE]
        lines += ["anthropic-version: 2023-06-01", *self._server.headers, f"Content-Length: {len(body)}", "", ""]
        writer.write("\r\n".join(lines).encode() + body)
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        reply = await _read_reply(reader, head)
        if " 200 " not in head.partition("\r\n")[0] or (request.stream and b"word19" not in reply):
            raise MixFailed(f"{self._server.name} {request.path} ({request.kind}): {head[:200]!r} {reply[-600:]!r}")


async def _read_reply(reader: asyncio.StreamReader, head: str) -> bytes:
    fields = dict(line.partition(":")[::2] for line in head.split("\r\n")[1:])
    if "content-length" in fields:
        return await reader.readexactly(int(fields["content-length"]))
    reply = bytearray()
    while size := int(await reader.readline(), 16):
        reply += await reader.readexactly(size)
        await reader.readline()
    await reader.readline()
    return bytes(reply)


async def measure_rung(
    server: TurnServer,
    scripts: Sequence[Sequence[MixRequest]],
    sessions: int,
    numbers: Iterator[int],
    seconds: float = SECONDS,
    warm_up_seconds: float = WARM_UP_SECONDS,
    turns: int = TURNS_AT_LEAST,
) -> Rung:
    """Let so many sessions work at a time, each at another place of its script, for `seconds`, and on until there were
    so many turns or SECONDS_AT_MOST are over. Raises: MixFailed."""
    until = time.monotonic() + warm_up_seconds + max(seconds, SECONDS_AT_MOST)
    running = [_Session(server, scripts[number % len(scripts)], numbers, 1 + 5 * number) for number in range(sessions)]
    tasks = [asyncio.create_task(session.run(until)) for session in running]
    try:
        await _sleep_beside(tasks, warm_up_seconds)
        for session in running:
            session.added_ms.clear()
        cpu, started = server.cpu_ms(), time.monotonic()
        await _sleep_beside(tasks, seconds)
        while sum(len(session.added_ms) for session in running) < turns and time.monotonic() < until:
            await _sleep_beside(tasks, 0.5)
        cpu, passed = server.cpu_ms() - cpu, time.monotonic() - started
        added = [each for session in running for each in session.added_ms]
        for session in running:
            session.stopped = True
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if len(added) < 2:
        raise MixFailed(f"{server.name} answered {len(added)} turns of {sessions} sessions in {seconds:g} s")
    p99 = quantiles(added, n=100, method="inclusive")[98]
    return Rung(sessions, len(added) / passed, p99, cpu / len(added))


async def _sleep_beside(tasks: Sequence[asyncio.Task[None]], seconds: float) -> None:
    """Raises what ends a task before its time."""
    done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
    for task in done:
        task.result()


def measure(server: TurnServer, path: str, ladder: Sequence[int], seconds: float = SECONDS) -> list[Rung]:
    """Return a rung for each number of sessions, up to AT and on until one misses BOUND_MS. Raises: MixFailed."""
    model = MODEL_PREFIXES.get(server.name, "") + "mock"
    scripts = [make_script(path, number, model) for number in range(SCRIPTS)]
    if not asyncio.run(_counts_tokens(server, scripts[0])):
        scripts = [[each for each in script if each.kind != "count"] for script in scripts]
    numbers = itertools.count(int(time.time()) % 100_000 * 1_000_000)
    rungs: list[Rung] = []
    for sessions in ladder:
        rungs.append(asyncio.run(measure_rung(server, scripts, sessions, numbers, seconds)))
        if not rungs[-1].kept and sessions >= AT:
            break
    return rungs


async def _counts_tokens(server: TurnServer, script: Sequence[MixRequest]) -> bool:
    """Whether the server answers counts of tokens: without, they are left out of its mix."""
    asked = [each for each in script if each.kind == "count"]
    if not asked:
        return False
    session = _Session(server, asked, itertools.count(1), 1)
    try:
        await session.run(time.monotonic() + 0.001)
    except (MixFailed, OSError, asyncio.IncompleteReadError, ValueError):
        return False
    return True


def best(rungs: Sequence[Rung]) -> Rung | None:
    """The rung with the most turns a second that is within BOUND_MS."""
    return max((rung for rung in rungs if rung.kept), key=lambda rung: rung.turns_per_second, default=None)


def figures(rounds: Sequence[Sequence[Rung]]) -> dict[str, tuple[float, ...]]:
    """Return what is said of a server and an endpoint: of each figure, one number of each round."""
    same = [rung for rungs in rounds for rung in rungs if rung.sessions == AT]
    return {
        KEPT: tuple(rung.turns_per_second if (rung := best(rungs)) else 0.0 for rungs in rounds),
        CPU: tuple(rung.cpu_ms for rung in same),
        P99: tuple(rung.added_p99_ms for rung in same),
    }


def as_json(found: dict[tuple[str, str], list[list[Rung]]]) -> list[dict[str, Any]]:
    return [
        {
            "server": name,
            "endpoint": path,
            "rounds": [list(map(asdict, rungs)) for rungs in rounds],
        }
        for (name, path), rounds in found.items()
    ]
