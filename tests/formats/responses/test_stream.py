"""What a reply becomes as events of the Responses API in cases that the goldens do not have."""

import json
from collections.abc import Iterator
from typing import Any

from app.api.reply_encoders import SkipFrames
from app.chat.events import (
    Event,
    Extra,
    Finish,
    MediaOutput,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    ToolsListed,
)
from app.chat.server_tools import ListedServer
from app.formats import FORMATS
from app.formats.base import HEARTBEAT, Options, ReplyInfo, ReplyMode, ResponsesOptions
from app.formats.responses import RESPONSES
from app.formats.responses.response import describe_unstored
from app.formats.responses.stream import ResponseEventEncoder
from app.formats.seal import Seal, read_seal

from tests.each_case import each_case

Json = dict[str, Any]
CUSTOM = Options(responses=ResponsesOptions(custom=("patch",)))


def frames(*events: Event, options: Options = CUSTOM) -> list[Json]:
    """The events after those that open the stream, each event of the reply in a read of its own."""
    encoder = RESPONSES.reply_encoder(ReplyInfo("resp_1", "req-1", "m", 1, options=options), "delta")
    body = b"".join(encoder.feed([event]) for event in events)
    return [json.loads(line[6:]) for line in body.decode().split("\n") if line.startswith("data: ")]


@each_case(
    ("pieces", "written"),
    [
        (['{"input": "a', 'b"}'], "ab"),
        (['{"input": ""}'], ""),
        (["no JSON"], "no JSON"),
        (['{"patch": "a"}'], "a"),
        (['{"text": "a", "n": 1}'], '{"text": "a", "n": 1}'),
    ],
)
def test_the_input_of_a_custom_tool_is_one_string(pieces: list[str], written: str) -> None:
    first, *others = pieces
    found = frames(ToolCallDelta(0, first, "c", "patch"), *(ToolCallDelta(0, one) for one in others), Finish("stop"))
    kinds = [one["type"].rpartition("custom_tool_call_input.")[2] for one in found if "custom" in one["type"]]
    assert kinds == (["delta", "done"] if written else ["done"])
    [done] = [one for one in found if one["type"] == "response.custom_tool_call_input.done"]
    assert done["input"] == written
    [item] = found[-1]["response"]["output"]
    assert (item["type"], item["name"], item["input"]) == ("custom_tool_call", "patch", written)


def test_blank_arguments_behind_a_call_that_has_ended_are_not_written() -> None:
    found = frames(ToolCallDelta(0, "{}", "c", "f"), TextDelta("é\u2028"), ToolCallDelta(0, " "), Finish("tool_calls"))
    deltas = [one["delta"] for one in found if one["type"].endswith(".delta")]
    assert deltas == ["{}", "é\u2028"]


def details(data: str, index: int = -1) -> Extra:
    return Extra({"reasoning_details": [{"type": "reasoning.encrypted", "data": data}]}, index)


def call(index: int) -> ToolCallDelta:
    return ToolCallDelta(index, "{}", f"call_{index}", "f")


def cuts(events: list[Event]) -> Iterator[list[list[Event]]]:
    """Every way to divide the events into reads."""
    for ends in range(2 ** (len(events) - 1)):
        reads: list[list[Event]] = [[]]
        for place, event in enumerate(events):
            reads[-1].append(event)
            if ends >> place & 1:
                reads.append([])
        yield reads


def sealed(response: Json) -> list[str | tuple[Any, ...]]:
    """The types of the items; of a seal, what it holds."""
    found: list[str | tuple[Any, ...]] = []
    for item in response["output"]:
        seal = read_seal(item["encrypted_content"]) if "encrypted_content" in item else None
        if seal is None:
            found.append(item["type"])
        else:
            assert isinstance(seal, Seal)
            found.append((seal.text, "".join(one["data"] for one in seal.details), seal.calls))
    return found


@each_case(
    ("events", "items"),
    [
        ([details("A"), TextDelta("a"), details("B"), TextDelta("b")], [("", "A", {}), "message", ("", "B", {})]),
        ([ReasoningDelta("a"), details("A"), TextDelta("b")], [("a", "A", {}), "message"]),
        (
            [ReasoningDelta("a"), details("A"), call(0), details("B", 0)],
            [("a", "A", {}), "function_call", ("", "B", {})],
        ),
        ([call(0), details("A", 0), call(1)], ["function_call", ("", "A", {}), "function_call"]),
        ([call(0), call(1), details("A", 0)], ["function_call", "function_call", ("", "A", {})]),
        ([call(0), details("A")], ["function_call", ("", "A", {})]),
        (
            [call(0), Extra({"extra_content": {"g": 1}}, 0), call(1), details("A", 0)],
            ["function_call", ("", "", {"call_0": {"g": 1}}), "function_call", ("", "A", {})],
        ),
    ],
)
def test_opaque_fields_have_their_place_wherever_a_read_ends(events: list[Event], items: list[Any]) -> None:
    for mode in ("delta", "whole"):
        written = set()
        for reads in cuts([*events, Finish("stop")]):
            encoder = RESPONSES.reply_encoder(ReplyInfo("resp_1", "req-1", "m", 1), mode)
            written.add(b"".join(map(encoder.feed, reads)))
        assert len(written) == 1, mode
    [body] = written
    assert sealed(json.loads(body)) == items


@each_case("mode", ["delta", "whole"])
def test_a_response_says_at_its_end_that_it_is_not_stored(mode: ReplyMode) -> None:
    encoder = RESPONSES.reply_encoder(ReplyInfo("resp_1", "req-1", "m", 1), mode)
    assert isinstance(encoder, ResponseEventEncoder)
    finish = Finish("stop", warnings=("one",))
    data = encoder.open() + encoder.feed([TextDelta("a")])
    encoder.replace_end(describe_unstored(encoder.write_ahead(finish), "two"))
    data += encoder.feed([finish])
    bodies = [
        json.loads(line.removeprefix(b"data: ")) for line in data.splitlines() if line.startswith((b"{", b"data: "))
    ]
    assert [body.get("sequence_number") for body in bodies] in ([None], list(range(len(bodies))))
    response = bodies[-1].get("response", bodies[-1])
    assert (response["status"], response["store"], response["parley"]) == (
        "completed",
        False,
        {"warnings": ["one", "store: two, so store is false"]},
    )
    assert [item["type"] for item in response["output"]] == ["message"]


@each_case(("code", "written"), [("rate_limit", "rate_limit_exceeded"), ("timeout", "server_error")])
def test_a_failure_that_is_written_ahead_is_the_one_that_is_sent(code: str, written: str) -> None:
    encoder = RESPONSES.reply_encoder(ReplyInfo("resp_1", "req-1", "m", 1), "delta")
    assert isinstance(encoder, ResponseEventEncoder)
    encoder.open()
    encoder.feed([TextDelta("a")])
    error = {"code": code, "message": "Too late.", "status": 504}
    response = encoder.fail_ahead(error)
    assert (response["status"], response["error"]) == (
        "failed",
        {"code": written, "message": "Too late.", "parley_code": code},
    )
    assert encoder.response == response
    number = encoder.last_number
    lines = [line for line in encoder.fail(error).splitlines() if line.startswith(b"data: ")]
    before, sent = (json.loads(line[6:]) for line in lines)
    assert before == {
        **{"type": "error", "sequence_number": sent["sequence_number"] - 1},
        **{"code": written, "message": "Too late.", "param": None},
    }
    assert (sent["type"], sent["sequence_number"], sent["response"]) == ("response.failed", number, response)
    assert encoder.fail(error) == encoder.fail({"code": "internal", "message": "Another.", "status": 500})
    assert encoder.last_number == number


COMPACTS = Options(responses=ResponsesOptions(compacts=True))


def test_a_summary_of_the_conversation_is_one_item_with_all_texts_of_the_reply() -> None:
    found = frames(
        TextDelta(" They "), TextDelta("met.\n"), call(0), TextDelta("Then:"), Finish("stop"), options=COMPACTS
    )
    [added, done] = [one for one in found if one.get("item", {}).get("type") == "compaction"]
    assert (added["type"], done["type"]) == ("response.output_item.added", "response.output_item.done")
    assert added["item"] == done["item"] | {"encrypted_content": ""}
    assert read_seal(done["item"]["encrypted_content"]) == Seal("They met.\n\nThen:")
    output = found[-1]["response"]["output"]
    assert added["output_index"] == done["output_index"] == output.index(done["item"])
    assert [item["type"] for item in output] == ["function_call", "compaction"]


def test_a_reply_without_text_makes_no_summary() -> None:
    [last] = frames(TextDelta(" \n"), Finish("stop"), options=COMPACTS)
    assert (last["type"], last["response"]["output"]) == ("response.completed", [])


@each_case(
    ("arguments", "written"),
    [('{"query": "mail"}', {"query": "mail"}), ("", {}), ("no JSON", "no JSON")],
)
def test_a_search_that_the_client_runs_is_an_item_without_deltas(arguments: str, written: Any) -> None:
    options = Options(responses=ResponsesOptions(client_search=True))
    added, done, last = frames(ToolCallDelta(0, arguments, "c", "tool_search"), Finish("tool_calls"), options=options)
    item = {"id": "tsc_1_0", "type": "tool_search_call", "call_id": "c", "execution": "client"}
    assert (added["type"], done["type"]) == ("response.output_item.added", "response.output_item.done")
    assert added["item"] == {**item, "status": "in_progress", "arguments": {}}
    assert done["item"] == {**item, "status": "completed", "arguments": written}
    assert last["response"]["output"] == [done["item"]]


def test_a_function_named_like_the_search_is_a_function_if_the_client_runs_none() -> None:
    [item] = frames(ToolCallDelta(0, "{}", "c", "tool_search"), Finish("tool_calls"))[-1]["response"]["output"]
    assert (item["type"], item["id"]) == ("function_call", "fc_1_0")


def test_tools_that_could_not_be_listed_are_an_item_with_the_error() -> None:
    added, started, failed, done, last = frames(ToolsListed(ListedServer("wx", error="is down")), Finish("stop"))
    assert [one["type"].rpartition(".")[2] for one in (added, started, failed, done)] == [
        "added",
        "in_progress",
        "failed",
        "done",
    ]
    assert {one["item_id"] for one in (started, failed)} == {"mcpl_1_0"}
    item = {"id": "mcpl_1_0", "type": "mcp_list_tools", "server_label": "wx", "tools": [], "error": "is down"}
    assert last["response"]["output"] == [done["item"]] == [item]


SAID: list[Event] = [
    *(ReasoningDelta("Hm."), TextDelta("So: "), TextDelta("two"), call(0), call(1)),
    Finish("tool_calls", {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}),
]


def split_frames(data: bytes) -> list[bytes]:
    return data.split(b"\n\n")[:-1]


def stream_with_silences(silences: set[int]) -> tuple[ReplyInfo, list[bytes]]:
    """What the first client reads if there are two heartbeats before each of these events. Returns the reply's metadata
    and its frames."""
    info = ReplyInfo("resp_1", "req-1", "m", 1, options=CUSTOM)
    encoder = RESPONSES.reply_encoder(info, "delta")
    data = encoder.open()
    for place, event in enumerate(SAID):
        if place in silences:
            data += encoder.heartbeat() + encoder.heartbeat()
        data += encoder.feed([event])
    return info, split_frames(data)


def test_heartbeats_are_events_with_a_number_of_their_own() -> None:
    _, written = stream_with_silences({0, 3, 5})
    events = [json.loads(frame.partition(b"data: ")[2]) for frame in written]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert written[2] == b'event: keepalive\ndata: {"type":"keepalive","sequence_number":2}'
    assert [event["type"] for event in events].count("keepalive") == 6
    _, without = stream_with_silences(set())
    assert [event["type"] for event in events if event["type"] != "keepalive"] == [
        json.loads(frame.partition(b"data: ")[2])["type"] for frame in without
    ]


def test_a_reply_with_heartbeats_is_sent_again_as_it_was_from_any_number_on() -> None:
    for silences in ({0}, {1, 2}, {0, 3, 5}, set(range(len(SAID)))):
        info, written = stream_with_silences(silences)
        for reads in cuts(SAID):
            again = RESPONSES.reply_encoder(info, "delta")
            assert split_frames(again.open() + b"".join(map(again.feed, reads))) == written
        for after in range(len(written)):
            again = SkipFrames(RESPONSES.reply_encoder(info, "delta"), after)
            assert split_frames(again.open() + b"".join(again.feed([event]) for event in SAID)) == written[after:]


def test_what_follows_a_heartbeat_is_sent_at_once_to_a_client_that_resumes() -> None:
    """The last heartbeats too: a client that has read them waits for no further frame."""
    info, _ = stream_with_silences(set())
    encoder = RESPONSES.reply_encoder(info, "delta")
    written = split_frames(encoder.open() + encoder.feed(SAID[:2]) + encoder.heartbeat() + encoder.heartbeat())
    again = RESPONSES.reply_encoder(info, "delta")
    assert split_frames(again.open() + again.feed(SAID[:2])) == written


def test_two_clients_that_read_at_the_same_time_get_the_same_numbers() -> None:
    info = ReplyInfo("resp_1", "req-1", "m", 1, options=CUSTOM)
    first, second = (RESPONSES.reply_encoder(info, "delta") for _ in range(2))
    one, other = first.open(), second.open()
    for event in SAID:
        one += first.heartbeat() + first.heartbeat()
        other += second.heartbeat() if event is not SAID[2] else b""
        one, other = one + first.feed([event]), other + second.feed([event])
    assert one == other


def test_a_heartbeat_while_the_end_waits_or_a_client_is_ahead_has_no_number() -> None:
    info = ReplyInfo("resp_1", "req-1", "m", 1, options=CUSTOM)
    encoder = RESPONSES.reply_encoder(info, "delta")
    assert isinstance(encoder, ResponseEventEncoder)
    encoder.open()
    last = SAID[-1]
    assert isinstance(last, Finish)
    encoder.write_ahead(last)
    ahead = SkipFrames(RESPONSES.reply_encoder(info, "delta"), 9)
    ahead.open()
    assert encoder.heartbeat() == ahead.heartbeat() == HEARTBEAT
    assert info.keepalives == []


def test_heartbeats_of_other_formats_have_no_number() -> None:
    for name, format_ in FORMATS.items():
        encoder = format_.reply_encoder(ReplyInfo("chat-1", "req-1", "m", 1), "delta")
        encoder.open()
        written = {encoder.heartbeat() for _ in range(3)}
        if name == "responses":
            assert len(written) == 3
        else:
            assert written == {b'event: ping\ndata: {"type":"ping"}\n\n' if name == "anthropic" else format_.heartbeat}
            assert (format_.heartbeat == HEARTBEAT) is (name != "gemini")


@each_case(
    ("url", "result"),
    [
        ("data:image/png;base64,iVBORw0KGgo=", "iVBORw0KGgo="),
        ("data:image/svg+xml,<svg/>", "data:image/svg+xml,<svg/>"),
        ("https://h/a.png", "https://h/a.png"),
    ],
)
def test_a_picture_is_the_result_of_a_call_in_base64_or_as_its_url(url: str, result: str) -> None:
    encoder = RESPONSES.reply_encoder(ReplyInfo("resp_1", "req-1", "m", 1), "whole")
    output = json.loads(encoder.feed([MediaOutput("image", url), Finish("stop")]))["output"]
    assert [(item["type"], item["result"]) for item in output] == [("image_generation_call", result)]
