"""What agents get of an error decides whether they retry: statuses, `x-should-retry` and the ends of streams."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from app.api.reply_response import EventStreamResponse, ResponseLimits
from app.chat.events import Event, Failed, Fault, Finish, TextDelta, ToolCallDelta
from app.formats import FORMATS
from app.formats.base import ReplyInfo
from app.formats.gemini import GEMINI_CUT
from app.responses_api.background import NoClient

from tests.each_case import each_case
from tests.in_process_gateway import HELLO, SERVER, Answer, ModelServer, Running, streamed

Json = dict[str, Any]
ASKED: dict[str, Json] = {
    "/v1/chat": {"messages": [{"role": "user", "content": "Hi"}], "stream": False},
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "Hi"}]},
    "/v1/messages": {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 9},
    "/v1/responses": {"input": "Hi"},
}
NO_RETRIES = {**SERVER, "models": {"m": {"upstreams": ["local"], "max_retries": 0}}}


def refuse(status: int, message: str = "no") -> Callable[[httpx.Request], httpx.Response]:
    return lambda _: httpx.Response(status, json={"error": {"message": message}})


def ask(path: str, server: ModelServer, headers: dict[str, str] | None = None, **body: Any) -> Answer:
    with Running(NO_RETRIES, server) as running:
        return running.post(path, {"model": "m", **ASKED[path], **body}, headers)


@pytest.mark.parametrize("path", ASKED)
@each_case(
    ("given", "status", "retry"),
    [
        (400, 400, "false"),
        (401, 502, "false"),
        (402, 402, "false"),
        (403, 502, "false"),
        (404, 404, "false"),
        (413, 400, "false"),
        (422, 400, "false"),
        (429, 429, "true"),
        (500, 502, "true"),
        (503, 503, "true"),
        (504, 504, "true"),
    ],
)
def test_an_error_of_a_server_says_on_every_endpoint_whether_to_ask_again(
    path: str, given: int, status: int, retry: str
) -> None:
    for stream in (False, True):
        answer = ask(path, ModelServer(refuse(given)), stream=stream)
        expected = 529 if status == 503 and path == "/v1/messages" else status
        assert (answer.status, answer.headers["x-should-retry"]) == (expected, retry)


@pytest.mark.parametrize("path", ASKED)
def test_a_servers_own_429_of_an_empty_account_stays_but_on_messages(path: str) -> None:
    answer = ask(path, ModelServer(refuse(429, "insufficient_quota: you exceeded your current quota")))
    assert answer.status == (402 if path == "/v1/messages" else 429)
    assert answer.headers["x-should-retry"] == "false"


@pytest.mark.parametrize("path", [*ASKED, "/v1/models/x", "/nothing"])
def test_every_error_of_the_gateway_has_the_header(path: str) -> None:
    with Running(NO_RETRIES, ModelServer()) as running:
        answer = running.post(path, {"model": "m"}) if path in ASKED else running.get(path)
    assert answer.status in (400, 404, 422)
    assert answer.headers["x-should-retry"] == "false"


TOO_LONG = "This model's maximum context length is 4096 tokens. However, your messages resulted in 5000 tokens."


def test_a_prompt_that_is_too_long_has_its_numbers_in_the_words_of_each_api() -> None:
    for path, message in (
        ("/v1/messages", "prompt is too long: 5000 tokens > 4096 maximum"),
        ("/v1/responses", TOO_LONG),
        ("/v1/chat/completions", TOO_LONG),
    ):
        error = ask(path, ModelServer(refuse(400, TOO_LONG))).json["error"]
        assert error["message"] == message
    with Running(NO_RETRIES, ModelServer(refuse(400, TOO_LONG))) as running:
        error = running.post("/v1beta/models/m:generateContent", {"contents": [{"parts": [{"text": "Hi"}]}]}).json[
            "error"
        ]
    assert error["message"] == "The input token count (5000) exceeds the maximum number of tokens allowed (4096)"


FILTERED = (
    HELLO,
    b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"content_filter"}]}\n\n',
    b"data: [DONE]\n\n",
)


def test_codex_is_told_of_a_content_filter_as_a_failure_that_it_does_not_repeat() -> None:
    codex = {"originator": "codex_exec"}
    events = ask("/v1/responses", ModelServer(lambda _: streamed(*FILTERED)), codex, stream=True).frames
    *_, done, error, failed = events
    assert done["item"]["content"][0]["text"] == "Hello"
    assert (error["type"], error["code"], failed["type"]) == ("error", "invalid_prompt", "response.failed")
    assert failed["response"]["output"] == [done["item"]]
    assert failed["response"]["error"]["parley_code"] == "content_filter"
    assert [event["sequence_number"] for event in events] == list(range(len(events)))


def test_codex_is_told_the_words_of_a_refusal() -> None:
    refusal = b'data: {"choices":[{"index":0,"delta":{"refusal":"I may not."}}]}\n\n'
    server = ModelServer(lambda _: streamed(refusal, *FILTERED[1:]))
    events = ask("/v1/responses", server, {"originator": "codex_exec"}, stream=True).frames
    assert events[-2]["message"] == "I may not."


@pytest.mark.parametrize("headers", [{}, {"originator": "codex_exec"}])
def test_others_and_whole_replies_are_incomplete_after_a_content_filter(headers: dict[str, str]) -> None:
    whole = ask("/v1/responses", ModelServer(lambda _: streamed(*FILTERED)), headers, stream=False).json
    assert (whole["status"], whole["incomplete_details"]) == ("incomplete", {"reason": "content_filter"})
    if not headers:
        events = ask("/v1/responses", ModelServer(lambda _: streamed(*FILTERED)), stream=True).frames
        assert events[-1]["type"] == "response.incomplete"


class Writer(NoClient):
    """Keeps what is written, and how it ends."""

    def __init__(self) -> None:
        self.written = b""
        self.end = ""

    def write(self, data: bytes, *, last: bool) -> None:
        self.written += data
        self.end = "last" if last else self.end

    def cut(self) -> None:
        self.end = "cut"


CUT = Failed(Fault("upstream_incomplete", "cut", True))


@each_case(
    ("format_", "events", "end"),
    [
        ("openai", [ToolCallDelta(0, '{"a', "c", "f"), CUT], "cut"),
        ("openai", [ToolCallDelta(0, "", "c", "f"), CUT], "cut"),
        ("openai", [ToolCallDelta(0, "{}", "c", "f"), CUT], "last"),
        ("openai", [TextDelta("x"), CUT], "last"),
        ("openai", [ToolCallDelta(0, '{"a', "c", "f"), Finish("length")], "last"),
        ("anthropic", [ToolCallDelta(0, '{"a', "c", "f"), CUT], "last"),
        ("qwen", [ToolCallDelta(0, '{"a', "c", "f"), CUT], "last"),
        ("gemini", [TextDelta("x"), CUT], "last"),
    ],
)
@pytest.mark.anyio
async def test_a_stream_that_fails_has_no_end_where_clients_would_take_its_half_for_a_whole(
    format_: str, events: list[Event], end: str
) -> None:
    writer, limits = Writer(), ResponseLimits(heartbeat_seconds=2, commit_seconds=5, stall_seconds=60)
    response = EventStreamResponse(writer, ReplyInfo("chat-1", "req-1", "m", 1), FORMATS[format_], "delta", limits)
    response.on_events(events)
    assert (writer.end, response.finished) == (end, True)
    assert (b'"error"' in writer.written) is (type(events[-1]) is Failed)


@pytest.mark.parametrize(
    ("events", "end"), [([TextDelta("x"), CUT], "cut"), ([TextDelta("x"), Finish("length")], "last")]
)
@pytest.mark.anyio
async def test_a_stream_has_no_end_for_clients_that_skip_its_error(events: list[Event], end: str) -> None:
    writer, limits = Writer(), ResponseLimits(heartbeat_seconds=2, commit_seconds=5, stall_seconds=60)
    info = ReplyInfo("chat-1", "req-1", "m", 1)
    EventStreamResponse(writer, info, GEMINI_CUT, "delta", limits).on_events(events)
    assert writer.end == end
    assert (b'"error"' in writer.written) is (end == "cut")


@each_case("path", ["/v1/responses", "/v1/responses/"])
def test_an_upgrade_to_a_websocket_is_refused_with_the_status_that_codex_obeys(path: str) -> None:
    with Running(NO_RETRIES, ModelServer()) as running:
        headers = {"upgrade": "websocket", "connection": "upgrade", "sec-websocket-key": "x"}
        refused = running.get(path, headers)
        plain = running.get(path)
    assert (refused.status, refused.headers["upgrade"]) == (426, "HTTP/1.1")
    assert (refused.json["error"]["code"], refused.json["error"]["retryable"]) == ("websocket_disabled", False)
    assert plain.status == 405


def test_what_claude_code_asks_first_needs_no_key() -> None:
    with Running({**NO_RETRIES, "keys": {"a": {"sha256": "0" * 64}}}, ModelServer()) as running:
        for path in ("/", "/api/hello"):
            answer = running.ask("HEAD", path)
            assert (answer.status, answer.body) == (200, b"")


@each_case("path", ["/v1/models", "/v1/usage", "/metrics"])
def test_what_a_key_reads_is_stored_by_no_cache(path: str) -> None:
    with Running(NO_RETRIES, ModelServer()) as running:
        answer = running.get(path)
    assert (answer.status, answer.headers["cache-control"]) == (200, "no-store")


def test_json_is_the_body_of_each_error() -> None:
    answer = ask("/v1/chat/completions", ModelServer(refuse(402)))
    assert json.loads(answer.body)["error"]["type"] == "insufficient_quota"
