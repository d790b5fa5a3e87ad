"""A bound socket that records how often `accept` is called."""

import socket


class RecordingSocket(socket.socket):
    """Records the calls of `accept`. The first ones raise these errors."""

    def __init__(self, *errors: int) -> None:
        super().__init__(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self.bind(("127.0.0.1", 0))
        self._errors = list(errors)
        self.accepts = 0
        self.accepted: list[socket.socket] = []

    def accept(self) -> tuple[socket.socket, tuple[str, int]]:
        self.accepts += 1
        if self._errors:
            raise OSError(self._errors.pop(0), "not now")
        connection, address = super().accept()
        self.accepted.append(connection)
        return connection, address
