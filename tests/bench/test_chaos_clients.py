"""What the chaos run's clients ask and read, at a gateway and model servers that do not fail."""

import json
import random
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from chaos_apis import APIS, find_api
from chaos_client import CHAT, GEMINI, READERS, Request, make_request
from chaos_named_readers import MessagesReader, ResponsesReader
from chaos_readers import GeminiReader, ReplyReader, read_error_code, read_whole
from chaos_replies import Received, WrongReplyError, answer, find_mistake

from tests.in_process_gateway import ModelServer, Running, streamed

Json = dict[str, Any]
MODELS = ("plain", "hedged", "prefix")
REQUESTS = 800


def serve(request: httpx.Request) -> httpx.Response:
    api = find_api(request.url.path)
    body = api.read_request(request.url.path, json.loads(request.content))
    reply = answer(api.read_messages(body)[0]["content"], "0" * 8)
    if not body.get("stream"):
        return httpx.Response(200, json=api.write_whole(reply, body["model"]))
    return streamed(b"".join(api.write_events(reply, body["model"], random.Random(1))))


@pytest.fixture(scope="module", params=APIS)
def gateway(request: pytest.FixtureRequest) -> Iterator[Running]:
    upstream = {"base_url": "http://model.test/v1", "api": request.param}
    models = dict.fromkeys(MODELS, {"upstreams": ["u"]})
    with Running({"upstreams": {"u": upstream}, "models": models}, ModelServer(serve)) as running:
        yield running


def draw(endpoint: str) -> Iterator[Request]:
    pick = random.Random(endpoint)
    drawn = (make_request(pick, str(number), ["key"], float(number)) for number in range(REQUESTS))
    return (one for one in drawn if one.endpoint == endpoint and one.question.kind != "loop")


def read(request: Request, body: bytes) -> Received:
    if not request.stream or request.is_array:
        return read_whole(json.loads(body))
    reader = READERS[request.endpoint]()
    *frames, rest = body.split(reader.frame_end)
    assert not rest
    for frame in frames:
        reader.feed(frame)
    return reader.received


@pytest.mark.parametrize("endpoint", READERS)
def test_a_right_reply_is_read_as_right(gateway: Running, endpoint: str) -> None:
    kinds: set[tuple[str, bool, bool]] = set()
    for request in draw(endpoint):
        prompt = request.question.prompt
        if request.question.kind == "varying":
            continue  # the servers of this test mark all replies alike
        received = read(request, gateway.post(request.path, request.body).body)
        assert find_mistake(prompt, received) == "", request
        assert received.ended == "completed"
        kinds.add((request.question.kind, request.stream, request.is_array))
    assert len(kinds) == (6 if endpoint == GEMINI else 4)


def test_a_client_of_google_has_its_key_in_its_own_header() -> None:
    for endpoint, name in ((GEMINI, "x-goog-api-key"), (CHAT, "authorization")):
        request = next(draw(endpoint))
        assert "key" in request.headers[name] and request.headers.keys() >= {"x-request-id", "content-type"}


def chunk(*parts: Json, **fields: Any) -> Json:
    head = {"responseId": "r", "candidates": [{"content": {"role": "model", "parts": list(parts)}, **fields}]}
    return {**head, "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5}}


def frame(value: Json, head: bytes = b"data: ") -> bytes:
    return head + json.dumps(value, ensure_ascii=False).encode()


SAID, END = chunk({"text": "a"}), chunk({"text": ""}, finishReason="STOP")
ERROR = {"error": {"code": 502, "message": "m", "details": [{"reason": "UPSTREAM_DISCONNECTED"}, {"@type": "x"}]}}
USAGE: dict[str, object] = {"prompt_tokens": 3, "completion_tokens": 2}


def test_heartbeats_are_no_frames() -> None:
    reader = GeminiReader()
    for text in (b"", b"\r\n", frame(SAID), b"\r\n\r\n" + frame(END)):
        reader.feed(text)
    assert reader.received == Received(content="a", ended="completed", finish_reason="stop", usage=USAGE)
    assert (reader.frames, reader.response_id) == (2, "r")


def test_the_last_chunk_with_an_estimate_has_no_usage() -> None:
    estimated = {**END, "parley": {"warnings": ["usage_estimated: so"]}}
    assert read_whole([SAID, estimated]).usage is None
    assert read_whole(END).usage == USAGE


def test_an_id_of_a_server_is_none_of_a_reply_that_can_be_resumed() -> None:
    reader = GeminiReader()
    reader.feed(frame({**SAID, "responseId": "x"}))
    assert reader.response_id == ""


def test_a_failure_ends_a_stream() -> None:
    assert read_whole([SAID, ERROR]) == Received(
        content="a", ended="failed", error="upstream_disconnected", usage=USAGE
    )
    assert read_error_code({"code": "overloaded"}) == "overloaded"


@pytest.mark.parametrize(
    "frames",
    [
        [b": comment"],
        [b"data: [DONE]"],
        [b"event: x\ndata: {}"],
        [frame(SAID, b"data:")],
        [frame(chunk({"text": "\u2028"}))],
        [frame(END), frame(SAID)],
        [frame(ERROR), frame(SAID)],
        [frame(SAID), frame({**END, "responseId": "s"})],
        [frame({**SAID, "usageMetadata": {**SAID["usageMetadata"], "totalTokenCount": 9}})],
    ],
)
def test_a_stream_against_the_rules_is_found(frames: list[bytes]) -> None:
    reader = GeminiReader()
    with pytest.raises((WrongReplyError, ValueError)):
        for one in frames:
            reader.feed(one)


def test_a_reply_without_an_end_is_found() -> None:
    with pytest.raises(WrongReplyError, match="without a finish reason"):
        read_whole([SAID])


def named(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}".encode()


MESSAGE = named("message_start", message={"content": [], "usage": {"input_tokens": 3, "output_tokens": 1}})
TEXT_BLOCK = named("content_block_start", index=0, content_block={"type": "text", "text": ""})
WORD = named("content_block_delta", index=0, delta={"type": "text_delta", "text": "a"})
BLOCK_END = named("content_block_stop", index=0)
USED = {"input_tokens": 3, "output_tokens": 2}
REASON = named("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 2})
STOP = named("message_stop")
FAILURE = named("error", error={"type": "api_error", "code": "upstream_disconnected"})
CREATED = named("response.created", sequence_number=0)
DELTA = named("response.output_text.delta", sequence_number=1, delta="a")


def response(text: str, status: str = "completed", **fields: Any) -> Json:
    output = [{"type": "message", "content": [{"type": "output_text", "text": text}]}]
    return {"object": "response", "status": status, "output": output, "usage": USED, **fields}


def completed(text: str, number: int = 2) -> bytes:
    return named("response.completed", sequence_number=number, response=response(text))


@pytest.mark.parametrize(
    ("reader", "frames"),
    [
        (MessagesReader(), [b": comment", MESSAGE, named("ping"), TEXT_BLOCK, WORD, BLOCK_END, REASON, STOP]),
        (ResponsesReader(), [CREATED, b": comment", DELTA, completed("a")]),
    ],
)
def test_named_frames_are_read(reader: ReplyReader, frames: list[bytes]) -> None:
    for one in frames:
        reader.feed(one)
    assert reader.received == Received(content="a", ended="completed", finish_reason="stop", usage=USAGE)


def test_a_whole_reply_of_each_api_is_read() -> None:
    said = {"type": "message", "content": [{"type": "text", "text": "a"}], "stop_reason": "max_tokens", "usage": USED}
    assert read_whole(said) == Received(content="a", ended="completed", finish_reason="length", usage=USAGE)
    cut = response("a", "incomplete", incomplete_details={"reason": "max_output_tokens"})
    assert read_whole(cut) == Received(content="a", ended="completed", finish_reason="length", usage=USAGE)
    estimated = {**response("a"), "parley": {"warnings": ["usage_estimated: so"]}}
    assert read_whole(estimated).usage is None


def test_failures_of_named_streams_have_codes() -> None:
    messages, responses = MessagesReader(), ResponsesReader()
    for one in (MESSAGE, FAILURE):
        messages.feed(one)
    failed = named("response.failed", sequence_number=2, response={"error": {"code": "server_error"}})
    for one in (CREATED, named("error", sequence_number=1, code="server_error"), failed):
        responses.feed(one)
    assert (messages.received.ended, messages.received.error) == ("failed", "upstream_disconnected")
    assert (responses.received.ended, responses.received.error) == ("failed", "server_error")


@pytest.mark.parametrize(
    ("reader", "frames"),
    [
        (MessagesReader(), [TEXT_BLOCK]),
        (MessagesReader(), [MESSAGE, MESSAGE]),
        (MessagesReader(), [MESSAGE, WORD]),
        (MessagesReader(), [MESSAGE, TEXT_BLOCK, TEXT_BLOCK]),
        (MessagesReader(), [MESSAGE, TEXT_BLOCK, REASON]),
        (MessagesReader(), [MESSAGE, TEXT_BLOCK, BLOCK_END, STOP]),
        (MessagesReader(), [MESSAGE, REASON, REASON]),
        (MessagesReader(), [MESSAGE, REASON, STOP, STOP]),
        (MessagesReader(), [MESSAGE, FAILURE, STOP]),
        (MessagesReader(), [MESSAGE, STOP.replace(b"event: message_stop", b"event: ping")]),
        (MessagesReader(), [b"data: {}"]),
        (ResponsesReader(), [DELTA]),
        (ResponsesReader(), [CREATED, completed("a", 1)]),
        (ResponsesReader(), [CREATED, DELTA, completed("a", 4)]),
        (ResponsesReader(), [CREATED, DELTA, completed("a"), completed("a", 3)]),
        (ResponsesReader(), [CREATED, named("response.failed", response={"error": {"code": "x"}})]),
        (ResponsesReader(), [CREATED, named("error", code="x"), DELTA.replace(b"1", b"2")]),
        (ResponsesReader(), [CREATED, named("error", sequence_number=2, code="x")]),
    ],
)
def test_named_streams_against_the_rules_are_found(reader: ReplyReader, frames: list[bytes]) -> None:
    with pytest.raises(WrongReplyError):
        for one in frames:
            reader.feed(one)
