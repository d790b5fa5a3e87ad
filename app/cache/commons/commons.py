"""What all gateways of one Redis share: who makes a call, who listens to it, and what they must know of each other."""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress

from app.cache.commons.board import Board, post
from app.cache.commons.followed import Followed, Lead
from app.cache.commons.ledger import KEEP_SECONDS, LEASE_SECONDS, Ledger, Names
from app.cache.commons.opening import Opening
from app.cache.commons.press import Press
from app.cache.commons.published import Published
from app.cache.commons.reader import Reader
from app.cache.commons.spliced import Spliced
from app.cache.commons.tenure import Tenure
from app.cache.entry import Batch
from app.cache.redis_link import Away, RedisLink
from app.chat.events import Failed
from app.chat.reply import Reply
from app.errors import UpstreamFailed


class Commons:
    """One for each event loop. It does not close the link."""

    def __init__(
        self, link: RedisLink, *, lease_seconds: float = LEASE_SECONDS, keep_seconds: float = KEEP_SECONDS
    ) -> None:
        """A leader that is silent for `lease_seconds` is dead; what a flight told can be followed for `keep_seconds`
        after its end."""
        self._ledger = Ledger(link, lease_seconds=lease_seconds, keep_seconds=keep_seconds)
        self._press = Press(self._ledger)
        self._reader = Reader(self._ledger)
        self._openings: set[Opening] = set()
        self._board: Board | None = None

    async def open(self, key: str, lead: Lead) -> tuple[Reply, bool, str]:
        """(the reply, whether this process makes the call, the flight's id), once the reply has begun.

        The id is empty where nobody else can follow: Redis is away. Raises UpstreamFailed; of another gateway's call
        too."""
        names = Names.new(key)
        try:
            held = await self._ledger.claim(names)
        except Away:
            return await lead(), True, ""
        if held is not None:
            return await self._join(Names(key, held), lead)
        return await self._led(self._press.begin(names, 1), lead), True, names.id

    async def lead_private(self, lead: Lead) -> tuple[Reply, bool, str]:
        """The same for a call that nobody may join, only follow by its id."""
        return await self.open(f"private-{os.urandom(16).hex()}", lead)

    async def follow(self, flight_id: str) -> Reply | None:
        """The reply from its first event on; None: no such flight is known."""
        names = Names.of(flight_id)
        try:
            (state,) = await self._ledger.watch([names])
        except Away:
            return None
        if state == "gone":
            return None
        followed = self._followed(names, None)
        followed.note_begun()
        await self._catch_up(followed)
        return followed

    async def note(self, reply_id: str, data: bytes, ttl_seconds: float) -> None:
        """What any gateway may have to know of a reply. Nothing happens where Redis is away."""
        with suppress(Away):
            await self._ledger.put(_note(reply_id), data, ttl_seconds)

    async def noted(self, reply_id: str) -> bytes | None:
        try:
            return await self._ledger.get(_note(reply_id))
        except Away:
            return None

    async def live(self, flight_id: str) -> bool:
        """Its end is still to come."""
        with suppress(Away):
            return await self._ledger.live(Names.of(flight_id))
        return False

    async def stop(self, reply_id: str) -> bool:
        """Every gateway hears that this reply is cancelled, and its note is gone. False: Redis is away."""
        try:
            await self._ledger.forget(_note(reply_id))
            await post(self._ledger, reply_id)
        except Away:
            return False
        return True

    def heed(self, stopped: Callable[[str], None]) -> None:
        """`stopped` is told what `stop` is called with, at any gateway."""
        self._board = Board(self._ledger, stopped)

    async def aclose(self) -> None:
        """Others may go on at once with what this process led. Replies that are open are their owners' to close."""
        if self._board is not None:
            await self._board.aclose()
        for opening in tuple(self._openings):
            await opening.aclose()
        await self._reader.aclose()
        await self._press.aclose()

    # -- leading ------------------------------------------------------------------------------------------------------

    async def _led(self, tenure: Tenure, lead: Lead) -> Published:
        opening = Opening(tenure, lead)
        self._openings.add(opening)
        opening.when_done(self._openings.discard)
        return await opening.published()

    # -- following ----------------------------------------------------------------------------------------------------

    async def _join(self, names: Names, lead: Lead) -> tuple[Reply, bool, str]:
        followed = self._followed(names, lead)
        try:
            await self._catch_up(followed)
            await followed.begun
        except BaseException:
            followed.close()
            raise
        return followed, followed.led, names.id if followed.shared else ""

    def _followed(self, names: Names, lead: Lead | None) -> Followed:
        return Followed(names, self._reader, self._rescue, lead, self._ledger.lease_seconds)

    async def _catch_up(self, followed: Followed) -> None:
        with suppress(Away):
            found = await self._ledger.history(followed.names, followed.place)
            if followed.hungry:  # By now it may go on by itself.
                followed.on_records(found)

    async def _rescue(self, followed: Followed, lead: Lead, *, shared: bool) -> Reply | None:
        fence = -1
        try:
            if shared:
                fence = await self._ledger.take_over(followed.names)
            if fence == 0:
                return None
            whole = shared and await self._heard_all(followed)
        except Away:
            if fence <= 0:
                return None
            whole = False
        if followed.over:
            return None
        if whole and fence > 0:
            return await self._succeed(followed, lead, fence)
        followed.shared = False
        return Spliced(await lead(), followed.told)

    async def _heard_all(self, followed: Followed) -> bool:
        while found := await self._ledger.history(followed.names, followed.place):
            place = followed.place
            followed.on_records(found)
            if followed.place == place:
                return False
        return True

    async def _succeed(self, followed: Followed, lead: Lead, fence: int) -> Reply:
        tenure = self._press.begin(followed.names, fence, followed.place)
        asked_at = asyncio.get_running_loop().time()
        try:
            reply = await lead()
        except UpstreamFailed as error:
            if followed.begun.done():
                tenure.speak(Batch(0.0, [Failed(error.fault)]))
                tenure.end()
            else:
                tenure.refuse(error.fault)
            raise
        except BaseException:
            tenure.step_down()
            raise
        tenure.begun()
        return Published(Spliced(reply, followed.told), tenure, asked_at, followed.told)


def _note(reply_id: str) -> str:
    return f"parley:note:{reply_id}"
