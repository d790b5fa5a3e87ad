"""`GET /` for browsers: the playground, and the files that it loads.

The content security policy allows scripts, styles and requests of this gateway only, none of them inline. Trusted Types
forbid the page to write text as HTML unless DOMPurify has sanitized it: what it shows is written by models.
"""

import asyncio

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from app import __version__
from app.api.application import get_context
from app.api.context import AppContext
from app.errors import CODES, NotFound
from app.playground import files
from app.profiles import KINDS
from app.runtime.own_command import find_own_command
from app.upstream.causes import NETWORK_WORDS

router = APIRouter()
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data: blob:",
        "font-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types dompurify",
    )
)
HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
    "content-security-policy": POLICY,
}


async def send_page(request: Request) -> Response:
    """Return the page. The links in it are relative, so a proxy may add a prefix."""
    return await _send_file(files.INDEX, request, {"vary": "accept"})


@router.get("/playground/gateway.json", include_in_schema=False)
async def gateway(request: Request) -> JSONResponse:
    return JSONResponse(_describe_gateway(get_context(request)), headers=HEADERS)


@router.get("/playground/{name:path}", include_in_schema=False)
async def file(name: str, request: Request) -> Response:
    if name not in files.list_names():
        raise NotFound(f"the playground has no file {name!r}")
    return await _send_file(name, request, {})


async def _send_file(name: str, request: Request, more: dict[str, str]) -> Response:
    found = await asyncio.to_thread(files.read_file, name)
    headers = HEADERS | more | {"etag": found.etag}
    if found.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(found.data, headers=headers, media_type=found.media_type)


def _describe_gateway(context: AppContext) -> dict[str, object]:
    """Return what the page must know before it has an API key; nothing that only callers may know."""
    settings = context.settings
    needs_key = context.live.rules.keys is not None and not settings.server.allow_anonymous
    return {
        "version": __version__,
        "demo": settings.demo and not settings.upstreams,
        "needs_key": needs_key,
        "request_log": context.request_log is not None,
        "command": find_own_command() if settings.serves_this_machine_only else "parley",
        "default_model": None if needs_key else settings.default_model,
        "kinds": sorted(KINDS),
        "responsible": {
            "gateway": {code: row.own.responsible for code, row in CODES.items() if row.own},
            "upstream": {code: row.server.responsible for code, row in CODES.items() if row.server},
            "other_names": {name: code for code, row in CODES.items() for name in row.openai_names},
            "network_causes": sorted(NETWORK_WORDS),
        },
    }
