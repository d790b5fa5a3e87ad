"""What all requests of one process share, and how each of their replies is seen to its end."""

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from app.api.body import Receive, Scope
from app.api.delivery import Delivery
from app.api.notes import Note, kept_of, note_of, read_note
from app.api.outgoing import Send
from app.api.shelf import Kept, Shelf
from app.cache import Cache
from app.chat.reply import Reply
from app.errors import Busy, Cancelled, ParleyError
from app.formats.base import Encoder, Format, ReplyInfo
from app.gateway import Gateway
from app.memory_budget import MemoryBudget
from app.pulse import Pulse
from app.settings import Server

Opening: TypeAlias = Coroutine[Any, Any, Reply]

NOTE_SECONDS = 3600.0
"""How long a reply may take, as other gateways count."""
HANG_UP = "parley.hang_up"
"""The ASGI extension by which our server lets a connection be dropped whose client reads nothing."""


@dataclass(slots=True)
class Desk:
    gateway: Gateway
    server: Server
    pulse: Pulse
    shelf: Shelf
    cache: Cache
    budget: MemoryBudget
    """What requests may hold in memory, all together."""
    callers_apart: bool = False
    """Replies are shared only among requests of one caller."""
    draining: bool = False
    active: set[Delivery] = field(default_factory=set)
    busy: int = 0

    @contextmanager
    def seat(self) -> Iterator[None]:
        """A request that is served. Raises Busy where as many are as may be, calls without callers included."""
        limit = self.server.max_concurrent_requests
        if self.busy + self.cache.calls >= limit and self.busy + self.cache.calls_without_caller >= limit:
            raise Busy("this gateway serves as many requests as it may")
        self.busy += 1
        try:
            yield
        finally:
            self.busy -= 1

    def delivery(
        self, scope: Scope, send: Send, encoder: Encoder, info: ReplyInfo, form: Format, *, stream: bool
    ) -> Delivery:
        server = self.server
        return Delivery(
            send,
            encoder,
            info,
            stream=stream,
            heartbeat_seconds=server.heartbeat_seconds,
            commit_seconds=server.commit_seconds,
            stall_seconds=server.stall_seconds,
            refusal=form.error,
            warning=form.warning,
            hang_up=scope.get("extensions", {}).get(HANG_UP, {}).get("call"),
        )

    async def deliver(self, delivery: Delivery, opening: Opening, receive: Receive) -> None:
        """Whoever opens closes: all of it ends here, on end, error, cancel and when the caller leaves."""
        self.pulse.add(delivery)
        self.active.add(delivery)
        watcher = asyncio.get_running_loop().create_task(_left(receive))
        watcher.add_done_callback(lambda _: delivery.leave())
        try:
            await _opened(delivery, opening)
            if self.cache.common:
                await self._announce(delivery.info.response_id)
            await delivery.done
        finally:
            self.pulse.discard(delivery)
            self.active.discard(delivery)
            delivery.leave()
            watcher.cancel()

    async def _announce(self, response_id: str) -> None:
        """Let other gateways know of a reply that has begun; it is told meanwhile."""
        kept = self.shelf.find(response_id)
        if kept is None:
            return
        place = kept.source.place
        if place is not None:
            await self.cache.note(response_id, note_of(kept, place), NOTE_SECONDS + self.shelf.keep_seconds)

    async def recalled(self, response_id: str, caller: str) -> Kept | None:
        """This caller's reply, which was asked for before, here or at another gateway: then it must be listened to."""
        kept = self.shelf.find(response_id)
        note = None if kept is not None else await self.noted(response_id)
        known = kept or note
        if known is None or not self.may_have(known.scope, caller):
            return None
        source = None if note is None else await self.cache.recalled(note.place)
        return kept if note is None or source is None else kept_of(note, response_id, source)

    async def noted(self, response_id: str) -> Note | None:
        """What another gateway says of a reply."""
        data = await self.cache.noted(response_id) if self.cache.common else None
        return None if data is None else read_note(data)

    def may_have(self, scope: str, caller: str) -> bool:
        return not self.callers_apart or scope == caller

    def stop(self, response_id: str) -> None:
        """Whoever is told this reply here is told that it was cancelled; nobody can come back for it."""
        kept = self.shelf.find(response_id)
        if kept is not None:
            self.shelf.drop(response_id)
            kept.let_go()
        for delivery in self.running(response_id):
            delivery.fail(Cancelled("the reply was cancelled"))

    def running(self, response_id: str) -> list[Delivery]:
        return [one for one in self.active if one.info.response_id == response_id and not one.finished]


async def _opened(delivery: Delivery, opening: Opening) -> None:
    """Start the delivery as soon as the reply is open. A delivery that is done before then cancels the wait."""
    task = asyncio.current_task()
    assert task is not None
    waiting, given_up = True, False

    def give_up(_: object) -> None:
        nonlocal given_up
        if waiting:
            given_up = True
            task.cancel()

    delivery.done.add_done_callback(give_up)
    try:
        reply = await opening
    except ParleyError as error:
        waiting = False
        delivery.fail(error)
    except Exception as error:
        waiting = False
        delivery.on_crash(error)
    except asyncio.CancelledError:
        waiting = False
        if not given_up or task.uncancel() > 0:
            raise
    else:
        waiting = False
        delivery.start(reply)
    finally:
        delivery.done.remove_done_callback(give_up)


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
