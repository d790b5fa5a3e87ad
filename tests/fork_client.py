"""Runs `parley` in a child of tests/fork_server.py as if it were this process.

Its arguments are the address of the server and those of `parley`. The child has this process's files, folder and
environment, gets the signals that this process gets, and dies when it dies; this process ends as the child does. Only
modules that load at once are imported.
"""

import contextlib
import json
import os
import signal
import socket
import sys

FORWARDED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)


def main() -> int:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(sys.argv[1])
    for number in FORWARDED:
        signal.signal(number, lambda number, _: _forward(connection, number))
    folder = os.open(".", os.O_RDONLY)
    request = json.dumps({"arguments": sys.argv[2:], "environ": dict(os.environ)}).encode()
    socket.send_fds(connection, [len(request).to_bytes(4, "big")], [0, 1, 2, folder])
    connection.sendall(request)
    status = connection.recv(4)
    code = int.from_bytes(status, "big", signed=True) if status else 1
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


def _forward(connection: socket.socket, number: int) -> None:
    with contextlib.suppress(OSError):  # the child has ended
        connection.send(bytes([number]))


if __name__ == "__main__":
    sys.exit(main())
