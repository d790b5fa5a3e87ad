"""What a Responses server is sent, through the whole gateway: the cases of requests in every client format."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.each_case import each_case
from tests.in_process_gateway import ModelServer, Running, streamed
from tests.upstream.responses.reader import write_stream
from tests.upstream.responses.recordings import GOLDENS

CASES = sorted(GOLDENS.glob("requests/*.json"))
SETTINGS = {
    "upstreams": {
        "openai": {"base_url": "http://model.test/v1", "api": "responses", "kind": "openai"},
        "vllm": {"base_url": "http://model.test/v1", "api": "responses"},
    },
    "models": {
        "openai": {
            "upstreams": ["openai"],
            "name": "up-model",
            "profile": {"encrypted_reasoning": True, "media": ["image", "file"]},
        },
        "vllm": {"upstreams": ["vllm"], "name": "up-model", "profile": {"media": ["image", "file"]}},
    },
}
REPLY = write_stream(
    {"type": "response.output_text.delta", "output_index": 0, "delta": "Hello"},
    {"type": "response.completed", "response": {"status": "completed", "output": []}},
)


_SAMPLERS = ("seed", "presence_penalty", "top_k", "thinking_budget")
"""Fields that this API has no order for."""


def _answer(request: httpx.Request) -> httpx.Response:
    return streamed(REPLY)


def _hide_ids(body: dict[str, Any]) -> dict[str, Any]:
    """Replace the ids that the gateway makes."""
    for item in body["input"]:
        if item["type"] == "reasoning" and "content" in item:
            assert item["id"].startswith("rs_")
            item["id"] = "<rs>"
    return body


@pytest.fixture(scope="module")
def server() -> ModelServer:
    return ModelServer(_answer)


@pytest.fixture(scope="module")
def gateway(server: ModelServer) -> Iterator[Running]:
    with Running(SETTINGS, server) as running:
        yield running


@pytest.mark.skipif(not CASES, reason=f"no cases in {GOLDENS}")
@each_case("upstream", ["openai", "vllm"])
@each_case("path", CASES, ids=lambda path: path.stem)
def test_every_conversation_becomes_the_body_of_its_case(
    path: Any, upstream: str, gateway: Running, server: ModelServer
) -> None:
    case = json.loads(path.read_text("utf-8"))
    options = {name: case[name] for name in ("functions", "generate_cfg") if name in case}
    for format_, messages in case["messages"].items():
        expected = case.get("expect_of_format", {}).get(format_, {}).get(upstream) or case["expect"][upstream]
        expected = expected.get("body", expected)
        if format_ == "qwen":  # Qwen-Agent joins the texts of a message with nothing
            expected = json.loads(json.dumps(expected).replace("Doc.\\nAsk.", "Doc.Ask."))
        body = {"model": upstream, "format": format_, "messages": messages, "stream": True, **options}
        answer = gateway.post("/v1/chat", body)
        assert answer.status == 200, (format_, answer.body)
        request = server.requests[-1]
        sent = _hide_ids(json.loads(request.content))
        assert request.url.path == "/v1/responses"
        assert sent == expected, format_
        known = [name for name in sent if name in expected]
        assert [name for name in known if name not in _SAMPLERS] == [name for name in expected if name not in _SAMPLERS]
