"""`parley serve` in a process of its own, for tests without an event loop."""

import contextlib
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping

from tests.clean_environment import clean_environment
from tests.fork_server import forked_parley

COMMAND = (sys.executable, "-m", "app.cli")


@contextlib.contextmanager
def running_gateway(environ: Mapping[str, str] | None = None) -> Iterator[str]:
    """The URL of a gateway that runs while the context is open. Without settings it serves the demo model."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    settings = {"PARLEY_CACHE__URL": "null:", "PARLEY_USAGE__URL": "null:", "PARLEY_SERVER__LOG_FORMAT": "json"}
    process = subprocess.Popen(
        [*forked_parley(), "serve", "--port", str(port)],
        env=clean_environment(**settings, **(environ or {})),
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert "listens at" in json.loads(line)["message"], line
        yield f"http://127.0.0.1:{port}"
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
