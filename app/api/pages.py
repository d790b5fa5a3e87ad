"""HTML pages: `/`, which is the playground or a page with links, and `/docs`, which needs nothing from the internet.

The files of Swagger UI come from the package fastapi-swagger. The browser loads everything from the gateway itself: the
content security policy allows no inline script and no other origin. Links are relative, so a proxy may add a prefix.
"""

from collections.abc import Callable
from importlib import resources

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response

from app import __version__
from app.api import playground
from app.api.application import get_context

router = APIRouter()
_HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}
_POLICY = (
    "default-src 'none'; {more}base-uri 'none'; form-action 'none'; frame-ancestors 'none'; style-src 'self'{inline}"
)
_START_POLICY = _POLICY.format(more="", inline=" 'unsafe-inline'")
# Swagger UI sets style attributes and draws its icons from data URLs.
_DOCS_POLICY = _POLICY.format(
    more="script-src 'self'; connect-src 'self'; img-src 'self' data:; ", inline=" 'unsafe-inline'"
)

_LINKS = {
    "docs": "the API: read it and try it",
    "openapi.json": "the OpenAPI document",
    "v1/models": "the models",
    "healthz": "whether this process runs",
    "readyz": "whether it accepts requests",
}
_START = f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Parley</title>
<style>
body {{ font: 1rem/1.5 system-ui, sans-serif; max-width: 40rem; margin: 3rem auto; padding: 0 1rem }}
@media (prefers-color-scheme: dark) {{ body {{ background: #111; color: #ddd }} a {{ color: #8bf }} }}
</style>
<h1>Parley {__version__}</h1>
<p>An HTTP gateway that translates chat message formats. Send conversations to <code>POST /v1/chat</code>, or set an
OpenAI SDK's base URL to <code>/v1</code> here.</p>
<ul>
{"".join(f'<li><a href="{path}">/{path}</a>: {text}</li>' for path, text in _LINKS.items())}
</ul>
</html>
"""
_DOCS = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Parley: the API</title>
<link rel="icon" href="docs/favicon-32x32.png">
<link rel="stylesheet" href="docs/swagger-ui.css">
<body>
<p style="margin: 1rem 1.25rem 0; font: 1rem system-ui, sans-serif"><a href="./">Back to Parley</a></p>
<div id="swagger-ui"></div>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/start.js"></script>
</body>
</html>
"""
_DOCS_START = b"""SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  tryItOutEnabled: true,
  validatorUrl: null,
});
"""
_ASSETS = {
    "swagger-ui-bundle.js": "text/javascript; charset=utf-8",
    "swagger-ui.css": "text/css; charset=utf-8",
    "favicon-32x32.png": "image/png",
}


@router.get("/", include_in_schema=False)
async def start(request: Request) -> Response:
    """Return a page for browsers, and JSON for other clients."""
    headers = _HEADERS | {"vary": "accept"}
    if "text/html" in request.headers.get("accept", ""):
        if get_context(request).server.playground:
            return await playground.send_page(request)
        return HTMLResponse(_START, headers=headers | {"content-security-policy": _START_POLICY})
    page = {"/": "the playground, in a browser"} if get_context(request).server.playground else {}
    links = page | {f"/{path}": text for path, text in _LINKS.items()}
    return JSONResponse({"name": "parley", "version": __version__, "links": links}, headers=headers)


@router.head("/", include_in_schema=False)
async def check_address() -> Response:
    """Answer Claude Code, which asks this before its first request."""
    return Response(headers=_HEADERS)


@router.head("/api/hello", include_in_schema=False)
async def check_hello() -> Response:
    """Answer newer versions of it, which ask this."""
    return Response(headers=_HEADERS)


@router.get("/docs", include_in_schema=False)
async def docs() -> Response:
    return HTMLResponse(_DOCS, headers=_HEADERS | {"content-security-policy": _DOCS_POLICY})


@router.get("/docs/start.js", include_in_schema=False)
async def docs_start() -> Response:
    return Response(_DOCS_START, media_type="text/javascript", headers=_HEADERS)


def _make_asset_endpoint(name: str, media_type: str) -> Callable[[], Response]:
    def asset() -> Response:
        """Return the file. FastAPI calls this function in a thread, because it reads from the disk."""
        data = resources.files("fastapi_swagger.resources").joinpath(name).read_bytes()
        return Response(data, headers=_HEADERS | {"content-type": media_type, "cache-control": "max-age=3600"})

    return asset


for _name, _media_type in _ASSETS.items():
    router.add_api_route(f"/docs/{_name}", _make_asset_endpoint(_name, _media_type), include_in_schema=False)
