"""What says of a call that a gateway ran it is kept from each format to each other one."""

import json
from typing import Any

from app.api.convert import convert
from app.chat.messages import FormatName, Media, Message, Reasoning, Text, ToolCall, ToolResult
from app.formats import FORMATS
from app.formats.base import Options
from app.formats.served_calls import add_notes, guess_tool, join_result, read_note
from msgspec.structs import replace

from tests.each_case import each_case

Json = dict[str, Any]
FORMAT_NAMES: tuple[FormatName, ...] = (
    *("qwen", "openai", "autogen", "agentscope", "agentscope2", "anthropic", "responses"),
)


def call(id_: str, name: str, arguments: str = "{}", **more: Any) -> Json:
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}, **more}


def result(id_: str, text: str, **more: Any) -> Json:
    return {"role": "tool", "tool_call_id": id_, "content": text, **more}


HISTORY: list[Json] = [
    {"role": "user", "content": "Weather?"},
    {
        "role": "assistant",
        "content": "I look.Again.Sunny.",
        "reasoning_content": "hmm",
        "server_messages": [
            {
                "role": "assistant",
                "content": "I look.",
                "reasoning_content": "hmm",
                "tool_calls": [call("c1", "wx-now", '{"city": "Paris"}'), call("c2", "made_up", "[1]")],
            },
            result("c1", "rain"),
            result("c2", "Error: there is no such tool", is_error=True),
            {"role": "assistant", "content": "Again.", "tool_calls": [call("c3", "clock-now")]},
            result("c3", "noon"),
        ],
    },
    {"role": "user", "content": "And there?"},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [call("d2", "own")],
        "server_messages": [
            {"role": "assistant", "content": "", "tool_calls": [call("d1", "wx-now"), call("d2", "own")]},
            result("d1", "fog"),
        ],
    },
    result("d2", "mine"),
    {"role": "assistant", "content": "Foggy."},
]
SERVED = [
    *(("c1", "wx-now", "wx", "now"), ("c2", "made_up", "", "made_up"), ("c3", "clock-now", "clock", "now")),
    *(("d1", "wx-now", "wx", "now"), ("d2", "own", None, "")),
]


def change(messages: list[Any], source: str, target: str) -> Json:
    return convert(json.dumps({"from": source, "to": target, "messages": messages, "agent": "assistant"}).encode())


def read(messages: list[Any], name: FormatName) -> list[Any]:
    """Return the parts of all messages, with their roles; results without the name of their function."""
    parsed = FORMATS[name].parse(messages, Options("assistant"))
    assert not parsed.violations
    return [
        (message.role, ToolResult(part.content, None, part.id, part.is_error or None))
        if isinstance(part, ToolResult)
        else (message.role, part)
        for message in parsed.messages
        for part in message.parts
    ]


def list_served(parts: list[Any]) -> list[Any]:
    return [(part.id, part.name, part.server, part.tool) for _, part in parts if isinstance(part, ToolCall)]


@each_case("first", FORMAT_NAMES)
def test_each_format_keeps_the_calls_that_a_gateway_ran_for_each_other_one(first: FormatName) -> None:
    wanted = read(HISTORY, "openai")
    assert list_served(wanted) == SERVED
    once = change(HISTORY, "openai", first)
    assert (read(once["messages"], first), list_served(read(once["messages"], first))) == (wanted, SERVED)
    for second in FORMAT_NAMES:
        twice = change(once["messages"], first, second)["messages"]
        assert (read(twice, second), list_served(read(twice, second))) == (wanted, SERVED), (first, second)


def test_a_reply_has_the_words_of_its_format_again() -> None:
    completion = change(change(HISTORY, "openai", "qwen")["messages"], "qwen", "openai")
    assert completion["warnings"] == []
    assert [message["content"] for message in completion["messages"][1::2]] == ["I look.Again.Sunny.", ""] + ["Foggy."]
    assert [row["index"] for row in completion["messages"][1]["server_messages"]] == [0, 1, 2, 3, 4]
    blocks = change(HISTORY, "openai", "anthropic")["messages"]
    assert [block["type"] for block in blocks[1]["content"]] == [
        *("thinking", "text", "mcp_tool_use", "mcp_tool_use", "mcp_tool_result", "mcp_tool_result"),
        *("text", "mcp_tool_use", "mcp_tool_result", "text"),
    ]
    assert blocks[1]["content"][3]["input"] == {"invalid_arguments": "[1]"}
    assert [block["type"] for block in blocks[3]["content"]] == ["mcp_tool_use", "tool_use", "mcp_tool_result"]
    items = change(HISTORY, "openai", "responses")["messages"]
    served = [item for item in items if item["type"] == "mcp_call"]
    assert [(item["id"], item["output"], item["status"]) for item in served] == [
        ("mcp_c1", "rain", "completed"),
        ("mcp_c2", None, "failed"),
        ("mcp_c3", "noon", "completed"),
        ("mcp_d1", "fog", "completed"),
    ]
    assert [item.get("parley") for item in served] == [None, {"ends_turn": True}, {"ends_turn": True}, None]


@each_case("name", FORMAT_NAMES)
def test_a_call_that_waits_for_approval_still_waits_or_its_loss_is_told(name: FormatName) -> None:
    entry = {"role": "assistant", "content": "", "tool_calls": [call("c1", "wx-set", approval="required")]}
    history = [HISTORY[0], {"role": "assistant", "content": "", "server_messages": [entry]}]
    written = change(history, "openai", name)
    [found] = [part for _, part in read(written["messages"], name) if isinstance(part, ToolCall)]
    assert found.awaits_approval is (name != "anthropic")
    assert any("waits for approval" in text for text in written["warnings"]) is (name == "anthropic")


def test_a_note_that_is_not_valid_is_left_out() -> None:
    for note in (None, "wx", {}, {"server": 1, "tool": "now"}, {"server": "wx"}):
        assert read_note(ToolCall("wx-now", "{}", "c", {"server_tool": note, "a": 1})).extra == {"a": 1}
    plain = Message("assistant", (ToolCall("f", "{}", "c"), Text("a")))
    assert add_notes([plain]) == [plain]


@each_case(
    ("name", "server", "tool"), [("wx-now", "wx", "now"), ("a-b-c", "a", "b-c"), ("now", "", "now"), ("a-", "", "a-")]
)
def test_a_name_is_cut_into_server_and_tool(name: str, server: str, tool: str) -> None:
    found = guess_tool(ToolCall(name, "{}"))
    assert (found.server, found.tool) == (server, tool)


def test_details_and_media_of_a_reply_are_in_the_message_that_ends_it() -> None:
    details, image = [{"type": "reasoning.text", "text": "hm"}], Media("image", ("http://x.test/a.png",))
    call_ = ToolCall("wx-now", "{}", "c", server="wx", tool="now")
    messages = (
        Message("assistant", (Reasoning("hm"), Text("I look."), call_), extra={"reasoning_details": details}),
        Message("tool", (ToolResult((Text("rain"),), None, "c"),)),
        Message("assistant", (Text("See:"), image), turn="1"),
        Message("assistant", (replace(call_, id="d"),), turn="2"),
        Message("tool", (ToolResult((Text("sun"),), None, "d"),)),
        Message("user", (Text("Thanks"),)),
    )
    [first, second, thanks] = FORMATS["openai"].write(messages, Options()).messages
    assert [part.get("text") for part in first["content"]] == ["I look.", "See:", None]
    assert (first["reasoning_content"], first["reasoning_details"]) == ("hm", details)
    assert first["server_messages"][0]["reasoning_details"] == details
    assert (second["content"], [row["role"] for row in second["server_messages"]]) == ("", ["assistant", "tool"])
    assert thanks == {"role": "user", "content": "Thanks"}


def test_media_of_a_result_are_named_where_a_format_has_no_place_for_them() -> None:
    shown = (Text("a"), Media("image", ("data:image/png;base64,AAAA",)))
    assert join_result(ToolResult(shown)) == "a\n[image]"
    parts = ToolCall("wx-now", "{}", "c", server="wx", tool="now")
    for name in ("openai", "anthropic", "responses"):
        messages = (
            Message("assistant", (parts,)),
            Message("tool", (ToolResult(shown, None, "c"),), path="messages[1]"),
        )
        losses = FORMATS[name].write(messages, Options()).losses
        assert [loss.message for loss in losses if "'[image]'" in loss.message] != []
