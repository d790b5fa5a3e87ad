"""The items of tools that the gateway runs."""

import json
from typing import Any

from app.chat.accumulator import ReplyMessage
from app.chat.events import ServerCall, ServerResult
from app.chat.hosted_tools import HostedResult
from app.chat.messages import Text
from app.chat.server_tools import ListedServer, ToolError
from app.formats.base import ResponsesOptions
from app.formats.responses.events import EventWriter
from app.formats.responses.served_items import ServedItems
from app.formats.seal import read_seal

Json = dict[str, Any]


def make_items(**options: Any) -> ServedItems:
    return ServedItems(EventWriter([]), ResponsesOptions(**options), "chat-1")


def read(data: bytes) -> list[Json]:
    """Return the items that end."""
    events = [json.loads(line[6:]) for line in data.decode().splitlines() if line.startswith("data: ")]
    return [event["item"] for event in events if event["type"] == "response.output_item.done"]


def make_call(id_: str, call: ServerCall) -> ReplyMessage:
    message = ReplyMessage(0, "function_call", id_, "web_search")
    message.server = call
    message.add('{"query": "a"}')
    return message


def test_tools_that_the_conversation_lists_are_not_listed_again() -> None:
    [item] = read(make_items().write_list(ListedServer("wx", error="is down")))
    assert (item["server_label"], item["tools"], item["error"]) == ("wx", [], "is down")
    assert make_items(listed=("wx",)).write_list(ListedServer("wx")) == b""


def test_a_call_that_waits_is_a_request_for_approval() -> None:
    call = ServerCall(0, "wx", "now", approval=True)
    [item] = read(make_items().write_approval_request(make_call("c", call), call))
    assert (item["type"], item["server_label"], item["name"]) == ("mcp_approval_request", "wx", "now")


def test_an_approved_call_has_its_result_or_its_error() -> None:
    result = ServerResult("c", "wx_now", "wx", "now", (Text("4"),), arguments="{}")
    [item] = read(make_items().write_approved(result))
    assert (item["output"], item["status"], item["arguments"]) == ("4", "completed", "{}")
    failed = ServerResult("c", "wx_now", "wx", "now", (Text("no"),), ToolError("protocol", -32000, "no"))
    [item] = read(make_items().write_approved(failed))
    assert (item["output"], item["status"]) == (None, "failed")


def test_what_the_last_search_of_a_turn_has_found_is_sealed_behind_it() -> None:
    items, call = make_items(sealed=True), ServerCall(0, "", "web_search", hosted="web_search")
    message = make_call("c", call)
    items.end_turn([message])
    result = ServerResult("c", "web_search", "", "web_search", (Text("b"),), index=0)
    data = items.start_search(message, "web_search") + items.end_search(message, result, HostedResult("web_search"))
    search, sealed = read(data)
    seal = read_seal(sealed["encrypted_content"])
    assert seal is not None and seal.results[search["id"]].text == "b" and seal.ends_turn
