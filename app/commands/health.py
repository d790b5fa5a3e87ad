"""Checks that the gateway on this machine runs, as a container's health check: `python -m app.commands.health`.

The exit status is 0 if `GET /healthz` answers 200 within three seconds. This runs twice a minute, so it imports only
what costs nothing: it reads the host and the port as `PARLEY_SERVER__HOST` and `PARLEY_SERVER__PORT`, else from the
section `[server]` of the configuration file, and does not check anything else there.
"""

import os
import socket
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

TIMEOUT_SECONDS = 3.0
_EVERY_ADDRESS = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}


def find_address(environ: Mapping[str, str]) -> tuple[str, int]:
    """Return the host and the port at which the gateway can be reached. Raises OSError or ValueError."""
    host, port = environ.get("PARLEY_SERVER__HOST"), environ.get("PARLEY_SERVER__PORT")
    server = {} if host is not None and port is not None else _read_server_section(environ)
    host = str(server.get("host", "127.0.0.1")) if host is None else host
    host = host.strip("[]")
    return _EVERY_ADDRESS.get(host, host), int(port or str(server.get("port", 8000)))


def _read_server_section(environ: Mapping[str, str]) -> Mapping[str, object]:
    named = environ.get("PARLEY_CONFIG")
    file = Path(named or "parley.toml")
    if not named and not file.exists():
        return {}
    section = tomllib.loads(file.read_text("utf-8")).get("server")
    return section if isinstance(section, dict) else {}


def check_health(host: str, port: int) -> None:
    """Ask the gateway. Raises OSError if it does not answer 200 in time."""
    with socket.create_connection((host, port), TIMEOUT_SECONDS) as connection:
        name = f"[{host}]" if ":" in host else host
        connection.sendall(f"GET /healthz HTTP/1.1\r\nhost: {name}\r\nconnection: close\r\n\r\n".encode())
        line = b""
        while not line.endswith(b"\n") and len(line) < 64:
            received = connection.recv(1)
            if not received:
                break
            line += received
    if line.split()[1:2] != [b"200"]:
        raise OSError(f"GET /healthz answered {line.decode('latin-1').strip() or 'nothing'}")


def main() -> int:
    try:
        check_health(*find_address(os.environ))
    except (OSError, ValueError) as error:
        print(f"parley: the gateway is not healthy: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
