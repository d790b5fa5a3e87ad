"""A server of tools of the chaos run, over stdio or HTTP: its tools work, fail, hang, flood, lie and end it.

It notes each call that it runs in a file, so that one which was sent twice is found.
"""

import argparse
import contextlib
import http.server
import json
import os
import random
import sys
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

from chaos_loops import HUGE_BYTES, TOOLS, say_done

Write = Callable[[bytes], None]
FIXED_TOOLS = [name for name in TOOLS if name not in ("unknown", "renamed_1")]
LONG_LINE = b"x" * 3_000_000


class ToolServer:
    def __init__(self, log: str, end: Callable[[], None]) -> None:
        """`end` does what the tool `die` is to do."""
        self._log = os.open(log, os.O_APPEND | os.O_WRONLY | os.O_CREAT)
        self._end = end
        self._renamed = 0

    def answer(self, message: dict[str, Any], write: Write) -> None:
        """Write what the server says to a message. It may raise what `end` raises."""
        method, id_, params = message.get("method"), message.get("id"), message.get("params") or {}
        if id_ is None or method is None:
            return
        rest: dict[str, Any] | None = {"result": {}}
        if method == "initialize":
            info = {"name": "chaos", "version": "1"}
            capabilities = {"tools": {"listChanged": True}}
            rest = {"result": {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info}}
        elif method == "tools/list":
            names = [*FIXED_TOOLS, f"renamed_{self._renamed}"]
            rest = {"result": {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names]}}
        elif method == "tools/call":
            rest = self._call(params["name"], params["arguments"]["token"], id_, write)
        if rest is not None:
            _send(write, {"id": id_, **rest})

    def _call(self, tool: str, token: str, id_: object, write: Write) -> dict[str, Any] | None:
        """Run a tool. Returns its answer; None if there is none."""
        os.write(self._log, f"{token}\n".encode())
        if tool not in (*FIXED_TOOLS, f"renamed_{self._renamed}"):
            return {"error": {"code": -32602, "message": f"Unknown tool: {tool}"}}
        self._misbehave(tool, _write_done(tool, token), id_, write)
        if tool == "refuse":
            return {"error": {"code": -32602, "message": f"refuse has failed {token}"}}
        if tool == "fail":
            return {"result": {"content": [{"type": "text", "text": f"fail has failed {token}"}], "isError": True}}
        if tool == "nonsense":
            return random.choice(({"result": 7}, {"result": {"content": "none"}}, {"result": {"content": [1]}}))
        return None if tool == "hang" else _write_done(tool, token)

    def _misbehave(self, tool: str, done: dict[str, Any], id_: object, write: Write) -> None:
        """Do what a tool does before its answer."""
        match tool:
            case "echo":
                time.sleep(random.random() * 0.05)
            case "slow":
                time.sleep(0.5)
            case "flood":
                for _ in range(500):
                    _send(write, {"method": "notifications/message", "params": {"level": "info", "data": "x" * 500}})
            case "nonsense":
                for line in (b"hello", b"{", b"\xff\xfe", b"[]", b"null", b'{"jsonrpc":"2.0","id":987654,"result":{}}'):
                    write(line)
            case "twice":
                _send(write, {"id": id_, **done})
            case "die":
                self._end()
            case "long_line":
                write(LONG_LINE)
            case "rename":
                self._renamed += 1
                _send(write, {"method": "notifications/tools/list_changed"})


def _write_done(tool: str, token: str) -> dict[str, Any]:
    content = [{"type": "text", "text": say_done(tool, token)}]
    if tool == "huge":
        content.append({"type": "text", "text": "é" * (HUGE_BYTES // 2)})
    return {"result": {"content": content}}


def _send(write: Write, message: dict[str, Any]) -> None:
    write(json.dumps({"jsonrpc": "2.0", **message}).encode())


def serve_stdio(log: str) -> None:
    writing = threading.Lock()

    def write(data: bytes) -> None:
        with writing:
            sys.stdout.buffer.write(data + b"\n")
            sys.stdout.buffer.flush()

    server = ToolServer(log, lambda: os._exit(3))
    for line in sys.stdin:
        threading.Thread(target=_answer_quietly, args=(server, json.loads(line), write), daemon=True).start()


def _answer_quietly(server: ToolServer, message: dict[str, Any], write: Write) -> None:
    try:
        server.answer(message, write)
    except OSError:
        os._exit(0)  # the gateway has closed the pipe


class _BrokenOffError(Exception):
    pass


class _Handler(http.server.BaseHTTPRequestHandler):
    """Answers with events, forgets sessions now and then, and sometimes fails."""

    protocol_version = "HTTP/1.1"
    sessions: set[str]
    tools: ToolServer

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        session = self.headers.get("mcp-session-id") or ""
        method = message.get("method")
        if method == "initialize":
            session = uuid.uuid4().hex
            self.sessions.add(session)
        elif session not in self.sessions or random.random() < 0.02:
            self.sessions.discard(session)
            return self._send(404)
        if method == "tools/call" and random.random() < 0.03:
            return self._send(random.choice((401, 500, 503)))
        if message.get("id") is None:
            return self._send(202)
        return self._answer(message, session)

    def _answer(self, message: dict[str, Any], session: str) -> None:
        self.close_connection = True
        self.send_response(200)
        for name, value in {"connection": "close", "content-type": "text/event-stream"}.items():
            self.send_header(name, value)
        self.send_header("mcp-session-id", session)
        self.end_headers()
        with contextlib.suppress(_BrokenOffError, OSError):
            self.tools.answer(message, self._write_event)
            if (message.get("params") or {}).get("name") == "hang":
                time.sleep(4)

    def do_GET(self) -> None:
        self._send(405)

    def do_DELETE(self) -> None:
        self._send(200)

    def _write_event(self, data: bytes) -> None:
        self.wfile.write(b"event: message\ndata: " + data + b"\n\n")
        self.wfile.flush()

    def _send(self, status: int) -> None:
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def serve_http(log: str, port: int) -> None:
    def end() -> None:
        raise _BrokenOffError

    _Handler.sessions, _Handler.tools = set(), ToolServer(log, end)
    http.server.ThreadingHTTPServer.request_queue_size = 256
    http.server.ThreadingHTTPServer(("127.0.0.1", port), _Handler).serve_forever()


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--log", required=True)
    parser.add_argument("--port", type=int, help="HTTP on this port; without it, standard input and output")
    options = parser.parse_args()
    if options.port is None:
        serve_stdio(options.log)
    else:
        serve_http(options.log, options.port)


if __name__ == "__main__":
    _main()
