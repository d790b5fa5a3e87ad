"""Reports of each client format in front of each API of a model server give the same reply, also where that was cut."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from app.cli import main

from tests.guards.golden_runner import write_blocks
from tests.guards.test_every_path import write_gemini, write_response
from tests.in_process_gateway import ModelServer, streamed
from tests.replay.test_replay import record
from tests.restored_logging import restored_logging

Json = dict[str, Any]
TEXT = ["Ich weiß: ", "ja", ", 漢", "字."]
FORMATS = ("qwen", "autogen", "agentscope", "agentscope2")


@pytest.fixture(autouse=True)
def keep_logging() -> Iterator[None]:
    with restored_logging():
        yield


def write_chat(parts: list[str]) -> list[bytes]:
    deltas: list[Json] = [{"reasoning_content": "Hm."}, *({"content": part} for part in parts)]
    chunks: list[Json] = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    usage = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}}
    return [*(b"data: %b\n\n" % json.dumps(one).encode() for one in (*chunks, usage)), b"data: [DONE]\n\n"]


def write_messages(parts: list[str]) -> list[bytes]:
    blocks: list[Json] = [{"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}]
    return write_blocks({"blocks": [*blocks, {"type": "text", "text": "".join(parts)}], "stop_reason": "end_turn"})


APIS = {
    "chat_completions": write_chat(TEXT),
    "messages": write_messages(TEXT),
    "responses": write_response(TEXT),
    "gemini": write_gemini(["Hm."], TEXT),
}


def list_requests() -> Iterator[tuple[str, Json]]:
    """Yield each path and body of a client."""
    messages: list[Json] = [{"role": "user", "content": "Weißt du, wer ann@example.com ist?"}]
    for stream in (True, False):
        chat: Json = {"model": "m", "messages": messages, "stream": stream}
        for reply_format in FORMATS:
            yield "/v1/chat", {**chat, "reply_format": reply_format}
        yield "/v1/chat/completions", chat
        yield "/v1/messages", {**chat, "max_tokens": 100}
        yield "/v1/responses", {"model": "m", "input": messages, "stream": stream}
    contents: Json = {"contents": [{"role": "user", "parts": [{"text": "Weißt du es?"}]}]}
    for way in ("generateContent", "streamGenerateContent", "streamGenerateContent?alt=sse"):
        yield f"/v1beta/models/m:{way}", contents


@pytest.mark.parametrize("end", ["whole", "cut", "broken"])
@pytest.mark.parametrize("api", APIS)
def test_the_reply_of_a_report_is_the_same(api: str, end: str, tmp_path: Path, capsys: Any) -> None:
    pieces = APIS[api]
    if end == "cut":
        pieces = pieces[: len(pieces) // 2]
    if end == "broken":
        pieces = [*pieces[:2], pieces[2][:17]]
    settings: Json = {"upstreams": {"local": {"base_url": "http://model.test/v1", "api": api}}}
    different: list[tuple[str, Json, str]] = []
    for number, (path, body) in enumerate(list_requests()):
        folder = tmp_path / str(number)
        folder.mkdir()
        file = record(folder, ModelServer(lambda _: streamed(*pieces)), path, body, **settings)
        capsys.readouterr()
        status = main(["replay", str(file)])
        if status:
            different.append((path, body, capsys.readouterr().out))
    assert not different
