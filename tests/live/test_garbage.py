"""What a request leaves behind goes at once: pauses for collecting garbage would be everybody's."""

import gc
from collections.abc import Iterator
from typing import Any

import pytest
from app.formats import FORMATS

from tests.live.gateway import DONE, end, eventually, say, serving_with, settings
from tests.live.raw_client import calling
from tests.scripted_server import Reply, ScriptedServer

pytestmark = pytest.mark.anyio

SCRIPT = Reply([say("<think>Hm</think>Hel"), say("lo"), end(), DONE], chunked=True)
NO_STORE = "cache-control: no-store\r\n"
"""Such a reply is read from its call directly, not from a log of its events."""
MANY = 10


@pytest.fixture
def saved() -> Iterator[list[Any]]:
    """What only a collection finds."""
    yield gc.garbage
    gc.set_debug(0)
    gc.garbage.clear()
    gc.enable()


@pytest.mark.parametrize("mode", ["whole", "delta", "snapshot"])
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(("url", "headers"), [("null:", ""), ("memory:", ""), ("memory:", NO_STORE)])
async def test_no_reply_waits_for_the_garbage_collector(
    url: str, headers: str, form: str, mode: str, saved: list[Any]
) -> None:
    asking: dict[str, Any] = {"model": "m", "reply_format": form, "stream": mode != "whole"}
    if mode != "whole":
        asking["stream_mode"] = mode
    async with ScriptedServer(SCRIPT) as upstream:
        plan = settings(upstream.url, {}, {})
        plan = plan.model_copy(update={"cache": plan.cache.model_copy(update={"url": url, "resume_seconds": 0})})
        async with serving_with(plan) as gateway, calling(gateway.address) as caller:
            caller.more_headers = headers
            await caller.reply(**asking)  # what is made with the first request stays
            await eventually(gateway.quiet)
            gc.disable()
            gc.freeze()  # what was there before is not searched: it is more than all that comes after
            gc.set_debug(gc.DEBUG_SAVEALL)
            for number in range(MANY):
                await caller.reply({"messages": [{"role": "user", "content": f"{number}"}]}, **asking)
            await eventually(gateway.quiet)
            gc.collect()
            ours = [one for one in saved if type(one).__module__.partition(".")[0] == "app"]
            assert len(ours) < MANY, {type(one).__qualname__ for one in ours}
