"""A model server that fails when its caller has left is in the log, with its name, its address and the cause."""

import asyncio
import json
from typing import Any

import pytest

from tests.live.gateway import DONE, end, eventually, say
from tests.live.raw_client import calling
from tests.live.resuming_client import QUESTION, caching, starting
from tests.scripted_server import Reply, ScriptedServer

pytestmark = pytest.mark.anyio

LOGGING = {"log_level": "warning", "commit_seconds": 0.02}
STAYING = {**QUESTION, "cancel_on_disconnect": False, "generate_cfg": {"max_retries": 1}}
BUSY = Reply(status=503, headers={"content-length": "0"})


def lines(text: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in text.splitlines()]
    return [{key: value for key, value in line.items() if key not in ("time", "ms", "request_id")} for line in found]


def late(upstream: ScriptedServer, cause: str, reason: str) -> dict[str, Any]:
    about = {
        "level": "warning",
        "logger": "parley.request",
        "message": "a call failed after its client had disconnected",
    }
    asked = {"endpoint": "chat", "model": "m", "upstream": "local", "address": f"{upstream.url}/v1"}
    return {**about, **asked, "cause": cause, "reason": reason}


async def test_a_reply_that_breaks_when_its_caller_has_left_is_logged(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    gate = asyncio.Event()
    async with ScriptedServer(Reply([say("One"), gate, say(" two")], chunked=True)) as upstream:
        async with caching(upstream, url, server=LOGGING) as gateway:
            async with calling(gateway.address) as caller:
                await starting(caller, cancel_on_disconnect=False)
            await eventually(lambda: not gateway.context.replies.active)
            assert capsys.readouterr().err == ""
            gate.set()
            await eventually(lambda: not len(gateway.context.replies.ticker))
        expected = late(upstream, "reply_not_finished", "the reply ended before it was finished")
    assert lines(capsys.readouterr().err) == [expected]


async def test_a_call_that_never_begins_when_its_caller_has_left_is_logged(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    gate = asyncio.Event()
    refusal = Reply(status=503, headers={"content-length": "0"}, hold=gate)
    async with ScriptedServer(refusal, BUSY) as upstream:
        async with caching(upstream, url, server=LOGGING) as gateway:
            async with calling(gateway.address) as caller:
                await caller.ask(STAYING)
                assert await caller.head() == 200
                await upstream.request()  # the stream may be opened while the cache is still asked
            await eventually(lambda: not gateway.context.replies.active)
            gate.set()
            await eventually(lambda: not len(gateway.context.replies.ticker))
    found = lines(capsys.readouterr().err)
    assert [(line["message"], line["upstream"], line["cause"]) for line in found] == [
        ("a call failed after its client had disconnected", "local", "error_status")
    ] * 2


async def test_a_call_that_ends_well_without_its_caller_is_not_logged(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    gate = asyncio.Event()
    script = Reply([say("One"), gate, end(), DONE], chunked=True)
    async with ScriptedServer(script) as upstream, caching(upstream, url, server=LOGGING) as gateway:
        async with calling(gateway.address) as caller:
            await starting(caller, cancel_on_disconnect=False)
        await eventually(lambda: not gateway.context.replies.active)
        gate.set()
        await eventually(lambda: not len(gateway.context.replies.ticker))
    assert capsys.readouterr().err == ""
