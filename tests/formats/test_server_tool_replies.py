"""How each format tells of the calls that the gateway runs: any division into reads gives the same reply, and a reply
that is sent back is read as the conversation that it was."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from app.chat.events import (
    CallEnd,
    Event,
    Finish,
    ReasoningDelta,
    ServerCall,
    ServerResult,
    TextDelta,
    ToolCallDelta,
    ToolsListed,
    TurnEnd,
)
from app.chat.messages import Media, Text, ToolCall, ToolResult
from app.chat.server_tools import ListedServer, ModelCall, OfferedTool, ServerToolsSummary, ToolError
from app.formats import FORMATS
from app.formats.base import Options, ReplyInfo, ResponsesOptions

from tests.each_case import each_case

Json = dict[str, Any]
USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
SUM = {"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30}
LISTED = ToolsListed(ListedServer("wx", (OfferedTool("wx-get", "wx", "get", None, {"type": "object"}),)))
SUMMARY = ServerToolsSummary((ModelCall("tool_calls", USAGE), ModelCall("stop", USAGE)))


def call(index: int, arguments: str = "{}", *, server: str = "wx", approval: bool = False) -> list[Event]:
    name = f"{server}-get" if server else "other"
    return [
        ServerCall(index, server, "get" if server else "other", approval),
        ToolCallDelta(index, arguments[:1], f"c{index}", name),
        ToolCallDelta(index, arguments[1:]),
        CallEnd(index),
    ]


def own_call(index: int) -> list[Event]:
    return [ToolCallDelta(index, '{"a": 1}', f"c{index}", "own")]


def result(index: int, *parts: Text | Media, error: ToolError | None = None, server: str = "wx") -> Event:
    name = f"{server}-get" if server else "other"
    return ServerResult(f"c{index}", name, server, "get", parts or (Text("rain"),), error, index)


TURN = TurnEnd("tool_calls", USAGE)
END = Finish("stop", SUM, server_tools=SUMMARY)
TWO_TURNS: list[Event] = [
    LISTED,
    ReasoningDelta("Hm."),
    TextDelta("Look."),
    *call(0),
    *call(1, '{"b": 2}'),
    TURN,
    result(0),
    result(1, Text("no"), error=ToolError("execution", 0, "no")),
    *call(2),
    TURN,
    result(2),
    TextDelta("Done."),
    END,
]
MIXED: list[Event] = [
    LISTED,
    *call(0),
    *own_call(1),
    TURN,
    result(0),
    Finish("tool_calls", USAGE, server_tools=ServerToolsSummary((ModelCall("tool_calls", USAGE),))),
]
TALKATIVE: list[Event] = [
    LISTED,
    *call(0),
    TextDelta("More."),
    *call(1),
    TURN,
    result(0),
    result(1),
    TextDelta("Done."),
    END,
]
"""A turn whose text goes on behind a call."""
CUT: list[Event] = [LISTED, *call(0), *call(1, "{"), *own_call(2), Finish("length", USAGE, server_tools=SUMMARY)]
WAITS: list[Event] = [
    LISTED,
    TextDelta("I set it."),
    *call(0),
    *call(1, approval=True),
    TURN,
    result(0),
    Finish("tool_approval", USAGE, server_tools=SUMMARY),
]
REPLIES = {"two turns": TWO_TURNS, "mixed": MIXED, "talkative": TALKATIVE, "cut": CUT}
TELLS = ("responses", "anthropic", "autogen", "agentscope", "agentscope2", "qwen", "openai")


def make_info(**options: Any) -> ReplyInfo:
    return ReplyInfo("chat-1", "req-1", "m", 1767605400, options=Options(**options))


def encode(format_: str, batches: Sequence[list[Event]], info: ReplyInfo, *, whole: bool = False) -> list[Json]:
    row = FORMATS[format_]
    encoder = row.reply_encoder(info, "whole" if whole else "delta")
    stage = row.make_stage(info, "whole" if whole else "delta")
    out = encoder.open()
    for batch in batches:
        out += encoder.feed(stage.feed(batch) if stage is not None else batch)
    if whole:
        return [json.loads(out)]
    lines = out.decode().split("\n")
    frames = [json.loads(line[6:]) for line in lines if line.startswith("data: ") and line != "data: [DONE]"]
    if format_ != "agentscope":
        return frames
    ids = [frame["msg"]["id"] for frame in frames]
    assert all(frame["last"] for frame, id_, after in zip(frames, ids, [*ids[1:], ""], strict=True) if id_ != after)
    return [frame for place, frame in enumerate(frames) if ids[place] not in ids[place + 1 :]]


def read_reply(format_: str, frames: list[Json]) -> Any:
    """The reply as it is sent back."""
    last = frames[-1]
    return last["response"]["output"] if format_ == "responses" else last


@pytest.mark.parametrize("format_", TELLS)
@pytest.mark.parametrize("name", REPLIES)
def test_any_division_into_reads_gives_the_same_frames(format_: str, name: str) -> None:
    events = REPLIES[name]
    each = encode(format_, [[event] for event in events], make_info())
    for cut in range(1, len(events)):
        assert encode(format_, [events[:cut], events[cut:]], make_info()) == each


def list_items(events: list[Event], **options: Any) -> list[Json]:
    [response] = encode("responses", [events], make_info(responses=ResponsesOptions(**options)), whole=True)
    items: list[Json] = response["output"]
    return items


@each_case(
    ("name", "wanted"),
    [
        ("two turns", ["mcp_list_tools", "reasoning", "message", "mcp_call", "mcp_call", "mcp_call", "message"]),
        ("mixed", ["mcp_list_tools", "mcp_call", "function_call"]),
        ("talkative", ["mcp_list_tools", "mcp_call", "message", "mcp_call", "message"]),
        ("cut", ["mcp_list_tools", "mcp_call", "mcp_call", "function_call"]),
    ],
)
def test_the_items_of_a_response_come_one_after_the_other(name: str, wanted: list[str]) -> None:
    frames = encode("responses", [REPLIES[name]], make_info())
    open_items: list[int] = []
    for frame in frames:
        if frame["type"] == "response.output_item.added":
            assert not open_items
            open_items.append(frame["output_index"])
        elif frame["type"] == "response.output_item.done":
            assert open_items == [frame["output_index"]]
            open_items.clear()
    assert [frame["sequence_number"] for frame in frames] == list(range(len(frames)))
    items = read_reply("responses", frames)
    assert [item["type"] for item in items] == wanted
    assert items == list_items(REPLIES[name])


def test_the_last_call_of_a_turn_says_so() -> None:
    calls = [item for item in list_items(TWO_TURNS) if item["type"] == "mcp_call"]
    assert [item.get("parley") for item in calls] == [None, {"ends_turn": True}, {"ends_turn": True}]
    assert "parley" not in list_items(MIXED)[1]


def test_a_call_that_was_cut_is_incomplete() -> None:
    items = list_items(CUT)
    assert [item["status"] for item in items[1:]] == ["incomplete"] * 3
    assert [item["output"] for item in items[1:3]] == [None, None]


def test_a_server_that_the_input_lists_is_not_listed_again() -> None:
    assert list_items(MIXED, listed=("wx",))[0]["type"] == "mcp_call"


def test_a_call_that_waits_is_an_approval_request() -> None:
    items = list_items(WAITS)
    assert [item["type"] for item in items[2:]] == ["mcp_call", "mcp_approval_request"]
    assert items[3] == {
        "id": "mcpr_c1",
        "type": "mcp_approval_request",
        "server_label": "wx",
        "name": "get",
        "arguments": "{}",
    }


def test_the_result_of_an_approved_call_names_its_request() -> None:
    answered = ServerResult("c9", "wx-get", "wx", "get", (Text("set"),), arguments="{}")
    items = list_items([answered, TextDelta("Done."), END])
    assert (items[0]["id"], items[0]["approval_request_id"], items[0]["output"]) == ("mcp_c9", "mcpr_c9", "set")
    assert [item["type"] for item in items] == ["mcp_call", "message"]


@each_case(
    ("error", "wanted"),
    [
        (
            ToolError("execution", 0, "x"),
            {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": "t"}]},
        ),
        (ToolError("protocol", -32001, "x"), {"type": "mcp_protocol_error", "code": -32001, "message": "x"}),
        (ToolError("http", 503, "x"), {"type": "http_error", "code": 503, "message": "x"}),
    ],
)
def test_the_error_of_a_call_has_its_kind(error: ToolError, wanted: Json) -> None:
    items = list_items([*call(0), TURN, result(0, Text("t"), error=error), END])
    assert (items[0]["status"], items[0]["output"], items[0]["error"]) == ("failed", None, wanted)


def test_a_bound_leaves_a_response_incomplete() -> None:
    for limit, reason in (("rounds", "max_rounds"), ("bytes", "max_result_bytes")):
        end = Finish("tool_limit", USAGE, server_tools=ServerToolsSummary((), (), limit))  # type: ignore[arg-type]  # one of the bounds
        [response] = encode("responses", [[*call(0), TURN, result(0), end]], make_info(), whole=True)
        assert (response["status"], response["incomplete_details"]) == ("incomplete", {"reason": reason})


def read_blocks(events: list[Event]) -> list[Json]:
    [message] = encode("anthropic", [events], make_info(), whole=True)
    blocks: list[Json] = message["content"]
    return blocks


def test_the_blocks_of_a_stream_are_those_of_the_whole_message() -> None:
    for events in REPLIES.values():
        told = [
            frame["content_block"]
            for frame in encode("anthropic", [events], make_info())
            if frame["type"] == "content_block_start"
        ]
        kinds = [(block["type"], block.get("id")) for block in told]
        assert kinds == [(block["type"], block.get("id")) for block in read_blocks(events)]
        served = [block for block in told if block["type"].startswith("mcp_")]
        assert served == [block for block in read_blocks(events) if block["type"].startswith("mcp_")]


def test_a_block_has_its_input_when_it_starts_and_as_one_delta() -> None:
    frames = encode("anthropic", [[*call(0, '{"b": 2}'), TURN, result(0), END]], make_info())
    assert frames[1]["content_block"]["input"] == {"b": 2}
    assert frames[2]["delta"] == {"type": "input_json_delta", "partial_json": '{"b": 2}'}


def test_arguments_that_are_no_object_are_told_and_fail_nothing() -> None:
    blocks = read_blocks([*call(0, "[1"), TURN, result(0), TextDelta("Done."), END])
    assert blocks[0]["input"] == {"invalid_arguments": "[1"}
    assert blocks[-1] == {"type": "text", "text": "Done."}


def test_media_of_a_result_are_named_by_their_types() -> None:
    image = Media("image", ("data:image/png;base64,AA==",))
    events: list[Event] = [*call(0), TURN, result(0, Text("See"), image), END]
    texts = [part["text"] for part in read_blocks(events)[1]["content"]]
    assert texts == ["See", "[image: image/png]"]
    assert list_items(events)[0]["output"] == "See\n[image: image/png]"


def test_an_empty_result_has_no_text_in_a_message() -> None:
    assert read_blocks([*call(0), TURN, result(0, Text("")), END])[1]["content"] == []


def test_a_bound_pauses_the_turn_of_a_message() -> None:
    end = Finish("tool_limit", USAGE, server_tools=ServerToolsSummary((), (), "rounds"))
    [message] = encode("anthropic", [[*call(0), TURN, result(0), end]], make_info(), whole=True)
    assert message["stop_reason"] == "pause_turn"
    assert message["parley"]["server_tools"]["limit"] == "rounds"


def test_autogen_has_one_event_for_the_calls_of_a_turn_and_one_for_their_results() -> None:
    for stream in ("interleaved", "compat"):
        frames = encode("autogen", [TWO_TURNS], make_info(autogen_stream=stream))
        kinds = [
            frame["type"] for frame in frames if frame["type"] not in ("ModelClientStreamingChunkEvent", "ThoughtEvent")
        ]
        turn = ["ToolCallRequestEvent", "ToolCallExecutionEvent"]
        assert kinds == [*turn, *turn, "TextMessage", "TaskResult"]
        results = [frame["content"] for frame in frames if frame["type"] == "ToolCallExecutionEvent"]
        assert [[one["is_error"] for one in row] for row in results] == [[False, True], [False]]
    [*_, last] = encode("autogen", [MIXED], make_info(autogen_stream="model"))
    assert [one["name"] for one in last["content"]] == ["own"]
    assert last["server_tools"]["calls"] == []


def test_agentscope_has_a_message_for_each_turn_and_each_result() -> None:
    frames = encode("agentscope", [[event] for event in TWO_TURNS], make_info())
    [whole] = encode("agentscope", [TWO_TURNS], make_info(), whole=True)
    assert [frame["msg"] for frame in frames] == whole["msgs"]
    assert whole["msg"] == whole["msgs"][-1]
    assert [msg["role"] for msg in whole["msgs"]] == [
        "assistant",
        "system",
        "system",
        "assistant",
        "system",
        "assistant",
    ]
    assert len({msg["id"] for msg in whole["msgs"]}) == 6
    assert [msg["metadata"].get("is_error") for msg in whole["msgs"]] == [None, None, True, None, None, None]
    assert whole["msg"]["metadata"]["finish_reason"] == "stop"


def test_a_reply_of_agentscope_that_ends_with_a_result_says_so_in_its_message() -> None:
    frames = encode("agentscope", [MIXED], make_info())
    assert [frame["msg"]["metadata"].get("finish_reason") for frame in frames] == [None, "tool_calls"]


def test_agentscope_2_has_results_behind_their_model_call() -> None:
    kinds = [frame["type"] for frame in encode("agentscope2", [TWO_TURNS], make_info())]
    marks = [kind for kind in kinds if kind.startswith("MODEL_CALL") or kind == "TOOL_RESULT_END"]
    turn = ["MODEL_CALL_START", "MODEL_CALL_END"]
    assert marks == [*turn, "TOOL_RESULT_END", "TOOL_RESULT_END", *turn, "TOOL_RESULT_END", *turn]


def test_calls_that_wait_are_told_in_each_formats_way() -> None:
    [*_, event] = encode("agentscope2", [WAITS], make_info())
    assert event["type"] == "REQUIRE_USER_CONFIRM"
    assert [(one["id"], one["state"]) for one in event["tool_calls"]] == [("c1", "asking")]
    first = encode("agentscope", [WAITS], make_info())[0]
    assert first["msg"]["metadata"]["approval"] == ["c1"]
    asked = [frame for frame in encode("autogen", [WAITS], make_info()) if frame["type"] == "ToolCallRequestEvent"]
    assert asked[0]["metadata"]["approval"] == '["c1"]'


def test_results_of_approved_calls_come_before_the_first_model_call() -> None:
    answered = ServerResult("c9", "wx-get", "wx", "get", (Text("set"),), arguments="{}")
    kinds = [
        frame["type"]
        for frame in encode("agentscope2", [[answered, TextDelta("Done."), END]], make_info(answers_calls=True))
    ]
    assert kinds[:5] == [
        "REPLY_START",
        "TOOL_RESULT_START",
        "TOOL_RESULT_TEXT_DELTA",
        "TOOL_RESULT_END",
        "MODEL_CALL_START",
    ]


def describe(messages: Sequence[Any]) -> list[tuple[str, Any]]:
    """The calls and results of a conversation with their turns."""
    out: list[tuple[str, Any]] = []
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolCall):
                out.append((f"call {part.name}", part.id))
            elif isinstance(part, ToolResult):
                out.append((f"result {part.id}", "\n".join(one.text for one in part.content if isinstance(one, Text))))
    return out


def test_a_response_is_read_as_the_turns_that_it_had() -> None:
    row = FORMATS["responses"]
    parsed = row.parse(list_items(TWO_TURNS), Options())
    assert describe(parsed.messages) == [
        ("call wx-get", "c0"),
        ("call wx-get", "c1"),
        ("result c0", "rain"),
        ("result c1", "no"),
        ("call wx-get", "c2"),
        ("result c2", "rain"),
    ]


def test_a_message_is_read_as_the_turns_that_it_had() -> None:
    message = {"role": "assistant", "content": read_blocks(TWO_TURNS)}
    parsed = FORMATS["anthropic"].parse([message], Options())
    assert [name for name, _ in describe(parsed.messages)] == [
        *("call wx-get", "call wx-get", "result c0", "result c1", "call wx-get", "result c2"),
    ]
