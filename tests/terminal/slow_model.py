"""A model server whose replies begin and then wait, to be stopped."""

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from typing_extensions import override


class SlowModel:
    """Begins every reply with "Wait", which ends when `go` is set or the connection is closed."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.go = threading.Event()
        self.left = threading.Event()
        """Set when the gateway has closed a connection before the end of its reply."""


@contextlib.contextmanager
def slow_model() -> Iterator[SlowModel]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            self._send({"content": "Wait"})
            self.connection.settimeout(0.02)
            while not model.go.is_set():
                with contextlib.suppress(TimeoutError):
                    if not self.connection.recv(1):
                        model.left.set()
                        return
            self.connection.settimeout(None)
            self._send({"content": " done"}, "stop")
            self.wfile.write(b"data: [DONE]\n\n")

        def _send(self, delta: dict[str, Any], finish: str | None = None) -> None:
            chunk = {"id": "1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())

        @override
        def log_message(self, format: str, *args: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        model = SlowModel(f"http://127.0.0.1:{server.server_port}/v1")
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield model
        model.go.set()
        server.shutdown()
        thread.join()
