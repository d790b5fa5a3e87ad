"""Turn the events of Anthropic's Messages API into the gateway's events, for streamed and whole replies alike.

The API: platform.claude.com/docs/en/build-with-claude/streaming; the servers that speak it differ, so every rule here
holds for events that are late, missing, repeated or unknown. A reply is a list of content blocks, each with an index.
Several may be open at once. What a block has for the client (text, thinking, a call) is passed on as it comes. Whatever
the server wants back unchanged becomes an item of `reasoning_details` at its place: the signature of a thinking block,
redacted thinking, and every block that is not for the client (server tools and their results, compaction).

Nearly every event is a delta that adds to one text, which the decoder has found to be like an earlier one.
`_extend_run` takes those, with the same result as `_take_object`, which takes every event.

A reply is whole with a stop reason, or with `message_stop` after a block. Anything else is an incomplete reply.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
from typing_extensions import override

from app.chat.events import (
    NEXT_MESSAGE,
    Event,
    Extra,
    Failed,
    Fault,
    Finish,
    Passed,
    PassedEnd,
    ReasoningDelta,
    TextDelta,
)
from app.upstream import faults
from app.upstream.causes import NOT_A_REPLY
from app.upstream.messages import FORMAT
from app.upstream.messages.decoder import decode, decode_kept
from app.upstream.messages.objects import KeptObject, RaggedObject
from app.upstream.reply.chunk import FunctionFragment, ToolCallFragment
from app.upstream.reply.finish import STOP, Ending, find_ending, is_reason
from app.upstream.reply.odd_json import clean, read_text
from app.upstream.reply.partial_tool_call import NO_ARGUMENTS, clean_name, remove_space
from app.upstream.reply.sse import EVENT_NAME, ErrorEvent, MalformedData, StreamDone
from app.upstream.reply.surrogates import split_half
from app.upstream.reply.tool_calls import MAX_CALLS, ToolCallAssembler
from app.upstream.reply.usage import normalize_usage
from app.upstream.reply.usual_decoder import RepeatedEvent

MAX_BLOCKS = 10_000
"""The limit of one reply."""
_BLOCK_OF_DELTA = {
    "text_delta": "text",
    "citations_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "thinking",
}
_TYPES_OF_DELTAS = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "tool_use"}
"""The deltas of a text, each with the type of its block."""
_FIELDS_OF_DELTAS = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
_METRICS = {
    "inputTokenCount": "input_tokens",
    "outputTokenCount": "output_tokens",
    "cacheReadInputTokenCount": "cache_read_input_tokens",
    "cacheWriteInputTokenCount": "cache_creation_input_tokens",
}
"""Bedrock's names of counts of tokens, and the API's own."""
_ANY_TEXT = "."
_UNKNOWN = "unknown"
"""The type of a block whose start has not come, if its deltas do not tell it."""
_DIRECT = "direct"
"""The `caller` of a call that the model itself makes."""


class _Block:
    """A content block of the reply."""

    __slots__ = ("call", "citations", "half", "item", "parts", "signature", "type")

    def __init__(self, item: dict[str, Any]) -> None:
        self.item = item
        """The block as it began."""
        self.type = item.get("type")
        self.parts: list[str] = []
        """The pieces of its thinking, or of the JSON of its input."""
        self.half = ""
        """The first half of a character outside the basic plane, whose second half comes with the next delta."""
        self.signature = ""
        self.citations: list[Any] = []
        self.call = -1
        """The number of the call among those of the reply."""


_Item: TypeAlias = dict[str, Any] | RepeatedEvent | StreamDone | ErrorEvent | MalformedData


class MessageAssembler:
    """Takes the items of each read and returns events, the last of them exactly one `Finish` or `Failed`."""

    started = False
    ended = False
    _id: str | None = None
    _usage: dict[str, Any] | None = None
    _reason: str | None = None
    _stopped_by: str | None = None
    _cacheable = True
    _has_block = False
    _is_stopped = False
    """`message_stop` came before any stop reason."""
    _foreign: Mapping[str, Any] | None = None
    """The first object that is not an event of this API."""
    _received = 0
    _last_received = 0
    _call_count = 0
    _block_count = 0
    _run: _Block | None = None
    """The block that the last repeated event was a delta of."""
    _run_kind = ""
    """The type of this delta."""
    _earlier: object = None
    """Events that are like this one go on by `_extend_run`: nothing but such events came since it was fed."""
    _has_thought_text = False
    """Whether the reasoning that is held has any text, so that a message holds them."""
    _has_inferred = False
    """Whether any event lacked what clients must know: a type, an index, the start of its block, a field of that."""

    def __init__(self, reply_id: str) -> None:
        self._calls = ToolCallAssembler(reply_id)
        self._call_ids: set[str] = set()
        self._blocks: dict[int, _Block] = {}
        """The blocks that are open, by index."""
        self._ended_calls: dict[int, _Block] = {}
        """The calls that have ended, by index: a part of their input may come behind that."""
        self._thoughts: list[_Block] = []
        """The thinking blocks that have ended, in a row: they are one message."""
        self._opaque: list[dict[str, Any]] = []
        """The items that stand before the next message."""
        self._warnings: list[str] = []
        self._ending: Ending = STOP

    @property
    def finishing(self) -> bool:
        return self._reason is not None or self._is_stopped

    def check_progress(self) -> bool:
        before, self._last_received = self._last_received, self._received
        return self._received != before

    def read_usage(self) -> dict[str, Any] | None:
        return normalize_usage(self._usage)

    def feed(self, items: Sequence[_Item]) -> list[Event]:
        out: list[Event] = []
        for item in items:
            if self.ended:
                break
            if type(item) is RepeatedEvent:
                self._feed_repeated(item, out)
                continue
            self._earlier = None
            if isinstance(item, dict):
                self._feed_object(item, out)
            elif type(item) is ErrorEvent:
                self._on_error(faults.from_body(item.data, None), out)
            elif type(item) is MalformedData:
                if faults.is_skippable(item.data, item.reason):
                    self._cacheable = False
                    self._warn(faults.describe_skipped(item.data))
                else:
                    self._on_error(faults.make_protocol_fault(item.data, item.reason), out)
        return out

    def _feed_repeated(self, item: RepeatedEvent, out: list[Event]) -> None:
        """Take an event like an earlier one."""
        if item.earlier is self._earlier:
            self._extend_run(item.text, out)
            return
        value = decode(item.get_json())
        self._take_object(value, out)
        if self._begin_run(value):
            self._earlier = item.earlier

    def _begin_run(self, value: dict[str, Any]) -> bool:
        """Let `_extend_run` take the deltas that are like this one, if adding their text is all that is to be done."""
        block, kind = self._blocks.get(self._read_index(value)), value["delta"]["type"]
        if block is None or (kind != "input_json_delta" and _BLOCK_OF_DELTA[kind] != block.type):
            return False
        self._run, self._run_kind = block, kind
        return True

    def _extend_run(self, text: str, out: list[Event]) -> None:
        block = self._run
        assert block is not None
        self._received += 1
        if self._run_kind == "text_delta":
            self._add_text(block, text, out, ragged=False)
        elif self._run_kind == "input_json_delta":
            self._add_input(block, text, out, ragged=False)
        else:
            self._add_thinking(block, text, out, ragged=False)

    def _feed_object(self, value: dict[str, Any], out: list[Event]) -> None:
        self._take_object(value, out)

    def _take_object(self, value: dict[str, Any], out: list[Event]) -> None:
        type_ = value.get("type")
        if not isinstance(type_, str):
            type_ = _infer_type(value)
            self._has_inferred = True
        match type_:
            case "content_block_delta":
                self._feed_delta(value, out)
            case "content_block_start":
                self._start_block(value, out)
            case "content_block_stop":
                self._end_block(self._read_index(value), out)
            case "message_start":
                self._start_message(value.get("message"), out)
            case "message_delta":
                self._feed_message_delta(value, out)
            case "message_stop":
                self._add_late_usage(value)
                self._stop_message(out)
            case "message":
                self._feed_whole(value, out)
            case "error":
                self._on_error(faults.from_object(value, None), out)
            case _:
                self._feed_unknown(value, type_, out)

    def _feed_unknown(self, value: dict[str, Any], type_: str | None, out: list[Event]) -> None:
        """Take an object that is no event of this API: a failure in another shape, or one that is skipped."""
        if type_ is None and faults.reports_failure(value):
            self._on_error(faults.from_object(value, None), out)
        elif type_ is None and value:
            self._foreign = self._foreign or value

    # The message.

    def _start_message(self, message: Any, out: list[Event]) -> None:
        self.started = True
        if not isinstance(message, dict):
            return
        id_ = message.get("id")
        if self._has_block and isinstance(id_, str) and self._id is not None and id_ != self._id:
            text = "the model server began a second reply within the first one"
            self._fail(faults.make_fault("upstream_protocol", text), out)
            return
        if isinstance(id_, str) and id_:
            self._id = id_
        self._add_usage(message)
        self._add_transformations(message)

    def _feed_message_delta(self, value: dict[str, Any], out: list[Event]) -> None:
        self.started = True
        self._add_usage(value)
        self._add_transformations(value)
        delta = value.get("delta")
        if isinstance(delta, dict):
            self._set_stop_reason(delta, out)
        if self._is_stopped and self._reason is not None and not self.ended:
            self._finish(out)

    def _feed_whole(self, value: dict[str, Any], out: list[Event]) -> None:
        """Take a reply that was not streamed. Without a stop reason it is whole, too: it is one document."""
        self._start_message(value, out)
        content = value.get("content")
        for index, block in enumerate(content if isinstance(content, list) else ()):
            if self.ended:
                return
            if isinstance(block, dict):
                self._start_block({"index": index, "content_block": block}, out)
                self._stop_block(self._blocks.pop(index, None), out)
        if not self.ended:
            self._set_stop_reason(value, out)
        if not self.ended:
            self._finish(out)

    def _set_stop_reason(self, holder: Mapping[str, Any], out: list[Event]) -> None:
        word = holder.get("stop_reason")
        if not isinstance(word, str) or not is_reason(word) or self._reason is not None:
            return
        sequence = holder.get("stop_sequence")
        self._stopped_by = sequence if isinstance(sequence, str) and sequence else None
        ending = find_ending(word)
        if ending.fault is not None:
            self._fail(faults.make_fault(ending.fault, f"the model server ended the reply with {word[:200]!r}"), out)
            return
        self._reason, self._ending = word, ending
        self._has_inferred = self._has_inferred or bool(self._blocks)  # they have no end
        if ending.reason in ("stop", "tool_calls") and word != "pause_turn":  # clients run calls for their reason alone
            self._has_inferred = self._has_inferred or (ending.reason == "tool_calls") != self._calls.opened
        if not ending.known:
            self._cacheable = False
            self._warn(f"the model server's stop reason {word[:200]!r} is not known: it was read as end_turn")
        elif word == "pause_turn":
            self._warn("the model server paused this turn of its own tools: send the conversation again as it is")

    def _add_usage(self, holder: Mapping[str, Any]) -> None:
        """Each number that is not null replaces the earlier one, also by 0: servers estimate at the start of a reply,
        and GLM and Vercel's gateway report the input only at its end."""
        usage = holder.get("usage")
        if isinstance(usage, dict):
            self._usage = {**(self._usage or {}), **{key: value for key, value in usage.items() if value is not None}}
        metadata = holder.get("provider_metadata")
        if isinstance(metadata, dict) and self._usage is not None:
            self._usage = {**self._usage, "provider_metadata": metadata}

    def _add_late_usage(self, holder: Mapping[str, Any]) -> None:
        """Add the usage that only the end of the reply has: Bedrock's metrics have the cached tokens
        (BerriAI/litellm#24850)."""
        known = self._usage
        metrics = holder.get("amazon-bedrock-invocationMetrics")
        if isinstance(metrics, dict):
            counts = {name: metrics[key] for key, name in _METRICS.items() if metrics.get(key)}
            self._usage = {**counts, **(known or {})} if counts else known
        self._add_usage(holder)
        self._has_inferred = self._has_inferred or known != self._usage

    def _add_transformations(self, holder: Mapping[str, Any]) -> None:
        """Warn of what the server left out of the request itself, such as thinking that is bound to another prefix."""
        changes = holder.get("input_transformations")
        for change in changes if isinstance(changes, list) else ():
            text = change.get("type") if isinstance(change, dict) else change
            self._warn(f"the model server changed the conversation before it read it: {str(text)[:200]}")

    def _stop_message(self, out: list[Event]) -> None:
        """End the reply. Without a stop reason, that may come behind."""
        if self._reason is not None:
            self._finish(out)
        elif self._has_block:
            self._is_stopped = self._has_inferred = True

    # Blocks.

    def _read_index(self, value: Mapping[str, Any]) -> int:
        index = value.get("index")
        self._has_inferred = self._has_inferred or type(index) is not int or not 0 <= index <= MAX_BLOCKS
        return index if type(index) is int else 0

    def _start_block(self, value: dict[str, Any], out: list[Event]) -> None:
        item = value.get("content_block")
        if not isinstance(item, dict):
            self._has_inferred = True
            return
        self._has_inferred = self._has_inferred or not self.started  # clients need `message_start`
        self.started = self._has_block = True
        self._received += 1
        self._block_count += 1
        if self._block_count > MAX_BLOCKS:
            text = f"the model server's reply has more than {MAX_BLOCKS} content blocks"
            self._fail(faults.make_fault("upstream_protocol", text, cause="reply_too_large"), out)
            return
        index = self._read_index(value)
        earlier, early = self._blocks.get(index), []
        if earlier is not None:
            self._has_inferred = True
            if _is_repeated(earlier, item):
                return
            if earlier.type == _UNKNOWN and item.get("type") == "tool_use":
                early = earlier.parts
            else:
                self._stop_block(earlier, out)
        block = self._blocks[index] = _Block(item)
        self._ended_calls.pop(index, None)
        # clients append blocks, and then find them by their index
        self._has_inferred = self._has_inferred or index != self._block_count - 1 or _lacks_fields(item)
        if value.get("type") == "content_block_start" and _has_early_input(item):
            self._has_inferred = True
        match block.type:
            case "text":
                self._add_text(block, item.get("text"), out, ragged=True)
                citations = item.get("citations")
                block.citations += citations if isinstance(citations, list) else []
            case "thinking":
                self._add_thinking(block, item.get("thinking"), out, ragged=True)
                signature = item.get("signature")
                block.signature = signature if isinstance(signature, str) else ""
            case "tool_use":
                self._open_call(block, out)
                for text in early:
                    self._add_input(block, text, out, ragged=False)

    def _feed_delta(self, value: dict[str, Any], out: list[Event]) -> None:
        delta = value.get("delta")
        if not isinstance(delta, dict):
            return
        self._received += 1
        block = self._blocks.get(self._read_index(value))
        if block is not None and _is_misplaced(delta, block):
            block = self._find_fitting(value, delta, block, out)
        if block is None and delta.get("type") == "input_json_delta":
            self._has_inferred = True
            block = self._find_ended_call(self._read_index(value), out)
            if self.ended:
                return
        if block is None:
            block = self._infer_block(self._read_index(value), delta)
        ragged = isinstance(value, RaggedObject)
        match delta.get("type"):
            case "text_delta" if block.type == "text":
                self._add_text(block, delta.get("text"), out, ragged=ragged)
            case "thinking_delta" if block.type == "thinking":
                self._add_thinking(block, delta.get("thinking"), out, ragged=ragged)
            case "input_json_delta":
                self._add_input(block, delta.get("partial_json"), out, ragged=ragged)
            case "signature_delta" if block.type == "thinking":
                signature = delta.get("signature")
                block.signature += signature if isinstance(signature, str) else ""
            case "citations_delta" if block.type == "text":
                block.citations.append(delta.get("citation"))
            case _:
                _extend_item(block, delta)

    def _infer_block(self, index: int, delta: Mapping[str, Any]) -> _Block:
        """Open the block that a delta belongs to whose start has not come."""
        self._has_inferred = self.started = self._has_block = True
        block = self._blocks[index] = _Block({"type": _BLOCK_OF_DELTA.get(str(delta.get("type")), _UNKNOWN)})
        return block

    def _find_fitting(
        self, value: Mapping[str, Any], delta: Mapping[str, Any], block: _Block, out: list[Event]
    ) -> _Block:
        """Return the block that takes a delta which the one of its index cannot take. A call stays open, because a part
        of its input can still come; reasoning ends where a text begins, and a text where reasoning begins."""
        self._has_inferred = True
        index, type_ = self._read_index(value), _TYPES_OF_DELTAS[str(delta.get("type"))]
        if type_ != "tool_use" and block.type != "tool_use":
            self._stop_block(self._blocks.pop(index), out)
            return self._infer_block(index, delta)
        fitting = next((one for one in reversed(self._blocks.values()) if one.type == type_), None)
        return fitting or self._infer_block(max(self._blocks) + 1, delta)

    def _read_odd(self, value: Any) -> str | None:
        """Return a text that the server wrote as something else."""
        self._has_inferred = self._has_inferred or value is not None
        return read_text(value)

    def _add_text(self, block: _Block, text: Any, out: list[Event], *, ragged: bool) -> None:
        if not isinstance(text, str):
            text = self._read_odd(text)
            if text is None:
                return
        if ragged or block.half:
            text, block.half = split_half(block.half + text)
        if text:
            if self._thoughts or self._opaque or self._calls.opened:
                self._begin_content(text, out)
            out.append(TextDelta(text))

    def _add_thinking(self, block: _Block, text: Any, out: list[Event], *, ragged: bool) -> None:
        if not isinstance(text, str):
            text = self._read_odd(text)
            if text is None:
                return
        if ragged or block.half:
            text, block.half = split_half(block.half + text)
        if text:
            block.parts.append(text)
            self._has_thought_text = True
            if self._opaque:
                self._place_opaque(NEXT_MESSAGE, out)
            if self._calls.opened:
                self._calls.seal_last_call(text, out)
            out.append(ReasoningDelta(text))

    def _open_call(self, block: _Block, out: list[Event]) -> None:
        block.call, self._call_count = self._call_count, self._call_count + 1
        self._begin_content("", out)
        item = block.item
        id_, name, caller = item.get("id"), item.get("name"), item.get("caller")
        is_direct = not isinstance(caller, dict) or caller.get("type") == _DIRECT
        if not isinstance(id_, str) or id_ in self._call_ids:
            id_, self._has_inferred = "", True  # a repeated id is replaced
        self._call_ids.add(id_)
        self._feed_call(
            ToolCallFragment(
                block.call,
                id_,
                FunctionFragment(name if isinstance(name, str) else None),
                None if is_direct else {"anthropic": {"caller": caller}},
            ),
            out,
        )

    def _add_input(self, block: _Block, text: Any, out: list[Event], *, ragged: bool) -> None:
        if not isinstance(text, str):
            if not isinstance(text, dict | list):
                return
            self._has_inferred = True
            text = json.dumps(text, ensure_ascii=False)
        if ragged or block.half:
            text, block.half = split_half(block.half + text)
        if not text:
            return
        block.parts.append(text)
        if block.call >= 0 and not self._calls.extend(block.call, text, out):
            self._feed_call(ToolCallFragment(block.call, function=FunctionFragment(arguments=text)), out)

    def _feed_call(self, fragment: ToolCallFragment, out: list[Event]) -> None:
        self._calls.feed([fragment], out)
        if self._calls.too_many and not self.ended:
            text = f"the model server's reply has more than {MAX_CALLS} tool calls"
            self._fail(faults.make_fault("upstream_protocol", text, cause="reply_too_large"), out)

    def _find_ended_call(self, index: int, out: list[Event]) -> _Block | None:
        """Return the call of which a part of the input comes behind its end."""
        return self._ended_calls.get(index)

    def _end_block(self, index: int, out: list[Event]) -> None:
        block = self._blocks.pop(index, None)
        self._stop_block(block, out)
        if block is not None and block.type == "tool_use" and block.parts:
            self._ended_calls[index] = block

    def _stop_block(self, block: _Block | None, out: list[Event]) -> None:
        if block is None:
            return
        half, block.half = block.half, ""
        if half and block.type not in ("text", "thinking"):
            self._add_input(block, "\ufffd", out, ragged=False)
        match block.type:
            case "text":
                if half:
                    out.append(TextDelta("\ufffd"))
                if block.citations:
                    out.append(Extra({"annotations": block.citations}))
            case "thinking":
                self._thoughts.append(block)
            case "tool_use":
                self._complete_input(block, out)
            case kind if kind == _UNKNOWN and remove_space("".join(block.parts)) not in NO_ARGUMENTS:
                self._open_call(block, out)  # it has no name
                function = FunctionFragment(arguments="".join(block.parts))
                self._feed_call(ToolCallFragment(block.call, function=function), out)
            case "redacted_thinking":
                item = {"type": "reasoning.encrypted", "data": block.item.get("data"), "format": FORMAT}
                self._add_opaque(item, out)
            case _:
                self._add_opaque({"type": "provider.item", "item": _complete_item(block), "format": FORMAT}, out)

    def _complete_input(self, block: _Block, out: list[Event]) -> None:
        """The input in the start of the block is the arguments, if no delta came."""
        given = block.item.get("input")
        if given and not block.parts:
            text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
            self._add_input(block, text, out, ragged=False)

    def _add_opaque(self, item: dict[str, Any], out: list[Event]) -> None:
        """Add what must come back before the next message. At the end of the reply it belongs to the last one."""
        self._close_thoughts(out)
        self._calls.seal_last_call(_ANY_TEXT, out)
        self._opaque.append(item)

    def _place_opaque(self, index: int, out: list[Event]) -> None:
        items, self._opaque = self._opaque, []
        if items:
            out.append(Extra({"reasoning_details": items}, index))

    def _begin_content(self, text: str, out: list[Event]) -> None:
        """Add what stands before a text or a call."""
        if self._thoughts:
            self._close_thoughts(out)
        if self._opaque:
            self._place_opaque(NEXT_MESSAGE, out)
        if text:
            self._calls.seal_last_call(text, out)

    def _close_thoughts(self, out: list[Event], index: int = NEXT_MESSAGE) -> None:
        """Add the signatures of thinking blocks to their message, each with the text that it signs where that does not
        follow from the message: for one of several blocks, and for one without text. Those without any text belong
        to the message of `index`."""
        thoughts, self._thoughts = self._thoughts, []
        if thoughts and self._opaque:
            self._place_opaque(NEXT_MESSAGE, out)
        has_text, self._has_thought_text = self._has_thought_text, False
        items = []
        for block in thoughts:
            if not block.signature:
                continue
            item = {"type": "reasoning.text", "signature": block.signature, "format": FORMAT}
            text = "".join(block.parts)
            items.append(item if len(thoughts) == 1 and text and has_text else {**item, "text": text})
        if items:
            out.append(Extra({"reasoning_details": items}, -1 if has_text else index))

    # The end.

    def _warn(self, text: str) -> None:
        if text not in self._warnings:
            self._warnings.append(text)

    def _on_error(self, fault: Fault, out: list[Event]) -> None:
        if not self.finishing:
            self._fail(fault, out)
            return
        self._cacheable = False
        self._warn(f"the model server sent an error after the end of its reply: {fault.message}")
        self._finish(out)

    def _finish(self, out: list[Event]) -> None:
        for index in sorted(self._blocks):
            self._stop_block(self._blocks.pop(index), out)
        self._close_thoughts(out, -1)
        self._place_opaque(-1, out)
        self._calls.close(out)
        if self._calls.nameless:
            self._cacheable = False
            self._warn("a tool call of the model server's reply has no name: its arguments became text")
        native, reason = self._reason, self._ending.reason
        if reason in ("stop", "tool_calls"):
            reason = "tool_calls" if self._calls else "stop"
        out.append(
            Finish(
                reason,
                self.read_usage(),
                None if native == reason else native,
                tuple(self._warnings),
                cacheable=self._cacheable,
                stopped_by=self._stopped_by if reason == "stop" else None,
            )
        )
        self.ended = True

    def _fail(self, fault: Fault, out: list[Event]) -> None:
        """End with a fault. A block that is open is not completed, so that reasoning that was cut has no signature."""
        self._close_thoughts(out)
        self._place_opaque(-1, out)
        self._calls.flush(out)
        out.append(Failed(msgspec.structs.replace(fault, status=200)))
        self.ended = True

    def close(self, junk: bytes = b"", fault: Fault | None = None) -> list[Event]:
        out: list[Event] = []
        if self.ended:
            return out
        if self._reason is not None or self._is_stopped:
            self._finish(out)
        elif fault is not None:
            self._fail(fault, out)
        elif junk and not self.started and self._foreign is None:
            self._fail(faults.make_protocol_fault(junk), out)
        else:
            self._fail(self._make_incomplete_fault(), out)
        return out

    def _make_incomplete_fault(self) -> Fault:
        foreign = self._foreign
        if foreign is None or self.started:
            return faults.make_fault("upstream_incomplete", "the model server's reply ended before it was finished")
        keys = ", ".join(repr(key[:40]) for key in list(foreign)[:3])
        text = f"the model server sent no reply of the Messages API but an object with the keys {keys}"
        return faults.make_fault(
            "upstream_incomplete", f"{text}; are its base_url and its api right?", cause=NOT_A_REPLY.word
        )


class PassingAssembler(MessageAssembler):
    """Returns the server's own events, too, in their order and before what they bring. They are held until the reply
    has begun, because before that another server may be tried. They end with the first one from which something had to
    be inferred."""

    def __init__(self, reply_id: str) -> None:
        super().__init__(reply_id)
        self._passed: list[Event] = []
        self._has_begun = False
        self._passes = True
        self._detail_count = 0

    @override
    def _feed_repeated(self, item: RepeatedEvent, out: list[Event]) -> None:
        data = item.get_json()
        if item.earlier is self._earlier:
            if self._passes:
                out.append(Passed("content_block_delta", data.decode()))
            self._extend_run(item.text, out)
            return
        value = decode_kept(data)
        self._feed_object(value, out)
        if self._has_begun and self._begin_run(value):
            self._earlier = item.earlier

    @override
    def _feed_object(self, value: dict[str, Any], out: list[Event]) -> None:
        if not self._passes:
            self._take_object(value, out)
            return
        brought: list[Event] = []
        self._take_object(value, brought)
        failed = bool(brought) and type(brought[-1]) is Failed
        details, self._detail_count = self._detail_count, 0
        if self._has_inferred and not failed:
            self._passes = False
            out += [*self._passed, PassedEnd(), *brought]
            return
        name = value.get("type")
        if isinstance(name, str) and EVENT_NAME.fullmatch(name) and not failed and isinstance(value, KeptObject):
            self._passed.append(Passed(name, value.text, details))
        self._has_begun = self._has_begun or (bool(brought) and not failed)
        if self._has_begun:
            out += self._passed
            self._passed = []
        out += brought

    @override
    def _find_ended_call(self, index: int, out: list[Event]) -> _Block | None:
        call = super()._find_ended_call(index, out)
        if call is not None and self._passes:  # the client has read that the call is complete
            text = "the model server sent a part of a call's input behind the end of the call"
            self._fail(faults.make_fault("upstream_protocol", text), out)
        return call

    @override
    def _stop_block(self, block: _Block | None, out: list[Event]) -> None:
        if block is not None and _has_detail(block):
            self._detail_count += 1
        super()._stop_block(block, out)
        if block is not None and block.type == "tool_use":  # the client knows it, so the stages must
            self._calls.seal_last_call(_ANY_TEXT, out)

    @override
    def close(self, junk: bytes = b"", fault: Fault | None = None) -> list[Event]:
        events = super().close(junk, fault)
        held, self._passed = self._passed, []
        return held + events if events and type(events[-1]) is Finish else events


def _has_detail(block: _Block) -> bool:
    """Whether the end of the block leads to an item of `reasoning_details`."""
    return bool(block.signature) if block.type == "thinking" else block.type not in ("text", "tool_use")


def _has_early_input(item: Mapping[str, Any]) -> bool:
    """Whether the start of a call has its input, which Claude Code reads from deltas alone (inflaborg/ccrelay#119).
    Anthropic sends it so for calls of code that it runs."""
    return item.get("type") == "tool_use" and bool(item.get("input")) and item.get("caller") is None


def _lacks_fields(item: Mapping[str, Any]) -> bool:
    """Whether the start of a block lacks what clients read of it."""
    match item.get("type"):
        case "text" | "thinking" as kind:
            return not isinstance(item.get(kind), str)
        case "tool_use":
            name = item.get("name")
            has_name = isinstance(name, str) and name != "" and clean_name(name) == name
            has_id = isinstance(item.get("id"), str) and item["id"] != ""
            return not (has_name and has_id and isinstance(item.get("input"), dict))
        case str():
            return not isinstance(item.get("id"), str | None)
        case _:
            return True


def _infer_type(value: Mapping[str, Any]) -> str | None:
    """Return the type of an event that does not name it."""
    if isinstance(value.get("content_block"), dict):
        return "content_block_start"
    if isinstance(value.get("delta"), dict):
        return "content_block_delta" if "index" in value else "message_delta"
    if isinstance(value.get("message"), dict):
        return "message_start"
    return "message" if isinstance(value.get("content"), list) and "error" not in value else None


def _is_repeated(block: _Block, item: dict[str, Any]) -> bool:
    """Whether the start of an open block came again. A call without an id may be another one."""
    if block.type in ("text", "thinking") or (block.type == "tool_use" and not item.get("id")):
        return False
    return not block.parts and block.item == item


def _is_misplaced(delta: Mapping[str, Any], block: _Block) -> bool:
    """Whether a delta has something for a block of another type, which servers and relays leave open
    (sgl-project/sglang issue 26795, musistudio/claude-code-router pull request 1356)."""
    name = str(delta.get("type"))
    type_ = _TYPES_OF_DELTAS.get(name)
    if type_ is None or type_ == block.type or block.type not in ("text", "thinking", "tool_use"):
        return False
    return bool(delta.get(_FIELDS_OF_DELTAS[name]))


def _extend_item(block: _Block, delta: Mapping[str, Any]) -> None:
    """Add a delta to a block that is not for the client: texts grow, other values replace (`compaction_delta`)."""
    item = dict(block.item)
    for key, value in delta.items():
        if key != "type":
            before = item.get(key)
            item[key] = clean(before + value if isinstance(before, str) and isinstance(value, str) else value)
    block.item = item


def _complete_item(block: _Block) -> dict[str, Any]:
    """Return a block that is not for the client as it is at its end. Input that is not valid JSON stays a text."""
    if not block.parts:
        return block.item
    text = "".join(block.parts)
    try:
        return {**block.item, "input": msgspec.json.decode(text)}
    except (ValueError, RecursionError):
        return {**block.item, "input": text}
