"""The gateway that `make interop` lets the client packages ask."""

import asyncio
from typing import Any

import httpx
from interop.gateway import Gateway, serving

QUESTION = {"model": "demo", "messages": [{"role": "user", "content": "What is the capital of France?"}]}


async def ask(*bodies: dict[str, Any]) -> tuple[Gateway, list[httpx.Response]]:
    async with serving("memory:") as gateway, httpx.AsyncClient(base_url=gateway.url, trust_env=False) as client:
        return gateway, [await client.post("/v1/chat/completions", json=body) for body in bodies]


def test_it_answers_over_a_connection_and_keeps_what_it_was_asked() -> None:
    gateway, (whole, again, _) = asyncio.run(ask(QUESTION, QUESTION, {**QUESTION, "model": "unknown"}))
    assert whole.json()["choices"][0]["message"]["content"]
    assert (again.headers["x-parley-cache"], gateway.hits) == ("hit", 1)
    assert [asked.status for asked in gateway.asked] == [200, 200, 404]
    assert (gateway.asked[0].method, gateway.asked[0].path, gateway.asked[0].body) == (
        "POST",
        "/v1/chat/completions",
        QUESTION,
    )
