"""Encodes a reply as the events of OpenAI's Responses API, or as one Response.

Items come one after the other. An item ends when the next one starts, or with the reply, because only then is it known
whether it is complete.

Every event has a `sequence_number` from 0, and no event is Parley's own: the official TypeScript SDK throws on types
that it does not know. The warnings are in `parley` of the last Response.

A heartbeat is the event `keepalive`, which this SDK knows. Codex drops a connection on which no event came for 300
seconds, and does not count comments (codex-rs/codex-api/src/sse). A `keepalive` takes a sequence number, as OpenAI's
does. So that a client can resume after any number, each stream of the same reply has it at the same place:
`ReplyInfo.keepalives` has the numbers, and an encoder writes those that it meets.
"""

import re
from collections.abc import Sequence
from typing import Any, assert_never

import msgspec
from typing_extensions import override

from app.chat.accumulator import ReplyMessage
from app.chat.datauri import is_data
from app.chat.events import (
    SAID_BY_PASSED,
    Event,
    Failed,
    Finish,
    Passed,
    ServerCall,
    ServerResult,
    ToolsListed,
    TurnEnd,
)
from app.chat.server_tools import OfferedTool, ToolError, describe_part
from app.errors import find_code
from app.formats.base import HEARTBEAT, USAGE_ESTIMATED, ReplyInfo, is_usage_estimated
from app.formats.citations import write_responses_citation
from app.formats.encoders import DeltaEncoder
from app.formats.responses.schema import HOSTED_ITEMS
from app.formats.responses.tools import CALL_PREFIX, REQUEST_PREFIX, SEARCH_NAME, read_object
from app.formats.seal import Seal, write_seal
from app.formats.sequential_calls import SequentialCallsStage
from app.formats.sse import encode_json as _json
from app.formats.sse import escape_line_separators
from app.openai_messages.custom_tools import unwrap_input

Json = dict[str, Any]
_BEGINNINGS = frozenset(("response.created", "response.in_progress", "response.queued"))
_OWN_ENDS = frozenset(("response.completed", "response.incomplete", "response"))
"""Events of a server that are held until the gateway knows what it has to say; `response` is a whole reply."""
_END_FIELDS = frozenset(("type", "sequence_number", "response"))
_SEQUENCE_NUMBER = re.compile(rb'"sequence_number"\s*:\s*(\d{1,9})\s*[,}]')
_UNFINISHED = {"length": "max_output_tokens", "content_filter": "content_filter"}
"""`incomplete_details.reason` by finish reason."""
_LIMITS = {"bytes": "max_result_bytes"}
"""The same by the bound of tools, where it is not `max_` and the name of the bound."""
_PREFIXES = {"reasoning_content": "rs", "content": "msg", "function_call": "fc"}


def error_body(error: dict[str, Any]) -> dict[str, Any]:
    """Make the body of an HTTP error: OpenAI's object, with the gateway's other fields added to it."""
    code = error["code"]
    row = find_code("unknown_model" if code == "not_found" and "upstream" in error else code)
    kind = row.responses_type or ("invalid_request_error" if error["status"] < 500 else "server_error")
    return {"error": {**error, "code": row.responses_code or code, "type": kind}}


def make_item_id(response_id: str, index: int, prefix: str) -> str:
    """Return the id of an output item, which contains the id of its Response: so a reference to it can be found."""
    return f"{prefix}_{response_id.rpartition('_')[2]}_{index}"


def find_response_id(item_id: str) -> str | None:
    """Return the id of the Response that an item belongs to; None if the item has no id of this gateway."""
    match = _ITEM_ID.fullmatch(item_id)
    return match and f"resp_{match[1]}"


_ITEM_ID = re.compile(r"[a-z]{2,4}_([0-9a-f]{32})_i?\d+")


def write_usage(usage: dict[str, Any] | None) -> dict[str, Any] | None:
    """Rename the numbers; those that the server did not send are 0."""
    if usage is None:
        return None
    given, used = usage.get("prompt_tokens") or 0, usage.get("completion_tokens") or 0
    inputs, outputs = usage.get("prompt_tokens_details"), usage.get("completion_tokens_details")
    return {
        "input_tokens": given,
        "input_tokens_details": {
            "cached_tokens": _get_number(inputs, "cached_tokens"),
            "cache_write_tokens": _get_number(inputs, "cache_write_tokens"),
        },
        "output_tokens": used,
        "output_tokens_details": {"reasoning_tokens": _get_number(outputs, "reasoning_tokens")},
        "total_tokens": usage.get("total_tokens") or given + used,
    }


def _get_number(details: Any, name: str) -> int:
    value = details.get(name) if isinstance(details, dict) else None
    return value if isinstance(value, int) else 0


def make_response(info: ReplyInfo, status: str, output: Sequence[Any] = (), **fields: Any) -> dict[str, Any]:
    """Make a Response object. `fields` replace the values of a Response that is in progress."""
    return {
        "id": info.response_id,
        "object": "response",
        "created_at": info.created,
        "status": status,
        "model": info.model,
        "output": output,
        "error": None,
        "incomplete_details": None,
        "usage": None,
        "completed_at": None,
        **_DEFAULT_FIELDS,
        **info.options.responses.fields,
        **fields,
    }


def choose_end_type(response: dict[str, Any]) -> str:
    """Return the type of the last event, which has this Response."""
    status = response["status"]
    return f"response.{status if status in ('completed', 'incomplete') else 'failed'}"


def describe_unstored(response: dict[str, Any], reason: str) -> dict[str, Any]:
    """Return the Response with `store` false, and a warning that says why."""
    parley = response.get("parley", {})
    warnings = [*parley.get("warnings", []), f"store: {reason}, so store is false"]
    return response | {"store": False, "parley": parley | {"warnings": warnings}}


_DEFAULT_FIELDS: dict[str, Any] = {
    "background": False,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "reasoning": {"effort": None, "summary": None},
    "service_tier": "default",
    "store": False,
    "temperature": None,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": None,
    "truncation": "disabled",
    "user": None,
}


class ResponseEventEncoder(DeltaEncoder):
    _looks_ahead = False

    def __init__(self, info: ReplyInfo) -> None:
        super().__init__(info)
        self._options = info.options.responses
        self._keepalives = info.keepalives
        self._number = 2
        """The next sequence number; those before it are of the events of `open`."""
        self._open: ReplyMessage | None = None
        self._item_id = ""
        self._delta = b""
        """The frame of a new text of the open item: its values are the sequence number and JSON. Empty: texts of this
        item are not written as they come."""
        self._stage = SequentialCallsStage()
        self._output: list[dict[str, Any]] = []
        self._awaits_result = False
        """The open item is a call that the gateway runs, whose arguments are whole. What follows it is held back."""
        self._held: list[ReplyMessage] = []
        self._ends_turn = ""
        """The id of the last call of a turn that another turn may follow."""
        self._sealed: dict[int, tuple[int, Any]] = {}
        """For each message, which of its opaque fields are in items: how many details, and the extra content."""
        self._ahead: bytes | None = None
        self._end = b""
        """The last frame, which has the Response."""
        self._end_number = 0
        """The sequence number with which the last frame begins."""
        self.response: dict[str, Any] | None = None
        """The Response, once the reply has ended."""
        self.completed_at: int | None = None
        """Unix seconds; set by the owner of a clock."""
        self._passes: bool | None = None
        """Whether the server's own events are sent; None before the first one."""
        self._own_end: Json = {}
        """The server's own Response at the end of the reply."""
        self._is_numbered = True
        """Whether the last event has a sequence number: that of a server may have none."""
        self._own_data = b""
        """The server's last event, from which the next sequence number follows; empty if it is known."""
        self._beside_end: Json = {}
        """What else the server's last event has (GitHub Copilot's `copilot_usage`)."""

    def open(self) -> bytes:
        # The server's own events may follow, of which one begins the reply.
        return b"" if self._info.options.passed else self._write_start()

    def _write_start(self) -> bytes:
        response = make_response(self._info, "in_progress")
        kinds = ("response.created", "response.in_progress")
        bodies = ({"type": kind, "sequence_number": number, "response": response} for number, kind in enumerate(kinds))
        return b"".join(map(write_event, bodies)) + self._write_keepalives()

    @override
    def heartbeat(self) -> bytes:
        # The last event has its number already; those of a server have its own.
        if self._ahead is not None or (self._info.options.passed and self._passes is not False):
            return HEARTBEAT
        if self._number not in self._keepalives:
            self._keepalives.append(self._number)
        return self._write_keepalives()

    def _write_keepalives(self) -> bytes:
        """Write the heartbeats that have the next numbers."""
        out = b""
        while self._number in self._keepalives:
            out += write_event({"type": "keepalive", "sequence_number": self._number})
            self._number += 1
        return out

    def write_ahead(self, end: Finish | Failed) -> dict[str, Any]:
        """Return the Response that this end of the reply makes. Feed the same event after it."""
        self._ahead = self.feed([end])
        assert self.response is not None
        return self.response

    def fail_ahead(self, error: dict[str, Any]) -> dict[str, Any]:
        """Return the Response that this error makes. Call `fail` with it afterwards."""
        self._ahead = self.fail(error)
        assert self.response is not None
        return self.response

    def replace_end(self, response: dict[str, Any]) -> None:
        """Let the reply end with this Response, and not with that of `write_ahead` or `fail_ahead`."""
        assert self._ahead is not None
        self.response = response
        self._number = self._end_number
        self._ahead = self._ahead.removesuffix(self._end) + self._write_end(response)

    @property
    def last_number(self) -> int | None:
        """The sequence number of the last event that was written; None if no events are."""
        return self._number - 1

    @override
    def feed(self, events: list[Event]) -> bytes:
        if self._ahead is not None:
            return self._ahead
        if self._info.options.passed and self._passes is not False:
            if self._passes is None and events:
                self._passes = type(events[0]) is Passed
                if not self._passes:
                    return self._write_start() + self.feed(events)
            if len(events) == 2 and type(events[0]) is Passed and type(events[1]) in SAID_BY_PASSED:
                return self._write_passed(events[0])
            return b"".join([self._write_passed(event) for event in events])
        out = super().feed(self._stage.feed(events))
        if self._keepalives and self.response is None:
            out += self._write_keepalives()
        return out

    @override
    def feed_each(self, batches: Sequence[list[Event]]) -> bytes:
        return b"".join(map(self.feed, batches))

    def _write_passed(self, event: Event) -> bytes:
        """Write an event of the server as it is: only the model has the name that the client asked for, and a stored
        response an id by which it is found. What the gateway has to say of the reply is in the last event."""
        if type(event) is not Passed:
            if type(event) is Finish:
                return self._write_own_end(event)
            return super().feed([event]) if type(event) is Failed else b""
        data, name = event.data.encode("utf-8", "surrogatepass"), event.name
        if name.endswith(".delta"):
            return self._write_own_frame(name, data)
        if name in _OWN_ENDS:
            value = msgspec.json.decode(data)
            self._own_end = value if name == "response" else value.get("response") or {}
            if name != "response":
                self._beside_end = {key: value[key] for key in value if key not in _END_FIELDS}
            if type(number := value.get("sequence_number")) is int:
                self._number, self._own_data = number, b""
            else:
                self._is_numbered = False
            return b""
        if name == "response.output_item.done":
            self._output.append(msgspec.json.decode(data).get("item"))
        if name in _BEGINNINGS:
            value = msgspec.json.decode(data)
            if isinstance(value.get("response"), dict):
                data = _json(value | {"response": self._name_response(value["response"])})
        return self._write_own_frame(name, data)

    def _write_own_frame(self, name: str, data: bytes) -> bytes:
        self._number, self._own_data = self._number + 1, data
        return b"event: %b\ndata: %b\n\n" % (name.encode(), escape_line_separators(data))

    def _follow_own_numbers(self) -> None:
        """Let the next sequence number follow that of the server's last event."""
        found = _SEQUENCE_NUMBER.search(self._own_data)
        if found:
            self._number = int(found[1]) + 1
        self._own_data = b""

    def _name_response(self, response: Json) -> Json:
        stored = self._options.fields.get("store") is True
        named = {"id": self._info.response_id, "store": True} if stored else {}
        return {**response, **named, "model": self._info.model}

    def _write_own_end(self, finish: Finish) -> bytes:
        response = self._name_response(self._own_end)
        if not response.get("output") and self._output:  # ChatGPT's backend ends with `output: []`
            response["output"] = self._output
        response.setdefault("output", [])
        response.setdefault("status", "incomplete" if finish.reason in _UNFINISHED else "completed")
        warnings = self._info.warnings_with(finish)
        if warnings:
            response["parley"] = {"warnings": warnings}
        self.response = response
        return self._write_end(response)

    def _frame(self, kind: str, **fields: Any) -> bytes:
        before = self._write_keepalives() if self._keepalives else b""
        number = self._number
        self._number = number + 1
        numbered = {"sequence_number": number} if self._is_numbered else {}
        return before + write_event({"type": kind, **numbered, **fields})

    def _item_frame(self, kind: str, **fields: Any) -> bytes:
        """Write an event of the open item."""
        return self._frame(kind, item_id=self._item_id, output_index=len(self._output), **fields)

    def _make_delta(self, kind: str, **fields: Any) -> bytes:
        """Return the template of the deltas of the open item."""
        body = _json({"type": kind, "item_id": self._item_id, "output_index": len(self._output), **fields})
        head = b"event: %b\ndata: %b" % (kind.encode(), body[:-1])
        return head.replace(b"%", b"%%") + b',"sequence_number":%d,"delta":%b}\n\n'

    # Steps.

    @override
    def _write_text(self, message: ReplyMessage, text: str) -> bytes:
        if not self._delta or message is not self._open:
            return b""
        data = _json(text)
        if not data.isascii():
            data = escape_line_separators(data)
        before = self._write_keepalives() if self._keepalives else b""
        number = self._number
        self._number = number + 1
        return before + self._delta % (number, data)

    @override
    def _write_started(self, message: ReplyMessage) -> bytes:
        if message.result is not None:
            return self._write_result(message.result)
        if self._awaits_result or self._held:
            self._held.append(message)
            return b""
        closed = self._close_item("completed")
        return closed if self._is_part_of_summary(message) else closed + self._open_item(message)

    @override
    def _write_completed(self, message: ReplyMessage) -> bytes:
        if message.server is None or message is not self._open:
            return b""
        return self._end_server_call(message, message.server)

    # Calls that the gateway runs: an item has the call and its result.

    @override
    def _write_turn_end(self, turn: TurnEnd) -> bytes:
        calls: list[ReplyMessage] = []
        for message in reversed(self._accumulator.messages):
            if message.result is not None:
                break
            if message.kind == "function_call":
                calls.append(message)
        if calls and all(call.server is not None and not call.server.approval for call in calls):
            self._ends_turn = calls[0].id
        return b""

    @override
    def _write_listed(self, listed: ToolsListed) -> bytes:
        server = listed.listed
        if server.server in self._options.listed:
            return b""
        self._item_id = self._make_id("mcpl")
        item: dict[str, Any] = {"id": self._item_id, "type": "mcp_list_tools", "server_label": server.server}
        out = self._frame("response.output_item.added", output_index=len(self._output), item=item | {"tools": []})
        out += self._item_frame("response.mcp_list_tools.in_progress")
        if server.error is None:
            out += self._item_frame("response.mcp_list_tools.completed")
        else:
            out += self._item_frame("response.mcp_list_tools.failed")
        item["tools"] = list(map(_write_tool, server.tools))
        if server.error is not None:
            item["error"] = server.error
        out += self._frame("response.output_item.done", output_index=len(self._output), item=item)
        self._output.append(item)
        return out

    def _end_server_call(self, message: ReplyMessage, call: ServerCall) -> bytes:
        """Write that the open call has all its arguments. One that waits for approval is an item by itself."""
        self._delta = b""
        if not call.approval:
            self._awaits_result = True
            return self._item_frame("response.mcp_call_arguments.done", arguments=message.text)
        self._open = None
        item = {
            "id": f"{REQUEST_PREFIX}{message.id}",
            "type": "mcp_approval_request",
            "server_label": call.server,
            "name": call.tool,
            "arguments": message.text,
        }
        out = self._frame("response.output_item.added", output_index=len(self._output), item=item)
        out += self._frame("response.output_item.done", output_index=len(self._output), item=item)
        self._output.append(item)
        return out

    def _write_result(self, result: ServerResult) -> bytes:
        """Write a result into the open item, or into one of its own if its call is in the request."""
        if self._open is None or self._open.id != result.id or result.index < 0:
            return self._close_item("completed") + self._write_approved(result)
        item = self._make_item(self._open, "completed", self._open.text)
        out = self._finish_server_call(item, result)
        self._open, self._awaits_result = None, False
        return out + self._write_held()

    def _write_approved(self, result: ServerResult) -> bytes:
        self._item_id = f"{CALL_PREFIX}{result.id}"
        item = _make_server_call(result.id, result.server, result.tool, "")
        item["approval_request_id"] = f"{REQUEST_PREFIX}{result.id}"
        out = self._frame("response.output_item.added", output_index=len(self._output), item=item)
        out += self._item_frame("response.mcp_call.in_progress")
        if result.arguments:
            out += self._item_frame("response.mcp_call_arguments.delta", delta=result.arguments)
        out += self._item_frame("response.mcp_call_arguments.done", arguments=result.arguments)
        return out + self._finish_server_call(item | {"arguments": result.arguments}, result)

    def _finish_server_call(self, item: dict[str, Any], result: ServerResult) -> bytes:
        error = None if result.error is None else _write_tool_error(result.error, result)
        status = "completed" if error is None else "failed"
        output = _join_result(result) if error is None else None
        item |= {"status": status, "output": output, "error": error}
        if result.id == self._ends_turn or result.index < 0:
            item["parley"] = {"ends_turn": True}
        out = self._item_frame(f"response.mcp_call.{status}")
        out += self._frame("response.output_item.done", output_index=len(self._output), item=item)
        self._output.append(item)
        return out

    def _write_held(self) -> bytes:
        """Write what was held back, up to the next call that the gateway runs."""
        out = b""
        while self._held and not self._awaits_result:
            message = self._held.pop(0)
            out += self._close_item("completed") + self._open_item(message)
            if message.text and self._delta:
                out += self._write_text(message, message.text)
            if message.server is not None:
                out += self._end_server_call(message, message.server)
        return out

    def _give_up_results(self) -> bytes:
        """Write the calls of a turn that ended before they could be run."""
        out = b""
        while self._awaits_result or self._held:
            out += self._close_item("incomplete") if self._awaits_result else b""
            self._awaits_result = False
            out += self._write_held()
        return out

    @override
    def _write_finish(self, finish: Finish) -> bytes:
        summary = finish.server_tools
        unfinished = _UNFINISHED.get(finish.reason)
        if finish.reason == "tool_limit" and summary is not None:
            unfinished = _LIMITS.get(summary.limit or "", f"max_{summary.limit}")
        out = self._give_up_results() if self._awaits_result or self._held else b""
        out += self._close_item("incomplete" if unfinished else "completed")
        if self._options.compacts:
            out += self._write_summary()
        out += b"".join(map(self._write_opaque_fields, self._accumulator.messages))
        out += self._write_sealed(self._accumulator.loose_extra.get("reasoning_details"))
        usage = write_usage(finish.usage or finish.estimated_usage)
        fields: dict[str, Any] = {"usage": usage, "completed_at": self.completed_at}
        warnings = self._info.warnings_with(finish)
        if is_usage_estimated(finish):
            warnings.append(USAGE_ESTIMATED)
        parley: dict[str, Any] = {"warnings": warnings} if warnings else {}
        if summary is not None:
            parley["server_tools"] = summary.to_dict()
        if parley:
            fields["parley"] = parley
        if unfinished:
            fields["incomplete_details"] = {"reason": unfinished}
        status = "incomplete" if unfinished else "completed"
        self.response = make_response(self._info, status, self._output, **fields)
        return out + self._write_end(self.response)

    def _write_end(self, response: dict[str, Any]) -> bytes:
        if self._own_data:
            self._follow_own_numbers()
        self._end_number = self._number
        self._end = self._frame(choose_end_type(response), response=response, **self._beside_end)
        return self._end

    @override
    def fail(self, error: dict[str, Any]) -> bytes:
        if self._ahead is not None:
            return self._ahead
        own = ("code", "message", "status", "usage", "server_tools")
        fields = {key: value for key, value in error.items() if key not in own}
        failure = {
            "code": find_code(error["code"]).failed_response_code,
            "message": error["message"],
            "parley_code": error["code"],
            **fields,
        }
        status = "cancelled" if error["code"] == "cancelled" else "failed"
        usage = write_usage(error.get("usage"))
        tools = {"parley": {"server_tools": error["server_tools"]}} if "server_tools" in error else {}
        self.response = make_response(self._info, status, self._output, error=failure, usage=usage, **tools)
        return self._write_end(self.response)

    def _write_summary(self) -> bytes:
        """Write the texts of the reply as one item. Without a text there is none: clients would put it in the place of
        their conversation."""
        text = "\n\n".join(
            filter(None, (one.text.strip() for one in self._accumulator.messages if one.kind == "content"))
        )
        if not text:
            return b""
        item = {"id": self._make_id("cmp"), "type": "compaction", "encrypted_content": ""}
        index = len(self._output)
        added = self._frame("response.output_item.added", output_index=index, item=item)
        item |= {"encrypted_content": write_seal(Seal(text))}
        self._output.append(item)
        return added + self._frame("response.output_item.done", output_index=index, item=item)

    # Items.

    def _open_item(self, message: ReplyMessage) -> bytes:
        out = self._write_opaque_fields(message)
        self._open, self._delta = message, b""
        if message.server is not None:
            return out + self._open_server_call(message, message.server)
        self._item_id = self._make_id(self._choose_prefix(message))
        item = self._make_item(message, "in_progress", text="")
        if message.kind in ("reasoning_content", "content"):
            item.pop("encrypted_content", None)
            item["summary" if self._is_summary(message) else "content"] = []
        out += self._frame("response.output_item.added", output_index=len(self._output), item=item)
        match message.kind:
            case "reasoning_content" if self._options.summary:
                part = {"type": "summary_text", "text": ""}
                out += self._item_frame("response.reasoning_summary_part.added", summary_index=0, part=part)
                self._delta = self._make_delta("response.reasoning_summary_text.delta", summary_index=0)
            case "reasoning_content":
                part = {"type": "reasoning_text", "text": ""}
                out += self._item_frame("response.content_part.added", content_index=0, part=part)
                self._delta = self._make_delta("response.reasoning_text.delta", content_index=0)
            case "content":
                out += self._item_frame("response.content_part.added", content_index=0, part=_make_part(message, ""))
                more: dict[str, Any] = {} if message.refusal else {"logprobs": []}
                kind = "refusal" if message.refusal else "output_text"
                self._delta = self._make_delta(f"response.{kind}.delta", content_index=0, **more)
            case "function_call" if not self._is_custom(message) and not self._is_search(message):
                self._delta = self._make_delta("response.function_call_arguments.delta")
            case _:
                pass
        return out

    def _open_server_call(self, message: ReplyMessage, call: ServerCall) -> bytes:
        if call.approval:  # its item has its arguments when it starts
            return b""
        self._item_id = f"{CALL_PREFIX}{message.id}"
        item = _make_server_call(message.id, call.server, call.tool, "")
        out = self._frame("response.output_item.added", output_index=len(self._output), item=item)
        out += self._item_frame("response.mcp_call.in_progress")
        self._delta = self._make_delta("response.mcp_call_arguments.delta")
        return out

    def _close_item(self, status: str) -> bytes:
        message = self._open
        if message is None:
            return b""
        text = message.text
        item = self._make_item(message, status, text)
        out = self._write_done(message, text, item)
        out += self._frame("response.output_item.done", output_index=len(self._output), item=item)
        self._output.append(item)
        self._open, self._delta = None, b""
        return out + (b"" if message.kind == "reasoning_content" else self._write_opaque_fields(message))

    def _write_done(self, message: ReplyMessage, text: str, item: dict[str, Any]) -> bytes:
        match message.kind:
            case "reasoning_content" if self._options.summary:
                done = self._item_frame("response.reasoning_summary_text.done", summary_index=0, text=text)
                part = item["summary"][0]
                return done + self._item_frame("response.reasoning_summary_part.done", summary_index=0, part=part)
            case "reasoning_content":
                done = self._item_frame("response.reasoning_text.done", content_index=0, text=text)
                return done + self._item_frame("response.content_part.done", content_index=0, part=item["content"][0])
            case "content" if message.refusal:
                done = self._item_frame("response.refusal.done", content_index=0, refusal=text)
                return done + self._item_frame("response.content_part.done", content_index=0, part=item["content"][0])
            case "content":
                done = self._item_frame("response.output_text.done", content_index=0, text=text, logprobs=[])
                return done + self._item_frame("response.content_part.done", content_index=0, part=item["content"][0])
            case "function_call" if message.server is not None:
                return b""
            case "function_call" if self._is_custom(message):
                written = item["input"]
                delta = self._item_frame("response.custom_tool_call_input.delta", delta=written) if written else b""
                return delta + self._item_frame("response.custom_tool_call_input.done", input=written)
            case "function_call" if not self._is_search(message):
                name = item["name"]
                return self._item_frame("response.function_call_arguments.done", arguments=text, name=name)
            case _:
                return b""

    def _make_item(self, message: ReplyMessage, status: str, text: str) -> dict[str, Any]:
        head: dict[str, Any] = {"id": self._item_id}
        match message.kind:
            case "reasoning_content":
                return head | {"type": "reasoning", **self._write_reasoning(message, status, text)}
            case "content":
                item = {
                    "type": "message",
                    "role": "assistant",
                    "status": status,
                    "content": [_make_part(message, text)],
                }
                return head | item | _write_text_fields(message.extra.get("extra_content"))
            case "function_call" if message.server is not None:
                call = message.server
                return _make_server_call(message.id, call.server, call.tool, text) | {"status": status}
            case "function_call":
                return head | self._write_call(message, status, text)
            case "media":
                return head | _write_media(message, status)
            case "function_result":
                return head  # its call's item has it
            case _:
                assert_never(message.kind)

    def _write_reasoning(self, message: ReplyMessage, status: str, text: str) -> dict[str, Any]:
        if self._options.summary:
            fields: dict[str, Any] = {"summary": [{"type": "summary_text", "text": text}], "status": status}
        else:
            content = [{"type": "reasoning_text", "text": text}]
            fields = {"summary": [], "status": status, "content": content}
        details = message.extra.get("reasoning_details") or []
        if self._options.sealed or details:
            fields["encrypted_content"] = write_seal(Seal(text, details))
        return fields

    def _write_call(self, message: ReplyMessage, status: str, text: str) -> dict[str, Any]:
        if self._is_search(message):
            item = {"type": "tool_search_call", "status": status, "call_id": message.id, "execution": "client"}
            return item | {"arguments": read_object(text) if text else {}}
        namespace, name = self._options.namespaces.get(message.name, ("", message.name))
        custom = self._is_custom(message)
        item = {"type": "custom_tool_call" if custom else "function_call", "status": status, "call_id": message.id}
        item["name"] = name
        if namespace:
            item["namespace"] = namespace
        return item | ({"input": unwrap_input(text)} if custom else {"arguments": text})

    def _write_opaque_fields(self, message: ReplyMessage) -> bytes:
        """Write what the model's server wants back with a message, for which it has no field, as an item of its own.
        What came before the message is in an item before it, and the rest in one after it."""
        if not message.extra or message.kind == "reasoning_content":
            return b""
        count, known = self._sealed.get(message.index, (0, None))
        extra = message.extra.get("extra_content") if message.kind == "function_call" else None
        details = message.extra.get("reasoning_details") or []
        self._sealed[message.index] = len(details), extra
        return self._write_sealed(details[count:], {message.id: extra} if extra and extra != known else {})

    def _write_sealed(self, details: Any, calls: dict[str, Any] | None = None) -> bytes:
        """Write details and opaque fields of calls. What a tool of the server has done is an item of this API."""
        out, run = b"", list[Any]()
        for detail in details or ():
            item = _find_native_item(detail)
            if item is None:
                run.append(detail)
                continue
            out += (self._write_seal(run, {}) if run else b"") + self._write_native_item(item)
            run = []
        return out + (self._write_seal(run, calls or {}) if run or calls else b"")

    def _write_native_item(self, item: dict[str, Any]) -> bytes:
        index = len(self._output)
        added = self._frame("response.output_item.added", output_index=index, item=item)
        self._output.append(item)
        return added + self._frame("response.output_item.done", output_index=index, item=item)

    def _write_seal(self, details: list[Any], calls: dict[str, Any]) -> bytes:
        sealed = write_seal(Seal("", details, calls))
        index = len(self._output)
        item = {"id": self._make_id("rs"), "type": "reasoning", "summary": [], "status": "in_progress"}
        added = self._frame("response.output_item.added", output_index=index, item=item | {"encrypted_content": sealed})
        item |= {"status": "completed", "encrypted_content": sealed}
        self._output.append(item)
        return added + self._frame("response.output_item.done", output_index=index, item=item)

    def _make_id(self, prefix: str) -> str:
        return make_item_id(self._info.response_id, len(self._output), prefix)

    def _choose_prefix(self, message: ReplyMessage) -> str:
        if message.media is not None:
            return "ig" if message.media.media == "image" else "msg"
        if self._is_search(message):
            return "tsc"
        return "ctc" if self._is_custom(message) else _PREFIXES[message.kind]

    def _is_custom(self, message: ReplyMessage) -> bool:
        return message.kind == "function_call" and message.name in self._options.custom

    def _is_search(self, message: ReplyMessage) -> bool:
        return self._options.client_search and message.kind == "function_call" and message.name == SEARCH_NAME

    def _is_part_of_summary(self, message: ReplyMessage) -> bool:
        return self._options.compacts and message.kind == "content"

    def _is_summary(self, message: ReplyMessage) -> bool:
        return message.kind == "reasoning_content" and self._options.summary


class ResponseEncoder(ResponseEventEncoder):
    """`stream: false`: one Response, with the same items as the stream's."""

    @override
    def open(self) -> bytes:
        return b""

    @override
    def feed(self, events: list[Event]) -> bytes:
        super().feed(events)
        return b"" if self.response is None else _json(self.response)

    @property
    @override
    def last_number(self) -> int | None:
        return None

    @override
    def _frame(self, kind: str, **fields: Any) -> bytes:
        return b""

    @override
    def _make_delta(self, kind: str, **fields: Any) -> bytes:
        return b""

    @override
    def fail(self, error: dict[str, Any]) -> bytes:
        return _json(error_body(error))


def _make_server_call(id_: str, server: str, tool: str, arguments: str) -> dict[str, Any]:
    return {
        "id": f"{CALL_PREFIX}{id_}",
        "type": "mcp_call",
        "server_label": server,
        "name": tool,
        "arguments": arguments,
        "status": "in_progress",
        "approval_request_id": None,
        "output": None,
        "error": None,
    }


def _write_tool(tool: OfferedTool) -> dict[str, Any]:
    return {
        "name": tool.tool,
        "description": tool.description,
        "input_schema": tool.parameters,
        "annotations": tool.annotations,
    }


def _join_result(result: ServerResult) -> str:
    text = result.plain_text
    return "\n".join(map(describe_part, result.content)) if text is None else text


def _write_tool_error(error: ToolError, result: ServerResult) -> dict[str, Any]:
    if error.kind == "execution":
        return {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": _join_result(result)}]}
    kind = "http_error" if error.kind == "http" else "mcp_protocol_error"
    return {"type": kind, "code": error.code, "message": error.message}


def write_event(body: dict[str, Any]) -> bytes:
    """Return the frame of an event."""
    return b"event: %b\ndata: %b\n\n" % (body["type"].encode(), escape_line_separators(_json(body)))


_NATIVE_ITEMS = HOSTED_ITEMS - {"image_generation_call", "computer_call_output"}
"""Items that clients get as they are, and send back so. An image is an item of its own anyway."""


def _find_native_item(detail: Any) -> dict[str, Any] | None:
    """Return the item of a detail that clients of this API know; None for any other detail."""
    item = detail.get("item") if isinstance(detail, dict) and detail.get("type") == "provider.item" else None
    return item if isinstance(item, dict) and item.get("type") in _NATIVE_ITEMS else None


def _write_text_fields(extra_content: Any) -> dict[str, Any]:
    """Return the opaque fields of a text: its phase has a field of this API."""
    if not isinstance(extra_content, dict) or not extra_content:
        return {"extra_content": extra_content} if extra_content else {}
    own = extra_content.get("openai")
    own = own if isinstance(own, dict) else {}
    phase = own.get("phase")
    if not isinstance(phase, str):
        return {"extra_content": extra_content}
    rest = {name: value for name, value in own.items() if name != "phase"}
    others = {name: value for name, value in extra_content.items() if name != "openai"}
    extra = others | ({"openai": rest} if rest else {})
    return {"phase": phase} | ({"extra_content": extra} if extra else {})


def _make_part(message: ReplyMessage, text: str) -> dict[str, Any]:
    if message.refusal:
        return {"type": "refusal", "refusal": text}
    annotations = [write_responses_citation(one) for one in message.extra.get("annotations") or ()] if text else []
    return {"type": "output_text", "text": text, "annotations": annotations, "logprobs": []}


def _write_media(message: ReplyMessage, status: str) -> dict[str, Any]:
    """Write an image as the tool for images does, in base64 or as the server's URL. Audio, for which the API has no
    item, is a message without text, with the field `audio` of chat completions."""
    media = message.media
    assert media is not None
    data = media.url.partition(";base64,")[2] or media.url if is_data(media.url) else media.url
    if media.media == "image":
        return {"type": "image_generation_call", "status": status, "result": data}
    audio = {**media.fields, "data": data}
    return {"type": "message", "role": "assistant", "status": status, "content": [], "audio": audio}
