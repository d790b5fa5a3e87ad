"""A client that leaves while a model server counts its tokens."""

import asyncio
import json
from typing import Any

import httpx
from typing_extensions import override

from tests.each_case import each_case
from tests.in_process_gateway import ModelServer, Running, make_scope

QUESTION = [{"role": "user", "content": "Hi"}]
ASKED: list[tuple[str, str, dict[str, Any]]] = [
    ("messages", "/v1/messages/count_tokens", {"model": "m", "messages": QUESTION}),
    ("responses", "/v1/responses/input_tokens", {"model": "m", "input": "Hi"}),
    ("gemini", "/v1beta/models/m:countTokens", {"contents": [{"parts": [{"text": "Hi"}]}]}),
]


class Silent(ModelServer):
    """Does not answer. `cancelled` is set when it need not any more."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.cancelled = asyncio.Event(), False

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.asked.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        raise AssertionError


@each_case(("api", "path", "body"), ASKED)
def test_its_server_need_not_count_on(api: Any, path: str, body: dict[str, Any]) -> None:
    """BerriAI/litellm#37140, bman654/clodex#170: the call went on until its timeout, and kept its place."""
    server = Silent()
    tree = {"upstreams": {"u": {"base_url": "http://u.test/v1", "api": api}}, "models": {"m": {"upstreams": ["u"]}}}
    sent: list[Any] = []
    body_sent = False

    async def receive() -> dict[str, Any]:
        nonlocal body_sent
        if not body_sent:
            body_sent = True
            return {"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}
        await server.asked.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    with Running(tree, server) as gateway:
        call = gateway.app(make_scope("POST", path, {}), receive, send)
        gateway.loop.run_until_complete(asyncio.wait_for(call, 5))
        assert gateway.context.admission.in_progress == 0
    assert (server.cancelled, sent) == (True, [])
