"""A word that a reply has in places that are not one text: in pieces that clients join, and beside the text."""

import json
import random
from typing import Any, cast

import pytest
from app.chat.events import Event, ReasoningDelta, TextDelta, ToolCallDelta
from app.guards.watch import list_reply_parts, replace_reply_texts

from tests.each_case import each_case
from tests.guards.golden_runner import write_blocks
from tests.guards.model_replies import write_chat
from tests.guards.random_talk import WORD, Json, Servers, check_client, make_guarded_settings
from tests.in_process_gateway import Running
from tests.tool_loop.fake_servers import FakeServers, make_tool, text_answer

FIRST, REST = f"It is a {WORD[:3]}", f"{WORD[3:]}. It runs well."
CALL: Json = {"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "f", "arguments": "{}"}}]}
THOUGHT: Json = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
REPLIES: dict[str, tuple[str, list[bytes]]] = {
    "a thought in a text": (
        "chat_completions",
        write_chat([{"content": FIRST}, {"reasoning_content": "Hm."}, {"content": REST}], "stop"),
    ),
    "a text in a thought": (
        "chat_completions",
        write_chat([{"reasoning_content": FIRST}, {"content": "Hm."}, {"reasoning_content": REST}], "stop"),
    ),
    "a call in a text": ("chat_completions", write_chat([{"content": FIRST}, CALL, {"content": REST}], "tool_calls")),
    "a thought between blocks": (
        "messages",
        write_blocks(
            {"blocks": [{"type": "text", "text": FIRST}, THOUGHT, {"type": "text", "text": REST}], "stop_reason": "x"}
        ),
    ),
}
PATHS = ("/v1/chat", "/v1/chat/completions", "/v1/messages", "/v1/responses")


class Split(Servers):
    def __init__(self, pieces: list[bytes]) -> None:
        super().__init__(random.Random(1))
        self._pieces = pieces

    def _write(self, path: str, sent: str) -> list[bytes]:
        return self._pieces


def ask(path: str, *, stream: bool) -> Json:
    body: Json = {"model": "m", "stream": stream}
    if path == "/v1/responses":
        return body | {"input": "Hi"}
    return body | {"messages": [{"role": "user", "content": "Hi"}]} | ({"max_tokens": 9} if "mess" in path else {})


@pytest.mark.parametrize("guard", ["words", "house"])
@pytest.mark.parametrize("mode", ["block", "window"])
@pytest.mark.parametrize("reply", REPLIES)
def test_a_word_with_something_else_in_its_middle_reaches_no_client(reply: str, mode: str, guard: str) -> None:
    api, pieces = REPLIES[reply]
    settings = make_guarded_settings(api, mode)
    settings["guards"] = {guard: settings["guards"][guard]}
    with Running(settings, Split(pieces)) as gateway:
        for path in PATHS:
            for stream in (True, False):
                answer = gateway.post(path, ask(path, stream=stream))
                check_client(answer)
                assert f"The policy {guard} refused this".encode() in answer.body


@pytest.mark.parametrize("mode", ["block", "window"])
def test_a_word_behind_something_else_is_not_hidden_by_the_text_before_it(mode: str) -> None:
    """Joined, it would be a part of a longer word."""
    pieces = write_chat([{"content": "All is fine"}, {"reasoning_content": "Hm."}, {"content": f"{WORD}!"}], "stop")
    settings = make_guarded_settings("chat_completions", mode)
    settings["guards"] = {"words": settings["guards"]["words"]}
    settings["masking"] = settings["masking"] | {"patterns": {"word": rf"\b{WORD}\b"}}
    with Running(settings, Split(pieces)) as gateway:
        check_client(gateway.post("/v1/chat", ask("/v1/chat", stream=True)))


class Turns(Split):
    """A model that thinks, says and calls in its first turn, and thinks and says in its second."""

    def _write(self, path: str, sent: str) -> list[bytes]:
        call = {"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "wx-now", "arguments": "{}"}}]}
        is_first = '"tool_call_id"' not in sent
        return write_chat([*self.first, call] if is_first else self.second, "tool_calls" if is_first else "stop")

    first: list[Json]
    second: list[Json]


@pytest.mark.parametrize("field", ["content", "reasoning_content"])
@pytest.mark.parametrize(("first", "second"), [(FIRST, REST), ("All is fine", f"{WORD}!")])
def test_a_word_at_the_seam_of_two_turns_reaches_no_client(field: str, first: str, second: str) -> None:
    settings = make_guarded_settings("chat_completions", "block")
    settings["guards"] = {"words": settings["guards"]["words"]}
    settings["masking"] = settings["masking"] | {"patterns": {"word": rf"\b{WORD}\b"}}
    servers = Turns([])
    servers.first, servers.second = [{field: first}], [{"content": "Hm. ", field: second}]
    with Running(settings, servers) as gateway:
        gateway.context.tools = cast(Any, FakeServers([make_tool("wx", "now")], {"wx-now": text_answer("fine")}))
        for stream in (True, False):
            answer = gateway.post("/v1/chat/completions", ask("/v1/chat/completions", stream=stream))
            check_client(answer)
            assert b"The policy words refused this" in answer.body


EVENTS: list[Event] = [TextDelta("a"), ReasoningDelta("x"), TextDelta("b"), ToolCallDelta(0, "{}", "c", "f")]


@each_case(
    "texts,expected",
    [
        ({"joined[0]": "new"}, ["new", "x", "{}"]),
        ({"output[2]": "new"}, ["a", "x", "new", "{}", "anew"]),
        ({"output[0]": "one", "joined[0]": "new"}, ["new", "x", "{}"]),
    ],
)
def test_the_new_text_of_joined_runs_stands_where_the_first_was(texts: dict[str, str], expected: list[str]) -> None:
    assert [part.text for part in list_reply_parts(EVENTS)] == ["a", "x", "b", "{}", "ab"]
    assert [part.text for part in list_reply_parts(replace_reply_texts(EVENTS, texts))] == expected


@pytest.mark.parametrize("stream", [True, False])
def test_a_word_among_other_tokens_of_log_probabilities_reaches_no_client(*, stream: bool) -> None:
    chosen = {"token": "Hi", "logprob": -0.1, "bytes": None}
    token = {**chosen, "top_logprobs": [chosen, {"token": WORD, "logprob": -2.0, "bytes": None}]}
    choice = {"index": 0, "delta": {"content": "Hi"}, "logprobs": {"content": [token]}}
    pieces = [b"data: %b\n\n" % json.dumps({"choices": [choice]}).encode(), *write_chat([], "stop")]
    settings = make_guarded_settings("chat_completions", "block")
    with Running(settings, Split(pieces)) as gateway:
        body = ask("/v1/chat/completions", stream=stream) | {"logprobs": True, "top_logprobs": 2}
        answer = gateway.post("/v1/chat/completions", body)
    check_client(answer)
    assert b"-0.1" in answer.body and b"left out of `top_logprobs`" in answer.body
