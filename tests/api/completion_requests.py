"""Questions at `POST /v1/chat/completions`, and model servers that answer with given events."""

import json
from typing import Any

import httpx

from tests.in_process_gateway import SERVER, Answer, ModelServer, Running, streamed

Json = dict[str, Any]
QUESTION = [{"role": "user", "content": "Hi"}]
TOOL: Json = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
USAGE = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}


def event(delta: Json, finish_reason: str | None = None) -> bytes:
    return frame({"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]})


def frame(value: Any) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def called(index: int, id_: str | None = None, name: str | None = None, arguments: str = "", **more: Any) -> bytes:
    """A piece of a call."""
    function = {"arguments": arguments} | ({"name": name} if name else {})
    head = {"id": id_, "type": "function"} if id_ else {}
    return event({"tool_calls": [{"index": index, **head, "function": function, **more}]})


DONE = b"data: [DONE]\n\n"
ENDED = event({}, "stop") + frame({"choices": [], "usage": USAGE}) + DONE
THOUGHT_SAID_CALLED = (
    event({"reasoning_content": "Where "}),
    event({"reasoning_content": "is it?"}),
    event({"content": "Let me "}),
    event({"content": "look."}),
    called(0, "c1", "f", '{"a"'),
    called(0, arguments=":1}"),
    called(1, "c2", "g", "{}"),
    event({}, "tool_calls"),
    frame({"choices": [], "usage": USAGE}),
    DONE,
)


def server_sending(*pieces: bytes) -> ModelServer:
    return ModelServer(lambda _: streamed(*pieces))


def refusing(status: int, error: Json, headers: dict[str, str] | None = None) -> ModelServer:
    return ModelServer(lambda _: httpx.Response(status, json={"error": error}, headers=headers))


def profiled(**profile: Any) -> Json:
    """Settings for a model with this profile."""
    return {**SERVER, "models": {"m": {"upstreams": ["local"], "profile": profile}}}


def ask(
    server: ModelServer | None = None, settings: Json | None = None, headers: dict[str, str] | None = None, **body: Any
) -> Answer:
    with Running(settings, server or ModelServer()) as gateway:
        return gateway.post("/v1/chat/completions", {"model": "m", "messages": QUESTION, **body}, headers)


def sent(settings: Json | None = None, **body: Any) -> Json:
    """What the model server is sent for this, but for what every request has."""
    server = ModelServer()
    answer = ask(server, settings, **body)
    assert answer.status == 200, answer.body
    (request,) = server.requests
    plain = {"model", "messages", "stream", "stream_options"}
    return {key: value for key, value in json.loads(request.content).items() if key not in plain or key in body}
