"""`OpenReplies`: the replies that are being sent or waited for, each from its start to its end, and those that can be
resumed."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeAlias, TypeVar

from app.api.asgi import ClientDisconnected, Receive
from app.api.reply_response import ReplyResponse, ResponseLimits
from app.api.resumable import (
    ResumableReplies,
    ResumableReply,
    ResumeRecord,
    name_reply,
    parse_record,
    reply_from_record,
    write_record,
)
from app.cache import Cache
from app.chat.guarding import GuardedReply
from app.chat.stream import Reply
from app.errors import Cancelled, ParleyError
from app.runtime.memory_budget import Lease
from app.runtime.ticker import Ticker

T = TypeVar("T")
PendingReply: TypeAlias = Coroutine[Any, Any, Reply]
Unseal: TypeAlias = Callable[[str, str], GuardedReply | None]
"""Returns what `GuardedReply.seal` has sealed: of which reply, and the seal. None if it is of another key."""

RECORD_SECONDS = 3600.0
"""How long other gateways can find a reply by its record, in addition to the time it is kept after its end."""


class OpenReplies:
    """Those of one process. `resumable` has those that can be resumed."""

    def __init__(
        self, cache: Cache, ticker: Ticker, resumable: ResumableReplies, limits: ResponseLimits, unseal: Unseal
    ) -> None:
        self.active: set[ReplyResponse] = set()
        """The responses that have not ended."""
        self.resumable = resumable
        self._cache = cache
        self._unseal = unseal
        self.ticker = ticker
        self.limits = limits
        """Those of each response."""
        self._publishing: set[asyncio.Task[None]] = set()
        """Writes of records that no response waits for."""

    async def run(
        self, response: ReplyResponse, opening: PendingReply, receive: Receive, lease: Lease | None = None
    ) -> None:
        """Open the reply, send it, and close everything: at its end, on an error, on cancel and when the client
        leaves. The memory of the request is released once the reply is open."""
        self.ticker.add(response)
        self.active.add(response)
        watcher = None if response.notices_disconnect else _watch_client(receive, response)
        try:
            await _start_when_open(response, opening, lease)
            if self._cache.is_shared:
                await self.publish_record(response.info.response_id)
                response.on_keepalive = partial(self._publish_again, response.info.response_id)
            await response.done
        finally:
            self.ticker.discard(response)
            self.active.discard(response)
            response.close()
            if watcher is not None:
                watcher.cancel()

    async def publish_record(self, response_id: str) -> None:
        """Write the record by which other gateways find a reply that has begun. The reply is sent meanwhile."""
        reply = self.resumable.find(response_id)
        location = None if reply is None else reply.source.location
        if reply is not None and location is not None:
            data = write_record(reply, location)
            await self._cache.put_record(response_id, data, RECORD_SECONDS + self.resumable.keep_seconds)

    def _publish_again(self, response_id: str) -> None:
        """Write the record again, which has changed, while the reply is sent."""
        task = asyncio.get_running_loop().create_task(self.publish_record(response_id))
        self._publishing.add(task)
        task.add_done_callback(self._publishing.discard)

    async def find(self, response_id: str, owner: str) -> ResumableReply | None:
        """Return the reply to an earlier request of this caller, from this gateway or another one. A reply of another
        gateway is followed only while it has a reader here."""
        reply = self.resumable.find(response_id)
        if reply is not None:
            return reply if reply.owner == owner else None
        record = await self.find_remote(response_id)
        if record is None or record.scope != owner:
            return None
        guarded = None
        if record.guarded is not None:
            guarded = self._unseal(name_reply(response_id, owner), record.guarded)
            if guarded is None:
                return None  # this gateway has another key: it could not restore what is masked
        source = await self._cache.find_source(record.location)
        return None if source is None else reply_from_record(record, response_id, source, guarded)

    async def find_remote(self, response_id: str) -> ResumeRecord | None:
        """Return the record that another gateway wrote for a reply."""
        data = await self._cache.get_record(response_id) if self._cache.is_shared else None
        return None if data is None else parse_record(data)

    def cancel(self, response_id: str) -> None:
        """End the responses of this reply with the error Cancelled. The reply can no longer be resumed."""
        reply = self.resumable.find(response_id)
        if reply is not None:
            self.resumable.drop(response_id)
            reply.release()
        for response in self.list_running(response_id):
            response.fail(Cancelled("the reply was cancelled"))

    def list_running(self, response_id: str) -> list[ReplyResponse]:
        return [
            response for response in self.active if response.info.response_id == response_id and not response.finished
        ]

    async def aclose(self) -> None:
        """End all of them."""
        for response in list(self.active):
            response.disconnect()
        await asyncio.sleep(0)
        self.resumable.close()


def _watch_client(receive: Receive, response: ReplyResponse) -> asyncio.Task[None]:
    """Start a task that disconnects the response when the ASGI server says that the client has disconnected."""
    watcher = asyncio.get_running_loop().create_task(wait_for_disconnect(receive))
    watcher.add_done_callback(lambda _: response.disconnect())
    return watcher


async def _start_when_open(response: ReplyResponse, opening: PendingReply, lease: Lease | None) -> None:
    """Start the response as soon as the reply is open. A response that is done before then cancels the wait."""
    task = asyncio.current_task()
    assert task is not None
    waiting, cancelled = True, False

    def cancel_wait(_: object) -> None:
        nonlocal cancelled
        if waiting:
            cancelled = True
            task.cancel()

    response.done.add_done_callback(cancel_wait)
    try:
        try:
            reply = await opening
        finally:
            if lease is not None:
                lease.release()
    except ParleyError as error:
        waiting = False
        response.fail(error)
        _forget_tracebacks(error)
    except Exception as error:
        waiting = False
        response.on_crash(error)
    except asyncio.CancelledError:
        waiting = False
        if not cancelled or task.uncancel() > 0:
            raise
    else:
        waiting = False
        response.start(reply)
    finally:
        response.done.remove_done_callback(cancel_wait)


def _forget_tracebacks(error: BaseException | None) -> None:
    """Let go of the frames in which an error was raised. They hold it too, so all would wait for the garbage
    collector, for each request while a model server fails."""
    while error is not None:
        error.__traceback__ = None
        error = error.__cause__ or error.__context__


async def wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def run_for_client(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of the work, which ends when the client leaves. Raises ClientDisconnected."""
    loop = asyncio.get_running_loop()
    tasks = loop.create_task(work), loop.create_task(wait_for_disconnect(receive))
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if not tasks[0].done():
            raise ClientDisconnected
        return tasks[0].result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
