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

from app.chat.events import (
    NEXT_MESSAGE,
    Event,
    Extra,
    Failed,
    Fault,
    Finish,
    ReasoningDelta,
    TextDelta,
)
from app.upstream import faults
from app.upstream.causes import NOT_A_REPLY
from app.upstream.messages import FORMAT
from app.upstream.messages.blocks import (
    BLOCK_OF_DELTA,
    TYPES_OF_DELTAS,
    UNKNOWN,
    ReplyBlock,
    complete_item,
    extend_item,
    has_early_input,
    is_misplaced,
    is_repeated,
    lacks_fields,
)
from app.upstream.messages.decoder import decode
from app.upstream.messages.objects import RaggedObject
from app.upstream.reply.chunk import FunctionFragment, ToolCallFragment
from app.upstream.reply.finish import STOP, Ending, find_ending, is_reason
from app.upstream.reply.odd_json import read_text
from app.upstream.reply.partial_tool_call import NO_ARGUMENTS, remove_space
from app.upstream.reply.sse import ErrorEvent, MalformedData, StreamDone
from app.upstream.reply.surrogates import split_half
from app.upstream.reply.tool_calls import MAX_CALLS, ToolCallAssembler
from app.upstream.reply.usage import lacks_counts, normalize_usage
from app.upstream.reply.usual_decoder import RepeatedEvent

MAX_BLOCKS = 10_000
"""The limit of one reply."""
_METRICS = {
    "inputTokenCount": "input_tokens",
    "outputTokenCount": "output_tokens",
    "cacheReadInputTokenCount": "cache_read_input_tokens",
    "cacheWriteInputTokenCount": "cache_creation_input_tokens",
}
"""Bedrock's names of counts of tokens, and the API's own."""
ANY_TEXT = "."
_DIRECT = "direct"
"""The `caller` of a call that the model itself makes."""


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
    _run: ReplyBlock | None = None
    """The block that the last repeated event was a delta of."""
    _run_kind = ""
    """The type of this delta."""
    _earlier: object = None
    """Events that are like this one go on by `_extend_run`: nothing but such events came since it was fed."""
    _has_thought_text = False
    """Whether the reasoning that is held has any text, so that a message holds them."""
    _has_inferred = False
    """Whether any event lacked what clients must know: a type, an index, the start of its block, a field of that, the
    end of the block before, the usage (earendil-works/pi#6567); or ended no block (QuantumNous/new-api#5482), or had
    more behind the complete input of a call."""

    def __init__(self, reply_id: str) -> None:
        self._calls = ToolCallAssembler(reply_id)
        self._call_ids: set[str] = set()
        self._blocks: dict[int, ReplyBlock] = {}
        """The blocks that are open, by index."""
        self._ended_calls: dict[int, ReplyBlock] = {}
        """The calls that have ended, by index: a part of their input may come behind that."""
        self._thoughts: list[ReplyBlock] = []
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
        if block is None or (kind != "input_json_delta" and BLOCK_OF_DELTA[kind] != block.type):
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
                message = value.get("message")
                self._start_message(message, out)
                lacks_usage = not isinstance(message, dict) or lacks_counts(message, "input_tokens", "output_tokens")
                self._has_inferred = self._has_inferred or lacks_usage
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
        self._has_inferred = self._has_inferred or lacks_counts(value, "output_tokens")
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
            if is_repeated(earlier, item):
                return
            if earlier.type == UNKNOWN and item.get("type") == "tool_use":
                early = earlier.parts
            else:
                self._stop_block(earlier, out)
        # clients append blocks, find them by their index, and take them at their end
        self._has_inferred = self._has_inferred or bool(self._blocks)
        block = self._blocks[index] = ReplyBlock(item)
        self._ended_calls.pop(index, None)
        self._has_inferred = self._has_inferred or index != self._block_count - 1 or lacks_fields(item)
        if value.get("type") == "content_block_start" and has_early_input(item):
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
        if block is not None and is_misplaced(delta, block):
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
                extend_item(block, delta)

    def _infer_block(self, index: int, delta: Mapping[str, Any]) -> ReplyBlock:
        """Open the block that a delta belongs to whose start has not come."""
        self._has_inferred = self.started = self._has_block = True
        block = self._blocks[index] = ReplyBlock({"type": BLOCK_OF_DELTA.get(str(delta.get("type")), UNKNOWN)})
        return block

    def _find_fitting(
        self, value: Mapping[str, Any], delta: Mapping[str, Any], block: ReplyBlock, out: list[Event]
    ) -> ReplyBlock:
        """Return the block that takes a delta which the one of its index cannot take. A call stays open, because a part
        of its input can still come; reasoning ends where a text begins, and a text where reasoning begins."""
        self._has_inferred = True
        index, type_ = self._read_index(value), TYPES_OF_DELTAS[str(delta.get("type"))]
        if type_ != "tool_use" and block.type != "tool_use":
            self._stop_block(self._blocks.pop(index), out)
            return self._infer_block(index, delta)
        fitting = next((one for one in reversed(self._blocks.values()) if one.type == type_), None)
        return fitting or self._infer_block(max(self._blocks) + 1, delta)

    def _read_odd(self, value: Any) -> str | None:
        """Return a text that the server wrote as something else."""
        self._has_inferred = self._has_inferred or value is not None
        return read_text(value)

    def _add_text(self, block: ReplyBlock, text: Any, out: list[Event], *, ragged: bool) -> None:
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

    def _add_thinking(self, block: ReplyBlock, text: Any, out: list[Event], *, ragged: bool) -> None:
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

    def _open_call(self, block: ReplyBlock, out: list[Event]) -> None:
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

    def _add_input(self, block: ReplyBlock, text: Any, out: list[Event], *, ragged: bool) -> None:
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
        self._has_inferred = self._has_inferred or self._calls.has_more

    def _feed_call(self, fragment: ToolCallFragment, out: list[Event]) -> None:
        self._calls.feed([fragment], out)
        if self._calls.too_many and not self.ended:
            text = f"the model server's reply has more than {MAX_CALLS} tool calls"
            self._fail(faults.make_fault("upstream_protocol", text, cause="reply_too_large"), out)

    def _find_ended_call(self, index: int, out: list[Event]) -> ReplyBlock | None:
        """Return the call of which a part of the input comes behind its end."""
        return self._ended_calls.get(index)

    def _end_block(self, index: int, out: list[Event]) -> None:
        block = self._blocks.pop(index, None)
        self._has_inferred = self._has_inferred or block is None
        self._stop_block(block, out)
        if block is not None and block.type == "tool_use" and block.parts:
            self._ended_calls[index] = block

    def _stop_block(self, block: ReplyBlock | None, out: list[Event]) -> None:
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
            case kind if kind == UNKNOWN and remove_space("".join(block.parts)) not in NO_ARGUMENTS:
                self._open_call(block, out)  # it has no name
                function = FunctionFragment(arguments="".join(block.parts))
                self._feed_call(ToolCallFragment(block.call, function=function), out)
            case "redacted_thinking":
                item = {"type": "reasoning.encrypted", "data": block.item.get("data"), "format": FORMAT}
                self._add_opaque(item, out)
            case _:
                self._add_opaque({"type": "provider.item", "item": complete_item(block), "format": FORMAT}, out)

    def _complete_input(self, block: ReplyBlock, out: list[Event]) -> None:
        """The input in the start of the block is the arguments, if no delta came."""
        given = block.item.get("input")
        if given and not block.parts:
            text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
            self._add_input(block, text, out, ragged=False)

    def _add_opaque(self, item: dict[str, Any], out: list[Event]) -> None:
        """Add what must come back before the next message. At the end of the reply it belongs to the last one."""
        self._close_thoughts(out)
        self._calls.seal_last_call(ANY_TEXT, out)
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


def _infer_type(value: Mapping[str, Any]) -> str | None:
    """Return the type of an event that does not name it."""
    if isinstance(value.get("content_block"), dict):
        return "content_block_start"
    if isinstance(value.get("delta"), dict):
        return "content_block_delta" if "index" in value else "message_delta"
    if isinstance(value.get("message"), dict):
        return "message_start"
    return "message" if isinstance(value.get("content"), list) and "error" not in value else None
