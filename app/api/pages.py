"""Pages for people: `/` with links, and `/docs`, which needs nothing from the internet.

Swagger UI's files are those of the package fastapi-swagger. Everything comes from the gateway itself, which the content
security policy holds: no inline script, no other origin. Links are relative, so that a proxy may add a prefix.
"""

from collections.abc import Callable
from importlib import resources

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response

from app import __version__

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
    "docs": "the API, to read and to try",
    "openapi.json": "its OpenAPI document",
    "v1/models": "the models",
    "healthz": "whether this process lives",
    "readyz": "whether it takes requests",
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


def add_routes(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    async def start(request: Request) -> Response:
        """A page for browsers, JSON for everything else."""
        headers = _HEADERS | {"vary": "accept"}
        if "text/html" in request.headers.get("accept", ""):
            return HTMLResponse(_START, headers=headers | {"content-security-policy": _START_POLICY})
        about = {"name": "parley", "version": __version__, "links": {f"/{path}": text for path, text in _LINKS.items()}}
        return JSONResponse(about, headers=headers)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return HTMLResponse(_DOCS, headers=_HEADERS | {"content-security-policy": _DOCS_POLICY})

    @app.get("/docs/start.js", include_in_schema=False)
    async def docs_start() -> Response:
        return Response(_DOCS_START, media_type="text/javascript", headers=_HEADERS)

    for name, media_type in _ASSETS.items():
        app.add_api_route(f"/docs/{name}", _asset(name, media_type), include_in_schema=False)


def _asset(name: str, media_type: str) -> Callable[[], Response]:
    def asset() -> Response:
        """Read in a thread of the framework's."""
        data = resources.files("fastapi_swagger.resources").joinpath(name).read_bytes()
        return Response(data, headers=_HEADERS | {"content-type": media_type, "cache-control": "max-age=3600"})

    return asset
