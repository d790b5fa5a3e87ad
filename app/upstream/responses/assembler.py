"""Turn the events of a Responses server into the gateway's: one state machine for streams and whole replies.

Items are identified by their `output_index`, never by their ids, which change in every event at some servers (GitHub
Copilot). What was streamed counts; the end of a text, of an item and of the reply only fill in what no event before
them had, because some servers leave one of them empty: ChatGPT's backend ends every reply with `output: []`.

Nearly every event is a delta of the same text as the one before it, which the decoder has found to be like an earlier
one. `_extend_run` takes those, with the same result as `_feed_event`, which takes every event.

`docs/reference/assembly.md` has the rules that are the same for every API.
"""

import re
from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec

from app.chat.events import (
    NEXT_MESSAGE,
    Event,
    Extra,
    Failed,
    Fault,
    Finish,
    FinishReason,
    ReasoningDelta,
    TextDelta,
)
from app.upstream import faults
from app.upstream.reply.chunk import FunctionFragment, ToolCallFragment
from app.upstream.reply.partial_tool_call import get_meaning
from app.upstream.reply.sse import ErrorEvent, MalformedData, StreamDone
from app.upstream.reply.surrogates import split_half
from app.upstream.reply.tool_calls import MAX_CALLS, ToolCallAssembler
from app.upstream.reply.usage import lacks_counts, merge_usage, normalize_usage
from app.upstream.reply.usual_decoder import RepeatedEvent
from app.upstream.responses.decoder import decode
from app.upstream.responses.event import KeptEvent, ResponseEvent
from app.upstream.responses.items import (
    CALLS,
    PartKey,
    Slot,
    differs,
    find_free_index,
    find_slot,
    get_text,
    have_other_arguments,
    iter_annotations,
    iter_message_texts,
    iter_thoughts,
    lacks_fields,
    make_detail,
    make_item_detail,
    read_arguments,
    read_picture,
)

_ENDS = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
}
_THOUGHTS = {
    "response.reasoning_summary_text": "summary",
    "response.reasoning_summary": "summary",
    "response.reasoning_text": "content",
    "response.reasoning": "content",
}
"""The events of reasoning without `.delta` and `.done`, with the field of the item that has the same text."""
_TEXTS = {"response.output_text": "text", "response.refusal": "refusal"}
_PARTS = frozenset(("response.content_part", "response.reasoning_part", "response.reasoning_summary_part"))
_begins_object = re.compile(r'\s*(?:\{\s*["}]|\[\s*[{\["\]]|["n])').match
"""Finds the beginning of arguments that are an object, also one in a list or a string, or `null`."""
_OTHER_ARGUMENTS = "the arguments of a tool call differ from those that the model server sent at its end"
_IN_BACKGROUND = "the server answers in the background: `background` of the request must be false"
_NOT_A_REPLY = "not_a_reply"
_TOO_MANY_CALLS = f"the model server's reply has more than {MAX_CALLS} tool calls"
_NOTHING = "the model server ended its reply without any part of it"
_INCOMPLETE = "the model server's reply ended before it was finished"


ReplyItem: TypeAlias = ResponseEvent | KeptEvent | RepeatedEvent | StreamDone | ErrorEvent | MalformedData | None


class ResponsesAssembler:
    """Takes the items of each read and emits events, the last of them exactly one `Finish` or `Failed`."""

    started = False
    """Whether any event of a reply came."""
    ended = False
    finishing = False
    """The end event is the last one: nothing is waited for behind it."""
    _usage: dict[str, Any] | None = None
    _foreign: dict[str, Any] | None = None
    """The first object that is not a part of a reply."""
    _open: Slot | None = None
    """The item to whose text the last event added; None if the last event was another one."""
    _open_refusal = False
    _call_count = 0
    _custom_size = 0
    _last_received = 0
    _run: list[str] | None = None
    """The text to which the last event added a delta, if the next delta only needs to be added to it; else None."""
    _run_kind = ""
    """The kind of this text."""
    _run_call = -1
    """The position of the call, if the text is its arguments."""
    _has_inferred = False
    """Whether any event lacked what clients need to read it: its type, its item's index or id, a field of a call; or
    had what clients read in earlier ones: a text that had no deltas, a message or a call that only the end has
    (NVIDIA-NeMo/Switchyard#777, Sophomoresty/gemini-web2api#57); or was of an item that none has begun
    (mnfst/llm-gateway#2064), or ended a text, an item or the reply without what its deltas had: clients take what the
    end has (agentgateway/agentgateway#2281)."""
    _earlier: object = None
    """The event that began the run. Further events like it are taken by `_extend_run`; any other event ends the run."""

    def __init__(self, reply_id: str) -> None:
        self._calls = ToolCallAssembler(reply_id)
        self._by_index: dict[int, Slot] = {}
        self._by_id: dict[str, Slot] = {}
        """Slots of events without `output_index` (ggml-org/llama.cpp issue 20607)."""
        self._slots: list[Slot] = []
        self._call_ids: set[str] = set()
        self._halves: dict[tuple[int, PartKey], str] = {}
        """First halves of surrogate pairs, by item and text."""
        self._warnings: list[str] = []
        self._held_details: list[dict[str, Any]] = []
        """The details that stand before the next message."""

    def check_progress(self) -> bool:
        """Whether tool calls grew since the last call of this method, even if no event was emitted for them."""
        received = self._calls.received + self._custom_size
        before, self._last_received = self._last_received, received
        return received != before

    def read_usage(self) -> dict[str, Any] | None:
        """Return the usage that the server has reported so far, normalized."""
        return normalize_usage(self._usage)

    def feed(self, items: Sequence[ReplyItem]) -> list[Event]:
        out: list[Event] = []
        for item in items:
            if self.ended:
                break
            if type(item) is RepeatedEvent:
                self._feed_repeated(item, out)
            else:
                self._earlier = None
                self._feed_item(item, out)
        return out

    def _feed_repeated(self, item: RepeatedEvent, out: list[Event]) -> None:
        """Take an event like an earlier one."""
        if item.earlier is not self._earlier or not self._extend_run(item.text, out):
            self._feed_item(decode(item.get_json()), out)
            self._earlier = None if self._run is None else item.earlier

    def _feed_item(self, item: ReplyItem, out: list[Event]) -> None:
        if type(item) is ResponseEvent:
            self._feed_event(item, out)
        elif type(item) is ErrorEvent:
            self._feed_error(item, out)
        elif type(item) is MalformedData:
            if faults.is_skippable(item.data, item.reason):
                self._warnings.append(faults.describe_skipped(item.data))
            else:
                self._fail(faults.make_protocol_fault(item.data, item.reason), out)
        elif type(item) is StreamDone:
            self._fail(self._make_incomplete_fault(_INCOMPLETE if self._slots else _NOTHING), out)
        if self._calls.too_many and not self.ended:
            self._fail(faults.make_fault("upstream_protocol", _TOO_MANY_CALLS, cause="reply_too_large"), out)

    def close(self, junk: bytes = b"", fault: Fault | None = None) -> list[Event]:
        """End the reply with its body. Without an event that ends it, this is a fault.

        `fault` says what broke the body, None for a clean end. `junk` is the first line that is not part of a reply.
        """
        out: list[Event] = []
        if self.ended:
            return out
        if fault is not None:
            self._fail(fault, out)
        elif junk and not self.started and self._foreign is None:
            self._fail(faults.make_protocol_fault(junk), out)
        else:
            self._fail(self._make_incomplete_fault(_INCOMPLETE), out)
        return out

    # Events.

    def _feed_event(self, event: ResponseEvent, out: list[Event]) -> None:
        self._run = None
        name = event.type
        if not name:
            self._feed_whole(event.whole or {}, out)
        elif name == "error":
            self._fail(faults.from_object(event.whole, None), out)
        elif name.startswith("response."):
            self.started = True
            self._has_inferred = self._has_inferred or event.is_flat
            if event.unread:
                text = f"the model server's event {name} has a field {event.unread!r} that is not an object"
                self._fail(faults.make_fault("upstream_protocol", text), out)
                return
            self._feed_response_event(name, event, out)

    def _extend_run(self, text: str, out: list[Event]) -> bool:
        """Add a delta to the text of the last event. Returns False, and does nothing, if this is not enough."""
        texts = self._run
        assert texts is not None
        if self._run_kind == "arguments":
            if not self._calls.extend(self._run_call, text, out):
                return False
        elif self._run_kind == "text":
            out.append(TextDelta(text))
        else:
            out.append(ReasoningDelta(text))
        texts.append(text)
        return True

    def _begin_run(self, slot: Slot, key: PartKey) -> None:
        """Let `_extend_run` take the next deltas of a text, if they only need to be added to it."""
        if slot.ahead:
            return
        if slot.call >= 0 and not slot.holds if key[0] == "arguments" else slot is self._open:
            self._run, self._run_kind, self._run_call = slot.texts.get(key), key[0], slot.call

    def _feed_error(self, item: ErrorEvent, out: list[Event]) -> None:
        """Take an event whose name says that something failed: the reply, or a tool that the server ran."""
        try:
            event = decode(item.data)
        except ValueError:
            event = None
        if event is not None and event.type.startswith("response."):
            self._feed_event(event, out)
        elif self._foreign is not None and not item.data.strip():
            self._fail(faults.from_object(self._foreign, None), out)
        else:
            self._fail(faults.from_body(item.data, None), out)

    def _feed_response_event(self, name: str, event: ResponseEvent, out: list[Event]) -> None:
        if name in _ENDS:
            known = len(self._slots)
            self._feed_end(_ENDS[name], event.response or {}, out)
            missing = any(slot.kind == "message" or slot.kind in CALLS for slot in self._slots[known:])
            self._has_inferred = self._has_inferred or missing
            return
        if event.item is not None:
            if name == "response.output_item.added":
                self._open_slot(event.item, event, out)
            elif name == "response.output_item.done":
                slot = self._open_slot(event.item, event, out)
                # Clients take the end of an item that has ended for another item.
                inferred = slot.done or differs(event.item, slot)
                self._has_inferred = self._has_inferred or inferred
                self._complete(event.item, slot, out)
            return
        if name == "response.output_text.annotation.added":
            self._feed_annotation(event, out)
            return
        base, _, step = name.rpartition(".")
        if step not in ("delta", "done"):
            return
        if base in _PARTS and step == "done":
            self._feed_part_end(event)
        elif base in _TEXTS:
            self._feed_text(event, _TEXTS[base], out)
        elif base in _THOUGHTS:
            self._feed_thought(event, _THOUGHTS[base], out)
        elif base == "response.function_call_arguments":
            self._feed_arguments(event, out)
        elif base == "response.custom_tool_call_input":
            self._feed_input(event)

    def _feed_annotation(self, event: ResponseEvent, out: list[Event]) -> None:
        slot = self._find(event, "message")
        if slot is not None and event.annotation is not None:
            self._add_annotations(slot, [event.annotation], out)

    def _feed_text(self, event: ResponseEvent, kind: str, out: list[Event]) -> None:
        """Take a delta of a text, or the whole text at its end."""
        slot = self._find(event, "message") or self._infer_slot("message", event)
        key = (kind, event.content_index or 0)
        if event.delta is not None:
            self._add_text(slot, key, self._join(slot, event, kind), out)
            if not self._open_refusal:
                self._begin_run(slot, key)
        else:
            whole = event.text or event.refusal or ""
            self._has_inferred = self._has_inferred or whole != slot.get_text(key)
            self._add_text(slot, key, self._take_rest(slot, key, whole), out)

    def _feed_part_end(self, event: ResponseEvent) -> None:
        """Take the end of a part, whose text had events of its own before."""
        slot = None if event.output_index is None else self._by_index.get(event.output_index)
        if slot is None:
            return
        part = event.part or {}
        place = (event.content_index if event.summary_index is None else event.summary_index) or 0
        whole = get_text(part, "text") or get_text(part, "refusal")
        if slot.kind == "message":
            known = slot.get_text(("text", place)) or slot.get_text(("refusal", place))
            self._has_inferred = self._has_inferred or whole != known
        else:
            known = slot.get_text((slot.thought, place))
            self._has_inferred = self._has_inferred or not whole.startswith(known)

    def _feed_thought(self, event: ResponseEvent, kind: str, out: list[Event]) -> None:
        slot = self._find(event, "reasoning") or self._infer_slot("reasoning", event)
        key = (kind, (event.summary_index if kind == "summary" else event.content_index) or 0)
        if event.delta is not None:
            self._add_thought(slot, key, self._join(slot, event, kind), out)
            self._begin_run(slot, key)
        else:
            whole = event.text or ""
            self._has_inferred = self._has_inferred or not whole.startswith(slot.get_text(key))
            self._add_thought(slot, key, self._take_rest(slot, key, whole), out)

    def _feed_arguments(self, event: ResponseEvent, out: list[Event]) -> None:
        slot = self._find(event, "function_call") or self._infer_slot("function_call", event)
        key = ("arguments", 0)
        if event.delta is not None:
            self._add_arguments(slot, self._join(slot, event, "arguments"), out)
            self._begin_run(slot, key)
        else:
            whole = event.arguments or ""
            self._has_inferred = self._has_inferred or have_other_arguments(whole, slot)
            self._add_final_arguments(slot, whole, out)

    def _feed_input(self, event: ResponseEvent) -> None:
        """Take a delta of a custom call, which is emitted at its end: it becomes a text of JSON."""
        slot = self._find(event, "custom_tool_call")
        if slot is not None and event.delta:
            self._custom_size += len(event.delta)
            slot.texts.setdefault(("input", 0), []).append(self._join(slot, event, "input"))

    # Slots.

    def _find(self, event: ResponseEvent, kind: str) -> Slot | None:
        """Return the slot of an event's item. An event that names none belongs to the last item of its kind."""
        if event.output_index is not None:
            return self._by_index.get(event.output_index)
        self._has_inferred = True
        if event.item_id:
            return self._by_id.get(event.item_id)
        return next((slot for slot in reversed(self._slots) if slot.kind == kind and not slot.done), None)

    def _infer_slot(self, kind: str, event: ResponseEvent) -> Slot:
        """Return the slot of an item that no event has begun."""
        self._has_inferred = True
        return self._make_slot(kind, event)

    def _make_slot(self, kind: str, event: ResponseEvent) -> Slot:
        id_ = event.item_id or (get_text(event.item, "id") if event.item is not None else "")
        slot = Slot(kind, event.output_index, id_)
        if event.output_index is not None:
            self._by_index[event.output_index] = slot
        if id_ or event.output_index is None:
            self._by_id[id_] = slot
        self._slots.append(slot)
        return slot

    def _open_slot(self, item: dict[str, Any], event: ResponseEvent, out: list[Event]) -> Slot:
        """Return the slot of an item that begins or ends. A second item at the place of one that has ended is new, but
        not if it has the same id: that event came twice."""
        kind, id_ = get_text(item, "type") or "message", get_text(item, "id")
        slot = self._by_index.get(event.output_index) if event.output_index is not None else self._by_id.get(id_)
        if slot is None or slot.kind != kind or (slot.done and (not id_ or id_ != slot.id)):
            slot = self._make_slot(kind, event)
        slot.id = id_ or slot.id
        slot.read_fields(item)
        self._has_inferred = self._has_inferred or event.output_index is None or lacks_fields(item)
        if kind in CALLS and slot.call < 0 and get_text(item, "name"):
            self._open_call(slot, item, out)
        return slot

    def _open_call(self, slot: Slot, item: dict[str, Any], out: list[Event]) -> None:
        if self._held_details:
            self._place_details(NEXT_MESSAGE, out)
        slot.call = self._call_count
        self._call_count += 1
        self._open = None
        slot.emitted_fields = slot.make_extra_content()
        id_ = get_text(item, "call_id") or get_text(item, "id")
        unique = id_ if id_ not in self._call_ids else ""  # a repeated id is replaced by a generated one
        self._has_inferred = self._has_inferred or not unique
        self._call_ids.add(id_)
        slot.call_id = get_text(item, "call_id")
        arguments = "" if slot.holds else slot.get_text(("arguments", 0))
        function = FunctionFragment(name=get_text(item, "name"), arguments=arguments)
        fragment = ToolCallFragment(slot.call, unique, function, slot.emitted_fields)
        self._calls.feed([fragment], out)

    def _join(self, slot: Slot, event: ResponseEvent, kind: str) -> str:
        """Return the delta of an event with whole characters: half a surrogate pair waits for the other half."""
        text = event.delta or ""
        if slot.ahead:
            text = self._drop_known(slot, event, kind, text)
        if not event.ragged and not self._halves:
            return text
        part = event.summary_index if kind == "summary" else event.content_index
        place = (id(slot), (kind, part or 0))
        text, half = split_half(self._halves.pop(place, "") + text)
        if half:
            self._halves[place] = half
        return text

    def _take_rest(self, slot: Slot, key: PartKey, whole: str) -> str:
        """Return what the whole text has beyond its deltas. If it differs from them, the deltas stand."""
        self._halves.pop((id(slot), key), None)
        known = slot.get_text(key)
        rest = whole[len(known) :] if whole.startswith(known) else ""
        if rest:
            slot.ahead[key] = rest
        return rest

    def _drop_known(self, slot: Slot, event: ResponseEvent, kind: str, text: str) -> str:
        """Return what a delta behind the end of its text adds to that."""
        part = event.summary_index if kind == "summary" else event.content_index
        key = (kind, 0 if kind == "arguments" else part or 0)
        ahead = slot.ahead.pop(key, "")
        if not ahead.startswith(text):
            return text
        if text != ahead:
            slot.ahead[key] = ahead[len(text) :]
        return ""

    # Content.

    def _add_text(self, slot: Slot, key: PartKey, text: str, out: list[Event]) -> None:
        if not text:
            return
        slot.texts.setdefault(key, []).append(text)
        refusal = key[0] == "refusal"
        if self._calls.opened:
            self._calls.seal_last_call(text, out)
        if slot is not self._open or refusal is not self._open_refusal:
            text = self._begin_text(slot, refusal, text, out)
        out.append(TextDelta(text, refusal=refusal))

    def _begin_text(self, slot: Slot, refusal: bool, text: str, out: list[Event]) -> str:
        """Begin the text of an item, and return its first part. The text of an item right behind that of another one is
        a part of the same message, behind a blank line. White space alone begins nothing."""
        if text.isspace():
            return text
        if self._held_details:
            self._place_details(NEXT_MESSAGE, out)
        before, self._open = self._open, slot
        if before is not None and before.kind == "message" and self._open_refusal is refusal:
            if before is not slot:
                text = f"\n\n{text}"
                self._add_fields(slot, -1, out)
        else:
            self._add_fields(slot, NEXT_MESSAGE, out)
        self._open_refusal = refusal
        return text

    def _add_fields(self, slot: Slot, index: int, out: list[Event]) -> None:
        slot.emitted_fields = slot.make_extra_content()
        if slot.emitted_fields is not None:
            out.append(Extra({"extra_content": slot.emitted_fields}, index))

    def _add_thought(self, slot: Slot, key: PartKey, text: str, out: list[Event]) -> None:
        slot.thought = slot.thought or key[0]
        if not text or slot.thought != key[0]:
            return
        self._calls.seal_last_call(text, out)
        if self._held_details:
            self._place_details(NEXT_MESSAGE, out)
        if key not in slot.texts and (slot.texts or (self._open is not slot and self._is_thought_open())):
            out.append(ReasoningDelta(f"\n\n{text}"))
        else:
            out.append(ReasoningDelta(text))
        slot.texts.setdefault(key, []).append(text)
        if not text.isspace():
            self._open = slot

    def _is_thought_open(self) -> bool:
        return self._open is not None and self._open.kind == "reasoning"

    def _add_arguments(self, slot: Slot, text: str, out: list[Event]) -> None:
        if not text:
            return
        slot.texts.setdefault(("arguments", 0), []).append(text)
        if slot.holds:
            text = slot.get_text(("arguments", 0))
            if _begins_object(text) is None:
                return
            slot.holds = False
        self._pass_arguments(slot, text, out)

    def _add_final_arguments(self, slot: Slot, text: str, out: list[Event]) -> None:
        """Take the arguments at the end of a call. They count before deltas that were held."""
        if slot.holds and text:
            slot.texts.pop(("arguments", 0), None)
        elif text and self._differs(slot.get_text(("arguments", 0)), text):
            self._warnings.append(_OTHER_ARGUMENTS)
        self._add_arguments(slot, self._take_rest(slot, ("arguments", 0), text), out)

    def _differs(self, known: str, text: str) -> bool:
        """Whether the arguments at the end of a call are others than its deltas, which have passed, and no warning says
        so yet."""
        return (
            not text.startswith(known)
            and get_meaning(text) != get_meaning(known)
            and _OTHER_ARGUMENTS not in self._warnings
        )

    def _release_arguments(self, slot: Slot, out: list[Event]) -> None:
        """Pass on arguments that were held, because no others come."""
        if slot.holds and slot.kind in CALLS and (text := slot.get_text(("arguments", 0))):
            slot.holds = False
            self._pass_arguments(slot, text, out)

    def _pass_arguments(self, slot: Slot, text: str, out: list[Event]) -> None:
        if slot.call >= 0 and not self._calls.extend(slot.call, text, out):
            self._calls.feed([ToolCallFragment(slot.call, function=FunctionFragment(arguments=text))], out)
        self._has_inferred = self._has_inferred or self._calls.has_more

    def _add_annotations(self, slot: Slot, annotations: list[Any], out: list[Event]) -> None:
        new = [item for item in annotations if item not in slot.annotations]
        if new:
            slot.annotations += new
            out.append(Extra({"annotations": new}, -1 if self._open is slot else NEXT_MESSAGE))

    def _complete(self, item: dict[str, Any], slot: Slot, out: list[Event]) -> None:
        """Take an item that is complete, and emit what was not emitted of it yet."""
        if slot.done:
            return
        slot.done = True
        if slot.kind == "message":
            self._complete_message(item, slot, out)
        elif slot.kind == "reasoning":
            self._complete_reasoning(item, slot, out)
        elif slot.kind in CALLS:
            self._complete_call(item, slot, out)
        else:
            self._add_item(item, out)

    def _complete_message(self, item: dict[str, Any], slot: Slot, out: list[Event]) -> None:
        texts = list(iter_message_texts(item))
        if "".join(text for _, text in texts) != slot.get_all():
            for key, text in texts:
                self._add_text(slot, key, self._take_rest(slot, key, text), out)
        if slot is self._open and slot.emitted_fields != slot.make_extra_content():
            self._add_fields(slot, -1, out)
        self._add_annotations(slot, list(iter_annotations(item)), out)

    def _complete_reasoning(self, item: dict[str, Any], slot: Slot, out: list[Event]) -> None:
        kind = slot.thought or next((name for name in ("summary", "content") if any(iter_thoughts(item, name))), "")
        for key, text in iter_thoughts(item, kind) if kind else ():
            self._add_thought(slot, key, self._take_rest(slot, key, text), out)
        text = slot.get_all()
        detail = make_detail(item, text)
        if detail is None:
            return
        if slot is self._open:
            out.append(Extra({"reasoning_details": [detail]}))
        else:
            self._add_detail(detail, out)

    def _complete_call(self, item: dict[str, Any], slot: Slot, out: list[Event]) -> None:
        if slot.call < 0:
            self._open_call(slot, item, out)
        if slot.emitted_fields != slot.make_extra_content():
            slot.emitted_fields = slot.make_extra_content()
            self._calls.feed([ToolCallFragment(slot.call, extra_content=slot.emitted_fields)], out)
        self._add_final_arguments(slot, read_arguments(item, slot.get_text(("input", 0))), out)
        self._release_arguments(slot, out)
        self._calls.seal_last_call(".", out)

    def _add_item(self, item: dict[str, Any], out: list[Event]) -> None:
        """Emit an item that only its server can read."""
        self._add_detail(make_item_detail(item), out)
        picture = read_picture(item)
        if picture is not None:
            self._place_details(NEXT_MESSAGE, out)
            out.append(picture)

    def _add_detail(self, detail: dict[str, Any], out: list[Event]) -> None:
        """Emit a detail that has no message of its own, as a field of the next one."""
        self._calls.seal_last_call(".", out)
        self._open = None
        self._held_details.append(detail)

    def _place_details(self, index: int, out: list[Event]) -> None:
        """Emit the details that stand before the next message; at the end of the reply, they belong to the last one."""
        details, self._held_details = self._held_details, []
        out.append(Extra({"reasoning_details": details}, index))

    # Ends.

    def _feed_whole(self, value: dict[str, Any], out: list[Event]) -> None:
        """Take an object without a type: a whole reply, or something else."""
        if not isinstance(value.get("output"), list):
            self._feed_object(value, out)
            return
        self.started = True
        status = value.get("status")
        if status in ("queued", "in_progress"):
            self._fail(faults.make_fault("upstream_protocol", _IN_BACKGROUND, status=200), out)
            return
        thought = value.get("reasoning")
        if isinstance(thought, str) and thought.strip():  # mistral.rs: the reasoning of the whole reply
            out.append(ReasoningDelta(thought))
        self._feed_end("completed", value, out)

    def _feed_object(self, value: dict[str, Any], out: list[Event]) -> None:
        if faults.reports_failure(value):
            self._fail(faults.from_object(value, None), out)
        else:
            self._foreign = self._foreign or value

    def _feed_end(self, status: str, response: dict[str, Any], out: list[Event]) -> None:
        usage = response.get("usage")
        if isinstance(usage, dict) and usage:
            self._usage = usage if self._usage is None else merge_usage(self._usage, usage)
        self._has_inferred = self._has_inferred or (usage is not None and _lacks_usage(response))
        if status == "completed":
            status = _read_status(response)
        if status == "failed":
            self._fail(_make_failure(response), out)
            return
        output = response.get("output")
        self._add_missing(output if isinstance(output, list) else [], out)
        if self._calls.too_many:
            return
        if status == "cancelled":
            self._fail(faults.make_fault("upstream_incomplete", "the model server cancelled its reply"), out)
        elif status == "incomplete":
            self._finish(*_read_reason(response), out)
        else:
            self._finish("stop", None, out)

    def _add_missing(self, output: list[Any], out: list[Event]) -> None:
        """Emit the items of the last event's `output` of which no other event had anything. Where it has not all that
        the others had, clients cannot take it for the reply, unless it is empty."""
        slots = list(self._slots)
        for index, item in enumerate(output):
            if not isinstance(item, dict):
                continue
            slot = find_slot(item, index, slots)
            if slot is None:
                event = ResponseEvent(output_index=find_free_index(self._by_index, index), item=item)
                self._complete(item, self._open_slot(item, event, out), out)
            else:
                slots.remove(slot)
                self._has_inferred = self._has_inferred or differs(item, slot)
                self._complete(item, slot, out)
        lost = [slot for slot in slots if not slot.done] if not output else slots
        self._has_inferred = self._has_inferred or any(slot.done or slot.texts or slot.call >= 0 for slot in lost)

    def _finish(self, reason: FinishReason, native: str | None, out: list[Event]) -> None:
        self._flush_halves(out)
        self._release_all(out)
        if self._held_details:
            self._place_details(-1, out)
        self._calls.close(out)
        if self._calls.nameless:
            self._warnings.append("a tool call of the model server's reply has no name: its arguments became text")
        if reason == "stop" and self._calls:
            reason = "tool_calls"
        out.append(Finish(reason, self.read_usage(), native, tuple(self._warnings), cacheable=not self._warnings))
        self.ended = True

    def _release_all(self, out: list[Event]) -> None:
        for slot in self._slots:
            self._release_arguments(slot, out)

    def _flush_halves(self, out: list[Event]) -> None:
        """Replace halves of surrogate pairs whose other half never came."""
        for _, (kind, _part) in self._halves:
            if kind in ("text", "refusal"):
                out.append(TextDelta("\ufffd", refusal=kind == "refusal"))
        self._halves.clear()

    def _fail(self, fault: Fault, out: list[Event]) -> None:
        """End with a fault whose status is 200: the response's head had announced a success."""
        if self.ended:
            return
        self._flush_halves(out)
        self._release_all(out)
        if self._held_details:
            self._place_details(-1, out)
        self._calls.flush(out)
        out.append(Failed(msgspec.structs.replace(fault, status=200)))
        self.ended = True

    def _make_incomplete_fault(self, message: str) -> Fault:
        """Build the fault of a reply that is not whole, in the words of the server if it has sent any."""
        foreign = self._foreign
        if foreign is None or self.started:
            return faults.make_fault("upstream_incomplete", message)
        if not faults.is_success(faults.find_message(foreign)):
            return faults.from_object(foreign, None)
        keys = ", ".join(repr(key[:40]) for key in list(foreign)[:3])
        text = (
            f"the model server sent no response but an object with the keys {keys}; are its base_url and `api` right?"
        )
        return faults.make_fault("upstream_incomplete", text, cause=_NOT_A_REPLY)


def _lacks_usage(response: dict[str, Any]) -> bool:
    """Whether the usage of a response lacks a number without which Codex takes the stream for broken
    (BigPizzaV3/CodexPlusPlus#1908, 6Kmfi6HP/opencode2api#11)."""
    if lacks_counts(response, "input_tokens", "output_tokens", "total_tokens"):
        return True
    usage = response["usage"]
    parts = (("input_tokens_details", "cached_tokens"), ("output_tokens_details", "reasoning_tokens"))
    return any(usage.get(name) is not None and lacks_counts({"usage": usage[name]}, part) for name, part in parts)


def _make_failure(response: dict[str, Any]) -> Fault:
    error = response.get("error")
    if error:
        return faults.from_object({"error": error}, None)
    return faults.make_fault("server_error", "the model server says that its reply has failed, without a reason")


def _read_status(response: dict[str, Any]) -> str:
    """Return how a reply ended whose last event is `response.completed`: vLLM ends each stream with it
    (vllm-project/agentic-api issue 273), and a reply that was cut has another status, or the reason alone."""
    status, details = response.get("status"), response.get("incomplete_details")
    if status in ("incomplete", "failed", "cancelled"):
        return str(status)
    return "incomplete" if isinstance(details, dict) and details.get("reason") else "completed"


def _read_reason(response: dict[str, Any]) -> tuple[FinishReason, str | None]:
    """Return the finish reason of an incomplete reply, and the server's word for it."""
    details = response.get("incomplete_details")
    word = details.get("reason") if isinstance(details, dict) else None
    word = word[:200] if isinstance(word, str) else None
    return ("content_filter" if word == "content_filter" else "length"), word
