"""What `/v1/responses` stores: its caller alone continues, reads, lists, streams again, cancels and deletes it."""

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from app.api.reply_response import EventStreamResponse, ResponseLimits
from app.chat.events import Event, Finish, TextDelta
from app.chat.stream import Receiver
from app.formats.base import ReplyInfo
from app.formats.responses import RESPONSES
from app.formats.responses.stream import ResponseEventEncoder
from app.responses_api.background import NoClient
from app.responses_api.record import ResponseRecord, StoredResponses
from app.responses_api.reply import KeptEnd
from app.stores.base import StoreLimits
from app.stores.memory import MemoryStore

from tests.in_process_gateway import HELLO, SERVER, STOP, Answer, ModelServer, Running, streamed

Json = dict[str, Any]
REPLY = (
    b'data: {"choices":[{"index":0,"delta":{"reasoning_content":"Hm."}}]}\n\n'
    b'data: {"choices":[{"index":0,"delta":{"content":"Hello"}}]}\n\n'
    b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
    b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}\n\n'
    b"data: [DONE]\n\n"
)
ALICE, BOB = {"authorization": "Bearer alice"}, {"authorization": "Bearer bob"}


class Gateway:
    def __init__(self, cache: str = "memory:", responses: Json | None = None, **settings: Any) -> None:
        self.reply: Callable[[], httpx.Response] = lambda: streamed(REPLY)
        self.server = ModelServer(lambda _: self.reply())
        tree = {**SERVER, "cache": {"url": cache, **settings}, "responses": responses or {}}
        self.running = Running(tree, self.server)

    def create(self, headers: dict[str, str] | None = None, **body: Any) -> Answer:
        return self.running.post("/v1/responses", {"model": "m", "input": "Hi", **body}, headers)

    def sent(self) -> list[Json]:
        messages: list[Json] = json.loads(self.server.requests[-1].content)["messages"]
        return messages


class Clock:
    """A time that passes only when told."""

    now = 0.0

    def make_stored(self, ttl_seconds: float) -> StoredResponses:
        """Responses that are stored in memory by this clock."""
        store = MemoryStore(StoreLimits(clock=lambda: self.now))
        return StoredResponses(store, enabled=True, ttl_seconds=ttl_seconds, max_bytes=1000, clock=lambda: self.now)


class Source:
    """A `Reply` whose events the test pushes."""

    fallback_model: str | None = None
    receiver: Receiver | None = None
    closed = False

    def start(self, receiver: Receiver) -> None:
        self.receiver = receiver

    def pause(self) -> None:
        pass

    def resume(self) -> None:
        pass

    def tick(self, now: float) -> None:
        pass

    def close(self) -> None:
        self.closed = True


async def fail_to_save(response: dict[str, Any]) -> dict[str, Any]:
    raise ValueError("a defect")


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    gateway = Gateway()
    with gateway.running:
        yield gateway


def test_a_response_is_continued_with_its_conversation_and_without_its_instructions(gateway: Gateway) -> None:
    first = gateway.create(instructions="Be kind.").json
    second = gateway.create(input="More", previous_response_id=first["id"], stream=True).frames[-1]["response"]
    gateway.create(input="And?", previous_response_id=second["id"])
    assert [(one["role"], one["content"]) for one in gateway.sent()] == [
        ("user", "Hi"),
        ("assistant", "Hello"),
        ("user", "More"),
        ("assistant", "Hello"),
        ("user", "And?"),
    ]
    assert [one.get("reasoning_content") for one in gateway.sent()] == [None, "Hm.", None, "Hm.", None]


def test_a_response_is_read_as_it_was_sent_and_lists_its_whole_input(gateway: Gateway) -> None:
    first = gateway.create()
    second = gateway.create(input=[{"role": "user", "content": "More"}], previous_response_id=first.json["id"]).json
    assert gateway.running.get(f"/v1/responses/{first.json['id']}").json == first.json
    path = f"/v1/responses/{second['id']}/input_items"
    everything = gateway.running.get(f"{path}?order=asc").json
    assert [one["type"] for one in everything["data"]] == ["message", "reasoning", "message", "message"]
    assert everything["data"] == gateway.running.get(path).json["data"][::-1]
    page = gateway.running.get(f"{path}?order=asc&limit=2&after={everything['first_id']}").json
    assert page["data"] == everything["data"][1:3] and page["has_more"]
    assert gateway.running.get(f"{path}?limit=0&order=up").json["error"]["violations"] == [
        {"param": "limit", "message": "must be a number from 1 to 100"},
        {"param": "order", "message": "must be asc or desc"},
    ]


def test_a_deleted_response_is_gone_and_a_later_one_goes_on(gateway: Gateway) -> None:
    first = gateway.create().json["id"]
    second = gateway.create(previous_response_id=first).json["id"]
    deleted = gateway.running.ask("DELETE", f"/v1/responses/{first}")
    assert deleted.json == {"id": first, "object": "response", "deleted": True}
    for answer in (
        gateway.running.get(f"/v1/responses/{first}"),
        gateway.running.ask("DELETE", f"/v1/responses/{first}"),
    ):
        assert (answer.status, answer.json["error"]["code"]) == (404, "not_found")
    refused = gateway.create(previous_response_id=first)
    assert (refused.status, refused.json["error"]["code"]) == (400, "previous_response_not_found")
    assert gateway.create(previous_response_id=second).status == 200


def test_responses_belong_to_their_caller(gateway: Gateway) -> None:
    mine = gateway.create(ALICE).json
    path = f"/v1/responses/{mine['id']}"
    for headers in (BOB, None):
        for method, suffix in (
            ("GET", ""),
            ("GET", "/input_items"),
            ("DELETE", ""),
            ("POST", "/cancel"),
            ("GET", "?stream=true"),
        ):
            assert gateway.running.ask(method, path + suffix, headers=headers).status == 404, (method, suffix)
        assert gateway.create(headers, previous_response_id=mine["id"]).status == 400
        reference = {"type": "item_reference", "id": mine["output"][0]["id"]}
        refused = gateway.create(headers, input=[{"role": "user", "content": "Hi"}, reference])
        assert (refused.status, refused.json["error"]["param"]) == (404, "input[1].id")
        assert gateway.running.get(f"/v1/chat/{mine['id']}", headers).status == 404
    assert gateway.running.get(path, ALICE).json == mine


def test_nothing_is_stored_that_the_caller_or_the_gateway_does_not_want_to_store() -> None:
    cases: list[tuple[str, Json, Json, bool]] = [
        ("memory:", {}, {"store": False}, False),
        ("null:", {}, {}, True),
        ("memory:", {"store": False}, {}, True),
    ]
    for cache, settings, body, reported in cases:
        gateway = Gateway(cache, settings)
        with gateway.running:
            answer = gateway.create(**body)
            assert answer.json["store"] is False
            assert ("parley" in answer.json) is reported
            assert answer.json["output"][0]["encrypted_content"].startswith("parley1.")
            assert gateway.running.get(f"/v1/responses/{answer.json['id']}").status == 404
            assert gateway.create(previous_response_id=answer.json["id"]).status == 400


def test_too_long_an_input_is_not_stored_and_the_response_says_so() -> None:
    gateway = Gateway(max_entry_bytes=2000)
    with gateway.running:
        answer = gateway.create(input="x" * 1100).json
        assert answer["store"] is False and "too many to store" in answer["parley"]["warnings"][0]


def test_too_long_a_response_is_not_stored_and_says_so() -> None:
    gateway = Gateway(max_entry_bytes=2000)
    with gateway.running:
        whole = gateway.create(input="x" * 900).json
        frames = gateway.create(input="x" * 900, stream=True).frames
        assert [frame["sequence_number"] for frame in frames] == list(range(len(frames)))
        for response in (whole, frames[-1]["response"]):
            assert (response["status"], response["store"], len(response["output"])) == ("completed", False, 2)
            assert "too many to store" in response["parley"]["warnings"][0]
            assert gateway.running.get(f"/v1/responses/{response['id']}").status == 404


def test_a_stream_is_sent_again_behind_an_event(gateway: Gateway) -> None:
    answer = gateway.create(stream=True)
    id_ = answer.frames[0]["response"]["id"]
    again = gateway.running.get(f"/v1/responses/{id_}?stream=true&starting_after=4").frames
    assert [one["sequence_number"] for one in again] == list(range(5, len(answer.frames)))
    assert again == answer.frames[5:]
    last = len(answer.frames) - 1
    for after in (last, last + 1, last + 1000):
        past = gateway.running.get(f"/v1/responses/{id_}?stream=true&starting_after={after}")
        assert (past.status, past.headers["content-type"][:17], past.body) == (200, "text/event-stream", b"")


def test_a_stream_that_is_sent_again_ends_with_the_stored_response(gateway: Gateway) -> None:
    gateway.reply = lambda: streamed(HELLO, STOP)  # without usage
    id_ = gateway.create(stream=True).frames[0]["response"]["id"]
    last = gateway.running.get(f"/v1/responses/{id_}?stream=true").frames[-1]["response"]
    assert last["usage"]["output_tokens"] > 0 and last["completed_at"]
    assert last == gateway.running.get(f"/v1/responses/{id_}").json


def test_the_stores_of_responses_and_replies_are_purged_apart(gateway: Gateway) -> None:
    id_ = gateway.create(temperature=0).json["id"]
    gateway.running.loop.run_until_complete(gateway.running.context.cache.purge())
    assert gateway.running.get(f"/v1/responses/{id_}").status == 200


def test_a_reply_from_the_cache_is_stored_under_its_own_id(gateway: Gateway) -> None:
    first, second = gateway.create(temperature=0), gateway.create(temperature=0)
    assert second.headers["x-parley-cache"] == "hit"
    assert first.json["id"] != second.json["id"]
    assert gateway.running.get(f"/v1/responses/{second.json['id']}").json == second.json


def test_a_stored_response_is_sent_with_its_end_on_every_store(tmp_path: Any) -> None:
    for cache in ("memory:", f"sqlite:///{tmp_path}/cache.db"):
        gateway = Gateway(cache)
        with gateway.running:
            for stream in (True, False):
                answer = gateway.create(stream=stream)
                id_ = answer.frames[0]["response"]["id"] if stream else answer.json["id"]
                assert gateway.create(previous_response_id=id_).status == 200
    assert (tmp_path / "cache-state.db").exists()


@pytest.mark.anyio
async def test_a_response_lives_from_its_last_use() -> None:
    clock = Clock()
    stored = clock.make_stored(ttl_seconds=100)
    await stored.put("a", ResponseRecord({"id": "resp_1", "model": "m", "status": "completed"}, [], 0))
    for _ in range(3):
        clock.now += 90
        assert await stored.get("a", "resp_1") is not None
    clock.now += 101
    assert await stored.get("a", "resp_1") is None


def test_a_reply_without_usage_has_an_estimate_though_a_call_has_no_result() -> None:
    server = ModelServer()
    prompted = {**SERVER, "models": {"m": {"upstreams": ["local"], "profile": {"native_tools": False}}}}
    unanswered = [
        {"role": "user", "content": "Hi"},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"role": "user", "content": "Go on"},
    ]
    tools = [{"type": "function", "name": "f"}]
    body = {"model": "m", "input": unanswered, "tools": tools, "tool_choice": "none"}
    with Running({**prompted, "cache": {"url": "memory:"}}, server) as running:
        for stream in (False, True):
            raw = json.dumps({**body, "stream": stream}).encode()
            answer = running.loop.run_until_complete(
                asyncio.wait_for(running.ask_async("POST", "/v1/responses", [raw]), 5)
            )
            response = answer.frames[-1]["response"] if stream else answer.json
            assert response["status"] == "completed"
            assert response["usage"]["input_tokens"] > 0
            assert running.get(f"/v1/responses/{response['id']}").json == response


@pytest.mark.anyio
async def test_a_defect_at_the_end_of_a_reply_ends_its_response() -> None:
    info = ReplyInfo(response_id="resp_1", request_id="req-1", model="m", created=1)
    for batched in (False, True):
        response = EventStreamResponse(NoClient(), info, RESPONSES, "delta", ResponseLimits(9.0, 9.0, 9.0))
        source = Source()
        response.observe_end(KeptEnd(response, fail_to_save))
        response.start(source)
        assert source.receiver is not None
        events: list[Event] = [TextDelta("Hello"), Finish("stop")]
        if batched:
            source.receiver.on_batches([events])
        else:
            source.receiver.on_events(events)
        await asyncio.wait_for(response.done, 5)
        encoder = response.encoder
        assert isinstance(encoder, ResponseEventEncoder) and encoder.response is not None
        assert (encoder.response["status"], encoder.response["store"]) == ("completed", False) and source.closed


@pytest.mark.anyio
async def test_reading_a_response_in_progress_does_not_store_it_again() -> None:
    clock = Clock()
    stored = clock.make_stored(ttl_seconds=100)
    await stored.put("a", ResponseRecord({"id": "resp_1", "model": "m", "status": "in_progress"}, [], 0))
    clock.now = 90.0
    assert await stored.get("a", "resp_1") is not None
    clock.now = 101.0
    assert await stored.get("a", "resp_1") is None


def test_input_tokens_are_counted_with_what_came_before(gateway: Gateway) -> None:
    def count(**body: Any) -> int:
        answer = gateway.running.post("/v1/responses/input_tokens", {"model": "m", "input": "Hi", **body})
        assert answer.json["object"] == "response.input_tokens"
        return int(answer.json["input_tokens"])

    asked = len(gateway.server.requests)
    alone = count()
    id_ = gateway.create(input="A much longer question than the other one").json["id"]
    assert count(previous_response_id=id_) > alone
    assert count(tools=[{"type": "function", "name": "f"}]) > alone
    assert len(gateway.server.requests) == asked + 1
    assert gateway.running.post("/v1/responses/input_tokens", {}).status == 400


def test_other_methods_and_bodies_that_are_no_json_are_refused_in_openais_form(gateway: Gateway) -> None:
    for method, path, status in (
        ("PUT", "/v1/responses/resp_1", 405),
        ("GET", "/v1/responses", 405),
        ("GET", "/v1/responses/resp_1/cancel", 405),
        ("GET", "/v1/responses/input_tokens", 405),
    ):
        answer = gateway.running.ask(method, path)
        assert (answer.status, answer.json["error"]["type"]) == (status, "invalid_request_error"), path
    answer = gateway.running.post("/v1/responses", b'{"model": ')
    assert (answer.status, answer.json["error"]["type"]) == (400, "invalid_request_error")
    assert answer.headers["x-should-retry"] == "false"


def test_a_failure_in_a_stream_is_the_last_event_and_cannot_be_continued(gateway: Gateway) -> None:
    gateway.reply = lambda: streamed(REPLY[:150])
    last = gateway.create(stream=True).frames[-1]
    assert last["type"] == "response.failed"
    assert last["response"]["error"]["code"] == "server_error"
    assert gateway.create(previous_response_id=last["response"]["id"]).status == 400
    gateway.reply = lambda: httpx.Response(429, json={"error": {"message": "slow down"}})
    answer = gateway.create(stream=True)
    assert (answer.status, answer.json["error"]["code"]) == (429, "rate_limit_exceeded")
