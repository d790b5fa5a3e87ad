"""Writes the items of tools that the gateway runs: lists of tools, calls with their results, searches, and requests for
approval."""

from collections.abc import Sequence
from typing import Any

import msgspec

from app.chat.accumulator import ReplyMessage, normalize_object
from app.chat.events import ServerCall, ServerResult
from app.chat.hosted_tools import HostedKind, HostedResult
from app.chat.server_tools import ListedServer
from app.formats.base import ResponsesOptions
from app.formats.responses.events import EventWriter
from app.formats.responses.items import join_result, make_search_call, make_server_call, write_tool, write_tool_error
from app.formats.responses.response import make_item_id
from app.formats.responses.tools import REQUEST_PREFIX
from app.formats.seal import Seal, SealedResult, write_seal


class ServedItems:
    def __init__(self, events: EventWriter, options: ResponsesOptions, response_id: str) -> None:
        self._events = events
        self._options = options
        self._response_id = response_id
        self._ends_turn = ""
        """The id of the last call of a turn that another turn may follow."""
        self._last_search = ""
        """The id of the last search of the turn."""
        self._results: dict[str, SealedResult] = {}
        """Those of the searches of the turn, by the ids of their items."""

    def _make_id(self, prefix: str) -> str:
        return make_item_id(self._response_id, self._events.index, prefix)

    def end_turn(self, messages: Sequence[ReplyMessage]) -> None:
        """Take the end of a turn of the model: its results follow. `messages` are those of the reply so far."""
        calls: list[ReplyMessage] = []
        for message in reversed(messages):
            if message.result is not None:
                break
            if message.kind == "function_call":
                calls.append(message)
        if calls and all(call.server is not None and not call.server.approval for call in calls):
            self._ends_turn = calls[0].id
        searches = [call.id for call in calls if call.server is not None and call.server.hosted is not None]
        self._last_search = searches[0] if searches else ""

    def write_list(self, server: ListedServer) -> bytes:
        """Write the tools of a server, unless the conversation lists them already."""
        if server.server in self._options.listed:
            return b""
        item: dict[str, Any] = {"id": self._make_id("mcpl"), "type": "mcp_list_tools", "server_label": server.server}
        out = self._events.start_item(item | {"tools": []})
        out += self._events.write_of_item("response.mcp_list_tools.in_progress")
        if server.error is None:
            out += self._events.write_of_item("response.mcp_list_tools.completed")
        else:
            out += self._events.write_of_item("response.mcp_list_tools.failed")
        item["tools"] = list(map(write_tool, server.tools))
        if server.error is not None:
            item["error"] = server.error
        return out + self._events.end_item(item)

    def start_call(self, id_: str, server: str, tool: str) -> bytes:
        out = self._events.start_item(make_server_call(id_, server, tool, ""))
        return out + self._events.write_of_item("response.mcp_call.in_progress")

    def end_call(self, item: dict[str, Any], result: ServerResult) -> bytes:
        """Write the end of a call, of which `item` has all but the result."""
        error = None if result.error is None else write_tool_error(result.error, result)
        status = "completed" if error is None else "failed"
        output = join_result(result) if error is None else None
        item |= {"status": status, "output": output, "error": error}
        if result.id == self._ends_turn or result.index < 0:
            item["parley"] = {"ends_turn": True}
        out = self._events.write_of_item(f"response.mcp_call.{status}")
        return out + self._events.end_item(item)

    def write_approval_request(self, message: ReplyMessage, call: ServerCall) -> bytes:
        item = {
            "id": f"{REQUEST_PREFIX}{message.id}",
            "type": "mcp_approval_request",
            "server_label": call.server,
            "name": call.tool,
            "arguments": message.text,
        }
        return self._events.start_item(item) + self._events.end_item(item)

    def write_approved(self, result: ServerResult) -> bytes:
        """Write a call of the request with its result."""
        item = make_server_call(result.id, result.server, result.tool, "")
        item["approval_request_id"] = f"{REQUEST_PREFIX}{result.id}"
        out = self._events.start_item(item)
        out += self._events.write_of_item("response.mcp_call.in_progress")
        if result.arguments:
            out += self._events.write_of_item("response.mcp_call_arguments.delta", delta=result.arguments)
        out += self._events.write_of_item("response.mcp_call_arguments.done", arguments=result.arguments)
        return out + self.end_call(item | {"arguments": result.arguments}, result)

    def start_search(self, message: ReplyMessage, kind: HostedKind) -> bytes:
        item = make_search_call(self._make_id("ws"), kind, message.text, "in_progress")
        out = self._events.start_item(item)
        out += self._events.write_of_item("response.web_search_call.in_progress")
        return out + self._events.write_of_item("response.web_search_call.searching")

    def end_search(self, message: ReplyMessage, result: ServerResult, found: HostedResult) -> bytes:
        """Write the end of a search. What the model has read is kept for the next request: in the item of a stored
        Response, else in a seal, because clients drop all other fields of the item."""
        id_ = self._events.item_id
        item = make_search_call(id_, found.kind, message.text, "failed" if result.is_error else "completed")
        if self._options.sources and found.entries:
            item["action"]["sources"] = [{"type": "url", "url": entry.url} for entry in found.entries]
        is_last = result.id == self._last_search
        arguments = normalize_object(message.text)
        sealed = SealedResult(result.id, result.name, arguments, join_result(result), result.is_error)
        if not self._options.sealed:
            item["parley"] = {"result": msgspec.to_builtins(sealed), "ends_turn": result.id == self._ends_turn}
        out = b"" if result.is_error else self._events.write_of_item("response.web_search_call.completed")
        out += self._events.end_item(item)
        if not self._options.sealed:
            return out
        self._results[id_] = sealed
        return out + self._write_results() if is_last else out

    def _write_results(self) -> bytes:
        """Write the results of the searches of a turn as an item that clients send back."""
        contents, self._results = Seal(results=self._results, ends_turn=self._last_search == self._ends_turn), {}
        item = {"id": self._make_id("rs"), "type": "reasoning", "summary": [], "status": "in_progress"}
        item["encrypted_content"] = write_seal(contents)
        return self._events.start_item(item) + self._events.end_item(item | {"status": "completed"})
