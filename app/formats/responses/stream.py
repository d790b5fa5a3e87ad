"""Encodes a reply as the events of OpenAI's Responses API, or as one Response.

Items come one after the other. An item ends when the next one starts, or with the reply, because only then is it known
whether it is complete.

Every event has a `sequence_number` from 0, and no event is Parley's own: the official TypeScript SDK throws on types
that it does not know. The warnings are in `parley` of the last Response.
"""

from collections.abc import Sequence
from typing import Any

from typing_extensions import override

from app.chat.accumulator import ReplyMessage, is_json
from app.chat.events import (
    COVERED_BY_PASSED,
    Event,
    Failed,
    Finish,
    Passed,
    PassedEnd,
    ServerCall,
    ServerResult,
    ToolsListed,
    TurnEnd,
)
from app.errors import find_code
from app.formats.base import HEARTBEAT, USAGE_ESTIMATED, ReplyInfo, is_usage_estimated
from app.formats.encoders import DeltaEncoder, TokenCursor
from app.formats.responses.events import EventWriter, NoEvents, write_event
from app.formats.responses.items import (
    choose_prefix,
    find_native_item,
    is_custom,
    is_search,
    make_item,
    make_part,
    write_logprobs,
)
from app.formats.responses.native import find_encrypted, has_native_image, make_native_item, read_native_fields
from app.formats.responses.passed_events import OpenItem, PassedEvents, find_message
from app.formats.responses.response import (
    FAILED,
    UNFINISHED,
    choose_end_type,
    describe_failure,
    error_body,
    make_item_id,
    make_response,
    write_usage,
)
from app.formats.responses.served_items import ServedItems
from app.formats.seal import Seal, write_seal
from app.formats.sequential_calls import SequentialCallsStage
from app.formats.sse import encode_json
from app.openai_messages.custom_tools import unwrap_input

_LIMITS = {"bytes": "max_result_bytes"}
"""`incomplete_details.reason` by the bound of tools, where it is not `max_` and the name of the bound."""


_MOST_HELD = 256


class ResponseEventEncoder(DeltaEncoder):
    """Events of a server of the same API (`Passed`) are sent as they are. Where those end, items and numbers go on from
    them: what the events have brought so far is in the accumulator."""

    _looks_ahead = False
    _is_whole = False
    """Whether the reply is one Response."""

    def __init__(self, info: ReplyInfo, events: EventWriter | None = None) -> None:
        super().__init__(info)
        self._options = info.options.responses
        self._events = events or EventWriter(info.keepalives)
        self._is_native = info.options.passed
        """Whether opaque parts have the fields of this API, and no seal."""
        self._passed = PassedEvents(info, self._events) if info.options.passed else None
        self._open: ReplyMessage | None = None
        self._delta = b""
        """The template of a new text of the open item. Empty: texts of this item are not written as they come."""
        self._stage = SequentialCallsStage()
        self._awaits_result = False
        """The open item is a call that the gateway runs, whose arguments are whole. What follows it is held back."""
        self._held: list[ReplyMessage] = []
        self._served = ServedItems(self._events, self._options, info.response_id)
        self._sealed: dict[int, tuple[int, Any]] = {}
        """For each message, which of its opaque fields are in items: how many details, and the extra content."""
        self._ahead: bytes | None = None
        self._end = b""
        """The last frame, which has the Response, and the event `error` before it."""
        self._end_number = 0
        """The sequence number with which they begin."""
        self.response: dict[str, Any] | None = None
        """The Response, once the reply has ended."""
        self.completed_at: int | None = None
        """Unix seconds; set by the owner of a clock."""
        self._fails_filtered = self._options.fails_filtered
        self._passes: bool | None = None if info.options.passed else False
        """Whether the server's own events are sent; None before the first one, if they may be."""
        self._pending: list[Event] = []
        """What the server's own events have brought and the accumulator does not have."""
        self._own: OpenItem | None = None
        """The item that the server's own events have left open, until it ends."""
        self._part = 0
        """The place of the open text in its item."""
        self._skipped = ""
        """What the next text begins with and the open item has: the blank line that separates it from the text before
        it in its message, or what the server's own events had."""
        self._has_summary = self._options.summary
        """Whether the open reasoning is a summary."""

    def open(self) -> bytes:
        # The server's own events may follow, of which one begins the reply.
        return b"" if self._passed else self._write_start()

    def _begin(self) -> bytes:
        """Begin the reply, if nothing has: the server's own events do not come, or not first."""
        if self._passes is not None:
            return b""
        self._passes = False
        return self._write_start()

    def _write_start(self) -> bytes:
        response = make_response(self._info, "in_progress")
        kinds = ("response.created", "response.in_progress")
        bodies = ({"type": kind, "sequence_number": number, "response": response} for number, kind in enumerate(kinds))
        return b"".join(map(write_event, bodies)) + self._events.write_keepalives()

    @override
    def heartbeat(self) -> bytes:
        # The last event has its number already; those of a server have its own.
        if self._ahead is not None or (self._passed and self._passes is not False):
            return HEARTBEAT
        return self._events.write_heartbeat()

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
        self._events.continue_from(self._end_number)
        self._ahead = self._ahead.removesuffix(self._end) + self._write_end(response)

    @property
    def last_number(self) -> int | None:
        """The sequence number of the last event that was written; None if no events are."""
        return self._events.last_number

    @override
    def feed(self, events: list[Event]) -> bytes:
        if self._ahead is not None:
            return self._ahead
        passed = self._passed
        if passed and self._passes is not False:
            if self._passes and len(events) == 2 and type(events[0]) is Passed and type(events[1]) in COVERED_BY_PASSED:
                self._pending.append(events[1])
                return self._write_passed(passed, events[0])
            return self._feed_passing(passed, events)
        out = super().feed(self._stage.feed(events))
        return out if self.response is not None else out + self._events.write_keepalives()

    @override
    def feed_each(self, batches: Sequence[list[Event]]) -> bytes:
        return b"".join(map(self.feed, batches))

    # Events of a server of the same API.

    def _feed_passing(self, passed: PassedEvents, events: list[Event]) -> bytes:
        if self._passes is None and events:
            first = events[0]
            if type(first) is not Passed or (first.name == "response" and not self._is_whole):
                return self._begin() + self.feed(events)
            self._passes = True
        out: list[bytes] = []
        for place, event in enumerate(events):
            if type(event) is Passed:
                out.append(self._write_passed(passed, event))
            elif type(event) in COVERED_BY_PASSED:
                self._pending.append(event)
            elif type(event) is Finish:
                self.response = passed.make_response(event)
                out.append(self._write_end(self.response))
            elif type(event) is Failed:
                out.append(super().feed([event]))
            elif type(event) is PassedEnd:
                return b"".join([*out, self._end_passing(passed), self.feed(events[place + 1 :])])
            else:
                self._pending.append(event)
        return b"".join(out)

    def _write_passed(self, passed: PassedEvents, event: Passed) -> bytes:
        if len(self._pending) >= _MOST_HELD:
            self._accumulate_pending()
        if not event.name.endswith(".added"):
            return passed.write(event)
        self._accumulate_pending()
        passed.read_blank(self._accumulator)
        return passed.write(event, self._accumulator.open_message)

    def _accumulate_pending(self) -> None:
        pending, self._pending = self._pending, []
        self._accumulator.feed(pending)

    def _end_passing(self, passed: PassedEvents) -> bytes:
        """End the server's own events: items, numbers and the open item go on from them."""
        self._passes = False
        self._accumulate_pending()
        passed.read_blank(self._accumulator)
        self._accumulator.drop_loose_extra()
        message = self._accumulator.open_message
        for known in self._accumulator.messages:
            extra = known.extra.get("extra_content")
            self._sealed[known.index] = len(known.extra.get("reasoning_details") or ()), extra
        open_items = passed.take_open()
        self._events.number_on()
        out = b"".join(map(self._end_earlier, open_items[:-1]))
        self._own = open_items[-1] if open_items else None
        if self._own is not None and message is not None and self._can_adopt(self._own, message):
            return out + self._adopt(self._own, message)
        self._accumulator.end_text()
        if self._own is not None and message is not None and self._own.is_of(message) and message.text:
            self._has_summary = self._own.is_summary
            out += self._close_own(self._own, message, "completed")
        return out

    def _can_adopt(self, own: OpenItem, message: ReplyMessage) -> bool:
        return own.is_of(message) and own.can_go_on

    def _adopt(self, own: OpenItem, message: ReplyMessage) -> bytes:
        """Let the message go on in the item that the server has opened."""
        events, out = self._events, b""
        events.reopen(own.index, own.item.get("id", ""))
        self._open, self._part, self._has_summary = message, len(own.parts), own.is_summary
        self._skipped = "\n\n" if message is own.before and own.size_before == len(message.text) > 0 else ""
        if message.kind != "function_call":
            if own.part is None and not own.get_text(message):
                own.part = {}
                self._has_summary = self._options.summary
                out = self._start_part(message)
            self._delta = self._make_delta(message)
        elif own.item.get("type") == "function_call":
            self._delta = events.make_delta("response.function_call_arguments.delta")
        return out

    def _close_own(self, own: OpenItem, message: ReplyMessage, status: str) -> bytes:
        """End the item that the server has opened for this message."""
        self._events.reopen(own.index, own.item.get("id", ""))
        self._part, self._own = len(own.parts), None
        text = own.get_text(message)
        made = self._make_item(message, status, text)
        name = "content" if message.kind == "content" or not self._has_summary else "summary"
        if own.item.get("type") == "custom_tool_call":
            made = {"input": made.get("input", unwrap_input(text)), "status": status}
            self._skipped = own.input.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # halves are joined
        elif message.kind != "function_call":
            part = made.pop("content" if "content" in made else "summary")
            if message.kind == "reasoning_content":
                part = [{"type": "summary_text" if self._has_summary else "reasoning_text", "text": text}]
            made = {**made, name: [*own.parts, *(part if own.has_open_part else ())]}
        item = {**own.item, **made, "type": own.item.get("type"), "id": own.item.get("id")}
        done = b""
        if own.can_go_on:
            done = self._write_done(message, text, item)
        elif own.part is not None:
            done = self._end_part(message, item)
        self._skipped = ""
        return done + self._events.end_item(item)

    def _end_earlier(self, own: OpenItem) -> bytes:
        """End an item that the server has opened, and not ended before another one (anomalyco/opencode#40171)."""
        message = find_message(own, self._accumulator.messages)
        if message is None:
            return self._end_own_item(own, "incomplete")
        self._has_summary = own.is_summary
        is_whole = message.kind != "function_call" or is_json(message.text)
        return self._close_own(own, message, "completed" if is_whole else "incomplete")

    def _end_own_item(self, own: OpenItem, status: str) -> bytes:
        """End an item that the server has opened, of which no message has come."""
        if own.blank and own.kind is not None:
            message = ReplyMessage(0, own.kind)
            message.add(own.blank)
            self._part, self._has_summary = len(own.parts), own.is_summary
            return self._close_own(own, message, status)
        self._events.reopen(own.index, own.item.get("id", ""))
        return self._events.end_item({**own.item, "status": status})

    # Steps.

    @override
    def _write_text(self, message: ReplyMessage, text: str) -> bytes:
        if not self._delta or message is not self._open:
            return b""
        if self._skipped:
            self._skipped, text = "", text.removeprefix(self._skipped)
        return self._events.write_delta(self._delta, text)

    @override
    def _write_started(self, message: ReplyMessage) -> bytes:
        if message.result is not None:
            return self._write_result(message.result)
        if self._awaits_result or self._held:
            self._held.append(message)
            return b""
        own = self._own
        if own is not None and self._open is None and self._can_adopt(own, message):
            out = self._write_opaque_fields(message) + self._adopt(own, message)
            self._skipped = self._skipped or own.blank
            return out
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
        self._served.end_turn(self._accumulator.messages)
        return b""

    @override
    def _write_listed(self, listed: ToolsListed) -> bytes:
        return self._served.write_list(listed.listed)

    def _end_server_call(self, message: ReplyMessage, call: ServerCall) -> bytes:
        """Write that the open call has all its arguments. One that waits for approval is an item by itself."""
        self._delta = b""
        if call.approval and call.hosted is None:
            self._open = None
            return self._served.write_approval_request(message, call)
        self._awaits_result = True
        if call.hosted is not None:
            return self._served.start_search(message, call.hosted)
        return self._events.write_of_item("response.mcp_call_arguments.done", arguments=message.text)

    def _write_result(self, result: ServerResult) -> bytes:
        """Write a result into the open item, or into one of its own if its call is in the request."""
        if self._open is None or self._open.id != result.id or result.index < 0:
            return self._close_item("completed") + self._served.write_approved(result)
        if result.hosted is not None:
            out = self._served.end_search(self._open, result, result.hosted)
            self._held.sort(key=_comes_behind_search)
        else:
            item = make_item(self._events.item_id, self._open, "completed", self._open.text, self._options)
            out = self._served.end_call(item, result)
        self._open, self._awaits_result = None, False
        return out + self._write_held()

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
        unfinished = UNFINISHED.get(finish.reason)
        if finish.reason == "tool_limit" and summary is not None:
            unfinished = _LIMITS.get(summary.limit or "", f"max_{summary.limit}")
        out = self._give_up_results() if self._awaits_result or self._held else b""
        out += self._close_item("incomplete" if unfinished else "completed")
        if self._options.compacts:
            out += self._write_summary()
        out += b"".join(map(self._write_opaque_fields, self._accumulator.messages))
        out += self._write_sealed(self._accumulator.loose_extra.get("reasoning_details"))
        if self._own is not None:
            out += self._end_own_item(self._own, "incomplete")
        usage = write_usage(finish.usage or finish.estimated_usage)
        fields: dict[str, Any] = {"usage": usage, "completed_at": self.completed_at}
        warnings = self._info.warnings_with(finish)
        if is_usage_estimated(finish):
            warnings.append(USAGE_ESTIMATED)
        parley: dict[str, Any] = {"warnings": warnings} if warnings else {}
        parley |= self._info.write_extensions(finish)
        if parley:
            fields["parley"] = parley
        status = "incomplete" if unfinished else "completed"
        if finish.reason == "content_filter" and self._fails_filtered:
            status, fields["error"] = "failed", self._describe_filter()
        elif unfinished:
            fields["incomplete_details"] = {"reason": unfinished}
        self.response = self._make_response(status, **fields)
        return out + self._write_end(self.response)

    def _describe_filter(self) -> dict[str, Any]:
        """Return the error of a reply that a content filter has ended, in the words of the model if it sent any: Codex
        shows no item with a refusal."""
        refusals = [one.text for one in self._accumulator.messages if one.refusal]
        message = "".join(refusals) or "the content filter of the model server has ended the reply"
        return {
            "code": find_code("content_filter").failed_response_code,
            "message": message,
            "param": None,
            "parley_code": "content_filter",
            "retryable": False,
        }

    def _write_end(self, response: dict[str, Any]) -> bytes:
        self._end_number = self._events.number_on()
        beside: dict[str, Any] = self._passed.beside_end if self._passed else {}
        kind = choose_end_type(response)
        before = self._events.write("error", **describe_failure(response)) if kind == FAILED else b""
        self._end = before + self._events.write(kind, response=response, **beside)
        return self._end

    @override
    def fail(self, error: dict[str, Any]) -> bytes:
        if self._ahead is not None:
            return self._ahead
        begun = self._begin()
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
        self.response = self._make_response(status, error=failure, usage=usage, **tools)
        return begun + self._write_end(self.response)

    def _make_response(self, status: str, **fields: Any) -> dict[str, Any]:
        """Return the Response at the end of the reply. What the server's own events have begun goes on."""
        made = make_response(self._info, status, self._events.output, **fields)
        return self._passed.complete_response(made) if self._passed is not None else made

    def _write_summary(self) -> bytes:
        """Write the texts of the reply as one item. Without a text there is none: clients would put it in the place of
        their conversation."""
        text = "\n\n".join(
            filter(None, (one.text.strip() for one in self._accumulator.messages if one.kind == "content"))
        )
        if not text:
            return b""
        item = {"id": self._make_id("cmp"), "type": "compaction", "encrypted_content": ""}
        added = self._events.start_item(item)
        return added + self._events.end_item(item | {"encrypted_content": write_seal(Seal(text))})

    # Items.

    def _open_item(self, message: ReplyMessage) -> bytes:
        events, out = self._events, self._write_opaque_fields(message)
        self._open, self._delta = message, b""
        self._part, self._has_summary = 0, self._options.summary
        if message.server is not None:
            return out + self._open_server_call(message, message.server)
        if self._is_native and has_native_image(message):
            self._open = None
            return out
        id_ = self._make_id(choose_prefix(message, self._options))
        item = make_item(id_, message, "in_progress", "", self._options)
        if message.kind in ("reasoning_content", "content"):
            item.pop("encrypted_content", None)
            item["summary" if self._is_summary(message) else "content"] = []
        out += events.start_item(item)
        if message.kind in ("reasoning_content", "content"):
            out += self._start_part(message)
            self._delta = self._make_delta(message)
        elif message.kind == "function_call" and not (
            is_custom(message, self._options) or is_search(message, self._options)
        ):
            self._delta = events.make_delta("response.function_call_arguments.delta")
        return out

    def _start_part(self, message: ReplyMessage) -> bytes:
        """Write the beginning of a text of the open item."""
        write, place = self._events.write_of_item, self._part
        if message.kind == "content":
            return write("response.content_part.added", content_index=place, part=make_part(message, ""))
        if self._has_summary:
            part = {"type": "summary_text", "text": ""}
            return write("response.reasoning_summary_part.added", summary_index=place, part=part)
        part = {"type": "reasoning_text", "text": ""}
        return write("response.content_part.added", content_index=place, part=part)

    def _make_delta(self, message: ReplyMessage) -> bytes:
        """Return the template of the deltas of the open text."""
        make, place = self._events.make_delta, self._part
        if message.kind == "content":
            more: dict[str, Any] = {} if message.refusal else {"logprobs": []}
            kind = "refusal" if message.refusal else "output_text"
            return make(f"response.{kind}.delta", content_index=place, **more)
        if self._has_summary:
            return make("response.reasoning_summary_text.delta", summary_index=place)
        return make("response.reasoning_text.delta", content_index=place)

    def _open_server_call(self, message: ReplyMessage, call: ServerCall) -> bytes:
        if call.approval or call.hosted is not None:  # its item has its arguments when it starts
            return b""
        out = self._served.start_call(message.id, call.server, call.tool)
        self._delta = self._events.make_delta("response.mcp_call_arguments.delta")
        return out

    def _close_item(self, status: str) -> bytes:
        message, own = self._open, self._own
        if message is None:
            if own is None or own.kind is None:  # what such an item holds comes as a detail
                return b""
            self._own = None
            return self._end_own_item(own, status)
        self._open, self._delta = None, b""
        if own is not None and own.kind is not None:
            out = self._close_own(own, message, status)
        else:
            item = self._make_item(message, status, message.text)
            out = self._write_done(message, message.text, item) + self._events.end_item(item)
        return out + (b"" if message.kind == "reasoning_content" else self._write_opaque_fields(message))

    def _make_item(self, message: ReplyMessage, status: str, text: str) -> dict[str, Any]:
        """Return the item of the open message at its end."""
        item = make_item(self._events.item_id, message, status, text, self._options)
        if not self._is_native:
            return item
        if message.kind == "function_call":
            return item | read_native_fields(message)
        if message.kind == "reasoning_content":
            written, _ = self._sealed.get(message.index, (0, None))
            encrypted = find_encrypted((message.extra.get("reasoning_details") or [])[written:])
            return item if encrypted is None else item | {"encrypted_content": encrypted}
        return item

    def _write_done(self, message: ReplyMessage, text: str, item: dict[str, Any]) -> bytes:
        events, place = self._events, self._part
        match message.kind:
            case "reasoning_content" if self._has_summary:
                done = events.write_of_item("response.reasoning_summary_text.done", summary_index=place, text=text)
                return done + self._end_part(message, item)
            case "reasoning_content":
                done = events.write_of_item("response.reasoning_text.done", content_index=place, text=text)
                return done + self._end_part(message, item)
            case "content" if message.refusal:
                done = events.write_of_item("response.refusal.done", content_index=place, refusal=text)
                return done + self._end_part(message, item)
            case "content":
                done = events.write_of_item(
                    "response.output_text.done",
                    content_index=place,
                    text=text,
                    logprobs=write_logprobs(message.logprobs),
                )
                return done + self._end_part(message, item)
            case "function_call" if message.server is not None:
                return b""
            case "function_call" if item.get("type") == "custom_tool_call":
                written = item["input"]
                rest = written.removeprefix(self._skipped)
                delta = events.write_of_item("response.custom_tool_call_input.delta", delta=rest) if rest else b""
                return delta + events.write_of_item("response.custom_tool_call_input.done", input=written)
            case "function_call" if not is_search(message, self._options):
                name = item["name"]
                return events.write_of_item("response.function_call_arguments.done", arguments=text, name=name)
            case _:
                return b""

    def _end_part(self, message: ReplyMessage, item: dict[str, Any]) -> bytes:
        write, place = self._events.write_of_item, self._part
        if message.kind == "reasoning_content" and self._has_summary:
            part = item["summary"][place]
            return write("response.reasoning_summary_part.done", summary_index=place, part=part)
        return write("response.content_part.done", content_index=place, part=item["content"][place])

    def _write_opaque_fields(self, message: ReplyMessage) -> bytes:
        """Write what the model's server wants back with a message, for which it has no field, as an item of its own.
        What came before the message is in an item before it, and the rest in one after it."""
        if not message.extra or message.kind == "reasoning_content":
            return b""
        count, known = self._sealed.get(message.index, (0, None))
        extra = message.extra.get("extra_content") if message.kind == "function_call" else None
        details = message.extra.get("reasoning_details") or []
        self._sealed[message.index] = len(details), extra
        if self._is_native and isinstance(extra, dict) and not extra.keys() - {"openai"}:
            extra = None  # the item has it
        return self._write_sealed(details[count:], {message.id: extra} if extra and extra != known else {})

    def _write_sealed(self, details: Any, calls: dict[str, Any] | None = None) -> bytes:
        """Write details and opaque fields of calls. What a tool of the server has done is an item of this API."""
        out, run = b"", list[Any]()
        for detail in details or ():
            item = make_native_item(detail) if self._is_native else find_native_item(detail)
            if item is None:
                run.append(detail)
                continue
            out += (self._write_seal(run, {}) if run else b"") + self._write_native_item(item)
            run = []
        return out + (self._write_seal(run, calls or {}) if run or calls else b"")

    def _write_native_item(self, item: dict[str, Any]) -> bytes:
        own = self._own
        if own is not None and own.kind is None and own.item.get("id") == item.get("id"):
            self._own = None
            self._events.reopen(own.index, item.get("id"))
            return self._events.end_item(item)
        if "id" not in item:
            item = {"id": self._make_id("rs"), **item}
        return self._events.start_item(item) + self._events.end_item(item)

    def _write_seal(self, details: list[Any], calls: dict[str, Any]) -> bytes:
        sealed = write_seal(Seal("", details, calls))
        item = {"id": self._make_id("rs"), "type": "reasoning", "summary": [], "status": "in_progress"}
        item["encrypted_content"] = sealed
        return self._events.start_item(item) + self._events.end_item(item | {"status": "completed"})

    def _make_id(self, prefix: str) -> str:
        return make_item_id(self._info.response_id, self._events.index, prefix)

    def _is_part_of_summary(self, message: ReplyMessage) -> bool:
        return self._options.compacts and message.kind == "content"

    def _is_summary(self, message: ReplyMessage) -> bool:
        return message.kind == "reasoning_content" and self._has_summary


def _comes_behind_search(message: ReplyMessage) -> bool:
    """Whether a part of a turn with searches is written behind all of them: the caller's own calls are."""
    return message.kind == "function_call" and message.server is None


class ScoredResponseEventEncoder(ResponseEventEncoder):
    """Writes deltas with the log probabilities of their text."""

    def __init__(self, info: ReplyInfo) -> None:
        super().__init__(info)
        self._cursor = TokenCursor()

    @override
    def _end_passing(self, passed: PassedEvents) -> bytes:
        out = super()._end_passing(passed)
        for message in self._accumulator.messages:
            self._cursor.take(message)  # the server's own events have these
        return out

    @override
    def _write_text(self, message: ReplyMessage, text: str) -> bytes:
        plain = self._delta
        if plain and message is self._open and (tokens := self._cursor.take(message)):
            self._delta = self._make_scored_delta(tokens)
        out = super()._write_text(message, text)
        self._delta = plain
        return out

    def _make_scored_delta(self, tokens: list[dict[str, Any]]) -> bytes:
        kind, place = "response.output_text.delta", self._part
        return self._events.make_delta(kind, content_index=place, logprobs=write_logprobs(tokens))


class ResponseEncoder(ResponseEventEncoder):
    """`stream: false`: one Response, with the same items as the stream's."""

    _is_whole = True

    def __init__(self, info: ReplyInfo) -> None:
        super().__init__(info, NoEvents(info.keepalives))
        self._fails_filtered = False

    @override
    def open(self) -> bytes:
        return b""

    @override
    def feed(self, events: list[Event]) -> bytes:
        super().feed(events)
        return b"" if self.response is None else encode_json(self.response)

    @property
    @override
    def last_number(self) -> int | None:
        return None

    @override
    def fail(self, error: dict[str, Any]) -> bytes:
        return encode_json(error_body(error))
