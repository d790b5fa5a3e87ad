"""`GET /healthz` and `GET /readyz`, for load balancers."""

from typing import Literal

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from app import __version__
from app.api.application import get_context
from app.formats.openapi import Described, give_examples

router = APIRouter(tags=["health"])


class Health(Described):
    model_config = give_examples({"status": "ok", "version": "0.1.0"})

    status: Literal["ok"]
    version: str


class Readiness(Described):
    model_config = give_examples({"status": "ready"})

    status: Literal["ready", "draining"]


@router.get(
    "/healthz",
    operation_id="check_health",
    summary="Check that the process runs",
    response_model=None,
    responses={200: {"model": Health}},
)
async def healthz() -> dict[str, str]:
    return {"status": "ok", "version": __version__}


@router.get(
    "/readyz",
    operation_id="check_readiness",
    summary="Check that the gateway accepts new requests",
    responses={200: {"model": Readiness}, 503: {"description": "It is shutting down", "model": Readiness}},
)
async def readyz(request: Request) -> JSONResponse:
    if get_context(request).draining:
        return JSONResponse({"status": "draining"}, 503)
    return JSONResponse({"status": "ready"})
