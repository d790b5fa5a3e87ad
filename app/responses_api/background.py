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
from contextlib import suppress
from typing import Any

from app.api.reply_response import ReplyResponse
from app.api.response_writer import Headers, Sender
from app.chat.stream import Reply
from app.errors import Cancelled, Draining, Internal, ParleyError, RateLimited, StoreDown, TooLarge
from app.formats.responses.response import describe_unstored, make_response
from app.responses_api.record import RUNNING, KeptRequest, RecordTooLarge, ResponseRecord, StoredResponses
from app.responses_api.reply import KeptEnd, find_response_encoder
from app.runtime.memory_budget import Lease

log = logging.getLogger("parley.responses")

ALIVE_SECONDS = 90.0
"""How long a background response is certainly running after its record was stored."""
END_PAUSES = (0.2, 0.5, 1.0, 2.0)
"""The pauses before the end of a response is stored again, in seconds, if the store fails. After them its client gets
the end all the same."""
LATE_PAUSE_SECONDS = 5.0
"""The pause before each later attempt."""
LATE_SECONDS = 600.0
"""How long the end is tried to be stored after that."""
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

    def cut(self) -> None:
        pass


class BackgroundRun:
    """One background response from its request to its end."""

    def __init__(self, response: ReplyResponse, kept: KeptRequest, lease: Lease, *, streamed: bool) -> None:
        """`response` is written to `NoClient`. `streamed`: the client of the request reads the events as they come."""
        self.response = response
        self.kept = kept
        self.caller = kept.caller
        self.lease = lease
        self.streamed = streamed
        self.openings: tuple[Coroutine[Any, Any, Any], ...] = ()
        """The coroutines that open the reply; closed if they are not started."""
        self.refused: ParleyError | None = None
        """Why the response is not accepted: it cannot be stored."""
        self.end: dict[str, Any] | None = None
        """The Response with which the streams of its clients end; set with `ended`."""
        self.status = "queued"
        self.accepted = asyncio.Event()
        """Set when the response is stored for the first time, or refused."""
        self.begun = asyncio.Event()
        """Set when the model server begins to answer, or when the response has ended without an answer."""
        self.ended = asyncio.Event()
        """Set when the end is stored, or the store has failed for some seconds."""
        self.write_lock = asyncio.Lock()
        """Held while a record of the response is written."""

    @property
    def id(self) -> str:
        return self.response.info.response_id

    def describe(self) -> dict[str, Any]:
        """Return the Response as it is now."""
        if self.end is not None:
            return self.end
        encoder = find_response_encoder(self.response)
        if encoder is None or encoder.response is None:
            return make_response(self.response.info, self.status)
        made = encoder.response
        return made | {"error": None} if made["status"] == "cancelled" else made

    @property
    def last_number(self) -> int | None:
        """The sequence number of the last event so far."""
        encoder = find_response_encoder(self.response)
        return None if encoder is None else encoder.last_number

    async def follow(self, follower: ReplyResponse) -> Reply:
        """Open the reply for a client that reads its events. The client gets the end once it is stored."""
        follower.observe_end(KeptEnd(follower, self._wait_for_end))
        await self.begun.wait()
        source, error = self.response.source, self.response.error
        if source is None:
            raise error or Internal("the response ended before it began")
        if error is not None and not source.ended:  # cancelled: a new reader would keep its call running
            raise error
        return await source.open()

    async def _wait_for_end(self, made: dict[str, Any]) -> dict[str, Any]:
        await self.ended.wait()
        return made if self.end is None else self.end


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
        self._draining = False
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

    def start(self, run: BackgroundRun, produce: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run `produce`, which ends when the response has ended, in a task. It is not called if the response cannot be
        stored: then the run is `refused`."""
        self._create_task(self._run(run, produce))

    async def begin(self, run: BackgroundRun) -> None:
        """Store that the model server answers."""
        run.status = "in_progress"
        with suppress(StoreDown):  # the stored status says that it is queued, until it ends
            await self._store(run)
        run.begun.set()

    async def drain(self, seconds: float) -> None:
        """Wait until all have ended. Those that run after `seconds` fail."""
        self._draining = True
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
        for run in list(self._runs.values()):
            run.response.fail(Draining("this gateway is shutting down; send the request again"))
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _run(self, run: BackgroundRun, produce: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await self._store(run)
        except Exception as error:
            self._refuse(run, error)
            return
        renewing = asyncio.get_running_loop().create_task(self._renew(run))
        run.accepted.set()
        try:
            await produce()
        finally:
            run.begun.set()
            renewing.cancel()
            await asyncio.wait([renewing])
            await self._end(run)

    def _refuse(self, run: BackgroundRun, error: Exception) -> None:
        if isinstance(error, ParleyError):
            run.refused = error
        elif isinstance(error, RecordTooLarge):
            run.refused = TooLarge(f"background: {error}")
        else:
            log.error("defect while storing a background response", exc_info=error)
            run.refused = Internal("the gateway failed while storing the response")
        for opening in run.openings:
            opening.close()
        run.response.close()
        run.lease.release()
        del self._runs[run.id]
        run.accepted.set()
        run.begun.set()
        run.ended.set()

    async def _renew(self, run: BackgroundRun) -> None:
        while True:
            await asyncio.sleep(self._alive_seconds / 3)
            with suppress(StoreDown):  # the next time it may be there again
                record = await self._stored.get(run.caller, run.id)
                if record is not None and record.status == "cancelled":  # at another gateway, whose notice was lost
                    run.response.fail(Cancelled("the response was cancelled"))
                    return
                await self._store(run)

    async def _store(self, run: BackgroundRun) -> None:
        """Store the response as it is now. The write is not cancelled with its caller: the next one waits for it."""
        record = run.kept.make_record(run.describe(), alive_until=self._clock() + self._alive_seconds)
        await asyncio.shield(self._create_task(self._put(run, record)))

    async def _put(self, run: BackgroundRun, record: ResponseRecord) -> None:
        async with run.write_lock:
            await self._stored.put(run.caller, record)

    async def _end(self, run: BackgroundRun) -> None:
        """Store the end. If the store fails for longer, the run ends and a task goes on trying."""
        response, end = run.describe(), run.describe()
        if response["status"] in RUNNING:
            response = end = response | {"status": "failed", "error": _STOPPED}
        record, last_number = run.kept.make_record(response, last_number=run.last_number), run.last_number
        try:
            async with run.write_lock:
                try:
                    stored = await self._put_end(run.caller, record)
                except RecordTooLarge as error:
                    end = describe_unstored(response, str(error))
                    failure = {"code": "server_error", "message": f"the response was complete, but {error}"}
                    response = response | {"status": "failed", "output": [], "error": failure}
                    record = ResponseRecord(response, [], 0, last_number=last_number)
                    stored = await self._put_end(run.caller, record)
            if not stored:
                end = describe_unstored(response, "the store of responses failed")
                self._create_task(self._put_late(run.caller, record))
        except Exception:
            log.exception("defect while storing the end of a background response")
        finally:
            del self._runs[run.id]
            run.end = end
            run.ended.set()

    async def _put_end(self, caller: str, record: ResponseRecord) -> bool:
        """Store the last record of a response, and again if that fails. Returns whether it is stored."""
        for pause in (0.0, *END_PAUSES):
            await asyncio.sleep(pause)
            with suppress(StoreDown):
                await self._stored.put(caller, record)
                return True
        return False

    async def _put_late(self, caller: str, record: ResponseRecord) -> None:
        """Store the last record of a response whose store has failed, as soon as it works again."""
        id_, give_up_at = record.response["id"], self._clock() + LATE_SECONDS
        while not self._draining and self._clock() < give_up_at:
            await asyncio.sleep(LATE_PAUSE_SECONDS)
            with suppress(StoreDown):
                await self._stored.put(caller, record)
                log.info("the end of the background response %s was stored late", id_)
                return
        log.error("the end of the background response %s was not stored: its status is %s", id_, record.status)

    def _create_task(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
