"""A call of this process that has not begun to be answered: it goes on for others when its own caller leaves."""

import asyncio
from collections.abc import Awaitable, Callable

from app.cache.shared.lease import CallLease
from app.cache.shared.publisher import DiscardReceiver, PublishedReply
from app.chat.stream import Reply
from app.errors import UpstreamFailed


class PublishedOpening:
    def __init__(self, tenure: CallLease, lead: Callable[[], Awaitable[Reply]]) -> None:
        self._tenure = tenure
        self._lead = lead
        self._deserted = self._given_away = False
        tenure.holder = self
        self._task = asyncio.get_running_loop().create_task(self._open())

    async def published(self) -> PublishedReply:
        """Raises UpstreamFailed."""
        try:
            return await asyncio.shield(self._task)
        except asyncio.CancelledError:
            self._deserted = True
            self._tenure.leave_unless_followed()
            self._give_away()
            raise

    async def _open(self) -> PublishedReply:
        asked_at = asyncio.get_running_loop().time()
        try:
            reply = await self._lead()
        except UpstreamFailed as error:
            self._tenure.write_failure(error.fault)
            raise
        except BaseException:
            self._tenure.resign()
            raise
        self._tenure.write_started()
        return PublishedReply(reply, self._tenure, asked_at)

    def when_done(self, over: Callable[["PublishedOpening"], None]) -> None:
        def settle(task: asyncio.Task[PublishedReply]) -> None:
            over(self)
            self._give_away()

        self._task.add_done_callback(settle)

    def _give_away(self) -> None:
        """A reply that began when its caller had left."""
        task = self._task
        if not task.done() or task.cancelled() or task.exception() is not None:
            return
        if self._deserted and not self._given_away:
            self._given_away = True
            published = task.result()
            published.start(DiscardReceiver())
            published.close()

    async def aclose(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    # -- from Redis ---------------------------------------------------------------------------------------------------

    def on_beat(self, others: bool) -> None: ...

    def on_alone(self) -> None:
        if self._deserted:
            self._task.cancel()

    def on_lost(self) -> None:
        self.on_alone()
