"""The outermost ASGI layer: request ids, the direct way to hot endpoints, and our error shape for everything else."""

import logging
import os
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from app.api.problems import send_error
from app.errors import Internal, MethodNotAllowed, ParleyError, Shape
from app.observe.logs import log_plain_request

App: TypeAlias = Callable[[dict[str, Any], Any, Any], Awaitable[None]]

log = logging.getLogger("parley.edge")

NO_SHAPES: Mapping[str, Shape] = {}

_SANE_ID = re.compile(rb"[A-Za-z0-9._:-]{1,128}")


def request_id(headers: list[tuple[bytes, bytes]]) -> str:
    """The caller's own id where it is harmless, else a new one."""
    for name, value in headers:
        if name == b"x-request-id" and _SANE_ID.fullmatch(value):
            return value.decode()
    return f"req-{os.urandom(16).hex()}"


class Edge:
    """`direct` maps a path to the endpoint that takes its POSTs, `shapes` one to how its errors are said; the rest is
    the framework's. An endpoint writes the log line of its requests, the edge writes that of all others."""

    def __init__(self, app: App, direct: Mapping[str, App], shapes: Mapping[str, Shape] = NO_SHAPES) -> None:
        self._app = app
        self._direct = direct
        self._shapes = shapes

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        id_ = request_id(scope["headers"])
        state = scope["state"] = {**scope.get("state", {}), "request_id": id_}
        line = (b"x-request-id", id_.encode())
        started = time.perf_counter()
        status = 0

        def tagged(message: dict[str, Any]) -> Any:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), line]
            return send(message)

        endpoint = self._direct.get(scope["path"])
        logs_itself = False
        try:
            if endpoint is None:
                await self._app(scope, receive, tagged)
            elif scope["method"] == "POST":
                logs_itself = True
                await endpoint(scope, receive, tagged)
            else:
                raise MethodNotAllowed(f"{scope['path']} takes POST", "POST")
        except MethodNotAllowed as error:
            state["error_code"] = error.code
            await self._refuse(tagged, scope["path"], error, id_)
        except Exception:
            log.exception("request %s: defect", id_)
            state["error_code"] = Internal.code
            if status:
                raise
            await self._refuse(tagged, scope["path"], Internal("the gateway failed"), id_)
        finally:
            if not logs_itself:
                seconds = time.perf_counter() - started
                log_plain_request(id_, scope["method"], scope["path"], status, state.get("error_code"), seconds)

    async def _refuse(self, send: Any, path: str, error: ParleyError, id_: str) -> None:
        error.shape = self._shapes.get(path)
        await send_error(send, error, id_)
