"""The paths of the Gemini API answer as Google's clients expect: what a model server is sent for each request, and what
the client reads of each reply, streamed as events, as an array and whole, however the server's bytes are cut."""

import asyncio
import json
from collections.abc import Iterator

import httpx
import pytest
from app.access.key_ring import hash_key
from app.chat.events import Event
from app.formats.base import Options, ReplyInfo
from app.formats.gemini import GEMINI, GEMINI_ARRAY

from tests.cuts import bytewise, distinct_cuts
from tests.formats.gemini.golden_cases import (
    REPLIES,
    REQUESTS,
    Comparison,
    Json,
    join_parts,
    read_events,
    to_bytes,
)
from tests.in_process_gateway import STOP, Answer, ModelServer, Running, streamed
from tests.reply_pipeline import Recorded, replay

KEY = "parley-key-of-the-goldens"
MODEL: Json = {"upstreams": ["local"], "name": "up-model", "profile": {"media": ["image", "audio", "file"]}}
SETTINGS: Json = {
    "upstreams": {"local": {"base_url": "http://model.test/v1"}},
    "models": {"m": MODEL, "m:8b": MODEL, "Org/m": MODEL},
    "keys": {"alice": {"sha256": hash_key(KEY)}},
    "server": {"log_level": "error"},
}
WAYS = ("streamGenerateContent?alt=sse", "streamGenerateContent", "generateContent")


class _Server:
    def __init__(self) -> None:
        self.upstream: Json | None = None
        self.model = ModelServer(lambda _: self._reply())
        self.running = Running(SETTINGS, self.model)

    def _reply(self) -> httpx.Response:
        upstream = self.upstream
        if upstream is None:
            return streamed(STOP)
        if "status" not in upstream:
            return streamed(to_bytes(upstream))
        headers, body = upstream.get("headers"), upstream["body"]
        if isinstance(body, str):
            return httpx.Response(upstream["status"], headers=headers, html=body)
        return httpx.Response(upstream["status"], headers=headers, json=body)


@pytest.fixture(scope="module")
def server() -> Iterator[_Server]:
    server = _Server()
    with server.running:
        yield server


def check_error(expected: Json, error: Json) -> None:
    assert (error["code"], error["status"]) == (expected["code"], expected["status"]), error
    details = {one["@type"].rpartition(".")[2]: one for one in error["details"]}
    assert details["ErrorInfo"].get("domain") == "parley"
    if "fields" in expected:
        rows = details.get("BadRequest", {}).get("fieldViolations", [])
        assert [row["field"] for row in rows] == expected["fields"]
    if "reason" in expected:
        assert details["ErrorInfo"]["reason"] == expected["reason"]
    assert details.get("RetryInfo", {}).get("retryDelay") == expected.get("retryDelay")


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_reaches_the_model_server_or_is_refused_at_its_place(server: _Server, name: str) -> None:
    given, expect = REQUESTS[name]["given"], REQUESTS[name]["expect"]
    server.upstream = None
    asked = len(server.model.requests)
    headers = {key: value.replace("<key>", KEY) for key, value in given["headers"].items()}
    answer = server.running.post(given["path"].replace("<key>", KEY), given["body"], headers)
    if "error" in expect:
        assert answer.status == expect["error"]["code"], answer.body
        check_error(expect["error"], answer.json["error"])
        assert len(server.model.requests) == asked
        return
    assert answer.status == 200, answer.body
    sent = json.loads(server.model.requests[-1].content)
    sent = {key: value for key, value in sent.items() if key not in ("stream", "stream_options")}
    Comparison().check(expect["upstream"], sent)
    assert len(json.loads(answer.headers.get("x-parley-warnings", "[]"))) == expect["warnings"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", REPLIES)
def test_a_reply_is_written_as_googles_clients_read_it(server: _Server, name: str, way: str) -> None:
    given, expect = REPLIES[name]["given"], REPLIES[name]["expect"]
    server.upstream = given["upstream"]
    answer = server.running.post(f"/v1beta/models/m:{way}", given["body"], {"x-goog-api-key": KEY})
    if "error" in expect and ("status" in given["upstream"] or way == "generateContent"):
        assert answer.status == expect["error"]["code"]
        check_error(expect["error"], answer.json["error"])
        return
    check_chunks(expect, read_chunks(answer, way))


def read_chunks(answer: Answer, way: str) -> list[Json]:
    assert answer.status == 200, answer.body
    if way.endswith("alt=sse"):
        assert answer.headers["content-type"].startswith("text/event-stream")
        return read_events(answer.body)
    assert answer.headers["content-type"] == "application/json"
    found = answer.json
    return found if way.startswith("stream") else [found]


def check_chunks(expect: Json, chunks: list[Json]) -> None:
    comparison = Comparison()
    if "error" in expect:
        *before, last = chunks
        assert not any("finishReason" in one["candidates"][0] for one in before)
        comparison.check(expect["parts_before"], join_parts(before))
        check_error(expect["error"], last["error"])
        return
    comparison.check(expect["parts"], join_parts(chunks))
    reasons = [one["candidates"][0].get("finishReason") for one in chunks]
    assert reasons == [None] * (len(chunks) - 1) + [expect["finishReason"]]
    last = chunks[-1]
    comparison.check(expect["usageMetadata"], last["usageMetadata"])
    candidate = last["candidates"][0]
    for key in ("finishMessage", "groundingMetadata"):
        assert (key in candidate) == (key in expect), key
        if key in expect:
            comparison.check(expect[key], candidate[key])
    assert len(last.get("parley", {}).get("warnings", ())) >= expect.get("warnings", 0)
    assert all(chunk["modelVersion"] == "m" and chunk["responseId"] for chunk in chunks)


def encode(batches: list[list[Event]], info: ReplyInfo) -> tuple[list[Json], list[Json]]:
    """The chunks of the stream of these events, as events and as an array."""
    events = GEMINI.reply_encoder(info, "delta")
    array = GEMINI_ARRAY.reply_encoder(info, "delta")
    body = events.open() + b"".join(events.feed(batch) for batch in batches if batch)
    listed = array.open() + array.heartbeat() + b"".join(array.feed(batch) for batch in batches if batch)
    return read_events(body), json.loads(listed)


@pytest.mark.many_cases
@pytest.mark.parametrize("name", [name for name, case in REPLIES.items() if "chunks" in case["given"]["upstream"]])
def test_every_cut_of_the_servers_bytes_gives_the_same_reply(name: str) -> None:
    given, expect = REPLIES[name]["given"], REPLIES[name]["expect"]
    data = to_bytes(given["upstream"])
    thinking = given["body"].get("generationConfig", {}).get("thinkingConfig", {})
    info = ReplyInfo("chat-1", "req-1", "m", 1, options=Options(hide_thinking=not thinking.get("includeThoughts")))

    async def replies() -> None:
        for parts in [*distinct_cuts(data), bytewise(data)]:
            events, array = encode(await replay(Recorded(parts)), info)
            assert events == array
            check_chunks(expect, events)

    asyncio.run(replies())
