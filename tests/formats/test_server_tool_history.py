"""A reply whose tools the gateway ran, sent back unchanged, gives the model the same conversation in every format."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.each_case import each_case
from tests.in_process_gateway import AnsweringGateway
from tests.tool_loop.golden_cases import list_cases, read_case

Json = dict[str, Any]
_PATHS = {"openai": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}
_AMBIGUOUS = {("server_dies", "responses")}
"""Items of two turns without a text between them, and without the mark that the gateway writes."""
_AGAIN = [
    (name, format_)
    for name in list_cases()
    for format_ in read_case(name).get("again", {})
    if format_ != "upstream" and (name, format_) not in _AMBIGUOUS
]


def drop_empty_texts(messages: list[Json]) -> list[Json]:
    """Write the text of a message with calls in one way: "" and null are the same."""
    return [{**one, "content": one.get("content") or ""} if one.get("tool_calls") else one for one in messages]


class _Gateway(AnsweringGateway):
    def send(self, format_: str, messages: list[Any], **more: Any) -> list[Json]:
        """Return the messages that the model server is sent."""
        body: Json = {"model": "m", "stream": False, **more}
        if format_ == "responses":
            body |= {"input": messages, "store": False}
        else:
            body["messages"] = messages
        if format_ == "messages":
            body["max_tokens"] = 100
        path = _PATHS.get(format_, "/v1/chat")
        if path == "/v1/chat":
            body["format"] = format_
        self.server.requests.clear()
        answer = self.post(path, body)
        assert answer.status == 200, answer.body
        return drop_empty_texts(self.sent["messages"])


@pytest.fixture(scope="module")
def gateway() -> Iterator[_Gateway]:
    with _Gateway() as opened:
        yield opened


@pytest.mark.skipif(not _AGAIN, reason="PARLEY_TOOL_CASES names no folder")
def test_the_goldens_go_upstream_as_they_should(gateway: _Gateway) -> None:
    wrong = []
    for name, format_ in _AGAIN:
        # What the message of an error is in one format is the text behind `Error: ` in another.
        text = re.sub(r"<text:(?!\w+_message>)(\w+)>", r"Error: <text:\1_message>", json.dumps(read_case(name)))
        case = json.loads(text)
        first = case["requests"][format_][1]
        question = first.get("messages") or first["input"]
        sent = gateway.send(format_, [*question, *case["again"][format_]])
        wanted = drop_empty_texts(case["again"]["upstream"]["messages"])
        if sent != wanted:
            wrong.append(f"{name} {format_}\n   sent   {json.dumps(sent)}\n   wanted {json.dumps(wanted)}")
    assert not wrong, "\n".join(wrong)


QUESTION = {"role": "user", "content": "Weather?"}
NEXT = {"role": "user", "content": "And now?"}


def call(id_: str, name: str, arguments: str = "{}", **more: Any) -> Json:
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}, **more}


def turn(*calls: Json, content: str = "", **more: Any) -> Json:
    return {"role": "assistant", "content": content, "tool_calls": list(calls), **more}


def result(id_: str, content: str) -> Json:
    return {"role": "tool", "tool_call_id": id_, "content": content}


def entries(*messages: Json) -> list[Json]:
    return [{"index": place, **message} for place, message in enumerate(messages)]


TURNS = entries(
    turn(call("c1", "wx-get"), content="One. ", reasoning_content="Hm."),
    result("c1", "rain"),
    turn(call("c2", "wx-get"), content="Two. "),
    result("c2", "sun"),
)
FIRST, SECOND = (
    turn(call("c1", "wx-get"), content="One. ", reasoning_content="Hm."),
    turn(call("c2", "wx-get"), content="Two. "),
)
BARE = [turn(call("c1", "wx-get")), result("c1", "rain"), turn(call("c2", "wx-get")), result("c2", "sun")]


@each_case(
    ("message", "wanted"),
    [
        (
            {"content": "One. Two. Three.", "reasoning_content": "Hm."},
            [FIRST, result("c1", "rain"), SECOND, result("c2", "sun"), {"role": "assistant", "content": "Three."}],
        ),
        # The caller's own texts count if they do not begin with those of the turns.
        ({"content": "Short."}, [*BARE, {"role": "assistant", "content": "Short."}]),
        (
            {"content": "One. Two. Three.", "reasoning_content": "Other."},
            [
                {**turn(call("c1", "wx-get"), content="One. ")},
                result("c1", "rain"),
                SECOND,
                result("c2", "sun"),
                {"role": "assistant", "content": "Three.", "reasoning_content": "Other."},
            ],
        ),
        (
            {
                "content": [{"type": "text", "text": "One. Two. "}, {"type": "text", "text": "Three."}],
                "reasoning_content": "Hm.",
            },
            [FIRST, result("c1", "rain"), SECOND, result("c2", "sun"), {"role": "assistant", "content": "Three."}],
        ),
    ],
)
def test_the_texts_of_a_chat_completion_go_to_their_turns(message: Json, wanted: list[Json]) -> None:
    with _Gateway() as gateway:
        sent = gateway.send("openai", [QUESTION, {"role": "assistant", "server_messages": TURNS, **message}, NEXT])
    assert sent == [QUESTION, *wanted, NEXT]


def mcp_call(id_: str, **more: Any) -> Json:
    item = {"type": "mcp_call", "id": f"mcp_{id_}", "server_label": "wx", "name": "get", "arguments": "{}"}
    return {**item, "status": "completed", "output": "rain", "error": None, "approval_request_id": None, **more}


def text_item(text: str) -> Json:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def error_item(error: Any) -> Json:
    return mcp_call("c1", status="failed", output=None, error=error)


@each_case(
    ("items", "wanted"),
    [
        (
            [mcp_call("c1"), mcp_call("c2")],
            [turn(call("c1", "wx-get"), call("c2", "wx-get")), result("c1", "rain"), result("c2", "rain")],
        ),
        (
            [mcp_call("c1", parley={"ends_turn": True}), mcp_call("c2")],
            [turn(call("c1", "wx-get")), result("c1", "rain"), turn(call("c2", "wx-get")), result("c2", "rain")],
        ),
        ([mcp_call("c1", server_label="", name="other")], [turn(call("c1", "other")), result("c1", "rain")]),
        (
            [error_item({"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": "no such city"}]})],
            [turn(call("c1", "wx-get")), result("c1", "no such city")],
        ),
        (
            [error_item({"type": "mcp_protocol_error", "code": -32001, "message": "too slow"})],
            [turn(call("c1", "wx-get")), result("c1", "Error: too slow")],
        ),
        ([error_item("gone")], [turn(call("c1", "wx-get")), result("c1", "Error: gone")]),
        (
            [mcp_call("c1", status="incomplete", output=None)],
            [turn(call("c1", "wx-get")), result("c1", "Error: the call did not end")],
        ),
        (
            [
                {
                    "type": "mcp_approval_request",
                    "id": "mcpr_c1",
                    "server_label": "wx",
                    "name": "get",
                    "arguments": "{}",
                },
                {"type": "mcp_approval_response", "approval_request_id": "mcpr_c1", "approve": True},
                mcp_call("c1", approval_request_id="mcpr_c1"),
                text_item("Done."),
            ],
            [turn(call("c1", "wx-get")), result("c1", "rain"), {"role": "assistant", "content": "Done."}],
        ),
        ([{"type": "mcp_list_tools", "id": "l", "server_label": "wx", "tools": []}], []),
    ],
)
def test_items_of_servers_tools_are_calls_with_their_results(items: list[Json], wanted: list[Json]) -> None:
    with _Gateway() as gateway:
        assert gateway.send("responses", [QUESTION, *items, NEXT]) == [QUESTION, *wanted, NEXT]


@each_case(
    ("block", "wanted"),
    [
        ({"name": "get", "server_name": "wx", "input": {"a": 1}}, call("c1", "wx-get", '{"a": 1}')),
        ({"name": "get", "server_name": "", "input": {}}, call("c1", "get")),
        (
            {"name": "get", "server_name": "wx", "input": {"invalid_arguments": "[1"}},
            call("c1", "wx-get", '{"_raw": "[1"}'),
        ),
        # The plain SDKs add these fields to the blocks that they do not know.
        ({"name": "get", "server_name": "wx", "input": {}, "citations": None, "text": None}, call("c1", "wx-get")),
    ],
)
def test_blocks_of_servers_tools_have_the_models_name(block: Json, wanted: Json) -> None:
    gateway = _Gateway()
    blocks = [
        {"type": "mcp_tool_use", "id": "c1", **block},
        {
            "type": "mcp_tool_result",
            "tool_use_id": "c1",
            "is_error": False,
            "content": [{"type": "text", "text": "rain"}],
        },
    ]
    with gateway:
        sent = gateway.send("messages", [QUESTION, {"role": "assistant", "content": blocks}])
    assert sent == [QUESTION, turn(wanted), result("c1", "rain")]
