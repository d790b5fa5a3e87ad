"""Accepts the connections of clients.

libuv accepts one connection in each turn of the event loop (libuv/libuv#3696). A turn of a busy gateway takes tens of
milliseconds, so new clients would wait for seconds.
"""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable

log = logging.getLogger("parley.listener")

ACCEPTED_AT_ONCE = 32
"""The maximum number of connections that are accepted in one turn of the event loop. The others wait for the next turn,
or for another worker."""
RETRY_SECONDS = 0.1
"""The pause after a connection could not be accepted and still waits."""
_ENDED = frozenset(
    (
        errno.ECONNABORTED,
        errno.EPROTO,
        errno.ETIMEDOUT,
        errno.ENETDOWN,
        errno.ENETUNREACH,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.ENOPROTOOPT,
        errno.EOPNOTSUPP,
    )
)
"""The errors of one connection, which has ended (accept(2)). After any other error the connection still waits."""


class Listener:
    """Listens at a bound socket. uvicorn closes it like one of asyncio's servers."""

    def __init__(
        self,
        listening: socket.socket,
        make_protocol: Callable[[], asyncio.BaseProtocol],
        backlog: int,
        on_pause: Callable[[OSError], None],
    ) -> None:
        """`on_pause` is called with the error each time that clients must wait, because the system has no file or no
        memory left, for example. Raises OSError if another process listens at the address."""
        self.sockets = (listening,)
        self._make_protocol = make_protocol
        self._on_pause = on_pause
        self._loop = asyncio.get_running_loop()
        self._opening: set[asyncio.Task[None]] = set()
        self._retry: asyncio.TimerHandle | None = None
        listening.setblocking(False)
        listening.listen(backlog)
        self._start()

    def _start(self) -> None:
        self._retry = None
        self._loop.add_reader(self.sockets[0], self._accept)

    def _accept(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                accepted, _ = self.sockets[0].accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in _ENDED:
                    log.debug("a connection ended before it was accepted: %s", error)
                    continue
                self._loop.remove_reader(self.sockets[0])
                self._retry = self._loop.call_later(RETRY_SECONDS, self._start)
                self._on_pause(error)
                return
            task = self._loop.create_task(self._open(accepted))
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    async def _open(self, accepted: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._make_protocol, accepted)
        except OSError as error:
            log.debug("a connection ended before it was used: %s", error)
            accepted.close()

    def close(self) -> None:
        """Close the socket. Connections that were accepted stay open."""
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        if self.sockets[0].fileno() >= 0:
            self._loop.remove_reader(self.sockets[0])
            self.sockets[0].close()

    async def wait_closed(self) -> None:
        """Wait until `connection_made` was called for every accepted connection."""
        if self._opening:
            await asyncio.wait(self._opening)
