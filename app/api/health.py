"""`GET /healthz` and `GET /readyz`, for load balancers."""

from typing import Literal

from fastapi.responses import JSONResponse

from app import __version__
from app.api.application import ParleyApp
from app.api.openapi.components import Described, give_examples


class Health(Described):
    model_config = give_examples({"status": "ok", "version": "0.1.0"})

    status: Literal["ok"]
    version: str


class Readiness(Described):
    model_config = give_examples({"status": "ready"})

    status: Literal["ready", "draining"]


def add_routes(app: ParleyApp) -> None:
    context = app.context

    @app.get(
        "/healthz",
        tags=["health"],
        operation_id="check_health",
        summary="Check that the process runs",
        response_model=None,
        responses={200: {"model": Health}},
    )
    async def healthz() -> dict[str, str]:
        return {"status": "ok", "version": __version__}

    @app.get(
        "/readyz",
        tags=["health"],
        operation_id="check_readiness",
        summary="Check that the gateway accepts new requests",
        responses={200: {"model": Readiness}, 503: {"description": "It is shutting down", "model": Readiness}},
    )
    async def readyz() -> JSONResponse:
        if context.draining:
            return JSONResponse({"status": "draining"}, 503)
        return JSONResponse({"status": "ready"})
