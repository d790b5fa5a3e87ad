"""`parley serve` in a process of its own, and a server that lists models, for tests without an event loop."""

import contextlib
import http.server
import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from typing import Any

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


@contextlib.contextmanager
def serving_models(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Serve a list of models, as a model server does."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps({"object": "list", "data": rows}).encode())

        def log_message(self, *_: object) -> None: ...

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()
