"""Choosing an upstream, failing over, fallback models, deadlines and second requests, over real sockets."""

import asyncio
import base64
import json
from collections import Counter
from typing import Any

import pytest
from app.access import hash_key
from app.config.settings import Settings
from app.routing import RetryBudget

from tests.fault_server import (
    CHUNKED,
    FINISH,
    STREAM,
    Exchange,
    FaultServer,
    Script,
    black_hole,
    chunk,
    good,
    not_events,
    refused_context,
    say,
    stall_after_comment,
    stall_after_head,
    with_status,
)
from tests.light_client import light_client
from tests.live.gateway import Gateway, eventually, serving_with
from tests.live.raw_client import calling, checked

pytestmark = pytest.mark.anyio

ADMIN = "admin-key"
DOWN, REFUSED = with_status(500), with_status(401)


def tree(faults: FaultServer, models: dict[str, Any], **rows: dict[str, Any]) -> Settings:
    """An upstream for each script of the server that is not in the library; `rows` change them."""
    names = [name for name in faults.scripts if len(name) == 1]
    upstreams = {name: {"base_url": faults.base_url(name), **rows.get(name, {})} for name in names}
    quiet = {"log_level": "error", "commit_seconds": 30, "heartbeat_seconds": 0.1, "admin_key": ADMIN}
    quiet |= rows.get("server", {})
    return Settings.model_validate(
        {"upstreams": upstreams, "models": models, "cache": {"url": "memory:"}, "server": quiet}
    )


def replying_with(text: str) -> Script:
    async def answer(exchange: Exchange) -> None:
        await exchange.send(f"{STREAM}connection: close\r\n\r\n".encode() + say(text), FINISH)

    return answer


class Reply:
    def __init__(self, status: int, headers: dict[str, str], body: Any) -> None:
        self.status, self.headers, self.body = status, headers, body

    @property
    def text(self) -> str:
        return "".join(message["content"] for message in self.body["messages"])

    @property
    def outcomes(self) -> list[str]:
        """The attempts as `name outcome`."""
        listed = [one.split(";") for one in self.headers.get("x-parley-attempts", "").split(", ")]
        return [f"{parts[0]} {parts[1].removeprefix('outcome=')}" for parts in listed if len(parts) > 1]


async def ask(gateway: Gateway, **more: Any) -> Reply:
    """A whole reply of the model `m`, which is not taken from the cache."""
    async with calling(gateway.address) as caller:
        status, raw = await caller.reply(**{"stream": False, "cache": {"mode": "off"}, **more})
    return Reply(status, caller.headers, json.loads(raw))


async def upstreams(gateway: Gateway) -> dict[str, dict[str, Any]]:
    async with calling(gateway.address) as caller:
        await caller.say(b"GET /v1/upstreams HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer admin-key\r\n\r\n")
        assert await caller.head() == 200
        listed = json.loads(await caller.rest())["upstreams"]
    return {row["name"]: row for row in listed}


AB = {"m": {"upstreams": [{"name": "a", "priority": 1}, {"name": "b", "priority": 2}]}}


async def test_a_breaker_keeps_requests_from_a_server_that_fails_until_a_trial_succeeds() -> None:
    async with FaultServer(a=DOWN, b=good) as server:
        async with serving_with(tree(server, AB)) as gateway:
            for _ in range(5):
                assert (await ask(gateway)).outcomes == ["a server_error", "b ok"]
            assert (await ask(gateway)).outcomes == ["b ok"]
            row = (await upstreams(gateway))["a"]
            assert (row["breaker"], row["available"], row["consecutive_failures"]) == ("open", False, 5)
            assert (row["last_fault"]["code"], row["last_fault"]["status"]) == ("server_error", 500)
            assert row["models"] == [{"model": "m", "weight": 1.0, "priority": 1}]
            server.scripts["a"] = good
            (state,) = [one for one in gateway.context.upstreams if one.name == "a"]
            state.open_until = 0.0  # the time is over
            assert (await ask(gateway)).outcomes == ["a ok"]
            row = (await upstreams(gateway))["a"]
            assert (row["breaker"], row["available"], row["consecutive_failures"]) == ("closed", True, 0)
            assert row["first_token_ms"]["requests"] == 1
            assert row["outstanding"] == 0


async def test_a_servers_refusals_and_a_callers_own_timeout_open_no_breaker() -> None:
    async with FaultServer(a=REFUSED, b=black_hole, c=black_hole) as server:
        models = {"m": {"upstreams": ["a"]}, "n": {"upstreams": ["b"]}, "o": {"upstreams": ["c"]}}
        async with serving_with(tree(server, models, c={"first_token_seconds": 0.1})) as gateway:
            replies = [await ask(gateway) for _ in range(7)]
            short = {"generate_cfg": {"request_timeout": 0.05}}
            late = await asyncio.gather(*(ask(gateway, model="n", **short) for _ in range(7)))
            rows = await upstreams(gateway)
            long = {"generate_cfg": {"request_timeout": 50}}
            assert (await ask(gateway, model="o", **long)).status == 504
            assert (await upstreams(gateway))["c"]["consecutive_failures"] == 1  # the upstream's own limit was shorter
    assert [(reply.status, reply.body["error"]["code"]) for reply in replies] == [(502, "authentication")] * 7
    assert {reply.status for reply in late} == {504}
    assert [(rows[name]["breaker"], rows[name]["consecutive_failures"]) for name in "ab"] == [("closed", 0)] * 2


@pytest.mark.parametrize("sent", [b"", say("half")], ids=["no token", "no further token"])
async def test_a_callers_own_timeout_after_the_head_of_a_reply_opens_no_breaker(sent: bytes) -> None:
    async def stalling(exchange: Exchange) -> None:
        await exchange.send(f"{STREAM}connection: close\r\n\r\n".encode() + sent)
        await black_hole(exchange)

    async with FaultServer(a=stalling) as server:
        async with serving_with(tree(server, {"m": {"upstreams": ["a"]}})) as gateway:
            short = {"generate_cfg": {"request_timeout": 0.05}}
            late = await asyncio.gather(*(ask(gateway, **short) for _ in range(6)))
            assert {reply.status for reply in late} == {504}
            row = (await upstreams(gateway))["a"]
            assert (row["breaker"], row["consecutive_failures"]) == ("closed", 0)


async def test_a_callers_own_timeout_of_a_reply_that_is_not_streamed_opens_no_breaker() -> None:
    models = {"m": {"upstreams": ["a"], "profile": {"stream": "never"}}}
    limits = {"first_token_seconds": 0.1, "whole_reply_seconds": 5}
    async with FaultServer(a=black_hole) as server:
        async with serving_with(tree(server, models, a=limits)) as gateway:
            assert (await ask(gateway, generate_cfg={"request_timeout": 0.2})).status == 504
            assert (await upstreams(gateway))["a"]["consecutive_failures"] == 0


async def test_streams_that_break_off_open_the_breaker_too() -> None:
    async def breaking(exchange: Exchange) -> None:
        await exchange.send(f"{STREAM}connection: close\r\n\r\n".encode() + say("half"))

    async with FaultServer(a=breaking) as server:
        async with serving_with(tree(server, {"m": {"upstreams": ["a"]}})) as gateway:
            for _ in range(5):
                assert (await ask(gateway)).status == 502
            assert (await upstreams(gateway))["a"]["breaker"] == "open"
            assert (await ask(gateway)).status == 502  # the only upstream is tried anyway
    assert len(server.requests) == 6


async def test_requests_wait_out_no_cooldown_where_another_server_is_free() -> None:
    async with FaultServer(a=with_status(429, "retry-after: 20"), b=good) as server:
        async with serving_with(tree(server, AB)) as gateway:
            outcomes = [(await ask(gateway)).outcomes for _ in range(3)]
            row = (await upstreams(gateway))["a"]
    assert outcomes == [["a rate_limit", "b ok"], ["b ok"], ["b ok"]]
    assert (row["breaker"], row["consecutive_failures"]) == ("closed", 0)
    assert 15 < row["cooldown_seconds"] <= 25


async def test_a_server_that_stalls_is_replaced_even_if_the_stream_is_open() -> None:
    rows = {"a": {"first_token_seconds": 0.4}, "server": {"commit_seconds": 0.1}}
    for stalling in (stall_after_head, stall_after_comment, black_hole):
        async with FaultServer(a=stalling, b=good) as server:
            async with serving_with(tree(server, AB, **rows)) as gateway, calling(gateway.address) as caller:
                status, raw = await caller.reply(cache={"mode": "off"})
                assert "x-parley-attempts" not in caller.headers  # nothing was known of them yet
        events = checked(raw)
        assert (status, events[-1].type) == (200, "response.completed")
        assert events[-2].data["message"]["content"] == "from good"


async def test_the_reply_of_a_fallback_is_named_and_never_stored() -> None:
    gate = asyncio.Event()

    async def fail_when_asked(exchange: Exchange) -> None:
        await gate.wait()
        await replying_with("from other")(exchange)

    models = {"m": {"upstreams": ["a"], "fallbacks": ["other"]}, "other": {"upstreams": ["b"]}}
    warning = "the model 'm' could not answer: this is a reply of its fallback 'other'"
    async with FaultServer(a=DOWN, b=fail_when_asked) as server:
        async with serving_with(tree(server, models)) as gateway:
            shared = [asyncio.create_task(ask(gateway, cache={"mode": "on"})) for _ in range(3)]
            await eventually(lambda: server.requests == ["a", "b"])
            gate.set()
            replies = await asyncio.gather(*shared)
            for reply in replies:
                assert (reply.status, reply.text, reply.body["model"]) == (200, "from other", "other")
                assert reply.body["warnings"] == [warning]
            assert sorted(reply.headers["x-parley-cache"] for reply in replies) == ["miss", "shared", "shared"]
            assert server.requests == ["a", "b"]
            server.scripts["a"] = replying_with("from m")
            own = await ask(gateway, cache={"mode": "on"})
            assert (own.text, own.body["model"], own.headers["x-parley-cache"]) == ("from m", "m", "miss")
            async with calling(gateway.address) as caller:
                server.scripts["a"] = DOWN
                status, raw = await caller.reply(cache={"mode": "refresh"})
            events = checked(raw)
            assert (events[0].data["model"], events[-1].data["warnings"]) == ("other", [warning])
            again = await ask(gateway, cache={"mode": "on"})
            assert (again.text, again.headers["x-parley-cache"]) == ("from m", "hit")
            async with calling(gateway.address) as caller:
                path = f"/v1/chat/{events[0].data['response_id']}"
                await caller.say(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
                assert await caller.head() == 200
                assert json.loads(await caller.rest())["model"] == "other"


async def test_every_endpoint_names_the_model_that_answered() -> None:
    models = {"m": {"upstreams": ["a"], "fallbacks": ["other"], "aliases": ["big"]}, "other": {"upstreams": ["b"]}}
    messages = [{"role": "user", "content": "Hi"}]
    async with FaultServer(a=DOWN, b=replying_with("from other")) as server:
        async with serving_with(tree(server, models)) as gateway, light_client(gateway.url) as client:
            bodies: dict[str, dict[str, Any]] = {
                "/v1/chat": {"messages": messages, "stream": False},
                "/v1/chat/completions": {"messages": messages},
                "/v1/messages": {"messages": messages, "max_tokens": 9},
                "/v1/responses": {"input": "Hi"},
            }
            for path, body in bodies.items():
                reply = await client.post(path, json={"model": "big", **body})
                assert (reply.status_code, reply.json()["model"]) == (200, "other"), path


async def test_each_kind_of_error_has_its_own_fallbacks() -> None:
    models = {
        "m": {"upstreams": ["a"], "fallbacks_on_context_length": ["long"], "fallbacks": ["c"]},
        "n": {"upstreams": ["b"], "fallbacks_on_content_filter": ["long"]},
        "small": {
            "upstreams": ["c"],
            "fallbacks_on_context_length": ["long"],
            "profile": {"max_input_tokens": 2},
        },
        "c": {"upstreams": ["c"]},
        "long": {"upstreams": ["d"]},
    }
    long = [{"role": "system", "content": "word " * 400}, {"role": "user", "content": "Hello"}]
    async with FaultServer(c=good, d=replying_with("from long")) as server:
        server.scripts |= {"a": server.scripts["refused_context"], "b": server.scripts["refused_content"]}
        async with serving_with(tree(server, models)) as gateway:
            for model in ("m", "n", "small"):
                reply = await ask(gateway, model=model, messages=long, cache={"mode": "on"})
                assert (reply.status, reply.text, reply.body["model"]) == (200, "from long", "long"), model
            assert "c" not in server.requests
            server.scripts["d"] = DOWN
            replies = {model: await ask(gateway, model=model, messages=long) for model in ("m", "n", "small")}
    assert {model: reply.body["error"]["code"] for model, reply in replies.items()} == {
        "m": "context_length_exceeded",
        "n": "content_filter",
        "small": "context_length_exceeded",
    }


async def test_fallbacks_are_tried_in_order_and_at_once_if_no_upstream_is_available() -> None:
    models = {
        "m": {"upstreams": ["a"], "fallbacks": ["one", "two"]},
        "one": {"upstreams": ["b"]},
        "two": {"upstreams": ["c"]},
    }
    async with FaultServer(a=DOWN, b=DOWN, c=good) as server:
        async with serving_with(tree(server, models)) as gateway:
            for _ in range(5):
                assert (await ask(gateway)).outcomes == ["a server_error", "b server_error", "c ok"]
            reply = await ask(gateway)
            assert (reply.outcomes, reply.body["model"]) == (["c ok"], "two")
            server.scripts["c"] = DOWN
            reply = await ask(gateway)
            assert reply.status == 502
            assert reply.body["error"]["upstream"]["name"] == "a"  # the pool is never empty
            assert reply.outcomes == ["c server_error", "a server_error"]


async def no_such_model(exchange: Exchange) -> None:
    body = b'{"error":{"message":"no such model","code":"model_not_found"}}'
    await exchange.send(b"HTTP/1.1 404 No\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))


@pytest.mark.parametrize("refused", [REFUSED, with_status(402), with_status(403), no_such_model])
async def test_a_server_that_refuses_the_gateways_account_is_not_asked_first_again(refused: Script) -> None:
    models = {
        **AB,
        "n": {"upstreams": ["c"], "fallbacks": ["small", "last"]},
        "small": {"upstreams": ["a"], "name": "m"},
        "last": {"upstreams": ["b"]},
    }
    async with FaultServer(a=refused, b=good, c=refused) as server:
        async with serving_with(tree(server, models)) as gateway:
            replies = [await ask(gateway) for _ in range(40)]  # more than a process may retry in ten seconds
            assert {reply.status for reply in replies} == {200}
            assert (server.requests.count("a"), server.requests.count("b")) == (1, 40)
            for _ in range(3):
                reply = await ask(gateway, model="n")
                assert (reply.status, reply.body["model"]) == (200, "last")
                assert (server.requests.count("c"), server.requests.count("a")) == (1, 1)
            server.scripts["b"] = DOWN
            assert (await ask(gateway)).outcomes[0].startswith("b ")
            assert server.requests[-1] == "a"  # asked, where no other one answers
            server.scripts["a"] = good
            assert (await ask(gateway)).outcomes == ["b server_error", "a ok"]
            assert (await ask(gateway)).outcomes == ["a ok"]


@pytest.mark.parametrize("order", ["ab", "ba"])
async def test_a_refused_account_is_not_the_error_where_another_server_has_failed(order: str) -> None:
    models = {"m": {"upstreams": [{"name": name, "priority": at} for at, name in enumerate(order, 1)]}}
    async with FaultServer(a=with_status(503), b=REFUSED) as server:
        async with serving_with(tree(server, models)) as gateway:
            for _ in range(3):
                error = (await ask(gateway)).body["error"]
                assert (error["code"], error["retryable"], error["upstream"]["name"]) == ("overloaded", True, "a")


async def broken_json(exchange: Exchange) -> None:
    await exchange.send(CHUNKED, chunk(b'data: {"choices":[{"index":0,"delta":{"content":"f\n\n'), chunk(FINISH))


@pytest.mark.parametrize("script", [not_events, broken_json, with_status(302)])
async def test_another_server_is_asked_where_one_does_not_send_a_reply(script: Script) -> None:
    models = {**AB, "n": {"upstreams": ["a"], "fallbacks": ["o"]}, "o": {"upstreams": ["b"]}}
    async with FaultServer(a=script, b=good) as server:
        async with serving_with(tree(server, models)) as gateway:
            for stream in (False, True):
                for model in "mn":
                    async with calling(gateway.address) as caller:
                        assert (await caller.reply(stream=stream, model=model, cache={"mode": "off"}))[0] == 200
                    assert server.requests[-2:] == ["a", "b"]
            server.scripts["b"] = script
            assert (await ask(gateway)).body["error"]["code"] == "upstream_protocol"


async def overloaded_message(exchange: Exchange) -> None:
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"type": "message", "role": "assistant", "content": []}},
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
    ]
    lines = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events]
    await exchange.send(CHUNKED, *map(chunk, lines), chunk(b""))


async def test_a_stream_of_which_all_servers_fail_before_an_answer_has_an_errors_status() -> None:
    speaks = {"api": "messages"}
    async with FaultServer(a=overloaded_message, b=overloaded_message) as server:
        async with serving_with(tree(server, AB, a=speaks, b=speaks)) as gateway, light_client(gateway.url) as client:
            body = {"model": "m", "max_tokens": 9, "stream": True, "messages": [{"role": "user", "content": "Hello"}]}
            answer = await client.post("/v1/messages", json=body)
            assert (answer.status_code, answer.json()["error"]["type"]) == (529, "overloaded_error")
            assert server.requests == ["a", "b"]


async def test_a_refusal_of_one_callers_request_keeps_no_other_caller_from_the_server() -> None:
    keys = {name: {"sha256": hash_key(name * 10)} for name in ("alice", "bobby")}
    async with FaultServer(a=REFUSED, b=good) as server:
        what = Settings.model_validate(tree(server, AB).model_dump(exclude_unset=True) | {"keys": keys})
        async with serving_with(what) as gateway:

            async def ask_as(name: str) -> list[str]:
                async with calling(gateway.address) as caller:
                    caller.more_headers = f"x-api-key: {name * 10}\r\n"
                    status, raw = await caller.reply(stream=False, cache={"mode": "off"})
                return Reply(status, caller.headers, json.loads(raw)).outcomes

            assert await ask_as("alice") == ["a authentication", "b ok"]
            assert await ask_as("alice") == ["b ok"]
            server.scripts["a"] = good
            assert await ask_as("bobby") == ["a ok"]  # which shows that the server takes the gateway's key
            assert await ask_as("alice") == ["a ok"]
            server.scripts["a"] = REFUSED
            assert await ask_as("alice") == await ask_as("bobby") == ["a authentication", "b ok"]
            assert await ask_as("alice") == await ask_as("bobby") == ["b ok"]


async def test_servers_that_were_left_out_are_asked_when_no_fallback_answers() -> None:
    models = {
        "m": {"upstreams": AB["m"]["upstreams"], "fallbacks": ["n"], "max_retries": 1},
        "n": {"upstreams": ["c"]},
    }
    async with FaultServer(a=DOWN, b=good, c=DOWN) as server:
        async with serving_with(tree(server, models)) as gateway:

            def cool_down(*names: str) -> None:
                for state in gateway.context.upstreams:
                    state.cooldown_until = asyncio.get_running_loop().time() + 60 if state.name in names else 0.0

            cool_down("b")
            assert (await ask(gateway)).outcomes == ["a server_error", "c server_error", "b ok"]
            cool_down("a", "b")
            assert (await ask(gateway)).outcomes == ["c server_error", "a server_error", "b ok"]
            server.scripts["b"] = REFUSED
            cool_down("b")
            reply = await ask(gateway)
            assert reply.outcomes[:3] == ["a server_error", "c server_error", "b authentication"]
            assert reply.body["error"]["upstream"]["name"] == "a"
            server.scripts["a"] = refused_context
            assert (await ask(gateway)).outcomes == ["a context_length_exceeded"]


async def test_a_fallback_does_not_wait_for_upstreams_that_are_not_available() -> None:
    models = {
        "m": {"upstreams": ["a"], "max_retries": 3, "fallbacks": ["small", "two"]},
        "small": {"upstreams": ["c"], "fallbacks_on_context_length": ["m"], "profile": {"max_input_tokens": 2}},
        "two": {"upstreams": ["b"]},
    }
    long = [{"role": "system", "content": "word " * 400}, {"role": "user", "content": "Hello"}]
    async with FaultServer(a=with_status(429, "retry-after: 20"), b=good, c=good) as server:
        async with serving_with(tree(server, models)) as gateway, asyncio.timeout(10):
            reply = await ask(gateway, messages=long)
    assert (reply.outcomes, reply.body["model"]) == (["a rate_limit", "b ok"], "two")  # `small` cannot serve it


PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


async def test_the_request_is_prepared_anew_for_a_fallback_with_its_media() -> None:
    async def picture(exchange: Exchange) -> None:
        head = f"HTTP/1.1 200 OK\r\ncontent-type: image/png\r\ncontent-length: {len(PICTURE)}\r\n\r\n"
        await exchange.send(head.encode() + PICTURE)

    models = {
        "m": {"upstreams": ["a"], "fallbacks": ["other"], "profile": {"passed_urls": "any"}},
        "other": {"upstreams": ["b"], "name": "its own name", "defaults": {"temperature": 0.5}},
    }
    async with FaultServer(a=DOWN, b=good, picture=picture) as server:
        url = server.base_url("picture").removesuffix("/v1") + "/a.png"
        made = tree(server, models, b={"kind": "ollama"})
        made = made.model_copy(update={"fetch": made.fetch.model_copy(update={"allow": ("127.0.0.1",)})})
        async with serving_with(made) as gateway:
            question = [{"role": "user", "content": [{"text": "What is it?"}, {"image": url}]}]
            reply = await ask(gateway, messages=question)
    assert (reply.status, reply.body["model"]) == (200, "other")
    assert server.requests == ["a", "picture", "b"]
    first, other = json.loads(server.bodies[0]), json.loads(server.bodies[2])
    assert first["messages"][-1]["content"][1]["image_url"]["url"] == url
    assert other["messages"][-1]["content"][1]["image_url"]["url"].startswith("data:image/png;base64,")
    assert (other["model"], other["temperature"], "temperature" in first) == ("its own name", 0.5, False)


async def test_the_deadline_ends_all_attempts_together() -> None:
    loop = asyncio.get_running_loop()
    models = {"m": {"upstreams": ["a"], "deadline_seconds": 0.4, "max_retries": 5}}
    for script, rows in ((stall_after_comment, {}), (black_hole, {"a": {"first_token_seconds": 0.25}})):
        async with FaultServer(a=script) as server:
            async with serving_with(tree(server, models, **rows)) as gateway:
                began = loop.time()
                reply = await ask(gateway)
                assert loop.time() - began < 2
        assert (reply.status, reply.body["error"]["code"]) == (504, "timeout")


async def test_nothing_is_tried_after_the_deadline() -> None:
    models: dict[str, Any] = {
        "m": {**AB["m"], "deadline_seconds": 0.2, "fallbacks": ["other"]},
        "other": {"upstreams": ["b"]},
    }
    async with FaultServer(a=black_hole, b=good) as server:
        async with serving_with(tree(server, models)) as gateway:
            reply = await ask(gateway)
            assert (reply.status, reply.outcomes) == (504, ["a timeout"])
            assert reply.body["error"]["upstream"]["cause"] == "deadline_exceeded"
            assert (await upstreams(gateway))["a"]["consecutive_failures"] == 1


async def test_a_fallback_that_got_little_of_the_deadline_has_not_failed() -> None:
    models: dict[str, Any] = {
        "m": {"upstreams": ["a"], "deadline_seconds": 0.4, "fallbacks": ["other"], "max_retries": 0},
        "other": {"upstreams": ["b"]},
    }
    async with FaultServer(a=black_hole, b=black_hole) as server:
        async with serving_with(tree(server, models, a={"first_token_seconds": 0.3})) as gateway:
            reply = await ask(gateway)
            assert (reply.status, server.requests) == (504, ["a", "b"])
            rows = await upstreams(gateway)
            assert {name: rows[name]["consecutive_failures"] for name in "ab"} == {"a": 1, "b": 0}


async def slow(exchange: Exchange) -> None:
    """The first token at once, the end after 0.6 s."""
    await exchange.send(f"{STREAM}connection: close\r\n\r\n".encode() + say("slow"))
    await asyncio.sleep(0.6)
    await exchange.send(FINISH)


HOLDING = {"inline_think": "auto_close"}
"""A profile with which the text is held back until a closing tag, or the end."""


@pytest.mark.parametrize("profile", [{}, HOLDING])
async def test_after_the_first_token_the_deadline_is_over(profile: dict[str, Any]) -> None:
    async with FaultServer(a=slow) as server:
        models = {"m": {"upstreams": ["a"], "deadline_seconds": 0.4, "profile": profile}}
        async with serving_with(tree(server, models)) as gateway:
            assert (await ask(gateway)).text == "slow"


async def test_a_server_whose_first_token_is_held_back_needs_no_second_request() -> None:
    models: dict[str, Any] = {"m": {**AB["m"], "hedge_after_seconds": 0.2, "profile": HOLDING}}
    async with FaultServer(a=slow, b=good) as server:
        async with serving_with(tree(server, models)) as gateway:
            reply = await ask(gateway)
            assert (reply.text, reply.outcomes, server.requests) == ("slow", ["a ok"], ["a"])


async def test_of_two_requests_the_first_token_wins_and_the_other_connection_is_closed() -> None:
    models: dict[str, Any] = {"m": {**AB["m"], "hedge_after_seconds": 0.2}}
    async with FaultServer(a=stall_after_head, b=good) as server:
        async with serving_with(tree(server, models)) as gateway:
            reply = await ask(gateway)
            await eventually(lambda: server.open == 0)
            assert (reply.text, reply.outcomes) == ("from good", ["a cancelled", "b ok"])
            assert (await upstreams(gateway))["a"]["consecutive_failures"] == 0
            server.scripts |= {"a": good, "b": black_hole}
            assert (await ask(gateway)).outcomes == ["a ok"]
            server.scripts |= {"a": stall_after_head, "b": DOWN}
            waiting = asyncio.create_task(ask(gateway))
            await eventually(lambda: server.requests[-1] == "b")
            assert not waiting.done()  # the first may still answer
            waiting.cancel()


async def test_without_enough_measurements_there_is_no_second_request() -> None:
    models: dict[str, Any] = {"m": {**AB["m"], "hedge": True}}
    async with FaultServer(a=good, b=good) as server:
        async with serving_with(tree(server, models)) as gateway:
            for _ in range(19):
                await ask(gateway)
            server.scripts["a"] = black_hole
            waiting = asyncio.create_task(ask(gateway))
            await eventually(lambda: len(server.requests) == 20)
            await asyncio.sleep(0.3)
            assert (waiting.done(), server.requests[-1]) == (False, "a")
            waiting.cancel()
            server.scripts["a"] = good
            await ask(gateway)
            server.scripts["a"] = black_hole
            assert (await ask(gateway)).outcomes == ["a cancelled", "b ok"]


async def test_retries_stop_when_the_budget_of_the_process_is_used_up() -> None:
    models: dict[str, Any] = {"m": {**AB["m"], "max_retries": 10}}
    async with FaultServer(a=DOWN, b=DOWN) as server:
        async with serving_with(tree(server, models), retry_budget=RetryBudget(share=0.0, minimum=1)) as gateway:
            assert len((await ask(gateway)).outcomes) == 2
            assert len((await ask(gateway)).outcomes) == 1
            server.scripts["a"] = REFUSED
            assert (await ask(gateway)).outcomes == [
                "a authentication",
                "b server_error",
            ]  # the server had little to do


async def test_a_conversation_keeps_its_server_with_the_strategy_prefix() -> None:
    models = {"m": {"upstreams": ["a", "b", "c"], "strategy": "prefix"}}
    async with FaultServer(a=good, b=good, c=good) as server:
        async with serving_with(tree(server, models)) as gateway:
            for number in range(8):
                first = {"role": "user", "content": f"conversation {number}"}
                later = [first, {"role": "assistant", "content": "yes"}, {"role": "user", "content": "and?"}]
                for messages in ([first], later, later):
                    await ask(gateway, messages=messages)
    groups = [server.requests[start : start + 3] for start in range(0, 24, 3)]
    assert all(len(set(group)) == 1 for group in groups)
    assert len(Counter(server.requests)) > 1


async def test_the_least_busy_server_gets_the_next_request() -> None:
    gate = asyncio.Event()

    async def fail_when_asked(exchange: Exchange) -> None:
        await gate.wait()
        await good(exchange)

    async with FaultServer(a=fail_when_asked, b=fail_when_asked) as server:
        async with serving_with(tree(server, {"m": {"upstreams": ["a", "b"]}})) as gateway:
            asked = []
            for number in range(6):
                asked.append(asyncio.create_task(ask(gateway)))
                await eventually(lambda number=number: len(server.requests) == number + 1)  # type: ignore[misc]
            assert Counter(server.requests) == {"a": 3, "b": 3}
            assert [row["outstanding"] for row in (await upstreams(gateway)).values()] == [3, 3]
            gate.set()
            await asyncio.gather(*asked)


async def test_a_server_whose_health_check_fails_gets_no_requests() -> None:
    async def healthy(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 204 Fine\r\n\r\n")

    async with FaultServer(a=good, b=good, health=with_status(503)) as server:
        rows = {"a": {"health_path": "/health/check", "health_seconds": 0.05}}
        async with serving_with(tree(server, AB, **rows)) as gateway:
            (state,) = [one for one in gateway.context.upstreams if one.name == "a"]
            await eventually(lambda: not state.healthy)
            assert (await ask(gateway)).outcomes == ["b ok"]
            server.scripts["health"] = healthy
            await eventually(lambda: state.healthy)
            assert (await ask(gateway)).outcomes == ["a ok"]


async def test_the_state_of_the_upstreams_is_for_administrators() -> None:
    async with FaultServer(a=good) as server:
        async with (
            serving_with(tree(server, {"m": {"upstreams": ["a"]}})) as gateway,
            calling(gateway.address) as caller,
        ):
            await caller.say(b"GET /v1/upstreams HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert await caller.head() == 403
