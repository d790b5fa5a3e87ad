"""Where an application keeps the context that its requests share."""

from typing import TYPE_CHECKING, Any

from fastapi import Request

if TYPE_CHECKING:
    from app.api.context import AppContext


def get_context(request: Request) -> "AppContext":
    """Return the context of the application that received the request."""
    context: AppContext = request.app.state.context
    return context


def find_context(application: Any) -> "AppContext | None":
    """Return the context of an application. Other ASGI applications may wrap it, each with the next one as `app`."""
    while application is not None:
        context: AppContext | None = getattr(getattr(application, "state", None), "context", None)
        if context is not None:
            return context
        application = getattr(application, "app", None)
    return None
