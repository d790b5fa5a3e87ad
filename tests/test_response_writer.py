"""A request's own connection writes its response: `app/server/cycle.py` as a `ResponseWriter`."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from app.api.reply_encoders import SkipFrames
from app.api.reply_response import EventStreamResponse, JsonResponse, ResponseLimits
from app.api.response_writer import OfferedWriter, SendQueue, find_offered_writer
from app.chat.events import Failed, Fault, Finish, TextDelta
from app.formats.base import ReplyInfo
from app.formats.qwen import QWEN

from tests.client_transport import Transport, connect

pytestmark = pytest.mark.anyio

REQUEST = b"POST /a HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n"


class Sender:
    def __init__(self) -> None:
        self.notes: list[str] = []

    def on_blocked(self) -> None:
        self.notes.append("blocked")

    def on_clear(self) -> None:
        self.notes.append("clear")

    def disconnect(self) -> None:
        self.notes.append("disconnected")


class Client:
    """A connection whose application gives each request's writer to the test, and waits for `done`."""

    def __init__(self) -> None:
        self.writers: list[OfferedWriter] = []
        self.done = asyncio.Event()
        self.transport = Transport()
        self.connection = connect(self._serve, self.transport)

    async def _serve(self, scope: Any, receive: Any, send: Any) -> None:
        writer = find_offered_writer(scope)
        assert writer is not None
        self.writers.append(writer)
        await self.done.wait()

    async def ask(self, request: bytes = REQUEST) -> OfferedWriter:
        self.connection.data_received(request)
        await asyncio.sleep(0)
        return self.writers[-1]

    @property
    def written(self) -> bytes:
        return b"".join(self.transport.writes)


async def test_the_head_and_the_body_of_a_whole_reply_are_one_write() -> None:
    client = Client()
    writer = await client.ask()
    writer.extra_headers = [(b"x-request-id", b"r1")]
    writer.start(200, (), 2)
    assert client.transport.writes == []
    writer.write(b"{}", last=True)
    (write,) = client.transport.writes
    head, _, body = write.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n") and head.endswith(b"x-request-id: r1\r\ncontent-length: 2")
    assert body == b"{}" and not client.transport.closed


async def test_a_body_without_a_length_is_sent_in_chunks() -> None:
    client = Client()
    writer = await client.ask()
    writer.start(200, ())
    for data, last in ((b"one", False), (b"", False), (b"two", True)):
        writer.write(data, last=last)
    assert client.written.endswith(b"transfer-encoding: chunked\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n")


async def test_a_body_without_a_length_ends_with_the_connection_in_http_1_0() -> None:
    client = Client()
    writer = await client.ask(REQUEST.replace(b"HTTP/1.1", b"HTTP/1.0"))
    writer.start(200, ())
    writer.write(b"one", last=False)
    assert not client.transport.closed
    writer.write(b"two", last=True)
    head, _, body = client.written.partition(b"\r\n\r\n")
    assert body == b"onetwo" and b"transfer-encoding" not in head and b"content-length" not in head
    assert client.transport.closed


async def test_the_connection_is_closed_after_the_last_request_that_it_may_carry() -> None:
    client = Client()
    writer = await client.ask(REQUEST.replace(b"host", b"connection: close\r\nhost"))
    writer.start(200, (), 2)
    writer.write(b"{}", last=True)
    assert b"\r\nconnection: close\r\n" in client.written and client.transport.closed


async def test_a_pipelined_request_is_answered_after_the_one_before_it() -> None:
    client = Client()
    first = await client.ask(REQUEST + REQUEST)
    assert len(client.writers) == 1
    first.start(200, (), 2)
    first.write(b"{}", last=True)
    await asyncio.sleep(0)
    assert len(client.writers) == 2 and client.writers[1] is not first


@pytest.mark.parametrize("end", [lambda client: client.connection.connection_lost(None), lambda client: client.drop()])
async def test_a_sender_learns_that_its_client_has_disconnected(end: Callable[[Any], None]) -> None:
    client = Client()
    writer, sender, late = await client.ask(), Sender(), Sender()
    client.drop = writer.abort  # type: ignore[attr-defined]
    writer.attach(sender)
    writer.start(200, ())
    end(client)
    writer.write(b"lost", last=False)
    assert sender.notes == ["disconnected"] and client.transport.writes == []
    writer.attach(late)
    assert late.notes == ["disconnected"], "nothing is missed between two senders"


@pytest.mark.parametrize("kind", [EventStreamResponse, JsonResponse])
async def test_a_response_to_a_client_that_has_left_before_is_done(
    kind: type[EventStreamResponse | JsonResponse],
) -> None:
    client = Client()
    writer = await client.ask()
    client.connection.connection_lost(None)
    limits = ResponseLimits(heartbeat_seconds=1, commit_seconds=1, stall_seconds=1)
    response = kind(writer, ReplyInfo("chat-1", "req-1", "m", 1), QWEN, "delta", limits)
    assert response.done.done() and response.disconnected


async def test_a_sender_that_has_ended_is_not_called() -> None:
    client = Client()
    writer, sender = await client.ask(), Sender()
    writer.attach(sender)
    writer.detach()
    client.connection.connection_lost(None)
    assert sender.notes == []


async def test_a_sender_is_paused_while_its_client_reads_too_slowly_and_resumed_after() -> None:
    client = Client()
    writer, sender = await client.ask(), Sender()
    writer.attach(sender)
    writer.start(200, ())
    client.connection.pause_writing()
    for _ in range(2):
        writer.write(b"x", last=False)
    assert sender.notes == ["blocked"] and writer.blocked and len(client.transport.writes) == 2
    client.connection.resume_writing()
    assert sender.notes == ["blocked", "clear"] and not writer.blocked


@pytest.mark.parametrize(
    ("then", "told"),
    [
        (lambda client: client.connection.resume_writing(), "clear"),
        (lambda client: client.connection.connection_lost(None), "disconnected"),
    ],
)
async def test_the_next_request_may_come_before_the_last_response_was_read(
    then: Callable[[Client], None], told: str
) -> None:
    client = Client()
    writer, sender = await client.ask(), Sender()
    writer.attach(sender)
    writer.start(200, ())
    client.connection.pause_writing()
    writer.write(b"x", last=False)
    writer.write(b"y", last=True)
    assert await client.ask() is not writer
    then(client)
    assert sender.notes == ["blocked", told]


@pytest.mark.parametrize("end", [Finish("stop"), Failed(Fault("upstream_incomplete", "no", transient=True))])
def test_the_end_is_sent_to_a_client_that_says_it_has_read_more_frames_than_there_are(end: Finish | Failed) -> None:
    encoder = SkipFrames(QWEN.reply_encoder(ReplyInfo("chat-1", "req-1", "m", 1), "delta"), 9)
    assert encoder.open() + encoder.feed([TextDelta("a")]) == b""
    (frame,) = encoder.feed([TextDelta("b"), end]).split(b"\n\n")[:-1]
    assert (b"event: response.completed" if type(end) is Finish else b"event: response.failed") in frame


def test_a_failure_of_the_gateway_is_sent_to_a_client_that_says_it_has_read_more_frames_than_there_are() -> None:
    error = {"code": "upstream_incomplete", "message": "no", "status": 502}
    encoder = SkipFrames(QWEN.reply_encoder(ReplyInfo("chat-1", "req-1", "m", 1), "delta"), 9)
    assert encoder.open() == b""
    assert encoder.fail(error).count(b"event: response.failed") == 1


async def test_a_detached_queue_no_longer_waits_for_its_client() -> None:
    cancelled = asyncio.Event()

    async def send(message: Any) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    queue = SendQueue(send)
    queue.attach(Sender())
    queue.start(200, ())
    queue.write(b"x", last=False)
    await asyncio.sleep(0)
    assert queue.blocked
    queue.detach()
    await asyncio.wait_for(cancelled.wait(), 1)


async def test_a_cut_body_has_no_end_and_its_connection_closes() -> None:
    client = Client()
    writer = await client.ask()
    writer.start(200, ())
    writer.write(b"half", last=False)
    writer.cut()
    assert client.written.endswith(b"4\r\nhalf\r\n") and client.transport.closed
    writer.cut()
    client.done.set()


async def test_a_queue_cuts_behind_what_waits() -> None:
    class Offered:
        cuts = 0

        def cut(self) -> None:
            self.cuts += 1

    gate, sent, offered = asyncio.Event(), list[Any](), Offered()

    async def send(message: Any) -> None:
        await gate.wait()
        sent.append(message["body"])

    queue = SendQueue(send, offered)  # type: ignore[arg-type]  # the rest is not used
    queue.attach(Sender())
    queue.write(b"half", last=False)
    queue.cut()
    assert offered.cuts == 0
    gate.set()
    await asyncio.sleep(0.01)
    assert (sent, offered.cuts) == ([b"half"], 1)
    queue.cut()
    assert offered.cuts == 2
