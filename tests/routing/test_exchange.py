"""A reply begins with the first token that the server sends, whatever a stage holds back."""

import asyncio
from collections.abc import Callable

import pytest
from app.chat.events import Event, Finish, TextDelta
from app.chat.stream import AttemptLog
from app.routing.exchange import Exchange, ExchangeOptions
from app.routing.upstream_state import LatencyWindow, UpstreamState
from app.runtime.ticker import Ticker
from app.steps.reasoning_parser import ReasoningStage
from app.upstream.reply.stream import UpstreamStream
from typing_extensions import override

from tests.reply_pipeline import TARGET, Batches, Parts

pytestmark = pytest.mark.anyio

COMMENT = b": alive\n\n"
ROLE = b'data: {"choices":[{"index":0,"delta":{"role":"assistant"}}]}\n\n'
TEXT = b'data: {"choices":[{"index":0,"delta":{"content":"One"}}]}\n\n'
END = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


class Body(Parts):
    """It has its parts when the test sends them."""

    encoding: str | None = None

    def __init__(self) -> None:
        super().__init__((), broken=False)
        self.send: Callable[[bytes], None] = lambda _: None

    @override
    def push(self, on_data: Callable[[bytes], None], on_end: Callable[[Exception | None], None]) -> None:
        self.send = on_data


class Sent:
    """A request to a server whose text is held back until it ends."""

    def __init__(self) -> None:
        self.window = LatencyWindow()
        self.time = 0.0
        options = ExchangeOptions(AttemptLog(), first_token=self.window)
        self.exchange = Exchange(UpstreamState("a", "address"), TARGET, options, lambda: self.time)
        self.body = Body()
        stages = [ReasoningStage("auto_close", ("<think>", "</think>"))]
        self.stream = UpstreamStream(self.body, "chat-1", stages, TARGET, self.exchange)
        self.exchange.attach(self.stream)


def flat(received: Batches) -> list[Event]:
    return [event for batch in received.batches for event in batch]


async def test_waiting_ends_with_the_first_token_although_a_stage_holds_it_back() -> None:
    sent = Sent()
    waiting = asyncio.ensure_future(sent.exchange.wait_for_first_token(Ticker(1.0)))
    await asyncio.sleep(0)
    for at, part, begun in ((1.0, COMMENT, 0), (2.0, ROLE, 0), (3.0, TEXT, 1)):
        sent.time = at
        sent.body.send(part)
        assert len(sent.window) == begun
    await waiting
    assert sent.window.quantile(0.5) == 3.0
    received = Batches()
    sent.stream.start(received)
    assert flat(received) == []
    sent.body.send(TEXT + END)
    first, last = flat(received)
    assert first == TextDelta("OneOne") and isinstance(last, Finish)
    assert len(sent.window) == 1


async def test_a_reply_without_a_waiting_reader_has_its_first_token_when_the_server_sends_it() -> None:
    sent, received = Sent(), Batches()
    sent.stream.start(received)
    for at, part in ((1.0, COMMENT), (2.0, ROLE), (3.0, TEXT), (4.0, TEXT), (5.0, END)):
        sent.time = at
        sent.body.send(part)
    assert (len(sent.window), sent.window.quantile(0.5)) == (1, 3.0)
    assert [len(batch) for batch in received.batches] == [0, 0, 2]
