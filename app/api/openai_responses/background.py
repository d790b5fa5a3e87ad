"""Background responses: they are produced without their client, which reads them later.

Each is stored when it is accepted, when the model server begins to answer, and at its end. Until the end its record
says until when the gateway certainly runs it, and is renewed before: if the gateway stops, the response is reported as
failed (`StoredResponses`). The writes of one response take turns: over two connections, Redis could get them in another
order, and the end must be the last one.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from typing import Any

from app.api.openai_responses.kept_reply import KeptReply, find_response_encoder
from app.api.openai_responses.kept_request import KeptRequest
from app.api.openai_responses.stored import RUNNING, RecordTooLarge, ResponseRecord, StoredResponses
from app.api.response_writer import Headers, Sender
from app.api.responses import ReplyResponse
from app.chat.stream import Reply
from app.errors import Cancelled, Draining, Internal, RateLimited
from app.formats.responses.stream import make_response
from app.memory_budget import Lease

log = logging.getLogger("parley.responses")

ALIVE_SECONDS = 90.0
"""How long a background response is certainly running after its record was stored."""
END_PAUSES = (0.2, 0.5, 1.0, 2.0)
"""The pauses before the end of a response is stored again, in seconds, if it was not."""
RETRY_SECONDS = 10.0
"""When a client that was refused may send its request again."""
_STOPPED = {"code": "server_error", "message": "the gateway stopped before the response was complete"}


class NoClient:
    """A `ResponseWriter` for a response that no client reads: it drops what is written."""

    blocked = False
    blocked_since = 0.0
    notices_disconnect = True

    def attach(self, sender: Sender) -> None:
        pass

    def detach(self) -> None:
        pass

    def start(self, status: int, headers: Headers, length: int | None = None) -> None:
        pass

    def write(self, data: bytes, *, last: bool) -> None:
        pass

    def abort(self) -> None:
        pass


class BackgroundRun:
    """One background response from its request to its end."""

    def __init__(self, response: ReplyResponse, kept: KeptRequest, lease: Lease, *, streamed: bool) -> None:
        """`response` is written to `NoClient`. `streamed`: the client of the request reads the events as they come."""
        assert kept.caller is not None
        self.response = response
        self.kept = kept
        self.caller = kept.caller
        self.lease = lease
        self.streamed = streamed
        self.status = "queued"
        self.accepted = asyncio.Event()
        """Set when the response is stored for the first time."""
        self.begun = asyncio.Event()
        """Set when the model server begins to answer, or when the response has ended without an answer."""
        self.ended = asyncio.Event()
        """Set when the end is stored."""
        self.write_lock = asyncio.Lock()
        """Held while a record of the response is written."""

    @property
    def id(self) -> str:
        return self.response.info.response_id

    def describe(self) -> dict[str, Any]:
        """Return the Response as it is now."""
        encoder = find_response_encoder(self.response)
        if encoder is None or encoder.response is None:
            return make_response(self.response.info, self.status)
        made = encoder.response
        return made | {"error": None} if made["status"] == "cancelled" else made

    async def follow(self, follower: ReplyResponse) -> Reply:
        """Open the reply for a client that reads its events. The client gets the end once it is stored."""
        await self.begun.wait()
        source, error = self.response.source, self.response.error
        if source is None:
            raise error or Internal("the response ended before it began")
        if error is not None and not source.ended:  # cancelled: a new reader would keep its call running
            raise error
        return KeptReply(await source.open(), follower, lambda _: self._wait_for_end(), lambda: int(time.time()))

    async def _wait_for_end(self) -> None:
        await self.ended.wait()


class BackgroundRuns:
    """The background responses of this process."""

    def __init__(
        self,
        stored: StoredResponses,
        max_running: int,
        *,
        alive_seconds: float = ALIVE_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """At most `max_running` at the same time. `clock` returns Unix seconds."""
        self._stored = stored
        self._max_running = max_running
        self._alive_seconds = alive_seconds
        self._clock = clock
        self._runs: dict[str, BackgroundRun] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._runs)

    def check_capacity(self) -> None:
        """Raises RateLimited if no further response may run."""
        if len(self._runs) >= self._max_running:
            text = f"this gateway already runs {self._max_running} background responses (responses.max_background)"
            raise RateLimited(f"{text}: wait until one has ended", RETRY_SECONDS, {})

    def add(self, run: BackgroundRun) -> None:
        self._runs[run.id] = run

    def find(self, response_id: str, caller: str) -> BackgroundRun | None:
        """Return a response of this caller that has not ended."""
        run = self._runs.get(response_id)
        return run if run is not None and run.caller == caller else None

    def start(self, run: BackgroundRun, produce: Coroutine[Any, Any, None]) -> None:
        """Run `produce`, which ends when the response has ended, in a task."""
        self._create_task(self._run(run, produce))

    async def begin(self, run: BackgroundRun) -> None:
        """Store that the model server answers."""
        run.status = "in_progress"
        await self._store(run)
        run.begun.set()

    async def drain(self, seconds: float) -> None:
        """Wait until all have ended. Those that run after `seconds` fail."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
        for run in list(self._runs.values()):
            run.response.fail(Draining("this gateway is shutting down; send the request again"))
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _run(self, run: BackgroundRun, produce: Coroutine[Any, Any, None]) -> None:
        try:
            await self._store(run)
        except Exception:
            log.exception("defect while storing a background response")
        renewing = asyncio.get_running_loop().create_task(self._renew(run))
        run.accepted.set()
        try:
            await produce
        finally:
            run.begun.set()
            renewing.cancel()
            await asyncio.wait([renewing])
            try:
                await self._store_end(run)
            finally:
                del self._runs[run.id]
                run.ended.set()

    async def _renew(self, run: BackgroundRun) -> None:
        while True:
            await asyncio.sleep(self._alive_seconds / 3)
            record = await self._stored.get(run.caller, run.id)
            if record is not None and record.status == "cancelled":  # at another gateway, whose notice was lost
                run.response.fail(Cancelled("the response was cancelled"))
                return
            await self._store(run)

    async def _store(self, run: BackgroundRun) -> None:
        """Store the response as it is now. The write is not cancelled with its caller: the next one waits for it."""
        record = run.kept.make_record(run.describe(), self._clock() + self._alive_seconds)
        await asyncio.shield(self._create_task(self._put(run, record)))

    async def _put(self, run: BackgroundRun, record: ResponseRecord) -> None:
        async with run.write_lock:
            if not self._stored.put_nowait(run.caller, record):
                await self._stored.put(run.caller, record)

    async def _store_end(self, run: BackgroundRun) -> None:
        response = run.describe()
        if response["status"] in RUNNING:
            response |= {"status": "failed", "error": _STOPPED}
        async with run.write_lock:
            try:
                await self._put_end(run.caller, run.kept.make_record(response))
            except RecordTooLarge as error:
                failure = {"code": "server_error", "message": f"the response was complete, but {error}"}
                response = response | {"status": "failed", "output": [], "error": failure}
                await self._put_end(run.caller, ResponseRecord(response, [], 0))

    async def _put_end(self, caller: str, record: ResponseRecord) -> None:
        """Store the last record of a response, and again if it cannot be read afterwards."""
        if self._stored.put_nowait(caller, record):
            return
        id_ = record.response["id"]
        for pause in (0.0, *END_PAUSES):
            await asyncio.sleep(pause)
            await self._stored.put(caller, record)
            found = await self._stored.get(caller, id_)
            if found is not None and found.status == record.status:
                return
        log.error("the end of the background response %s was not stored: its status is %s", id_, record.status)

    def _create_task(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
