"""`AppContext`: what all requests of one process share, and the run of one response from its start to its end."""

import asyncio
import hashlib
from collections.abc import Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from app.access import Caller
from app.api.asgi import ClientDisconnected, Receive, Scope
from app.api.kept_reasoning import KeptReasoning
from app.api.live_configuration import LiveConfiguration
from app.api.reply_response import EventStreamResponse, JsonResponse, ReplyResponse, ResponseLimits
from app.api.response_writer import ResponseWriter
from app.api.resumable import (
    ResumableReplies,
    ResumableReply,
    ResumeRecord,
    parse_record,
    reply_from_record,
    write_record,
)
from app.cache import Cache, InFlightCall
from app.chat.stream import AttemptLog, Reply
from app.chat.token_usage import CallUsage
from app.config.registry import ModelRegistry
from app.config.reload import Reloader
from app.config.settings import Server, Settings
from app.errors import Cancelled, ParleyError
from app.formats.base import Format, ReplyInfo, ReplyMode
from app.gateway import Gateway
from app.limits import Limiter
from app.limits.admission import Admission, ClientLeft
from app.observe.ended_requests import EndedRequests, RecentRequests
from app.observe.metrics import Metrics
from app.observe.request_record import RequestRecord
from app.observe.trace_context import PassedTrace, RequestTrace, begin_trace, pass_trace
from app.routing import UpstreamStates
from app.runtime.memory_budget import Lease, MemoryBudget
from app.runtime.shared_reading import SharedReading
from app.runtime.ticker import Ticker
from app.stores import StateStore
from app.upstream.catalog import Catalog
from app.upstream.http.client import UpstreamClient
from app.usage.ledger import UsageLedger
from app.usage.totals import Totals

STATUS_SECONDS = 1.0
"""How often those who follow the status get it, at most."""
PendingReply: TypeAlias = Coroutine[Any, Any, Reply]

RECORD_SECONDS = 3600.0
"""How long other gateways can find a reply by its record, in addition to the time it is kept after its end."""


@dataclass(slots=True)
class AppContext:
    live: LiveConfiguration
    ticker: Ticker
    resumable: ResumableReplies
    cache: Cache
    budget: MemoryBudget
    """The memory that all requests together may hold."""
    response_limits: ResponseLimits
    state: StateStore
    """Keeps what later requests rely on."""
    upstreams: UpstreamStates
    admission: Admission
    client: UpstreamClient
    """Sends the requests to model servers."""
    ended: EndedRequests
    """Reports the requests for a reply that have ended."""
    recent: RecentRequests
    """The last requests that have ended."""
    reasoning: KeptReasoning | None
    """None if dropped reasoning is not restored."""
    metrics: Metrics | None
    """None if they are off."""
    usage_ledger: UsageLedger | None
    """Counts usage and cost; None if they are not counted."""
    trace_ratio: float | None
    """How many of the traces that begin here are recorded, from 0 to 1; None if tracing is off."""
    captures_content: bool
    """Whether the spans of a recorded trace have the messages of requests and replies."""
    reloader: Reloader | None
    """None if the settings are not from a file and the environment."""
    draining: bool = False
    """The process is shutting down: load balancers should send requests elsewhere."""
    active: set[ReplyResponse] = field(default_factory=set)
    """The responses that have not ended."""
    publishing: set[asyncio.Task[None]] = field(default_factory=set)
    """Writes of records that no response waits for."""
    status: SharedReading[str] = field(default_factory=lambda: SharedReading(STATUS_SECONDS))
    """The JSON of the status, for all who follow it."""

    @property
    def settings(self) -> Settings:
        return self.live.settings

    @property
    def server(self) -> Server:
        return self.live.settings.server

    @property
    def gateway(self) -> Gateway:
        return self.live.gateway

    @property
    def registry(self) -> ModelRegistry:
        return self.live.registry

    @property
    def limiter(self) -> Limiter | None:
        return self.live.limiter

    @property
    def catalog(self) -> Catalog | None:
        return self.live.catalog

    def cache_scope(self, scope: Scope) -> str:
        """Return the scope in which the reply to this request is cached; "" if all callers share their replies."""
        if not self.live.separate_callers:
            return ""
        return scope["state"]["caller"].scope or _hash_authorization(scope)

    def caller_id(self, scope: Scope) -> str:
        """Return the identity of the caller, under which responses and reasoning are stored for later requests: the
        name of the API key, or without one a hash of the Authorization header. `cache.scope` does not change it."""
        name: str = scope["state"]["caller"].name
        return f"key {name}" if name else _hash_authorization(scope)

    def sharer_id(self, scope: Scope) -> str:
        """Return who shares the document workers with others: the caller, or the address of one without any key."""
        id_ = self.caller_id(scope)
        client = scope.get("client")
        return f"address {client[0]}" if id_ == _NO_KEY and client else id_

    def owner(self, scope: Scope) -> str:
        """Return the identity of those who may resume and cancel the reply to this request: the name of the API key.
        Without a key it is "", which stands for everyone, or a hash of the Authorization header if `cache.scope` is
        "caller"."""
        name: str = scope["state"]["caller"].name
        if name or not self.live.separate_callers:
            return name
        return _hash_authorization(scope)

    @property
    def in_progress(self) -> int:
        """The requests that are admitted and have not ended."""
        return self.admission.in_progress

    async def wait_for_place(self, scope: Scope, receive: Receive) -> Admission:
        """Wait in the queue until the request may run. Raises Busy, and ClientDisconnected."""
        caller: Caller = scope["state"]["caller"]
        try:
            return await self.admission.wait(caller.name, partial(_wait_for_disconnect, receive))
        except ClientLeft:
            raise ClientDisconnected from None

    def begin_trace(self, scope: Scope) -> PassedTrace | RequestTrace | None:
        """Begin the trace of a request, or pass the caller's on if tracing is off."""
        traceparent: bytes | None = scope["state"].get("traceparent")
        if self.trace_ratio is not None:
            return begin_trace(traceparent, scope["headers"], scope["path"], self.trace_ratio)
        return None if traceparent is None else pass_trace(traceparent, scope["headers"])

    def finish_request(self, record: RequestRecord) -> None:
        """Give back what a request that has ended did not use of its limits, and report it."""
        if self.limiter is not None and record.reservation is not None:
            self.limiter.settle_record(record)
        self.ended.add(record)

    def settle_at_end(self, call: InFlightCall, record: RequestRecord, attempts: AttemptLog) -> None:
        """Give back what a request that ends did not use of its limits when its call, which goes on, has ended."""
        if self.limiter is not None and record.reservation is not None:
            call.on_late_end = partial(self.limiter.settle_late, record.take_reservation(), attempts)

    def count_late_usage(self, caller: str, model: str, usage: CallUsage) -> None:
        """Count the usage of a call that ended after its request, which was counted without it. `model` is the one
        that was requested."""
        model = usage.fallback_model or model
        if self.usage_ledger is not None:
            self.usage_ledger.add(caller, model, Totals.from_call(usage))
        if self.metrics is not None:
            self.metrics.count_late_usage(caller, model, usage)

    def create_event_stream(
        self,
        writer: ResponseWriter,
        info: ReplyInfo,
        reply_format: Format,
        mode: ReplyMode,
        skip_frames: int = 0,
        *,
        keep_last: bool = True,
    ) -> EventStreamResponse:
        """The first `skip_frames` frames are not sent: the client has read them, but with `keep_last` not the last one
        of the reply."""
        limits = self.response_limits
        return EventStreamResponse(writer, info, reply_format, mode, limits, skip_frames, keep_last=keep_last)

    def create_json_response(
        self, writer: ResponseWriter, info: ReplyInfo, reply_format: Format, mode: ReplyMode
    ) -> JsonResponse:
        return JsonResponse(writer, info, reply_format, mode, self.response_limits)

    async def run_response(
        self, response: ReplyResponse, opening: PendingReply, receive: Receive, lease: Lease | None = None
    ) -> None:
        """Open the reply, send it, and close everything: at its end, on an error, on cancel and when the client
        leaves. The memory of the request is released once the reply is open."""
        self.ticker.add(response)
        self.active.add(response)
        watcher = None if response.notices_disconnect else _watch_client(receive, response)
        try:
            await _start_when_open(response, opening, lease)
            if self.cache.is_shared:
                await self._publish_record(response.info.response_id)
                response.on_keepalive = partial(self._publish_again, response.info.response_id)
            await response.done
        finally:
            self.ticker.discard(response)
            self.active.discard(response)
            response.close()
            if watcher is not None:
                watcher.cancel()

    async def _publish_record(self, response_id: str) -> None:
        """Write the record by which other gateways find a reply that has begun. The reply is sent meanwhile."""
        reply = self.resumable.find(response_id)
        location = None if reply is None else reply.source.location
        if reply is not None and location is not None:
            data = write_record(reply, location)
            await self.cache.put_record(response_id, data, RECORD_SECONDS + self.resumable.keep_seconds)

    def _publish_again(self, response_id: str) -> None:
        """Write the record again, which has changed, while the reply is sent."""
        task = asyncio.get_running_loop().create_task(self._publish_record(response_id))
        self.publishing.add(task)
        task.add_done_callback(self.publishing.discard)

    async def find_resumable(self, response_id: str, owner: str) -> ResumableReply | None:
        """Return the reply to an earlier request of this caller, from this gateway or another one. A reply of another
        gateway is followed only while it has a reader here."""
        reply = self.resumable.find(response_id)
        if reply is not None:
            return reply if reply.owner == owner else None
        record = await self.find_remote(response_id)
        if record is None or record.scope != owner:
            return None
        source = await self.cache.find_source(record.location)
        return None if source is None else reply_from_record(record, response_id, source)

    async def find_remote(self, response_id: str) -> ResumeRecord | None:
        """Return the record that another gateway wrote for a reply."""
        data = await self.cache.get_record(response_id) if self.cache.is_shared else None
        return None if data is None else parse_record(data)

    def cancel(self, response_id: str) -> None:
        """End the responses of this reply with the error Cancelled. The reply can no longer be resumed."""
        reply = self.resumable.find(response_id)
        if reply is not None:
            self.resumable.drop(response_id)
            reply.release()
        for response in self.running_responses(response_id):
            response.fail(Cancelled("the reply was cancelled"))

    async def aclose(self) -> None:
        """End the replies that are still sent, and close the stores."""
        for response in list(self.active):
            response.disconnect()
        await asyncio.sleep(0)
        self.resumable.close()
        await self.cache.aclose()
        await self.state.aclose()
        if self.limiter is not None:
            await self.limiter.aclose()
        if self.catalog is not None:
            await self.catalog.aclose()

    def running_responses(self, response_id: str) -> list[ReplyResponse]:
        return [
            response for response in self.active if response.info.response_id == response_id and not response.finished
        ]


_NO_KEY = "nobody"


def _hash_authorization(scope: Scope) -> str:
    """Identify a caller by the key for the model server that the request carries."""
    for name, value in scope["headers"]:
        if name == b"authorization":
            return hashlib.blake2b(value, digest_size=16, person=b"parley-caller").hexdigest()
    return _NO_KEY


def _watch_client(receive: Receive, response: ReplyResponse) -> asyncio.Task[None]:
    """Start a task that disconnects the response when the ASGI server says that the client has disconnected."""
    watcher = asyncio.get_running_loop().create_task(_wait_for_disconnect(receive))
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


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
