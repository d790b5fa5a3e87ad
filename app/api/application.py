"""The ASGI application of one gateway, with what its requests share."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from fastapi import FastAPI, Request

from app import __version__
from app.api.context import AppContext
from app.api.middleware import DirectRoutes


class ParleyApp(FastAPI):
    """The endpoints in `direct` are served without FastAPI, whose work around an endpoint costs more than theirs."""

    def __init__(
        self,
        context: AppContext,
        direct: DirectRoutes,
        lifespan: Callable[[Any], AbstractAsyncContextManager[None]],
    ) -> None:
        super().__init__(title="Parley", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None)
        self.context = context
        self.direct = direct

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        endpoint = self.direct.find(scope)
        if endpoint is None:
            await super().__call__(scope, receive, send)
        else:
            await self.direct.serve(endpoint, scope, receive, send)


def get_context(request: Request) -> AppContext:
    """Return the context of the application that received the request."""
    application: ParleyApp = request.app
    return application.context


def find_context(application: Any) -> AppContext | None:
    """Return the context of an application. Other ASGI applications may wrap it, each with the next one as `app`."""
    while application is not None and not isinstance(application, ParleyApp):
        application = getattr(application, "app", None)
    return None if application is None else application.context
