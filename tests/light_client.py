"""A client of a gateway on a socket whose transport costs less than the gateway. With httpx's own, most of the CPU time
of the tests that ask thousands of questions would be the client's."""

import httpx
from app.upstream.http.pool import PoolKey
from app.upstream.http.transport import PushTransport
from typing_extensions import override


class _Transport(PushTransport):
    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request.extensions = {**request.extensions, "pool_key": PoolKey("gateway", max_connections=1000)}
        return await super().handle_async_request(request)


def light_client(base_url: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=base_url, trust_env=False, timeout=10, transport=_Transport())
