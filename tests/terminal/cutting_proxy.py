"""A proxy that breaks the first connection after so many bytes of the answer, and passes the others on."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit


class CuttingProxy:
    def __init__(self, listener: socket.socket, gateway: str, after_bytes: int) -> None:
        parts = urlsplit(gateway)
        self._address = (parts.hostname or "", parts.port or 0)
        self._listener = listener
        self._left: int | None = after_bytes
        self.requests: list[str] = []
        """The first line of each request."""
        self.url = "http://{}:{}".format(*listener.getsockname())

    def run(self) -> None:
        with contextlib.suppress(OSError):  # the listener was closed
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._pass_on, args=(client,), daemon=True).start()

    def _pass_on(self, client: socket.socket) -> None:
        with client, socket.create_connection(self._address) as server:
            threading.Thread(target=self._send_request, args=(client, server), daemon=True).start()
            while data := server.recv(1024):
                if self._left is not None and len(data) > self._left:
                    client.sendall(data[: self._left])
                    self._left = None
                    client.shutdown(socket.SHUT_RDWR)
                    return
                self._left = None if self._left is None else self._left - len(data)
                client.sendall(data)

    def _send_request(self, client: socket.socket, server: socket.socket) -> None:
        first = True
        with contextlib.suppress(OSError):
            while data := client.recv(65536):
                if first:
                    self.requests.append(data.partition(b"\r\n")[0].decode())
                first = False
                server.sendall(data)


@contextlib.contextmanager
def cutting_proxy(gateway: str, after_bytes: int) -> Iterator[CuttingProxy]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        proxy = CuttingProxy(listener, gateway, after_bytes)
        threading.Thread(target=proxy.run, daemon=True).start()
        yield proxy
        listener.shutdown(socket.SHUT_RDWR)
