"""Model servers that get no request for a stream: their whole replies reach callers in every mode."""

import json
from typing import Any

import httpx
import pytest

from tests.api.completion_requests import QUESTION, profiled
from tests.in_process_gateway import Answer, ModelServer, Running

Json = dict[str, Any]
USAGE = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
MESSAGE = {"role": "assistant", "content": "Let me look.", "reasoning_content": "Hm.", "tool_calls": [CALL]}
COMPLETION = {
    "object": "chat.completion",
    "choices": [{"index": 0, "message": MESSAGE, "finish_reason": "tool_calls"}],
    "usage": USAGE,
}
CACHED = {"cache": {"url": "memory:"}}


def whole() -> ModelServer:
    return ModelServer(lambda _: httpx.Response(200, json=COMPLETION))


def requested_streams(server: ModelServer) -> list[bool]:
    return [json.loads(request.content)["stream"] for request in server.requests]


def chat(gateway: Running, **body: Any) -> Answer:
    return gateway.post("/v1/chat", {"model": "m", "messages": QUESTION, **body})


@pytest.mark.parametrize(("how", "stream", "want"), [
    ("always", False, True),
    ("as_asked", True, True),
    ("as_asked", False, False),
    ("never", True, False),
])  # fmt: skip
@pytest.mark.parametrize("path", ["/v1/chat", "/v1/chat/completions"])
def test_a_stream_is_requested_as_the_profile_and_the_caller_say(how: str, stream: bool, want: bool, path: str) -> None:
    server = whole()
    with Running(profiled(stream=how), server) as gateway:
        answer = gateway.post(path, {"model": "m", "messages": QUESTION, "stream": stream})
    assert (answer.status, requested_streams(server)) == (200, [want])


@pytest.mark.parametrize("mode", ["delta", "snapshot"])
def test_a_whole_reply_is_a_stream_for_a_caller_who_wants_one(mode: str) -> None:
    with Running(profiled(stream="never"), whole()) as gateway:
        streamed = chat(gateway, stream_mode=mode)
        received = chat(gateway, stream=False).json
    end = streamed.frames[-1]
    assert (end["type"], end["finish_reason"], end["usage"]) == ("response.completed", "tool_calls", USAGE)
    assert (received["finish_reason"], received["usage"]) == ("tool_calls", USAGE)
    if mode == "snapshot":
        assert streamed.frames[-2]["messages"] == received["messages"]
    else:
        completed = [frame["message"] for frame in streamed.frames if frame["type"] == "message.completed"]
        assert completed == received["messages"]


def test_a_reply_in_one_piece_and_a_stream_of_it_share_a_cache_entry() -> None:
    server = whole()
    with Running({**profiled(stream="as_asked"), **CACHED}, server) as gateway:
        first, second = chat(gateway, stream=False), chat(gateway)
    assert (first.headers["x-parley-cache"], second.headers["x-parley-cache"]) == ("miss", "hit")
    assert requested_streams(server) == [False]


def test_an_error_in_place_of_a_whole_reply_is_a_status() -> None:
    server = ModelServer(lambda _: httpx.Response(200, json={"error": {"message": "broken", "code": 500}}))
    with Running(profiled(stream="never"), server) as gateway:
        answer = chat(gateway, stream=False)
    assert (answer.status, answer.json["error"]["message"]) == (502, "broken (server error)")


def test_a_whole_reply_that_is_cut_is_no_reply() -> None:
    cut = json.dumps(COMPLETION).encode()[:-20]
    with Running(profiled(stream="never"), ModelServer(lambda _: httpx.Response(200, content=cut))) as gateway:
        answer = chat(gateway, stream=False)
    assert (answer.status, answer.json["error"]["code"]) == (502, "upstream_incomplete")
