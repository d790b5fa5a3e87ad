"""A server of the Responses API whose events have no numbers: the gateway goes on with their count."""

import json

import httpx

from tests.each_case import each_case
from tests.in_process_gateway import ModelServer, Running, streamed

EVENTS = [
    {"type": "response.created", "response": {"id": "r", "object": "response", "status": "in_progress", "output": []}},
    {"type": "response.output_item.added", "output_index": 0, "item": {"type": "message", "id": "m", "content": []}},
    {"type": "response.output_text.delta", "item_id": "m", "output_index": 0, "content_index": 0, "delta": "a"},
    {"type": "response.output_text.delta", "item_id": "m", "output_index": 0, "content_index": 0, "delta": "b"},
]


@each_case("count", [3, 4])
def test_a_failure_has_the_next_number(count: int) -> None:
    def serve(_: httpx.Request) -> httpx.Response:
        return streamed(b"".join(b"data: %b\n\n" % json.dumps(event).encode() for event in EVENTS[:count]))

    upstream = {"base_url": "http://model.test/v1", "api": "responses"}
    settings = {"upstreams": {"u": upstream}, "models": {"m": {"upstreams": ["u"], "max_retries": 0}}}
    with Running(settings, ModelServer(serve)) as gateway:
        answer = gateway.post("/v1/responses", {"model": "m", "input": "x", "stream": True, "store": False})
    sent = [json.loads(line[6:]) for line in answer.body.decode().splitlines() if line.startswith("data: ")]
    numbers = [(event["type"], event.get("sequence_number")) for event in sent]
    assert numbers[-2:] == [("error", count), ("response.failed", count + 1)]
    assert len(numbers) == count + 2
