"""A server of tools with bad manners, for tests: `python scripted_mcp.py [PORT]`, over stdio or streamable HTTP.

It answers `echo` with its arguments, and does what the names of its other tools say. Each message that it receives is a
line of the file that $MCP_LOG names. $MCP_MODE changes how it begins.
"""

import http.server
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

TOOLS = [
    "echo", "environment", "fail", "refuse", "big", "die", "hang", "garbage", "long_line", "no_newline", "twice",
    "unknown_id", "flood", "ask", "change", "secret", "child", "status", "lose_session",
    "deep", "half_pair", "wait", "raw", "read", "ask_much",
]  # fmt: skip
MODE = os.environ.get("MCP_MODE", "")
WRITING = threading.Lock()


def record(message: object) -> None:
    if path := os.environ.get("MCP_LOG"):
        with open(path, "a", encoding="utf-8") as file:  # noqa: PTH123
            file.write(json.dumps(message) + "\n")


def list_page(cursor: str | None) -> dict[str, Any]:
    rows: list[Any] = [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]
    rows[0] |= {"description": "repeats", "annotations": {"readOnlyHint": True}}
    if MODE == "endless_pages":
        return {"tools": [{"name": f"t{cursor}", "inputSchema": {}}], "nextCursor": str(int(cursor or 0) + 1)}
    if MODE == "same_cursor":
        return {"tools": rows, "nextCursor": "x"}
    half = len(rows) // 2
    return {"tools": [*rows[half:], {"bad": 1}, 7]} if cursor else {"tools": rows[:half], "nextCursor": "2"}


def read_secret(pid: int) -> str:
    """Return what can be read of another process; "" if nothing."""
    found = ""
    for file in ("environ", "maps"):
        try:
            with open(f"/proc/{pid}/{file}", "rb") as opened:  # noqa: PTH123
                found += opened.read().decode(errors="replace")
        except OSError:
            pass
    return found


def run_tool(name: str, arguments: dict[str, Any], id_: Any, write: Callable[[bytes], None]) -> dict[str, Any] | None:
    """Return the rest of the answer; None: there is none."""

    def text(value: str, **more: Any) -> dict[str, Any]:
        return {"result": {"content": [{"type": "text", "text": value}], **more}}

    def send(message: dict[str, Any]) -> None:
        write(json.dumps({"jsonrpc": "2.0", **message}).encode())

    if name == "echo":
        return text(json.dumps(arguments))
    if name == "raw":
        write(f'{{"jsonrpc":"2.0","id":"{id_}",{arguments["rest"] * int(arguments.get("times", 1))}}}'.encode())
        return None
    if name == "read":
        return text(read_secret(int(arguments["pid"])))
    if name == "ask_much":
        for number in range(int(arguments["times"])):
            send({"id": number, "method": "sampling/createMessage", "params": {}})
        return text("asked much")
    if name == "environment":
        return text(json.dumps(dict(os.environ)))
    if name == "fail":
        return text("no such city", isError=True)
    if name == "refuse":
        return {"error": {"code": -32602, "message": "Unknown tool: x"}}
    if name == "big":
        return text("é" * int(arguments["size"]))
    if name == "secret":
        return text(f"the key {os.environ.get('KEY')} is wrong", isError=True)
    if name == "deep":
        deep = "[" * int(arguments["levels"]) + "]" * int(arguments["levels"])
        write(f'{{"jsonrpc":"2.0","id":"{id_}","result":{{"content":[],"structuredContent":{{"a":{deep}}}}}}}'.encode())
        return None
    if name == "half_pair":
        return text("a\ud800b \U0001f600")
    if name == "wait":
        while not os.path.exists(arguments["file"]):  # noqa: PTH110
            time.sleep(0.01)
        return text("waited")
    if name == "die":
        os._exit(3)
    if name == "hang":
        return None
    if name == "garbage":
        for line in (b"hello", b"{", b"\xff\xfe", b"[]", b"null", b'{"jsonrpc":"2.0"}'):
            write(line)
        return text("after garbage")
    if name == "long_line":
        write(b"x" * int(arguments["size"]))
        return text("after a long line")
    if name == "no_newline":
        with WRITING:
            while True:
                sys.stdout.buffer.write(b"x" * 65536)
                sys.stdout.buffer.flush()
    if name == "twice":
        send({"id": id_, "result": {"content": [{"type": "text", "text": "first"}]}})
        return text("second")
    if name == "unknown_id":
        send({"id": 987654, "result": {"content": []}})
        return text("known")
    if name == "flood":
        until = time.monotonic() + float(arguments["seconds"])
        while time.monotonic() < until:
            send({"method": "notifications/message", "params": {"level": "info", "data": "x" * 1000}})
        return text("after a flood")
    if name == "ask":
        send({"id": "q1", "method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}})
        return text("asked")
    if name == "change":
        TOOLS.append("added")
        send({"method": "notifications/tools/list_changed"})
        return text("changed")
    if name == "child":
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            while True:
                time.sleep(1)
        return text(str(child))
    return {"error": {"code": -32602, "message": f"Unknown tool: {name}"}}


def answer(message: dict[str, Any], write: Callable[[bytes], None]) -> None:
    method, id_, params = message.get("method"), message.get("id"), message.get("params") or {}
    if id_ is None or method is None:
        return
    if method == "initialize":
        version = "1999-01-01" if MODE == "old_version" else "2025-11-25"
        info = {"name": "scripted", "version": "1"}
        rest: Any = {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}}
    elif method == "tools/list" and MODE == "no_list":
        return
    elif method == "tools/list" and MODE == "refuses_list":
        rest = {"error": {"code": -32603, "message": "the index is gone"}}
    elif method == "tools/list" and MODE == "no_tools":
        rest = {"error": {"code": -32601, "message": "Method not found"}}
    elif method == "tools/list":
        rest = {"result": list_page(params.get("cursor"))}
    elif method == "tools/call":
        rest = run_tool(params["name"], params.get("arguments") or {}, id_, write)
    else:
        rest = {"result": {}}
    if rest is not None:
        write(json.dumps({"jsonrpc": "2.0", "id": id_, **rest}).encode())


def write_line(data: bytes) -> None:
    with WRITING:
        sys.stdout.buffer.write(data + b"\n")
        sys.stdout.buffer.flush()


def serve_stdio() -> None:
    if MODE == "deaf":
        time.sleep(3600)
    if MODE == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("hello from stderr", file=sys.stderr, flush=True)
    for line in sys.stdin:
        message = json.loads(line)
        record(message)
        threading.Thread(target=answer, args=(message, write_line), daemon=True).start()
    while MODE == "stubborn":
        time.sleep(1)


LOST: dict[str, tuple[int, bytes]] = {
    "session": (404, b""),
    "session_text": (400, b"Bad Request: No valid session ID provided"),
    "session_code": (400, b'{"jsonrpc":"2.0","id":"x","error":{"code":-32600,"message":"Missing session ID"}}'),
}
"""What servers answer that do not know a session."""


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    sessions: set[str] = set()

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        record({"headers": {name.lower(): value for name, value in self.headers.items()}, **message})
        method, name = message.get("method"), (message.get("params") or {}).get("name")
        session = self.headers.get("mcp-session-id")
        if MODE == "unauthorized":
            return self._send(401)
        if MODE == "elsewhere":
            return self._send(307, location="http://127.0.0.2:9/mcp")
        if MODE == "moved" and self.path == "/mcp":
            return self._send(307, location="/mcp/")
        if MODE in LOST and method != "initialize" and session not in self.sessions:
            return self._send(*LOST[MODE])
        if name == "lose_session":
            self.sessions.clear()
        if name == "status":
            return self._send(int(message["params"]["arguments"]["status"]))
        new_session = {}
        if MODE in LOST and method == "initialize":
            self.sessions.add(f"s{len(self.sessions)}-{time.monotonic_ns()}")
            new_session = {"mcp-session-id": max(self.sessions)}
        if message.get("id") is None:
            return self._send(202)
        return self._answer_events(message, new_session) if MODE != "json" else self._answer_json(message)

    def _answer_json(self, message: dict[str, Any]) -> None:
        lines: list[bytes] = []
        answer(message, lines.append)
        body = lines[-1]
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        for at in range(0, len(body), 1) if len(body) < 2000 else ():
            self.wfile.write(body[at : at + 1])
            self.wfile.flush()
        if len(body) >= 2000:
            self.wfile.write(body)

    def _answer_events(self, message: dict[str, Any], headers: dict[str, str]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.close_connection = True

        def write(data: bytes) -> None:
            self.wfile.write(b"event: message\ndata: " + data + b"\n\n")
            self.wfile.flush()

        if (message.get("params") or {}).get("name") == "hang":
            try:
                while True:
                    self.wfile.write(b": waiting\n\n")
                    self.wfile.flush()
                    time.sleep(0.05)
            except OSError:
                record({"closed": message["id"]})
                return
        answer(message, write)

    def do_GET(self) -> None:
        self._send(405)

    def do_DELETE(self) -> None:
        record({"method": "DELETE"})
        self._send(200)

    def _send(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in {"content-length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
        print(server.server_address[1], flush=True)
        server.serve_forever()
    serve_stdio()
