"""The OpenAPI document: every request, response, error and frame of every endpoint, from pydantic models."""

from typing import Any

from fastapi import FastAPI


def install_openapi(app: FastAPI) -> None:
    """Make `app.openapi()` describe every endpoint."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            from app.api.openapi.document import write_document  # its models take time, and few processes need them

            app.openapi_schema = write_document(app)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documented way
