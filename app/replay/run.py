"""Send the request of a report again: to a gateway in this process in front of the scripted model server, or to a
running one."""

import httpx
from msgspec import Struct

from app.main import create_app
from app.replay.frames import Difference, compare
from app.replay.model_server import serving
from app.replay.report import Report, encode, make_settings

SECONDS = 120.0
_CLIENT_HEADERS = ("user-agent", "anthropic-version", "anthropic-beta", "openai-beta", "accept")


class Played(Struct, frozen=True):
    status: int
    body: bytes
    difference: Difference | None


async def play(report: Report) -> Played:
    """Ask a gateway in this process. Raises ReportError."""
    async with serving(report) as server:
        app = create_app(make_settings(report, server.addresses))
        transport = httpx.ASGITransport(app)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000", timeout=SECONDS) as client,
        ):
            return await _ask(client, report)


async def play_against(report: Report, url: str, key: str | None) -> Played:
    """Ask the gateway at this URL, with its own model servers. Raises httpx.HTTPError."""
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=SECONDS) as client:
        return await _ask(client, report)


async def _ask(client: httpx.AsyncClient, report: Report) -> Played:
    request, recorded = report.client.request, report.client.reply
    headers = {name: value for name, value in request.headers if name.lower() in _CLIENT_HEADERS}
    headers["content-type"] = "application/json"
    response = await client.post(request.path or "/v1/chat", content=encode(request.text), headers=headers)
    estimated = bool((report.figures.tokens or {}).get("estimated"))
    difference = compare(recorded.body, response.content, estimated=estimated)
    return Played(response.status_code, response.content, difference)
