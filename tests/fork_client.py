"""Runs a Python module in a child of tests/fork_server.py as if it were this process.

Its arguments are the address of the server, the module and the module's arguments. The child has this process's files,
folder and environment, gets the signals that this process gets, and dies when it dies; this process ends as the child
does. Only modules that load at once are imported.
"""

import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence

FORWARDED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)


def main() -> int:
    folder = os.open(".", os.O_RDONLY)
    connection = start(sys.argv[1], sys.argv[2:], dict(os.environ), [0, 1, 2, folder])
    for number in FORWARDED:
        signal.signal(number, lambda number, _: _forward(connection, number))
    receive_number(connection)  # the process id
    code = receive_number(connection)
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


def start(address: str, program: Sequence[str], environ: Mapping[str, str], files: Sequence[int]) -> socket.socket:
    """Start a child. The files are standard input, output and error, and the folder. The connection brings the child's
    process id and, when it has ended, its exit code; the child is killed when the connection is closed."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(address)
    request = json.dumps({"program": program, "environ": environ}).encode()
    socket.send_fds(connection, [len(request).to_bytes(4, "big")], files)
    connection.sendall(request)
    return connection


def receive_number(connection: socket.socket) -> int:
    """1 if the server has ended."""
    data = connection.recv(4)
    return int.from_bytes(data, "big", signed=True) if data else 1


def _forward(connection: socket.socket, number: int) -> None:
    with contextlib.suppress(OSError):  # the child has ended
        connection.send(bytes([number]))


if __name__ == "__main__":
    sys.exit(main())
