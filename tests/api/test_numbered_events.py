"""Each event of a stream of the Responses API has the next number, wherever a server fails and whoever begins the
stream: the server's own events, or the gateway, which has waited too long for them."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from typing_extensions import override

from tests.each_case import each_case
from tests.in_process_gateway import Answer, ModelServer, Running, streamed

Json = dict[str, Any]
HEAD = {"id": "r", "object": "response", "status": "in_progress", "output": []}
ITEM = {"type": "message", "id": "m", "role": "assistant", "content": [{"type": "output_text", "text": "ab"}]}
PLACE = {"item_id": "m", "output_index": 0, "content_index": 0}
EVENTS: list[Json] = [
    {"type": "response.created", "response": HEAD},
    {"type": "response.in_progress", "response": HEAD},
    {"type": "response.output_item.added", "output_index": 0, "item": {**ITEM, "content": []}},
    {"type": "response.output_text.delta", **PLACE, "delta": "a"},
    {"type": "response.output_text.delta", **PLACE, "delta": "b"},
    {"type": "response.output_item.done", "output_index": 0, "item": ITEM},
    {"type": "response.completed", "response": {**HEAD, "status": "completed", "output": [ITEM]}},
]
APIS = ("chat_completions", "responses", "messages", "gemini")
ASKED: Json = {"input": "x", "stream": True, "store": False}


def write_events(*, numbered: bool) -> bytes:
    events = [{**event, "sequence_number": at} if numbered else event for at, event in enumerate(EVENTS)]
    return b"".join(b"data: %b\n\n" % json.dumps(event, separators=(",", ":")).encode() for event in events)


class LateServer(ModelServer):
    """Answers when the gateway has begun the stream without it."""

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(0.3)
        return await super().handle_async_request(request)


def fail(request: httpx.Request) -> httpx.Response:
    raise httpx.ReadTimeout("no response in time", request=request)


def make_settings(**more: Any) -> Json:
    upstreams = {api: {"base_url": f"http://{api}.test/v1", "api": api} for api in APIS}
    models: Json = {api: {"upstreams": [api], "max_retries": 0} for api in APIS}
    models["all"] = {"upstreams": list(APIS), "max_retries": 0}
    return {"upstreams": upstreams, "models": models, "server": {"log_level": "error", "commit_seconds": 0.05}} | more


def list_numbers(answer: Answer) -> list[tuple[str, int]]:
    return [(event["type"], event["sequence_number"]) for event in answer.frames]


@pytest.fixture(scope="module")
def cut_server() -> Iterator[tuple[Running, list[bytes]]]:
    body = [b""]
    with Running(make_settings(), ModelServer(lambda _: streamed(body[0]))) as gateway:
        yield gateway, body


@each_case("numbered", [True, False])
def test_numbers_have_no_gap_wherever_a_server_of_the_same_api_is_cut(
    cut_server: tuple[Running, list[bytes]], numbered: bool
) -> None:
    gateway, body = cut_server
    whole = write_events(numbered=numbered)
    failed = 0
    for size in range(len(whole) + 1):
        body[0] = whole[:size]
        answer = gateway.post("/v1/responses", {**ASKED, "model": "responses"})
        if answer.status != 200:
            continue
        failed += answer.frames[-2]["type"] == "error"
        numbers = [event.get("sequence_number") for event in answer.frames]
        unnumbered = numbers.count(None)
        assert numbers == [*[None] * unnumbered, *range(unnumbered, len(numbers))], whole[:size]
        assert not (numbered and unnumbered)
        assert answer.frames[0]["type"] == "response.created"
    assert failed


@each_case("model", [*APIS, "all"])
def test_a_stream_that_the_gateway_has_begun_and_that_fails_has_its_beginning(model: str) -> None:
    with Running(make_settings(), LateServer(fail)) as gateway:
        answer = gateway.post("/v1/responses", {**ASKED, "model": model})
    kinds = ("response.created", "response.in_progress", "error", "response.failed")
    assert (answer.status, list_numbers(answer)) == (200, [(kind, at) for at, kind in enumerate(kinds)])


@each_case("model", ["chat_completions", "responses", "all"])
def test_a_stored_response_that_fails_so_has_its_beginning(model: str) -> None:
    with Running(make_settings(cache={"url": "memory:"}), LateServer(fail)) as gateway:
        answer = gateway.post("/v1/responses", {**ASKED, "model": model, "store": True})
    assert [number for _, number in list_numbers(answer)] == [0, 1, 2, 3]


def replace_words(request: httpx.Request) -> httpx.Response:
    """Answer as a guard that changes a text, or as a model server."""
    if request.url.host == "guard.test":
        return httpx.Response(200, json={"action": "GUARDRAIL_INTERVENED", "texts": ["y"]})
    if request.url.host == "responses.test":
        return streamed(write_events(numbered=True))
    events: list[Json] = [
        {"type": "message_start", "message": {"id": "m", "role": "assistant", "content": [], "usage": {}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "ab"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ]
    frames = [b"event: %b\ndata: %b\n\n" % (one["type"].encode(), json.dumps(one).encode()) for one in events]
    return streamed(b"".join(frames))


@each_case(
    ("path", "body", "kinds"),
    [
        ("/v1/responses", {**ASKED, "model": "responses"}, ["response.created", "response.in_progress"]),
        (
            "/v1/messages",
            {"model": "messages", "max_tokens": 9, "stream": True, "messages": [{"role": "user", "content": "x"}]},
            ["message_start", "content_block_start"],
        ),
    ],
)
def test_a_stream_that_has_begun_before_a_guard_changed_its_request_has_its_beginning(
    path: str, body: Json, kinds: list[str]
) -> None:
    guard = {"url": "http://guard.test", "api": "litellm", "phases": ["request"]}
    with Running(make_settings(guards={"words": guard}), LateServer(replace_words)) as gateway:
        answer = gateway.post(path, body)
    sent = [frame for frame in answer.frames if frame["type"] not in ("ping", "keepalive")]
    assert [frame["type"] for frame in sent[:2]] == kinds
    assert b"ab" in answer.body
    if path == "/v1/responses":
        assert [number for _, number in list_numbers(answer)] == list(range(len(answer.frames)))
