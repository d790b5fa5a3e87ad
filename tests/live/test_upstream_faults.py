"""What the client sees of every fault of a model server: alone, with a second server, and with a fallback model.

`FAULTS` is the table. Each fault is met by a stream and by a request for a whole reply.
"""

import asyncio
import json
from dataclasses import dataclass
from typing import Any

import pytest
from app.config.settings import Settings
from app.routing import RetryBudget

from tests.fault_server import FaultServer
from tests.live.gateway import Gateway, eventually, serving_with
from tests.live.raw_client import calling, checked

pytestmark = pytest.mark.anyio

COMPLETED = (200, "completed")
"""The reply of the good server."""


@dataclass(frozen=True)
class Fault:
    alone_stream: tuple[int, str]
    """Status, and `completed` or the code of the error."""
    alone_whole: tuple[int, str]
    replaced: bool = True
    """Whether the second server, and the fallback model, answer instead."""


def before_reply(code: str, status: int) -> Fault:
    """A fault before the first token: a status for both kinds of request, and a reply with another server."""
    return Fault((status, code), (status, code))


def in_reply(code: str, status: int) -> Fault:
    """A fault after the first token: the stream has begun, and no other server may answer."""
    return Fault((200, code), (status, code), replaced=False)


FAULTS = {
    "refused": before_reply("server_error", 502),
    "tls": before_reply("server_error", 502),
    "reset_after_accept": before_reply("upstream_incomplete", 502),
    "reset_after_request": before_reply("upstream_incomplete", 502),
    "black_hole": before_reply("timeout", 504),
    "reset_in_head": before_reply("upstream_incomplete", 502),
    "slow_head": before_reply("timeout", 504),
    "status_429": before_reply("rate_limit", 429),
    "status_429_wait": before_reply("rate_limit", 429),
    "status_500": before_reply("server_error", 502),
    "status_500_wait": before_reply("server_error", 502),
    "status_502": before_reply("server_error", 502),
    "status_502_wait": before_reply("server_error", 502),
    "status_503": before_reply("overloaded", 503),
    "status_503_wait": before_reply("overloaded", 503),
    "status_529": before_reply("overloaded", 503),
    "status_529_wait": before_reply("overloaded", 503),
    "not_http": before_reply("upstream_incomplete", 502),
    "reset_after_head": before_reply("upstream_incomplete", 502),
    "stall_after_head": before_reply("timeout", 504),
    "stall_after_comment": Fault((200, "timeout"), (504, "timeout")),  # alone, its comment opens the stream
    "error_in_reply": before_reply("overloaded", 503),
    "reset_in_first_chunk": before_reply("upstream_incomplete", 502),
    "close_in_first_chunk": before_reply("upstream_incomplete", 502),
    "length_too_short": before_reply("upstream_incomplete", 502),
    "close_in_second_chunk": in_reply("upstream_incomplete", 502),
    "reset_after_chunks": in_reply("upstream_incomplete", 502),
    "length_too_long": in_reply("upstream_incomplete", 502),
    "stall_between_tokens": in_reply("timeout", 504),
    "status_401": Fault((502, "authentication"), (502, "authentication")),
    "not_events": Fault(
        (200, "upstream_protocol"), (502, "upstream_protocol")
    ),  # alone, its first line opens the stream
}
LIMITS = {
    **dict.fromkeys(("black_hole", "slow_head", "stall_after_head"), {"first_token_seconds": 0.3}),
    "stall_after_comment": {"first_token_seconds": 1.5},
    "stall_between_tokens": {"idle_seconds": 0.3},
}
"""Only the servers that stall have short limits, so that a busy machine changes no outcome."""
MAX_AT_ONCE = 16


def settings(server: FaultServer) -> Settings:
    """Each request has an upstream of its own, so that no fault opens the circuit breaker of another request."""
    upstreams: dict[str, Any] = {"good": {"base_url": server.base_url("good")}}
    models: dict[str, Any] = {"other": {"upstreams": ["good"]}}
    for fault in FAULTS:
        for kind in ("stream", "whole"):
            for setup in ("alone", "second", "fallback"):
                name = f"{fault}-{setup}-{kind}"
                upstreams[name] = {"base_url": server.base_url(fault), **LIMITS.get(fault, {})}
                models[name] = {"upstreams": [name]}
            models[f"{fault}-second-{kind}"]["upstreams"].append({"name": "good", "priority": 2})
            models[f"{fault}-fallback-{kind}"]["fallbacks"] = ["other"]
    tree = {"upstreams": upstreams, "models": models, "cache": {"url": "null:"}}
    quiet = {"log_level": "error", "commit_seconds": 30, "heartbeat_seconds": 0.2}
    return Settings.model_validate({**tree, "server": quiet})


@dataclass(frozen=True)
class Seen:
    outcome: tuple[int, str]
    text: str
    model: str
    attempts: str
    """The header, without the milliseconds."""


async def ask(gateway: Gateway, model: str, turns: asyncio.Semaphore) -> Seen:
    stream = model.endswith("stream")
    async with turns, calling(gateway.address) as caller:
        status, raw = await caller.reply(model=model, stream=stream)
    listed = caller.headers.get("x-parley-attempts", "").split(", ")
    attempts = ", ".join(";".join(part for part in one.split(";") if part[:3] != "ms=") for one in listed)
    if stream and status == 200:
        events = checked(raw)
        last = events[-1]
        code = "completed" if last.type == "response.completed" else last.data["error"]["code"]
        text = "".join(one.data["delta"]["content"] for one in events if one.type == "message.delta")
        return Seen((status, code), text, events[0].data["model"], attempts)
    body = json.loads(raw)
    code = body["error"]["code"] if "error" in body else "completed"
    text = "".join(message["content"] for message in body.get("messages", []))
    return Seen((status, code), text, body.get("model", ""), attempts)


async def test_every_fault_has_the_outcome_of_the_table() -> None:
    async with FaultServer() as server:
        made = settings(server)
        async with serving_with(made, retry_budget=RetryBudget(minimum=1000)) as gateway:
            names = [name for name in made.models if name != "other"]
            turns = asyncio.Semaphore(MAX_AT_ONCE)
            asked = (ask(gateway, name, turns) for name in names)
            seen = dict(zip(names, await asyncio.gather(*asked), strict=True))
            await eventually(lambda: gateway.transport.open_connections == 0)
            await eventually(lambda: server.open == 0)
            assert all(state.outstanding == 0 for state in gateway.context.upstreams)
    expected = {name: _expect(name) for name in names}
    assert {name: (one.outcome, one.text) for name, one in seen.items()} == expected
    for fault, row in FAULTS.items():
        for kind in ("stream", "whole"):
            second, fallback = seen[f"{fault}-second-{kind}"], seen[f"{fault}-fallback-{kind}"]
            if row.replaced:
                assert second.model == f"{fault}-second-{kind}"
                assert second.attempts.endswith(", good;outcome=ok")
                assert second.attempts.startswith(f"{fault}-second-{kind};outcome={row.alone_whole[1]}")
                assert fallback.model == "other"
                assert fallback.attempts.endswith(", good;outcome=ok;model=other")


def _expect(name: str) -> tuple[tuple[int, str], str]:
    """The outcome and the text of a request by the name of its model."""
    fault, setup, kind = name.split("-")
    row = FAULTS[fault]
    if setup != "alone" and row.replaced:
        return COMPLETED, "from good"
    outcome = row.alone_stream if kind == "stream" else row.alone_whole
    began = fault in ("close_in_second_chunk", "reset_after_chunks", "length_too_long", "stall_between_tokens")
    return outcome, "from faulty" if began else ""
