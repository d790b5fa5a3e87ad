"""The outermost ASGI layer: request ids, the direct way to hot endpoints, and our error shape for everything else."""

import logging
import os
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from app.api.problems import send_error
from app.errors import Internal, MethodNotAllowed, ParleyError, Shape

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
    the framework's."""

    def __init__(self, app: App, direct: Mapping[str, App], shapes: Mapping[str, Shape] = NO_SHAPES) -> None:
        self._app = app
        self._direct = direct
        self._shapes = shapes

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        id_ = request_id(scope["headers"])
        scope["state"] = {**scope.get("state", {}), "request_id": id_}
        line = (b"x-request-id", id_.encode())
        begun = False

        def tagged(message: dict[str, Any]) -> Any:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                message["headers"] = [*message.get("headers", ()), line]
            return send(message)

        endpoint = self._direct.get(scope["path"])
        try:
            if endpoint is None:
                await self._app(scope, receive, tagged)
            elif scope["method"] == "POST":
                await endpoint(scope, receive, tagged)
            else:
                raise MethodNotAllowed(f"{scope['path']} takes POST, not {scope['method']}", "POST")
        except MethodNotAllowed as error:
            await self._refuse(tagged, scope["path"], error, id_)
        except Exception:
            log.exception("request %s: defect", id_)
            if begun:
                raise
            await self._refuse(tagged, scope["path"], Internal("the gateway failed"), id_)

    async def _refuse(self, send: Any, path: str, error: ParleyError, id_: str) -> None:
        error.shape = self._shapes.get(path)
        await send_error(send, error, id_)
