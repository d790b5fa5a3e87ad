"""A reply with masked values is resumed at another gateway, which gets the values encrypted."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any, cast

import httpx
import pytest
from app.guards.sealed_replies import SealedReply, seal_reply, unseal_reply

from tests.guards.model_replies import write_chat
from tests.guards.random_talk import EMAIL, SlowStream
from tests.guards.replies import read_reply
from tests.httpx_upstream import HttpxUpstream
from tests.in_process_gateway import Answer, Running
from tests.redis_server import RedisServer
from tests.tool_loop.fake_servers import FakeServers, make_tool, text_answer

Json = dict[str, Any]
CARD = "4111 1111 1111 1111"
WORD = "[EMAIL_YGDF6NR7]"
BODY: Json = {"model": "m", "stream": True, "messages": [{"role": "user", "content": f"Write to {EMAIL}"}]}


def test_a_seal_is_opened_with_its_key_for_its_reply_only() -> None:
    sealed = SealedReply({"EMAIL_YGDF6NR7": EMAIL, "WORD_AAAAAAAA": "\ud800 é"}, ("text",))
    text = seal_reply(bytes(32), "chat-1 ann", sealed)
    assert unseal_reply(bytes(32), "chat-1 ann", text) == sealed
    assert seal_reply(bytes(32), "chat-1 ann", sealed) != text, "each has a nonce of its own"
    assert EMAIL not in text
    for key, about, given in (
        (bytes([1] * 32), "chat-1 ann", text),
        (bytes(32), "chat-1 bob", text),
        (bytes(32), "chat-1 ann", text[:-8] + "AAAAAAA="),
        (bytes(32), "chat-1 ann", ""),
        (bytes(32), "chat-1 ann", "no base64"),
    ):
        assert unseal_reply(key, about, given) is None


class Server(HttpxUpstream):
    """Quotes the word of the user's value; with tools it calls one first, and quotes what that has brought."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        body = json.loads(request.content)
        assert EMAIL not in request.content.decode() and CARD not in request.content.decode()
        results = [message["content"] for message in body["messages"] if message["role"] == "tool"]
        if "tools" in body and not results:
            call = {"index": 0, "id": "call_1", "function": {"name": "wx-now", "arguments": "{}"}}
            pieces = write_chat([{"tool_calls": [call]}], "tool_calls")
        else:
            said = f"I wrote to {WORD}, {' '.join(results)}."
            pieces = write_chat([{"content": character} for character in said], "stop")
        headers = {"content-type": "text/event-stream"}
        return httpx.Response(200, headers=headers, stream=SlowStream(pieces), request=request)


class Gateways:
    """Some gateways of one Redis, each with a key."""

    def __init__(self, redis: RedisServer, keys: list[str], guards: Json) -> None:
        self.loop = asyncio.new_event_loop()
        tree = {
            "upstreams": {"s": {"base_url": "http://model.test/v1"}},
            "models": {"m": {"upstreams": ["s"]}},
            "cache": {"url": redis.url},
            "server": {"log_level": "error"},
            "guards": guards,
        }

        async def start(key: str) -> Running:
            masking = {"key": key, "patterns": {"word": "wrote"}}
            return Running({**tree, "masking": masking}, Server(), loop=self.loop)

        self.all = [self.loop.run_until_complete(start(key)) for key in keys]


@pytest.fixture
def gateways(shared_redis: RedisServer) -> Iterator[Gateways]:
    guards = {"pii": {"detectors": ["email", "card"]}}
    made = Gateways(shared_redis, ["0" * 64, "0" * 64, "1" * 64], guards)
    one, other, foreign = made.all
    with one, other, foreign:
        yield made
    made.loop.run_until_complete(made.loop.shutdown_asyncgens())
    made.loop.close()


def join(answer: Answer) -> str:
    reply = read_reply("/v1/chat/completions", answer)
    assert reply is not None
    return reply.text


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/chat"])
def test_another_gateway_restores_the_values(gateways: Gateways, path: str, shared_redis: RedisServer) -> None:
    one, other, foreign = gateways.all
    answer = one.post(path, BODY)
    id_ = answer.headers["x-parley-response-id"]
    again = other.get(f"/v1/chat/{id_}/events")
    assert (again.status, again.body) == (200, answer.body)
    if path == "/v1/chat/completions":
        assert join(again) == f"I wrote to {EMAIL}, ."
    assert foreign.get(f"/v1/chat/{id_}/events").status == 404, "it has another key"
    client = shared_redis.client()
    kept = [value for key in client.scan_iter() for value in dump(client, key)]
    assert kept and not any(EMAIL.encode() in value for value in kept)


def dump(client: Any, key: bytes) -> list[bytes]:
    kind = client.type(key)
    if kind == b"string":
        return [client.get(key)]
    if kind == b"stream":
        return [value for _, fields in client.xrange(key) for value in fields.values()]
    return [repr(client.hgetall(key)).encode()] if kind == b"hash" else []


def test_values_of_a_tools_result_are_restored_there_too(gateways: Gateways) -> None:
    one, other, _ = gateways.all
    tools = FakeServers([make_tool("wx", "now")], {"wx-now": text_answer(f"paid with {CARD}")})
    one.context.tools = cast(Any, tools)
    answer = one.post("/v1/chat/completions", BODY)
    assert CARD in join(answer)
    again = other.get(f"/v1/chat/{answer.headers['x-parley-response-id']}/events")
    assert again.body == answer.body


def test_a_refused_reply_ends_there_as_it_did(shared_redis: RedisServer) -> None:
    made = Gateways(shared_redis, ["0" * 64] * 2, {"words": {"detectors": ["word"], "action": "reject"}})
    one, other = made.all
    with one, other:
        body = BODY | {"messages": [{"role": "user", "content": "Hi"}]}
        answer = one.post("/v1/chat/completions", body)
        assert b"The policy words refused this" in answer.body
        again = other.get(f"/v1/chat/{answer.headers['x-parley-response-id']}/events")
        assert again.body == answer.body
    made.loop.run_until_complete(made.loop.shutdown_asyncgens())
    made.loop.close()
