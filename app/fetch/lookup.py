"""Names into addresses, on threads of its own: a name server that hangs holds up no other work."""

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor

_THREADS = 8


class Lookup:
    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="lookup")

    async def __call__(self, host: str, port: int) -> list[str]:
        """Every address, in the order in which they are to be tried. Raises OSError."""
        found = await asyncio.get_running_loop().run_in_executor(self._threads, _addresses, host, port)
        return list(dict.fromkeys(found))

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def _addresses(host: str, port: int) -> list[str]:
    return [str(found[4][0]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
