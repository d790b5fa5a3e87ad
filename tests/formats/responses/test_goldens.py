"""The Responses API against its goldens: requests, replies, and what real clients sent turn by turn."""

import asyncio
import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from app.api.openai_responses.stored import ResponseRecord, StoredResponses
from app.chat.events import Failed
from app.errors import UpstreamFailed
from app.formats.base import ReplyInfo, ReplyMode
from app.formats.responses import RESPONSES

from tests.cuts import bytewise, distinct_cuts
from tests.formats.responses.golden_cases import LOOPS, REPLIES, REQUESTS, Comparison, Json, join_deltas, to_bytes
from tests.in_process_gateway import Answer, ModelServer, Pieces, Running, streamed
from tests.reply_pipeline import Recorded, replay

SETTINGS: Json = {
    "upstreams": {"local": {"base_url": "http://model.test/v1"}},
    "models": {"qwen3": {"upstreams": ["local"]}},
    "cache": {"url": "memory:", "apply": "on_request"},
}
NOBODY = "nobody"


class Gateway:
    def __init__(self) -> None:
        self.reply: httpx.Response = streamed()
        self.server = ModelServer(lambda _: self.reply)
        self.running = Running(SETTINGS, self.server)

    def post(self, body: Json) -> Answer:
        return self.running.post("/v1/responses", body)

    def answer_with(self, upstream: Json) -> None:
        if "status" in upstream:
            content = upstream["body"]
            text = content if isinstance(content, str) else json.dumps(content)
            kind = "text/html" if isinstance(content, str) else "application/json"
            self.reply = httpx.Response(upstream["status"], headers={"content-type": kind}, content=text.encode())
        else:
            pieces = Broken(to_bytes(upstream)) if upstream.get("cut") else Pieces([to_bytes(upstream)])
            self.reply = httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=pieces)

    def store(self, stored: Json) -> None:
        """Store what earlier responses left."""
        context = self.running.app.context
        kept = StoredResponses(context.state, enabled=True, ttl_seconds=60, max_bytes=1_000_000)
        for id_, items in stored.get("responses", {}).items():
            response = {"id": id_, "model": "qwen3", "status": "completed"}
            assert kept.put_nowait(NOBODY, ResponseRecord(response, items, 0))


class Broken(Pieces):
    def __init__(self, data: bytes) -> None:
        super().__init__([data])

    async def __aiter__(self) -> Any:
        async for piece in super().__aiter__():
            yield piece
        raise httpx.ReadError("connection reset")


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    gateway = Gateway()
    with gateway.running:
        yield gateway


def with_numbered_ids(value: Json) -> Json:
    """Item ids end in a number; those of the goldens end in a letter or word."""
    names: dict[str, int] = {}

    def number(match: "re.Match[str]") -> str:
        return f'"{match[1]}_{1:032x}_{names.setdefault(match[0], len(names))}"'

    text = re.sub(r'"resp_(\d+)"', lambda match: f'"resp_{int(match[1]):032x}"', json.dumps(value))
    return dict(json.loads(re.sub(r'"(rs|msg|fc)_(\w+)"', number, text)))


def places(warnings: list[str]) -> list[str]:
    return [re.split(r"[: ]", text)[0] for text in warnings]


def check_request(gateway: Gateway, request: Json, expect: Json) -> None:
    gateway.reply = streamed(b'data: {"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}]}\n\n')
    asked = len(gateway.server.requests)
    answer = gateway.post(request)
    if "error" in expect:
        assert len(gateway.server.requests) == asked
        error, wanted = answer.json["error"], expect["error"]
        params = [one["param"] for one in error.get("violations", ())] or [error["param"]]
        assert (answer.status, error["type"], error["code"]) == (wanted["status"], wanted["type"], wanted["code"])
        assert sorted(params) == sorted(wanted["params"]), error
        assert error["param"] in params
        return
    assert answer.status == 200, answer.body
    assert json.loads(gateway.server.requests[-1].content) == expect["upstream"]
    warnings = json.loads(answer.headers.get("x-parley-warnings", "[]"))
    assert places(warnings) == places(expect["warnings"]), warnings


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_is_sent_upstream_or_refused_as_its_golden_says(gateway: Gateway, name: str) -> None:
    case = with_numbered_ids(REQUESTS[name])
    gateway.store(case.get("stored", {}))
    check_request(gateway, case["request"], case["expect"])


def check_reply(expected: Any, answer: Answer) -> None:
    comparison = Comparison("qwen3")
    if isinstance(expected, dict):
        assert answer.status == expected["status"], answer.body
        for name, value in expected.get("headers", {}).items():
            assert answer.headers[name] == value
        comparison.check(expected["body"], answer.json)
        return
    comparison.check(join_deltas(expected), join_deltas(answer.frames))


@pytest.mark.parametrize("name", REPLIES)
def test_a_reply_is_written_as_its_golden_says(gateway: Gateway, name: str) -> None:
    case = REPLIES[name]
    gateway.answer_with(case["upstream"])
    whole = gateway.post(case["request"] | {"stream": False})
    check_reply(case["expect"]["whole"], whole)
    gateway.answer_with(case["upstream"])
    answer = gateway.post(case["request"] | {"stream": True})
    check_reply(case["expect"]["stream"], answer)
    if answer.status == 200:
        lines = answer.body.decode().split("\n")
        assert [line[7:] for line in lines if line.startswith("event: ")] == [one["type"] for one in answer.frames]
        assert [one["sequence_number"] for one in answer.frames] == list(range(len(answer.frames)))


MODES: tuple[ReplyMode, ReplyMode] = ("delta", "whole")
STREAMS = [name for name, case in REPLIES.items() if "chunks" in case["upstream"]]


@pytest.mark.parametrize("name", STREAMS)
def test_every_cut_of_the_servers_bytes_gives_the_same_reply(name: str) -> None:
    case = REPLIES[name]
    data, broken = to_bytes(case["upstream"]), bool(case["upstream"].get("cut"))

    def render(parts: list[bytes]) -> tuple[Any, Any]:
        batches = asyncio.run(replay(Recorded(parts, broken=broken)))
        info = ReplyInfo("resp_1", "req-1", "qwen3", 1)
        stream, whole = (RESPONSES.reply_encoder(info, mode) for mode in MODES)
        frames, body = (
            encoder.open() + b"".join(encoder.feed(events) for events in batches) for encoder in (stream, whole)
        )
        last = batches[-1][-1]
        if isinstance(last, Failed):
            body = whole.fail(UpstreamFailed(last.fault).to_dict("req-1"))
        events = (json.loads(line[6:]) for line in frames.decode().split("\n") if line.startswith("data: "))
        return join_deltas(events), body

    expected = render([data])
    for parts in [*distinct_cuts(data), bytewise(data)]:
        assert render(parts) == expected, parts


@pytest.mark.parametrize("name", LOOPS)
def test_what_a_client_sends_turn_by_turn_goes_upstream_as_its_golden_says(gateway: Gateway, name: str) -> None:
    """The first turns are stored as the client was told them."""
    case = with_numbered_ids(LOOPS[name])
    for number, turn in enumerate(case["requests"]):
        check_request(gateway, turn["body"], turn["expect"])
        if isinstance(case["script"], list) and number < len(case["script"]):
            store_turn(gateway, case["script"][number], turn["body"])


def store_turn(gateway: Gateway, script: Any, body: Json) -> None:
    response = script[-1].get("response") if isinstance(script, list) else script
    if isinstance(response, dict) and "output" in response:
        given = body["input"] if isinstance(body["input"], list) else [{"role": "user", "content": body["input"]}]
        gateway.store({"responses": {response["id"]: [*given, *response["output"]]}})
