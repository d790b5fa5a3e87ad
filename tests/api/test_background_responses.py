"""`background: true` of `/v1/responses`: polled, streamed, cancelled, bounded, and failed with its gateway."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from app.access import ANONYMOUS
from app.api.reply_response import EventStreamResponse, ResponseLimits
from app.errors import Cancelled
from app.formats.base import ReplyInfo
from app.formats.request_limits import RequestLimits
from app.formats.responses import RESPONSES
from app.formats.responses.body import ResponsesRequest, parse_responses_body
from app.responses_api import background
from app.responses_api.background import BackgroundRun, BackgroundRuns, NoClient
from app.responses_api.record import KeptRequest, ResponseRecord, StoredResponses
from app.responses_api.routes import make_endpoint
from app.runtime.memory_budget import MemoryBudget
from app.stores.base import StateStore, StoreError, StoreLimits
from app.stores.memory import MemoryStore
from typing_extensions import override

from tests.in_process_gateway import HELLO, SERVER, STOP, Answer, ModelServer, Running, streamed
from tests.redis_server import RedisServer

Json = dict[str, Any]
ALICE, BOB = {"authorization": "Bearer alice"}, {"authorization": "Bearer bob"}


class HeldBody(httpx.AsyncByteStream):
    """A reply whose second half comes when `release` is set."""

    def __init__(self, release: asyncio.Event) -> None:
        self._release = release

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield HELLO
        await self._release.wait()
        yield HELLO
        yield STOP


class SlowStore(MemoryStore):
    """A store like Redis: a write that was sent takes place even if its caller is cancelled. Records with the status
    `held` are written when `release` is set."""

    def __init__(self, held: str) -> None:
        super().__init__(StoreLimits())
        self._held = held
        self._writes: set[asyncio.Task[None]] = set()
        self.writing = asyncio.Event()
        """Set when a record is held."""
        self.release = asyncio.Event()

    @override
    async def put(self, key: str, value: bytes, *, ttl_seconds: float, model: str) -> None:
        task = asyncio.create_task(self._write(key, value, ttl_seconds, model))
        self._writes.add(task)
        await asyncio.shield(task)

    async def _write(self, key: str, value: bytes, ttl_seconds: float, model: str) -> None:
        if json.loads(value)["response"]["status"] == self._held:
            self.writing.set()
            await self.release.wait()
        await super().put(key, value, ttl_seconds=ttl_seconds, model=model)


class FailingStore(MemoryStore):
    """Fails to store the first `times` records with the status `failed`."""

    def __init__(self, failed: str, times: int) -> None:
        super().__init__(StoreLimits())
        self._failed = failed
        self.times_left = times

    @override
    async def put(self, key: str, value: bytes, *, ttl_seconds: float, model: str) -> None:
        if json.loads(value)["response"]["status"] == self._failed and self.times_left:
            self.times_left -= 1
            raise StoreError("no disk")
        await super().put(key, value, ttl_seconds=ttl_seconds, model=model)


class Gateway:
    def __init__(self, cache: str = "memory:", responses: Json | None = None, **server: Any) -> None:
        self.release = asyncio.Event()
        self.held = True
        self.server = ModelServer(lambda _: self._answer())
        tree = {**SERVER, "cache": {"url": cache}, "responses": responses or {}, "server": server}
        self.running = Running(tree, self.server)

    def _answer(self) -> httpx.Response:
        if not self.held:
            return streamed(HELLO, STOP)
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=HeldBody(self.release))

    def create(self, headers: Json | None = None, **body: Any) -> Answer:
        return self.running.post("/v1/responses", {"model": "m", "input": "Hi", "background": True, **body}, headers)

    def read(self, id_: str, suffix: str = "", headers: Json | None = None) -> Answer:
        return self.running.get(f"/v1/responses/{id_}{suffix}", headers)

    def cancel(self, id_: str, headers: Json | None = None) -> Answer:
        return self.running.ask("POST", f"/v1/responses/{id_}/cancel", headers=headers)

    def wait(self, id_: str) -> Json:
        """Let the model server end its reply, and return the response."""
        self.release.set()
        self.read(id_, "?stream=true")
        response: Json = self.read(id_).json
        return response


class OwnEndpoint:
    """A second endpoint of a gateway, with a store of its own."""

    def __init__(self, gateway: Gateway, store: StateStore, max_bytes: int = 10_000) -> None:
        self.stored = StoredResponses(store, enabled=True, ttl_seconds=1000, max_bytes=max_bytes)
        self.runs = BackgroundRuns(self.stored, 1)
        self._endpoint = make_endpoint(gateway.running.context, self.stored, self.runs, "always")

    async def create(self) -> str:
        """Create a background response, and return its id."""
        status, response = await self.post()
        assert status == 200
        id_: str = response["id"]
        return id_

    async def post(self) -> tuple[int, Json]:
        """Send a request for a background response without an API key. Return the status and the body."""
        messages = [{"type": "http.request", "body": b'{"model": "m", "input": "Hi", "background": true}'}]
        sent: list[Any] = []

        async def receive() -> Json:
            return messages.pop()

        async def send(message: Any) -> None:
            sent.append(message)

        state = {"request_id": "req-1", "caller": ANONYMOUS, "response_headers": [], "headers": {}, "writer": None}
        scope = {"type": "http", "method": "POST", "path": "/v1/responses", "headers": [], "state": state}
        await self._endpoint(scope, receive, send)
        return sent[0]["status"], json.loads(sent[1]["body"])

    async def read_status(self, id_: str) -> str:
        record = await self.stored.get("nobody", id_)
        assert record is not None
        return record.status


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    gateway = Gateway(drain_seconds=0.1)
    with gateway.running:
        yield gateway


def text_of(response: Json) -> str:
    return "".join(part["text"] for item in response["output"] for part in item["content"])


def test_a_background_response_is_accepted_at_once_and_polled_until_it_is_complete(gateway: Gateway) -> None:
    accepted = gateway.create(ALICE)
    assert (accepted.status, accepted.json["background"], accepted.json["output"]) == (200, True, [])
    assert accepted.json["status"] in ("queued", "in_progress")
    id_ = accepted.json["id"]
    assert accepted.headers["x-parley-response-id"] == id_
    polled = gateway.read(id_, headers=ALICE).json
    assert polled["status"] in ("queued", "in_progress")
    assert [one["type"] for one in gateway.read(id_, "/input_items", ALICE).json["data"]] == ["message"]
    assert gateway.read(id_, headers=BOB).status == 404
    assert gateway.cancel(id_, BOB).status == 404
    assert gateway.create(ALICE, background=False, previous_response_id=id_).status == 400
    gateway.release.set()
    gateway.read(id_, "?stream=true", ALICE)
    whole = gateway.read(id_, headers=ALICE).json
    assert (whole["status"], text_of(whole)) == ("completed", "HelloHello")
    assert whole["completed_at"] and whole["usage"]["output_tokens"] > 0
    assert gateway.create(ALICE, background=False, previous_response_id=id_).status == 200
    assert [one["content"] for one in json.loads(gateway.server.requests[-1].content)["messages"]] == [
        "Hi",
        "HelloHello",
        "Hi",
    ]


def test_a_background_response_is_reported_at_its_own_end(gateway: Gateway) -> None:
    reported: list[tuple[int, str | None]] = []
    gateway.running.context.ended.observers.append(
        lambda record: reported.append((record.status, record.finish_reason))
    )
    id_ = gateway.create().json["id"]
    gateway.read(id_)
    gateway.running.context.ended.report()
    assert reported == []
    gateway.wait(id_)
    gateway.running.context.ended.report()
    assert reported == [(200, "stop")]
    assert gateway.running.context.in_progress == 0


def test_a_background_response_that_is_cancelled_stops_its_call(gateway: Gateway) -> None:
    for wait in (False, True):
        id_ = gateway.create().json["id"]
        if wait:
            gateway.running.loop.run_until_complete(asyncio.sleep(0.05))
        assert gateway.running.ask("DELETE", f"/v1/responses/{id_}").status == 400
        cancelled = gateway.cancel(id_)
        assert (cancelled.status, cancelled.json["status"], cancelled.json["error"]) == (200, "cancelled", None)
        assert gateway.read(id_).json == cancelled.json == gateway.cancel(id_).json
        assert gateway.create(previous_response_id=id_).status == 400
        assert gateway.running.ask("DELETE", f"/v1/responses/{id_}").status == 200
        assert gateway.running.context.cache.calls == 0


def test_a_response_that_is_cancelled_while_its_record_is_written_stops_its_call(gateway: Gateway) -> None:
    context, store = gateway.running.context, SlowStore("in_progress")

    async def run() -> None:
        own = OwnEndpoint(gateway, store)
        id_ = await own.create()
        await store.writing.wait()
        context.replies.cancel(id_)
        await asyncio.sleep(0.05)
        assert context.cache.calls == 0
        store.release.set()
        await own.runs.drain(5.0)
        assert await own.read_status(id_) == "cancelled"  # and not the record that was held

    gateway.running.loop.run_until_complete(run())


@pytest.mark.parametrize("status", ["in_progress", "completed"])
def test_the_end_of_a_background_response_is_stored_again_if_the_store_failed(gateway: Gateway, status: str) -> None:
    gateway.release.set()

    async def run() -> None:
        own = OwnEndpoint(gateway, FailingStore(status, 2))
        id_ = await own.create()
        await own.runs.drain(5.0)
        assert await own.read_status(id_) == "completed"

    gateway.running.loop.run_until_complete(run())


def test_a_background_response_ends_though_its_store_fails_and_is_stored_later(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway.release.set()
    monkeypatch.setattr(background, "END_PAUSES", (0.01,))
    monkeypatch.setattr(background, "LATE_PAUSE_SECONDS", 0.01)
    store = FailingStore("completed", 1000)

    async def run() -> None:
        own = OwnEndpoint(gateway, store)
        id_ = await own.create()
        run = own.runs.find(id_, "nobody")
        assert run is not None
        await run.ended.wait()
        end = run.describe()
        assert (end["status"], end["store"]) == ("completed", False)
        assert "the store of responses failed" in end["parley"]["warnings"][-1]
        assert len(own.runs) == 0 and await own.read_status(id_) == "in_progress"
        store.times_left = 0
        while await own.read_status(id_) != "completed":
            await asyncio.sleep(0.01)
        await own.runs.drain(5.0)

    gateway.running.loop.run_until_complete(run())


def test_a_background_response_that_cannot_be_stored_is_refused(gateway: Gateway) -> None:
    async def run() -> None:
        own = OwnEndpoint(gateway, FailingStore("queued", 1))
        status, refused = await own.post()
        assert (status, refused["error"]["code"], refused["error"]["type"]) == (503, "overloaded", "server_error")
        assert len(own.runs) == 0 and gateway.server.requests == []
        await own.create()
        await own.runs.drain(0.01)

    gateway.running.loop.run_until_complete(run())


def test_a_background_response_that_is_too_long_to_store_says_so(gateway: Gateway) -> None:
    gateway.release.set()

    async def create(max_bytes: int) -> ResponseRecord:
        own = OwnEndpoint(gateway, MemoryStore(StoreLimits()), max_bytes)
        id_ = await own.create()
        await own.runs.drain(5.0)
        record = await own.stored.get("nobody", id_)
        assert record is not None
        return record

    async def run() -> None:
        stored = await create(10_000)
        assert stored.status == "completed"
        record = await create(len(msgspec.json.encode(stored)) - 10)
        assert (record.status, record.items, record.response["output"]) == ("failed", [], [])
        assert "bytes are too many to store (cache.max_entry_bytes)" in record.response["error"]["message"]

    gateway.running.loop.run_until_complete(run())


def test_a_background_response_is_streamed_and_resumed_behind_an_event(gateway: Gateway) -> None:
    async def run() -> tuple[Answer, list[Answer]]:
        body = json.dumps({"model": "m", "input": "Hi", "background": True, "stream": True}).encode()
        streaming = asyncio.create_task(gateway.running.ask_async("POST", "/v1/responses", [body]))
        while not gateway.running.context.replies.active:
            await asyncio.sleep(0)
        id_ = next(iter(gateway.running.context.replies.active)).info.response_id
        resuming = [
            asyncio.create_task(
                gateway.running.ask_async("GET", f"/v1/responses/{id_}?stream=true&starting_after={after}")
            )
            for after in (0, 4)
        ]
        await asyncio.sleep(0.05)
        assert not streaming.done() and not any(one.done() for one in resuming)
        gateway.release.set()
        return await streaming, [await one for one in resuming]

    first, resumed = gateway.running.loop.run_until_complete(run())
    assert first.frames[0]["type"] == "response.created" and first.frames[-1]["type"] == "response.completed"
    assert [one["sequence_number"] for one in first.frames] == list(range(len(first.frames)))
    assert resumed[0].frames[:-1] == first.frames[1:-1] and resumed[1].frames[:-1] == first.frames[5:-1]
    for last in (first.frames[-1], *(one.frames[-1] for one in resumed)):
        assert last["response"] == gateway.read(last["response"]["id"]).json
    later = gateway.read(first.frames[0]["response"]["id"], "?stream=true&starting_after=4").frames
    assert later == first.frames[5:]


def test_a_background_stream_waits_until_the_files_of_its_request_are_read() -> None:
    file = {"type": "input_file", "filename": "a.txt", "file_data": "data:text/plain;base64,aGVsbG8="}
    body = {"model": "m", "background": True, "stream": True, "input": [{"role": "user", "content": [file]}]}
    models = {"m": {"upstreams": ["local"], "profile": {"media": []}}}
    server = ModelServer()
    with Running({**SERVER, "models": models, "cache": {"url": "memory:"}}, server) as running:
        frames = running.post("/v1/responses", body).frames
    assert "hello" in server.requests[0].content.decode()
    assert (frames[0]["type"], frames[-1]["type"]) == ("response.created", "response.completed")
    assert [frame["delta"] for frame in frames if frame["type"] == "response.output_text.delta"] == ["Hello"]


def test_the_call_goes_on_when_the_client_of_a_background_stream_leaves(gateway: Gateway) -> None:
    async def run() -> str:
        sent: list[Any] = []
        body = json.dumps({"model": "m", "input": "Hi", "background": True, "stream": True}).encode()
        messages = [{"type": "http.request", "body": body}]

        async def receive() -> Json:
            while not messages and len(sent) < 2:
                await asyncio.sleep(0)
            return messages.pop() if messages else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": "/v1/responses", "raw_path": b"", "query_string": b""}
        await gateway.running.app(
            {**scope, "headers": [], "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8000), "state": {}},
            receive,
            send,
        )
        headers: dict[bytes, bytes] = dict(sent[0]["headers"])
        return headers[b"x-parley-response-id"].decode()

    id_ = gateway.running.loop.run_until_complete(run())
    assert gateway.wait(id_)["status"] == "completed"


def test_at_most_so_many_background_responses_run() -> None:
    gateway = Gateway(responses={"max_background": 2}, drain_seconds=0.1)
    with gateway.running:
        ids = [gateway.create(input=f"Question {number}").json["id"] for number in range(2)]
        refused = gateway.create()
        assert (refused.status, refused.json["error"]["code"]) == (429, "rate_limit_exceeded")
        assert "responses.max_background" in refused.json["error"]["message"]
        assert int(refused.headers["retry-after"]) > 0
        gateway.cancel(ids[0])
        assert gateway.create().status == 200


def test_a_background_response_has_to_be_stored() -> None:
    for cache, settings, body in (
        ("memory:", {}, {"store": False}),
        ("null:", {}, {}),
        ("memory:", {"store": False}, {}),
        ("memory:", {}, {"background": "yes"}),
    ):
        gateway = Gateway(cache, settings)
        with gateway.running:
            refused = gateway.create(**body)
            assert (refused.status, refused.json["error"]["param"]) == (400, "background")
            assert gateway.server.requests == []


def test_a_failure_of_the_model_server_is_stored() -> None:
    failing = Running(
        {**SERVER, "cache": {"url": "memory:"}},
        ModelServer(lambda _: httpx.Response(400, json={"error": {"message": "no"}})),
    )
    with failing:
        for stream in (False, True):
            body = {"model": "m", "input": "Hi", "background": True, "stream": stream}
            answer = failing.post("/v1/responses", body)
            assert answer.status == 200
            id_ = answer.headers["x-parley-response-id"]
            if stream:
                assert answer.frames[-1]["type"] == "response.failed"
            failing.get(f"/v1/responses/{id_}?stream=true")
            stored = failing.get(f"/v1/responses/{id_}").json
            assert (stored["status"], stored["error"]["parley_code"]) == ("failed", "invalid_request")
            assert failing.post("/v1/responses", {**body, "previous_response_id": id_}).status == 400


def test_a_background_response_outlives_a_drain_that_is_long_enough_and_fails_after_it(tmp_path: Path) -> None:
    cache = f"sqlite:///{tmp_path}/cache.db"
    ids = []
    for seconds, released in ((5.0, True), (0.05, False)):
        gateway = Gateway(cache, drain_seconds=seconds)
        with gateway.running:
            ids.append(gateway.create().json["id"])
            if released:
                gateway.running.loop.call_later(0.05, gateway.release.set)
    gateway = Gateway(cache)
    with gateway.running:
        assert [gateway.read(id_).json["status"] for id_ in ids] == ["completed", "failed"]
        assert gateway.read(ids[1]).json["error"]["parley_code"] == "draining"


def test_a_background_response_is_read_streamed_and_cancelled_at_another_gateway(shared_redis: RedisServer) -> None:
    release = asyncio.Event()
    held = ModelServer(
        lambda _: httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=HeldBody(release))
    )
    tree = {**SERVER, "cache": {"url": shared_redis.url}}
    loop = asyncio.new_event_loop()

    async def start(server: ModelServer) -> Running:
        return Running(tree, server, loop=asyncio.get_running_loop())

    def create() -> str:
        body = {"model": "m", "input": "Hi", "background": True}
        id_: str = running.post("/v1/responses", body).json["id"]
        while running.get(f"/v1/responses/{id_}").json["status"] == "queued":
            pass
        return id_

    running, other = (loop.run_until_complete(start(server)) for server in (held, ModelServer()))
    with running, other:
        id_ = create()
        assert other.get(f"/v1/responses/{id_}").json["status"] == "in_progress"
        assert other.ask("POST", f"/v1/responses/{id_}/cancel").json["status"] == "cancelled"
        running.get(f"/v1/responses/{id_}?stream=true")
        assert running.get(f"/v1/responses/{id_}").json["status"] == "cancelled"
        id_ = create()
        loop.call_later(0.1, release.set)
        assert other.get(f"/v1/responses/{id_}?stream=true").frames[-1]["type"] == "response.completed"
        assert other.get(f"/v1/responses/{id_}").json["status"] == "completed"
    loop.close()


@pytest.mark.parametrize("ends", [True, False])
def test_the_end_that_the_gateway_of_a_response_stores_is_not_replaced_by_a_cancellation(
    gateway: Gateway, ends: bool
) -> None:
    """The response runs at another gateway, which ends it after the cancelling one has read its record."""
    stored = StoredResponses(gateway.running.context.state, enabled=True, ttl_seconds=1000, max_bytes=10_000)
    item = {"type": "message", "content": []}
    running = {"id": "resp_1", "model": "m", "status": "in_progress", "output": []}
    ended = {**running, "status": "completed", "output": [item]}

    async def run() -> tuple[Answer, ResponseRecord | None]:
        await stored.put("nobody", ResponseRecord(running, [], 0))
        cancelling = asyncio.create_task(gateway.running.ask_async("POST", "/v1/responses/resp_1/cancel"))
        await asyncio.sleep(0.05)
        if ends:
            await stored.put("nobody", ResponseRecord(ended, [item], 0))
        return await cancelling, await stored.get("nobody", "resp_1")

    answer, record = gateway.running.loop.run_until_complete(run())
    assert answer.status == 200
    assert answer.json == (ended if ends else {**running, "status": "cancelled"})
    assert record is not None and record.response == answer.json


@pytest.mark.anyio
async def test_a_background_response_whose_gateway_died_is_failed_when_it_is_read() -> None:
    now = 0.0

    def clock() -> float:
        return now

    store = MemoryStore(StoreLimits(clock=clock))
    stored = StoredResponses(store, enabled=True, ttl_seconds=1000, max_bytes=1000, clock=clock)
    response = {"id": "resp_1", "model": "m", "status": "in_progress", "error": None}
    await stored.put("a", ResponseRecord(response, [], 0, alive_until=90.0))
    found = await stored.get("a", "resp_1")
    assert found is not None and found.status == "in_progress"
    now = 91.0
    found = await stored.get("a", "resp_1")
    assert found is not None and found.status == "failed"
    assert "stopped" in found.response["error"]["message"]


@pytest.mark.anyio
async def test_the_record_of_a_running_response_is_renewed_and_a_cancellation_elsewhere_is_found() -> None:
    stored = StoredResponses(
        MemoryStore(StoreLimits()), enabled=True, ttl_seconds=1000, max_bytes=10_000, clock=lambda: now
    )
    now = 0.0
    runs = BackgroundRuns(stored, 1, alive_seconds=0.03, clock=lambda: now)
    limits = RequestLimits(max_messages=10, max_content_items=10, max_functions=10, max_nesting=10)
    parsed = parse_responses_body(b'{"model": "m", "input": "Hi", "background": true}', limits)
    assert isinstance(parsed, ResponsesRequest)
    kept = KeptRequest(parsed, "a")
    info = ReplyInfo(response_id="resp_1", request_id="req-1", model="m", created=1)
    response = EventStreamResponse(NoClient(), info, RESPONSES, "delta", ResponseLimits(9.0, 9.0, 9.0))
    run = BackgroundRun(response, kept, MemoryBudget(1).lease(), streamed=False)
    runs.add(run)

    async def produce() -> None:
        response.start_stream()
        await response.done

    runs.start(run, produce)
    await run.accepted.wait()
    now = 50.0  # the record has expired, until it is renewed
    while True:
        record = await stored.get("a", "resp_1")
        assert record is not None
        if record.status == "queued":
            break
        await asyncio.sleep(0.005)
    await stored.put("a", ResponseRecord({**record.response, "status": "cancelled"}, [], 0))
    await run.ended.wait()
    assert isinstance(response.error, Cancelled) and len(runs) == 0
