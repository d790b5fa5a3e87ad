"""A client of a WebSocket of a gateway in this process, through ASGI."""

import asyncio
import json
from collections.abc import MutableMapping
from typing import Any

from app.server.socket_connection import DRAIN

from tests.in_process_gateway import Running

Frame = dict[str, Any]
ENDS = ("error", "response.completed", "response.failed", "response.incomplete")
"""The last frame of a response is of one of these types."""


class SocketClient:
    """A client of one socket. `close_code` is set once the gateway has closed it."""

    def __init__(self, gateway: Running, headers: dict[str, str] | None = None, path: str = "/v1/responses") -> None:
        self._gateway = gateway
        self._loop = gateway.loop
        self._in: asyncio.Queue[Frame] = asyncio.Queue()
        self._out: asyncio.Queue[Frame] = asyncio.Queue()
        lines = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
        scope = {
            "type": "websocket",
            "asgi": {"version": "3.0"},
            "scheme": "ws",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": lines,
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 8000),
            "subprotocols": [],
            "state": {},
            "extensions": {"websocket.http.response": {}},
        }
        self._in.put_nowait({"type": "websocket.connect"})
        self.raises: Exception | None = None
        """What the server raises when a message is sent."""
        self._task = self._loop.create_task(gateway.app(scope, self._in.get, self._put))
        first = self._take()
        self.status = {"websocket.accept": 101, "websocket.close": 403}.get(first["type"]) or first["status"]
        self.headers = {name.decode(): value.decode() for name, value in first.get("headers", ())}
        self.close_code: int | None = None
        answered = first["type"] == "websocket.http.response.start"
        self.error = json.loads(self._take()["body"])["error"] if answered else None

    async def _put(self, message: MutableMapping[str, Any]) -> None:
        if self.raises is not None:
            raise self.raises
        self._out.put_nowait(dict(message))

    def _take(self) -> Frame:
        return self._loop.run_until_complete(asyncio.wait_for(self._out.get(), 10))

    def send(self, frame: Frame | str) -> None:
        text = frame if isinstance(frame, str) else json.dumps(frame)
        self._in.put_nowait({"type": "websocket.receive", "text": text})

    def drain(self) -> None:
        self._in.put_nowait({"type": DRAIN})

    def send_bytes(self, data: bytes) -> None:
        self._in.put_nowait({"type": "websocket.receive", "bytes": data})

    def read(self) -> Frame | None:
        """The next frame; None if the socket was closed."""
        message = self._take()
        if message["type"] == "websocket.close":
            self.close_code = message["code"]
            return None
        frame: Frame = json.loads(message["text"])
        return frame

    def read_response(self) -> list[Frame]:
        frames: list[Frame] = []
        while True:
            frame = self.read()
            assert frame is not None, frames
            frames.append(frame)
            if frame["type"] in ENDS:
                return frames

    def ask(self, frame: Frame | str) -> list[Frame]:
        self.send(frame)
        return self.read_response()

    def leave(self) -> None:
        self._in.put_nowait({"type": "websocket.disconnect", "code": 1005})
        self.wait()

    def wait(self) -> None:
        self._loop.run_until_complete(asyncio.wait_for(self._task, 10))
