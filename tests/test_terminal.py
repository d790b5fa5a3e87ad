"""The terminal client, against replies that are written out byte by byte."""

import io
import json
import socket
from collections.abc import Callable, Sequence
from typing import Any, TypedDict

import httpx
import pytest
from app.terminal import chat, repl
from app.terminal.frames import frames, lines
from app.terminal.screen import replace_control_characters
from typing_extensions import Unpack

from tests.each_case import each_case

Json = dict[str, Any]
Answer = bytes | httpx.Response | BaseException


class Options(TypedDict, total=False):
    """How a run differs from the default: chat and repl take each of these by name."""

    model: str | None
    functions: list[Json] | None
    api_key: str | None
    as_json: bool
    color: bool


DEFAULTS: Options = {"model": None, "functions": None, "api_key": None, "as_json": False, "color": False}

DIM, CALL, END = "\x1b[2m", "\x1b[36m", "\x1b[0m"

THOUGHT = {"role": "assistant", "content": "", "reasoning_content": "Hm."}
ANSWER = {"role": "assistant", "content": "Hello you"}
CALLED = {
    "role": "assistant",
    "content": "",
    "function_call": {"name": "get_weather", "arguments": '{"city": "Paris"}'},
    "extra": {"function_id": "c1"},
}
REPLY: list[Json] = [
    {"type": "response.started", "response_id": "r1", "model": "m", "created": 1, "cached": False},
    {"type": "message.started", "index": 0, "kind": "reasoning_content", "message": {"role": "assistant"}},
    {"type": "message.delta", "index": 0, "delta": {"reasoning_content": "Hm."}},
    {"type": "message.completed", "index": 0, "message": THOUGHT},
    {"type": "message.started", "index": 1, "kind": "content", "message": {"role": "assistant"}},
    {"type": "message.delta", "index": 1, "delta": {"content": "Hello "}},
    {"type": "message.delta", "index": 1, "delta": {"content": "you"}},
    {"type": "message.completed", "index": 1, "message": ANSWER},
    {
        "type": "message.started",
        "index": 2,
        "kind": "function_call",
        "message": {"role": "assistant", "function_call": {"name": "get_weather"}, "extra": {"function_id": "c1"}},
    },
    {"type": "message.delta", "index": 2, "delta": {"function_call": {"arguments": '{"city": '}}},
    {"type": "message.delta", "index": 2, "delta": {"function_call": {"arguments": '"Paris"}'}}},
    {"type": "message.completed", "index": 2, "message": CALLED},
    {
        "type": "response.completed",
        "finish_reason": "tool_calls",
        "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7},
        "cached": True,
    },
]
SHOWN = 'Hm.\nHello you\nget_weather({"city": "Paris"})\ntool_calls · 3 + 4 tokens · cached\n'


def stream(*events: Json) -> bytes:
    heartbeat = ": still here\n\n"
    texts = [f"id: {seq}\nevent: {event['type']}\ndata: {json.dumps(event)}\n\n" for seq, event in enumerate(events)]
    return (heartbeat + heartbeat.join(texts)).encode()


def say(text: str) -> list[Json]:
    return [{"type": "message.delta", "index": 0, "delta": {"content": text}}, REPLY[-1]]


class FakeTerminal:
    """What was asked, and what a run wrote."""

    def __init__(self) -> None:
        self.asked: list[httpx.Request] = []
        self.out, self.err = io.StringIO(), io.StringIO()

    def transport(self, *replies: Answer) -> httpx.MockTransport:
        waiting = iter(replies)

        def answer(request: httpx.Request) -> httpx.Response:
            self.asked.append(request)
            reply = next(waiting)
            if isinstance(reply, BaseException):
                raise reply
            return reply if isinstance(reply, httpx.Response) else httpx.Response(200, content=reply)

        return httpx.MockTransport(answer)

    def bodies(self) -> list[Any]:
        return [json.loads(request.content) for request in self.asked]


@pytest.fixture
def screen() -> FakeTerminal:
    return FakeTerminal()


USER: Json = {"role": "user", "content": "Hi"}
ELSEWHERE = ". Is a gateway running there? For one at another address or port, use --url or PARLEY_URL"


def run(screen: FakeTerminal, reply: Answer, *, url: str = "http://parley.test", **options: Unpack[Options]) -> int:
    wanted: Options = {**DEFAULTS, **options}
    return chat(url, [USER], out=screen.out, err=screen.err, transport=screen.transport(reply), **wanted)


def test_reasoning_content_and_calls_are_shown_one_below_the_other(screen: FakeTerminal) -> None:
    assert run(screen, stream(*REPLY)) == 0
    assert screen.out.getvalue() == SHOWN
    assert screen.err.getvalue() == ""


def test_each_part_has_its_colour_and_nothing_is_left_coloured(screen: FakeTerminal) -> None:
    run(screen, stream(*REPLY), color=True)
    text = screen.out.getvalue()
    assert f"{DIM}Hm.{END}\nHello you\n{CALL}get_weather({END}" in text
    assert text.replace(DIM, "").replace(CALL, "").replace(END, "") == SHOWN
    assert text.count(END) == text.count(DIM) + text.count(CALL)


def test_messages_that_come_without_deltas_are_shown_whole(screen: FakeTerminal) -> None:
    run(screen, stream(*(frame for frame in REPLY if frame["type"] != "message.delta")))
    assert screen.out.getvalue() == SHOWN


def test_what_is_asked_goes_to_v1_chat_with_the_key(screen: FakeTerminal) -> None:
    run(screen, stream(*REPLY), url="http://parley.test/v1/", model="m", functions=[{"name": "f"}], api_key="secret")
    request = screen.asked[0]
    assert str(request.url) == "http://parley.test/v1/chat"
    assert request.headers["authorization"] == "Bearer secret"
    assert screen.bodies() == [{"messages": [USER], "stream": True, "model": "m", "functions": [{"name": "f"}]}]


def test_what_is_not_given_is_not_sent(screen: FakeTerminal) -> None:
    run(screen, stream(*REPLY))
    assert screen.bodies() == [{"messages": [USER], "stream": True}]
    assert "authorization" not in screen.asked[0].headers


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b]0;title\x07", "␛[31mred␛]0;title␇"),
        ("a\x9b31mb\x7f\x00", "a�31mb␡␀"),
        ("over\rwritten\r\n\tend", "overwritten\n\tend"),
        ("x\ud83d", "x�"),
        ("مرحبا 你好 🙂 \u2028", "مرحبا 你好 🙂 \u2028"),
    ],
)
def test_nothing_that_a_terminal_obeys_gets_through(screen: FakeTerminal, text: str, shown: str) -> None:
    assert replace_control_characters(text) == shown
    run(screen, stream(*say(text)))
    assert screen.out.getvalue().startswith(shown)


def test_names_errors_and_finish_reasons_are_made_harmless_too(screen: FakeTerminal) -> None:
    call = {"type": "message.started", "index": 0, "message": {"function_call": {"name": "\x1b[2J"}}}
    finish = {**REPLY[-1], "finish_reason": "\x1b[2J"}
    error = {"type": "response.failed", "error": {"code": "\x1b[2J", "message": "\x1b[2J"}}
    run(screen, stream(call, finish))
    run(screen, stream(error))
    assert "\x1b" not in screen.out.getvalue() + screen.err.getvalue()


def test_json_mode_writes_every_frame_on_a_line_of_its_own(screen: FakeTerminal) -> None:
    odd = say("a\u2028b\x85c\x9b\ud83d ü")
    assert run(screen, stream(*REPLY[:-1], *odd), as_json=True, color=True) == 0
    text = screen.out.getvalue()
    assert [json.loads(line) for line in text.splitlines()] == [*REPLY[:-1], *odd]
    assert "ü" in text
    text.encode()


def test_every_frame_is_flushed_at_once(screen: FakeTerminal) -> None:
    class Counted(io.StringIO):
        flushed = 0

        def flush(self) -> None:
            self.flushed += 1

    out = screen.out = Counted()
    run(screen, stream(*REPLY), as_json=True)
    assert out.flushed == len(REPLY)


@pytest.mark.parametrize("as_json", [False, True])
def test_a_reply_that_fails_is_one_line_of_error(screen: FakeTerminal, as_json: bool) -> None:
    error = {"code": "rate_limit", "message": "Too many\nrequests.", "param": None, "retryable": True}
    assert run(screen, stream(*REPLY[:7], {"type": "response.failed", "error": error}), as_json=as_json) == 1
    assert screen.err.getvalue() == "parley: rate_limit: Too many requests.\n"
    assert screen.out.getvalue().endswith("\n")


@pytest.mark.parametrize(
    ("status", "body", "line"),
    [
        (
            422,
            b'{"error":{"code":"invalid_request","message":"No role.","param":"messages[0].role"}}',
            "parley: invalid_request: No role. (messages[0].role)\n",
        ),
        (502, b"<h1>Bad\x1b gateway</h1>", f"parley: HTTP 502 Bad Gateway <h1>Bad␛ gateway</h1>{ELSEWHERE}\n"),
        (401, b'{"error":"no"}', 'parley: HTTP 401 Unauthorized {"error":"no"}' + ELSEWHERE + "\n"),
        (302, b"", f"parley: HTTP 302 Found{ELSEWHERE}\n"),
    ],
)
def test_a_refused_request_is_one_line_of_error(screen: FakeTerminal, status: int, body: bytes, line: str) -> None:
    assert run(screen, httpx.Response(status, content=body)) == 1
    assert screen.err.getvalue() == line


@pytest.mark.parametrize(
    ("reply", "code", "error_line"),
    [
        (stream(*REPLY[:5]), 1, "ended before it was complete"),
        (b"data: {\n\n", 1, "does not answer like a Parley"),
        (b"data: 3\n\n", 1, "does not answer like a Parley"),
        (b"<html></html>", 1, "ended before it was complete"),
        (httpx.ReadTimeout("slow"), 1, "the connection broke: slow"),
        (httpx.RemoteProtocolError(""), 1, "the connection broke: RemoteProtocolError"),
        (
            httpx.ConnectError("refused"),
            2,
            "cannot connect to http://parley.test: refused. Is a gateway running there?",
        ),
        (httpx.ConnectError("[Errno 111] Connection refused"), 2, "parley.test: Connection refused. Is a gateway"),
        (httpx.ConnectError("refused"), 2, "use --url or PARLEY_URL"),
        (b"data: 3\n\n", 1, "use --url or PARLEY_URL"),
        (httpx.ConnectTimeout("slow"), 2, "cannot connect"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_every_other_ending_has_its_exit_code_and_its_line(
    screen: FakeTerminal, reply: Answer, code: int, error_line: str
) -> None:
    assert run(screen, reply) == code
    assert error_line in screen.err.getvalue()
    assert screen.err.getvalue().count("\n") == 1


@pytest.mark.parametrize("url", ["nowhere", "ftp://parley.test", "http://[", "http://127.0.0.1:{free}"])
def test_an_address_that_leads_nowhere_cannot_be_connected_to(screen: FakeTerminal, url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        free = listener.getsockname()[1]
    assert chat(url.replace("{free}", str(free)), [USER], out=screen.out, err=screen.err, **DEFAULTS) == 2
    assert screen.err.getvalue().startswith("parley: cannot connect to ")


BYTES = "data: a\u2028\u0085\x0b\x0cb\r\ndata: ü\rx\n\n: c\r\n\r\nlast".encode()


@each_case("size", range(1, 12))
def test_lines_are_the_same_however_the_bytes_are_cut(size: int) -> None:
    chunks = [BYTES[at : at + size] for at in range(0, len(BYTES), size)]
    assert list(lines([b"", *chunks])) == ["data: a\u2028\u0085\x0b\x0cb", "data: ü", "x", "", ": c", ""]


def test_data_of_several_lines_is_one_frame() -> None:
    assert list(frames([b'data:{"a":\r', b'\ndata: 1}\n\nid: 3\n\ndata: {"b": 2}\n\ndata: {'])) == [{"a": 1}, {"b": 2}]


def answers(*texts: str | BaseException) -> Callable[[str], str]:
    waiting = list(texts)

    def read(prompt: str) -> str:
        assert prompt == "> "
        if not waiting:
            raise EOFError
        text = waiting.pop(0)
        if isinstance(text, BaseException):
            raise text
        return text

    return read


def converse(screen: FakeTerminal, typed: Sequence[str | BaseException], *replies: Answer) -> int:
    wanted: Options = {**DEFAULTS, "model": "m"}
    transport = screen.transport(*replies)
    return repl(
        "http://parley.test", out=screen.out, err=screen.err, read=answers(*typed), transport=transport, **wanted
    )


def test_a_conversation_keeps_what_was_asked_and_received(screen: FakeTerminal) -> None:
    assert converse(screen, ["Hi", "  ", "And now?"], stream(*REPLY), stream(*REPLY)) == 0
    first, second = screen.bodies()
    assert first["messages"] == [USER]
    assert second["messages"] == [USER, THOUGHT, ANSWER, CALLED, {"role": "user", "content": "And now?"}]


def test_a_question_that_failed_or_was_interrupted_is_forgotten(screen: FakeTerminal) -> None:
    failed = stream(*REPLY[:5], {"type": "response.failed", "error": {"code": "overloaded", "message": "busy"}})
    assert converse(screen, ["one", "two", "three"], failed, KeyboardInterrupt(), stream(*REPLY)) == 0
    assert screen.bodies()[2]["messages"] == [{"role": "user", "content": "three"}]


def test_an_interrupt_at_the_prompt_ends_the_conversation(screen: FakeTerminal) -> None:
    assert converse(screen, [KeyboardInterrupt()]) == 130


def test_half_a_surrogate_pair_can_be_asked(screen: FakeTerminal) -> None:
    assert converse(screen, ["\udcff"], stream(*REPLY)) == 0
    assert screen.bodies()[0]["messages"] == [{"role": "user", "content": "\udcff"}]
