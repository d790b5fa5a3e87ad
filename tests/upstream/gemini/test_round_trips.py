"""Two turns with tools through every client format: the server gets back what it sent, at its place."""

from typing import Any

import httpx

from tests.each_case import each_case
from tests.in_process_gateway import streamed
from tests.upstream.client_turns import FORMATS, converse
from tests.upstream.gemini.replies import SETTINGS, chunk, write_stream

Json = dict[str, Any]
FIRST: list[Json] = [
    {"text": "Hm.", "thought": True},
    {"text": "I look."},
    {"functionCall": {"id": "call_1", "name": "look", "args": {"a": 1}}, "thoughtSignature": "S1" * 4000},
    {"functionCall": {"id": "call_2", "name": "shell", "args": {"b": "é"}}},
]
SECOND: list[Json] = [
    {"executableCode": {"code": "1", "language": "PYTHON"}, "thoughtSignature": "Q1" * 4000},
    {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
    {"text": "Now.", "thought": True},
    {"text": "Done.", "thoughtSignature": "S2S2"},
]
RESULTS: list[Json] = [
    {"functionResponse": {"id": "call_1", "name": "look", "response": {"result": "seen"}}},
    {"functionResponse": {"id": "call_2", "name": "shell", "response": {"result": "total 0"}}},
]


def answer(parts: list[Json]) -> httpx.Response:
    return streamed(write_stream(*[chunk(part) for part in parts], chunk(end="STOP")))


@each_case("stream", [False, True])
@each_case("format_", FORMATS)
def test_what_a_server_sent_comes_back_at_its_place(format_: str, stream: bool) -> None:
    replies = map(answer, (FIRST, SECOND, SECOND))
    sent = converse(SETTINGS, [*replies], format_, stream=stream)["contents"]
    assert sent == [
        {"role": "user", "parts": [{"text": "Hi"}]},
        {"role": "model", "parts": FIRST[1:]},
        {"role": "user", "parts": RESULTS},
        {"role": "model", "parts": [part for part in SECOND if "thought" not in part]},
        {"role": "user", "parts": [{"text": "More"}]},
    ], format_
