"""A model server that answers when it is let."""

import asyncio
from typing import Any

import httpx
from typing_extensions import override

from tests.in_process_gateway import HELLO, STOP, ModelServer, streamed


def code(answer: Any) -> tuple[int, str]:
    return answer.status, answer.json["error"]["code"]


class Held(ModelServer):
    """Says that it was asked, and answers when it may."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.may = asyncio.Event(), asyncio.Event()

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.asked.set()
        await self.may.wait()
        return streamed(HELLO, STOP)
