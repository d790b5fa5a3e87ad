"""Questions and conversations, against replies that are written out byte by byte."""

import io
import json
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from app.terminal import ChatOptions, ask_once, converse
from app.terminal.frames import frames, lines
from app.terminal.screen import replace_control_characters

from tests.each_case import each_case

Json = dict[str, Any]
Answer = bytes | httpx.Response | BaseException


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
        self.prompts: list[str] = []
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
        """What was sent with each question."""
        return [json.loads(request.content) for request in self.asked if request.method == "POST"]


@pytest.fixture
def screen() -> FakeTerminal:
    return FakeTerminal()


USER: Json = {"role": "user", "content": "Hi"}
SENT: Json = {"messages": [USER], "stream": True, "cancel_on_disconnect": False}
ELSEWHERE = ". Is a gateway running there? For one at another address or port, use --url or PARLEY_URL"


def options(screen: FakeTerminal, *replies: Answer, **more: Any) -> ChatOptions:
    fields = {"url": "http://parley.test", "transport": screen.transport(*replies), "retry_seconds": (), **more}
    return ChatOptions(out=screen.out, err=screen.err, **fields)


def run(screen: FakeTerminal, *replies: Answer, **more: Any) -> int:
    return ask_once(options(screen, *replies, **more), "Hi")


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


def test_a_question_goes_to_v1_chat_with_the_key(screen: FakeTerminal) -> None:
    run(screen, stream(*REPLY), url="http://parley.test/v1/", model="m", functions=[{"name": "f"}], api_key="secret")
    request = screen.asked[0]
    assert str(request.url) == "http://parley.test/v1/chat"
    assert request.headers["authorization"] == "Bearer secret"
    assert screen.bodies() == [{**SENT, "model": "m", "functions": [{"name": "f"}]}]


def test_what_is_not_given_is_not_sent(screen: FakeTerminal) -> None:
    run(screen, stream(*REPLY))
    assert screen.bodies() == [SENT]
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
    ("reply", "code", "told_of"),
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
    screen: FakeTerminal, reply: Answer, code: int, told_of: str
) -> None:
    assert run(screen, reply) == code
    assert told_of in screen.err.getvalue()
    assert screen.err.getvalue().count("\n") == 1


@pytest.mark.parametrize("url", ["nowhere", "ftp://parley.test", "http://[", "http://127.0.0.1:{free}"])
def test_an_address_that_leads_nowhere_cannot_be_connected_to(screen: FakeTerminal, url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        free = listener.getsockname()[1]
    assert run(screen, url=url.replace("{free}", str(free)), transport=None) == 2
    assert screen.err.getvalue().startswith("parley: cannot connect to ")


BYTES = "data: a\u2028\u0085\x0b\x0cb\r\ndata: ü\rx\n\n: c\r\n\r\nlast".encode()


@each_case("size", range(1, 12))
def test_lines_are_the_same_however_the_bytes_are_cut(size: int) -> None:
    chunks = [BYTES[at : at + size] for at in range(0, len(BYTES), size)]
    assert list(lines([b"", *chunks])) == ["data: a\u2028\u0085\x0b\x0cb", "data: ü", "x", "", ": c", ""]


def test_data_of_several_lines_is_one_frame() -> None:
    assert list(frames([b'data:{"a":\r', b'\ndata: 1}\n\nid: 3\n\ndata: {"b": 2}\n\ndata: {'])) == [{"a": 1}, {"b": 2}]


def read_lines(prompts: list[str], *texts: str | BaseException) -> Callable[[str], str]:
    """Reads these lines, and then the end of input."""
    waiting = list(texts)

    def read(prompt: str) -> str:
        prompts.append(prompt)
        if not waiting:
            raise EOFError
        text = waiting.pop(0)
        if isinstance(text, BaseException):
            raise text
        return text

    return read


def run_conversation(
    screen: FakeTerminal, texts: Sequence[str | BaseException], *replies: Answer, interactive: bool = True, **more: Any
) -> int:
    return converse(options(screen, *replies, **more), read_lines(screen.prompts, *texts), interactive=interactive)


TALK = stream(
    {"type": "message.completed", "index": 0, "message": THOUGHT},
    {"type": "message.completed", "index": 1, "message": ANSWER},
    REPLY[-1],
)
"""A reply without a call."""
BUSY = stream({"type": "response.failed", "error": {"code": "overloaded", "message": "busy"}})


def test_a_conversation_keeps_questions_and_replies(screen: FakeTerminal) -> None:
    assert run_conversation(screen, ["Hi", "  ", "And now?"], TALK, TALK, model="m") == 0
    first, second = screen.bodies()
    assert first["messages"] == [USER]
    assert second["messages"] == [USER, THOUGHT, ANSWER, {"role": "user", "content": "And now?"}]
    assert first["model"] == second["model"] == "m"


def test_a_question_that_failed_or_was_interrupted_is_forgotten(screen: FakeTerminal) -> None:
    assert run_conversation(screen, ["one", "two", "three"], BUSY, KeyboardInterrupt(), TALK) == 0
    assert screen.bodies()[2]["messages"] == [{"role": "user", "content": "three"}]
    assert "stopped; the question is not part of the conversation" in screen.err.getvalue()


def test_from_a_pipe_the_status_is_that_of_the_first_failure_and_an_interrupt_ends_all(screen: FakeTerminal) -> None:
    assert run_conversation(screen, ["one", "two"], BUSY, TALK, interactive=False) == 1
    assert run_conversation(screen, ["one", "two"], httpx.ConnectError("no"), BUSY, interactive=False) == 2
    assert run_conversation(screen, ["one", "two"], KeyboardInterrupt(), interactive=False) == 130
    assert run_conversation(screen, ["one", KeyboardInterrupt()], TALK, interactive=False) == 130


def test_a_second_interrupt_at_the_prompt_ends_the_conversation(screen: FakeTerminal) -> None:
    assert run_conversation(screen, [KeyboardInterrupt(), KeyboardInterrupt()]) == 130
    assert "Ctrl-C again" in screen.err.getvalue()
    assert run_conversation(screen, [KeyboardInterrupt(), "Hi", KeyboardInterrupt()], TALK) == 0


def test_half_a_surrogate_pair_can_be_sent_and_saved(screen: FakeTerminal, tmp_path: Path) -> None:
    file = tmp_path / "saved.json"
    assert run_conversation(screen, ["\udcff", f"/save {file}"], TALK) == 0
    assert screen.bodies()[0]["messages"] == [{"role": "user", "content": "\udcff"}]
    assert json.loads(file.read_text())[0]["content"] == "\udcff"


def test_the_result_of_a_call_is_typed_and_sent_with_its_id(screen: FakeTerminal) -> None:
    assert run_conversation(screen, ["Hi", "sunny"], stream(*REPLY), TALK, functions=[{"name": "get_weather"}]) == 0
    assert screen.prompts == ["> ", 'result of get_weather({"city": "Paris"}): ', "> "]
    result = {"role": "function", "name": "get_weather", "content": "sunny", "extra": {"function_id": "c1"}}
    assert screen.bodies()[1]["messages"] == [USER, THOUGHT, ANSWER, CALLED, result]


def reply_with(*messages: Json) -> bytes:
    """A reply of these messages."""
    told = [{"type": "message.completed", "index": place, "message": one} for place, one in enumerate(messages)]
    return stream({"type": "response.started", "response_id": "r1"}, *told, REPLY[-1])


def test_a_call_that_the_gateway_has_answered_needs_no_result(screen: FakeTerminal) -> None:
    result = {"role": "function", "name": "get_weather", "content": "rain", "extra": {"function_id": "c1"}}
    assert run_conversation(screen, ["Hi"], reply_with(CALLED, result, ANSWER)) == 0
    assert screen.prompts == ["> ", "> "]
    assert "rain" in screen.out.getvalue()


def test_a_call_that_waits_is_approved_at_the_prompt(screen: FakeTerminal) -> None:
    waits = {**CALLED, "extra": {"function_id": "c1", "approval": "required"}}
    assert run_conversation(screen, ["Hi", "y"], reply_with(waits), TALK) == 0
    assert screen.prompts[1] == 'run get_weather({"city": "Paris"})? [y/n] '
    assert screen.bodies()[1]["messages"] == [USER, waits]
    assert screen.bodies()[1]["tool_approvals"] == [{"id": "c1", "approve": True}]
    assert "tool_approvals" not in screen.bodies()[0]


def test_without_a_result_the_question_is_forgotten(screen: FakeTerminal) -> None:
    assert run_conversation(screen, ["Hi", KeyboardInterrupt(), "Hi"], stream(*REPLY), TALK) == 0
    assert screen.bodies()[1]["messages"] == [USER]


def test_a_prompt_for_a_result_is_one_short_line_without_control_characters(screen: FakeTerminal) -> None:
    call = {"role": "assistant", "content": "", "function_call": {"name": "f\x1b", "arguments": "x\n" * 100}}
    made = stream({"type": "message.completed", "index": 0, "message": call}, REPLY[-1])
    run_conversation(screen, ["Hi", "done"], made, TALK)
    assert screen.prompts[1] == f"result of f␛({'x ' * 29}x…): "
    assert screen.bodies()[1]["messages"][2] == {"role": "function", "name": "f\x1b", "content": "done"}


def test_clear_forgets_all_but_the_system_message(screen: FakeTerminal) -> None:
    run_conversation(screen, ["Hi", "/clear", "Hi"], TALK, TALK, system="Be brief.")
    assert [body["messages"] for body in screen.bodies()] == [[{"role": "system", "content": "Be brief."}, USER]] * 2


def test_the_model_can_be_changed_and_the_models_are_listed(screen: FakeTerminal) -> None:
    listed = httpx.Response(200, json={"data": [{"id": "a"}, {"id": "b\x1b"}, {}]})
    run_conversation(screen, ["/model", "/model a", "Hi", "/model"], listed, TALK, httpx.Response(401, json={}))
    assert screen.bodies()[0]["model"] == "a"
    assert screen.out.getvalue().startswith("  a\n  b␛\n")
    assert "the model is the default of the gateway" in screen.err.getvalue()
    assert "HTTP 401" in screen.err.getvalue()


def test_a_saved_conversation_is_a_list_of_messages_and_no_file_is_overwritten(
    screen: FakeTerminal, tmp_path: Path
) -> None:
    file = tmp_path / "my chat.json"
    lines = ["Hi", f"/save {file}", f"/save '{file}'", f"/save {tmp_path}/no/x"]
    assert run_conversation(screen, lines, TALK) == 0
    assert json.loads(file.read_text()) == [USER, THOUGHT, ANSWER]
    assert "exists already" in screen.err.getvalue()
    assert f"{tmp_path}/no/x: cannot be written (No such file or directory)" in screen.err.getvalue()


PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 8


def test_files_are_sent_once_as_data_uris_of_their_kind(screen: FakeTerminal, tmp_path: Path) -> None:
    (tmp_path / "no name").write_bytes(PNG)
    (tmp_path / "a.png").write_bytes(b"%PDF-1.4")
    (tmp_path / "main.ts").write_text("let a = 1")
    (tmp_path / "odd").write_bytes(b"\x80\x81\x00")
    typed = [f"/image {tmp_path}/no\\ name", f"/file {tmp_path}/a.png", "Look", "Again"]
    assert run_conversation(screen, typed, TALK, TALK, attachments=[tmp_path / "main.ts", tmp_path / "odd"]) == 0
    first, second = (body["messages"][-1]["content"] for body in screen.bodies())
    assert [(key, value.partition(";")[0]) for item in first for key, value in item.items()] == [
        ("text", "Look"),
        ("file", "data:text/plain"),
        ("file", "data:application/octet-stream"),
        ("image", "data:image/png"),
        ("file", "data:application/pdf"),
    ]
    assert second == "Again"


def test_a_file_that_cannot_be_read_is_one_line_of_error(screen: FakeTerminal, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    typed = [
        f"/image {tmp_path}",
        f"/image {tmp_path}/nothing",
        f"/image {tmp_path}/empty",
        "/image \0",
        "/image",
        "Hi",
    ]
    assert run_conversation(screen, typed, TALK) == 0
    mistakes = [line.partition(": ")[2] for line in screen.err.getvalue().splitlines() if line.startswith("parley: ")]
    assert [mistake.partition(": ")[2] for mistake in mistakes[:3]] == [
        "is not a file",
        "there is no such file",
        "is empty",
    ]
    assert len(mistakes) == 5
    assert screen.bodies() == [SENT]
    assert run(screen, attachments=[tmp_path / "nothing"]) == 1


def test_a_file_stays_for_the_next_question_if_this_one_fails(screen: FakeTerminal, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(PNG)
    run_conversation(screen, ["One", "Two"], BUSY, TALK, attachments=[tmp_path / "a.png"])
    assert [len(body["messages"][0]["content"]) for body in screen.bodies()] == [2, 2]


def test_a_command_that_is_wrong_is_an_error_and_help_lists_all(screen: FakeTerminal) -> None:
    assert run_conversation(screen, ["/hlep", "/quit now", "/save", "/help", "/exit", "Hi"]) == 0
    assert screen.asked == []
    errors = [line for line in screen.err.getvalue().splitlines() if line.startswith("parley: ")]
    assert len(errors) == 3
    assert errors[0] == "parley: there is no command /hlep; /help lists them"
    assert all(name in screen.out.getvalue() for name in ("/image", "/model", "/save", "/clear", "/quit"))


def number_frames(*events: Json) -> bytes:
    return stream(*({**event, "seq": seq} for seq, event in enumerate(events, 1)))


def test_a_reply_whose_connection_breaks_is_resumed_after_its_last_frame(screen: FakeTerminal) -> None:
    whole = number_frames(*REPLY)
    begin, rest = whole.split(b'data: {"type": "message.started", "index": 2', 1)
    rest = b'data: {"type": "message.started", "index": 2' + rest
    assert run(screen, begin, httpx.ReadError("gone"), httpx.Response(502), rest, retry_seconds=(0, 0, 0)) == 0
    assert screen.out.getvalue() == SHOWN
    resumed = {(request.method, request.url.path, request.url.query) for request in screen.asked[1:]}
    assert resumed == {("GET", "/v1/chat/r1/events", b"after=8")}
    assert screen.err.getvalue().count("the reply is resumed in 0 s\n") == 3


def test_a_reply_that_cannot_be_resumed_has_failed(screen: FakeTerminal) -> None:
    begin = number_frames(*REPLY[:5])
    missing = httpx.Response(404, json={"error": {"code": "not_found", "message": "there is no reply 'r1'"}})
    assert run(screen, begin, missing, retry_seconds=(0, 0)) == 1
    assert "not_found: there is no reply" in screen.err.getvalue()
    gone = httpx.ConnectError("gone")
    assert run(screen, begin, gone, gone, httpx.Response(204), retry_seconds=(0, 0)) == 2


def test_a_reply_that_is_stopped_is_cancelled_at_the_gateway(screen: FakeTerminal) -> None:
    class Stopping(httpx.SyncByteStream):
        def __iter__(self) -> Any:
            yield number_frames(*REPLY[:3])
            raise KeyboardInterrupt

    stopping = httpx.Response(200, stream=Stopping())
    assert run(screen, stopping, httpx.Response(200, json={}), api_key="k") == 130
    cancel = screen.asked[1]
    assert (cancel.method, cancel.url.path, cancel.headers["authorization"]) == ("DELETE", "/v1/chat/r1", "Bearer k")
