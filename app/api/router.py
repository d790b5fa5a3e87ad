"""Routes of the application whose endpoints are plain ASGI callables, and the errors of what no route serves."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Route
from typing_extensions import override

from app.api.unknown_paths import describe_unknown_path, describe_wrong_method
from app.errors import InvalidInput, MethodNotAllowed, NotFound, Violation
from app.validation.violations import json_path

Endpoint: TypeAlias = Callable[[Any, Any, Any], Awaitable[None]]


class AsgiRoute(Route):
    """FastAPI's work around an endpoint costs about 100 µs more than that of such a route.

    A request with any method belongs to it: otherwise a route with a parameter in place of a part of this path could
    take one."""

    def __init__(self, path: str, endpoint: Endpoint, *methods: str, include_in_schema: bool = True) -> None:
        super().__init__(path, endpoint, include_in_schema=include_in_schema)
        self._accepted = methods

    @override
    async def handle(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["method"] not in self._accepted:
            allow = ", ".join(self._accepted)
            raise MethodNotAllowed(describe_wrong_method(scope["path"], scope["method"], allow), allow)
        await self.app(scope, receive, send)


def list_reply_routes(path: str, endpoint: Endpoint, kind: type[AsgiRoute] = AsgiRoute) -> list[AsgiRoute]:
    """Return the routes of a path to which conversations are sent. Some clients add a slash to it."""
    return [kind(path, endpoint, "POST"), kind(f"{path}/", endpoint, "POST", include_in_schema=False)]


async def raise_route_error(request: Request, error: Exception) -> Response:
    """Raise the error of a path or a method that is not served in place of the framework's."""
    assert isinstance(error, HTTPException)
    path = request.url.path
    if error.status_code == 405:
        allow = ", ".join(_list_methods(request.app, path)) or "GET"
        raise MethodNotAllowed(describe_wrong_method(path, request.method, allow), allow)
    raise NotFound(describe_unknown_path(path, _list_paths(request.app)))


async def raise_parameter_error(_: Request, error: Exception) -> Response:
    """Raise what is wrong with parameters of the URL in place of the framework's error."""
    assert isinstance(error, RequestValidationError)
    violations = [Violation(json_path(one["loc"][1:]), one["msg"]) for one in error.errors()]
    raise InvalidInput(violations)


def _list_methods(app: FastAPI, path: str) -> list[str]:
    """Return the methods of a path. The error of the framework names only those of the first matching route."""
    routes = (route for route in app.routes if isinstance(route, Route) and route.path_regex.match(path))
    return sorted({method for route in routes for method in route.methods or () if method != "HEAD"})


def _list_paths(app: FastAPI) -> list[str]:
    """Return the paths that are served, except those with a parameter and those with a slash at the end."""
    paths = [route.path for route in app.routes if isinstance(route, Route) and "{" not in route.path]
    return [path for path in paths if path == "/" or not path.endswith("/")]
