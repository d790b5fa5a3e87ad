"""Where an application keeps the context that its requests share."""

from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request

if TYPE_CHECKING:
    from app.api.context import AppContext


def get_context(request: Request) -> "AppContext":
    """Return the context of the application that received the request."""
    context: AppContext = request.app.state.context
    return context


def find_application(application: Any) -> FastAPI | None:
    """Return the gateway's application. Other ASGI applications may wrap it, each with the next one as `app`."""
    while application is not None:
        if hasattr(getattr(application, "state", None), "context"):
            found: FastAPI = application
            return found
        application = getattr(application, "app", None)
    return None
