"""Turn the chunks of Gemini's API into the gateway's events, for streamed and whole replies alike.

The API: ai.google.dev/api/generate-content. A chunk has parts: a text, reasoning, a call, an image, or what only the
server can read (code that it ran, calls of its own tools), which becomes an item of `reasoning_details` at its place.
The signature of a text or of a call becomes its `extra_content.google.thought_signature`.

A finish reason is not the end: Vertex has sent one in each chunk, and after code that the server runs further chunks
follow. So the last one counts at the end of the body, and a body that breaks is an incomplete reply.
"""

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
    MediaOutput,
    ReasoningDelta,
    TextDelta,
)
from app.upstream import faults
from app.upstream.causes import NOT_A_REPLY
from app.upstream.gemini import FORMAT
from app.upstream.gemini.citations import Passage, make_annotations
from app.upstream.gemini.partial_arguments import PartialArguments, PathRefused
from app.upstream.gemini.usage import read_usage
from app.upstream.reply.chunk import FunctionFragment, ToolCallFragment
from app.upstream.reply.finish import Ending, find_ending, is_reason
from app.upstream.reply.odd_json import read_text
from app.upstream.reply.sse import ErrorEvent, MalformedData, StreamDone
from app.upstream.reply.tool_calls import MAX_CALLS, ToolCallAssembler

Json: TypeAlias = dict[str, Any]
_Item: TypeAlias = list[Json] | StreamDone | ErrorEvent | MalformedData

_FIELDS = frozenset(("candidates", "usageMetadata", "promptFeedback", "modelVersion", "responseId"))
"""A chunk has at least one of them."""
_NUMBERS = {1: "STOP", 2: "MAX_TOKENS", 3: "SAFETY", 4: "RECITATION", 5: "OTHER"}
"""The finish reasons that recorded clients of protocol buffers wrote as numbers. Further numbers differ between the
Gemini API and Vertex."""
_UNSPECIFIED = "FINISH_REASON_UNSPECIFIED"
_OTHER = "OTHER"
_MEDIA = ("image", "audio")
MAX_ITEMS = 10_000
"""The limit of one reply."""
MAX_CITED_TEXTS = 100
"""The sources of further texts of a reply come at its end, because each time the whole text is looked at."""
_ANY_TEXT = "."


class _Call:
    """A call whose arguments are not complete."""

    __slots__ = ("arguments", "id", "is_open_text", "name", "partial", "signature")

    def __init__(self, name: str, id_: str | None, arguments: Any) -> None:
        self.name = name
        self.id = id_
        self.arguments = arguments
        self.partial: PartialArguments | None = None
        """The arguments, if they come piece by piece."""
        self.signature: str | None = None
        self.is_open_text = False
        """More of the last text is to come."""


class _SeenCall:
    """A call that has come."""

    __slots__ = ("arguments", "is_signed", "name", "number")

    def __init__(self, name: str, arguments: str, number: int, *, is_signed: bool) -> None:
        self.name = name
        self.arguments = arguments
        self.number = number
        self.is_signed = is_signed


class GeminiAssembler:
    """Takes the items of each read and returns events, the last of them exactly one `Finish` or `Failed`."""

    started = False
    ended = False
    finishing = False
    """Other parts may follow each finish reason."""
    _usage: Json | None = None
    _reason: str | None = None
    """The last finish reason."""
    _finish_message = ""
    _block: str | None = None
    """Why the server refused the prompt."""
    _foreign: Json | None = None
    """The first object that is not a part of a reply."""
    _call: _Call | None = None
    """The call whose arguments are coming piece by piece."""
    _own_index: Any = None
    """The index of the candidate that is the reply: 0, or that of the only one."""
    _call_count = 0
    _item_count = 0
    _received = 0
    _last_received = 0
    _signature: str | None = None
    """One that belongs to the next text or call."""
    _in_text = False
    """The open message is a text."""
    _is_signed = False
    """The open text has its signature."""
    _cited_texts = 0
    _has_content = False
    _cacheable = True
    _has_inferred = False
    """Something was not as the API has it, so that a client would not understand it."""

    def __init__(self, reply_id: str) -> None:
        self._calls = ToolCallAssembler(reply_id)
        self._texts: list[str] = []
        self._items: list[Json] = []
        """The items that stand before the next message."""
        self._grounding: list[Json] = []
        self._cited: set[Passage] = set()
        self._seen_calls: dict[str, _SeenCall] = {}
        """The calls that have an id, by it."""
        self._warnings: list[str] = []

    def check_progress(self) -> bool:
        before, self._last_received = self._last_received, self._received
        return self._received != before

    def read_usage(self) -> Json | None:
        return read_usage(self._usage)

    def feed(self, items: Sequence[_Item]) -> list[Event]:
        out: list[Event] = []
        for item in items:
            if self.ended:
                break
            if type(item) is list:
                for chunk in item:
                    if not self.ended:
                        self._feed_chunk(chunk, out)
            elif type(item) is ErrorEvent:
                self._fail(faults.from_body(item.data, None), out)
            elif type(item) is MalformedData:
                self._feed_malformed(item, out)
        return out

    def _feed_malformed(self, item: MalformedData, out: list[Event]) -> None:
        if faults.is_skippable(item.data, item.reason):
            self._cacheable = False
            self._warn(faults.describe_skipped(item.data))
        else:
            self._fail(faults.make_protocol_fault(item.data, item.reason), out)

    def _feed_chunk(self, chunk: Json, out: list[Event]) -> None:
        error = chunk.get("error")
        if error and not faults.is_empty_error(error):
            self._fail(faults.from_object(chunk, None), out)
            return
        if _FIELDS.isdisjoint(chunk):
            if faults.reports_failure(chunk):
                self._fail(faults.from_object(chunk, None), out)
            elif chunk:
                self._foreign = self._foreign or chunk
            return
        self.started = True
        self._received += 1
        usage = chunk.get("usageMetadata")
        if isinstance(usage, dict):
            self._usage = {**(self._usage or {}), **{key: value for key, value in usage.items() if value is not None}}
        self._read_feedback(chunk.get("promptFeedback"))
        candidates = _list_objects(chunk.get("candidates"))
        if candidates and self._own_index is None:
            indexes = [candidate.get("index") or 0 for candidate in candidates]
            self._own_index = 0 if 0 in indexes else indexes[0]
        for candidate in candidates:
            if (candidate.get("index") or 0) == self._own_index and not self.ended:
                self._feed_candidate(candidate, out)

    def _read_feedback(self, feedback: Any) -> None:
        reason = feedback.get("blockReason") if isinstance(feedback, dict) else None
        if isinstance(reason, str | int) and reason:
            message = feedback.get("blockReasonMessage")
            self._block = f"{reason}: {message}" if isinstance(message, str) and message else str(reason)

    def _feed_candidate(self, candidate: Json, out: list[Event]) -> None:
        grounding = candidate.get("groundingMetadata")
        if isinstance(grounding, dict) and grounding.get("groundingSupports"):
            self._grounding.append(grounding)
        for content in _list_objects(candidate.get("content")):
            for part in _list_objects(content.get("parts")):
                self._feed_part(part, out)
                if self.ended:
                    return
        self._read_reason(candidate)

    def _read_reason(self, candidate: Json) -> None:
        word = candidate.get("finishReason")
        if type(word) is int:
            self._has_inferred = True
            word = _NUMBERS.get(word, str(word)) if word else None
        if isinstance(word, str) and is_reason(word) and word != _UNSPECIFIED:
            self._reason = word
            message = candidate.get("finishMessage")
            self._finish_message = message if isinstance(message, str) else ""

    # Parts.

    def _feed_part(self, part: Json, out: list[Event]) -> None:
        signature = part.get("thoughtSignature")
        signature = signature if isinstance(signature, str) and signature else None
        text, call = part.get("text"), part.get("functionCall")
        if isinstance(call, dict):
            self._feed_call(call, signature, out)
        elif (text := read_text(text)) is not None:
            if part.get("thought") is True:
                self._add_thought(text, signature, out)
            else:
                self._add_text(text, signature, out)
        elif isinstance(part.get("inlineData"), dict):
            self._add_media(part, part["inlineData"], signature, out)
        elif part.keys() <= {"thought", "thoughtSignature", "text", "functionCall", "inlineData"}:
            self._add_text("", signature, out)
        elif self._close_call(out):
            self._add_item(part, out)

    def _add_text(self, text: str, signature: str | None, out: list[Event]) -> None:
        if (not text and signature is None) or not self._close_call(out):
            return
        if text:
            self._begin_text(text, out)
            out.append(TextDelta(text))
            self._texts.append(text)
            self._has_content = self._has_content or not text.isspace()
            signature, self._signature = signature or self._signature, None
        if signature is None:
            return
        if self._in_text and not self._is_signed:
            out.append(_sign_message(signature, -1))
            self._is_signed = True
        else:
            self._signature = signature

    def _begin_text(self, text: str, out: list[Event]) -> None:
        self._place_items(NEXT_MESSAGE, out)
        if self._in_text and self._is_signed:
            out.append(Extra({}, NEXT_MESSAGE))  # a signature is of the text before it
        if not self._in_text or self._is_signed:
            self._in_text, self._is_signed = not text.isspace(), False

    def _add_thought(self, text: str, signature: str | None, out: list[Event]) -> None:
        if text and not self._close_call(out):
            return
        self._signature = signature or self._signature
        if not text:
            return
        self._end_text(out)
        self._place_items(NEXT_MESSAGE, out)
        out.append(ReasoningDelta(text))

    def _add_media(self, part: Json, data: Json, signature: str | None, out: list[Event]) -> None:
        if not self._close_call(out):
            return
        kind, encoded = data.get("mimeType"), data.get("data")
        family = kind.partition("/")[0] if isinstance(kind, str) else ""
        if family not in _MEDIA or not isinstance(encoded, str) or not encoded:
            self._add_item(part, out)
            return
        self._end_text(out)
        self._place_items(NEXT_MESSAGE, out)
        self._has_content = True
        signature, self._signature = signature or self._signature, None
        fields = {} if signature is None else {"extra_content": _make_signature(signature)}
        media: Any = family
        out.append(MediaOutput(media, f"data:{kind};base64,{encoded}", fields))

    def _add_item(self, part: Json, out: list[Event]) -> None:
        self._end_text(out)
        self._has_content = True
        self._item_count += 1
        if self._item_count > MAX_ITEMS:
            text = f"the model server's reply has more than {MAX_ITEMS} parts that are not for the client"
            self._fail(faults.make_fault("upstream_protocol", text, cause="reply_too_large"), out)
            return
        self._items.append({"type": "provider.item", "item": part, "format": FORMAT})

    def _place_items(self, index: int, out: list[Event]) -> None:
        if self._items:
            out.append(Extra({"reasoning_details": self._items}, index))
            self._items = []

    # Calls.

    def _feed_call(self, call: Json, signature: str | None, out: list[Event]) -> None:
        """Take a call, or a piece of one: it goes on while `willContinue` is true."""
        name = call.get("name")
        self._has_inferred = self._has_inferred or (isinstance(name, str) and name != name.strip())
        name = name.strip() if isinstance(name, str) else ""
        if self._call is None or name:
            if not self._close_call(out):
                return
            if not name and call.get("args") is None:
                self._signature = signature or self._signature
                return
            id_ = call.get("id")
            self._call = _Call(name, id_ if isinstance(id_, str) else None, call.get("args"))
        self._call.signature = self._call.signature or signature
        pieces = call.get("partialArgs")
        try:
            for piece in pieces if isinstance(pieces, list) else ():
                if isinstance(piece, dict):
                    self._add_piece(self._call, piece)
        except PathRefused as error:
            self._refuse_path(self._call, error, out)
            return
        if call.get("willContinue") is not True:
            self._close_call(out)

    def _add_piece(self, call: _Call, piece: Mapping[str, Any]) -> None:
        if call.partial is None:
            call.partial = PartialArguments(call.arguments)
        call.partial.add(piece)
        call.is_open_text = piece.get("willContinue") is True

    def _refuse_path(self, call: _Call, error: PathRefused, out: list[Event]) -> None:
        text = f"the model server sent arguments of {call.name[:100]!r} whose path cannot be read: {error}"
        self._fail(faults.make_fault("upstream_protocol", text), out)

    def _close_call(self, out: list[Event]) -> bool:
        """Tell the call that is open, if there is one. Returns whether the reply goes on."""
        call, self._call = self._call, None
        if call is None:
            return True
        self._has_inferred = self._has_inferred or not call.name
        try:
            arguments = call.arguments if call.partial is None else call.partial.finish()
        except PathRefused as error:
            self._refuse_path(call, error, out)
            return False
        text = "{}" if arguments is None else msgspec.json.encode(arguments).decode()
        if call.id and self._repeat_call(call, text, out):
            return True
        self._end_text(out)
        self._place_items(NEXT_MESSAGE, out)
        self._has_content = True
        signature, self._signature = call.signature or self._signature, None
        extra = None if signature is None else _make_signature(signature)
        function = FunctionFragment(name=call.name or None, arguments=text)
        self._calls.feed([ToolCallFragment(self._call_count, call.id, function, extra)], out, whole=True)
        self._calls.seal_last_call(_ANY_TEXT, out)
        self._call_count += 1
        if self._calls.too_many:
            text = f"the model server's reply has more than {MAX_CALLS} tool calls"
            self._fail(faults.make_fault("upstream_protocol", text, cause="reply_too_large"), out)
        return not self.ended

    def _repeat_call(self, call: _Call, arguments: str, out: list[Event]) -> bool:
        """Return whether a call has come before, with the same id: relays send it again with its signature, or without
        (vertesia/llumiverse#470)."""
        seen = _SeenCall(call.name, arguments, self._call_count, is_signed=call.signature is not None)
        earlier = self._seen_calls.setdefault(call.id or "", seen)
        if earlier is seen or earlier.name != call.name or earlier.arguments != arguments:
            return False
        self._has_inferred = True
        if call.signature is not None and not earlier.is_signed:
            earlier.is_signed = True
            out.append(_sign_message(call.signature, earlier.number))
        return True

    # The end.

    def _warn(self, text: str) -> None:
        if text not in self._warnings:
            self._warnings.append(text)

    def close(self, junk: bytes = b"", fault: Fault | None = None) -> list[Event]:
        out: list[Event] = []
        if self.ended:
            return out
        if fault is not None:
            self._fail(fault, out)
        elif self._reason is not None:
            self._finish(self._reason, out)
        elif self._block is not None:
            self._refuse_prompt(self._block, out)
        elif junk and not self.started and self._foreign is None:
            self._fail(faults.make_protocol_fault(junk), out)
        else:
            self._fail(self._make_incomplete_fault(), out)
        return out

    def _refuse_prompt(self, reason: str, out: list[Event]) -> None:
        self._fail(faults.make_fault("content_filter", f"the model server refused the prompt: {reason}"), out)

    def _end_faulty(self, word: str, code: str, out: list[Event]) -> None:
        """End with a finish reason that says what has failed."""
        said = f": {self._finish_message}" if self._finish_message else ""
        self._fail(faults.make_fault(code, f"the model server ended the reply with {word[:200]!r}{said}"), out)

    def _finish(self, word: str, out: list[Event]) -> None:
        ending = self._find_ending(word)
        if ending.fault is not None:
            self._end_faulty(word, ending.fault, out)
            return
        if self._call is not None and ending.reason == "length" and self._call.is_open_text:
            self._warn(
                f"the call of {self._call.name[:100]!r} was left out: its arguments were cut at the limit of tokens"
            )
            self._call = None
        if not self._close_call(out):
            return
        self._add_last_fields(out)
        self._calls.close(out)
        if self._calls.nameless:
            self._cacheable = False
            self._warn("a tool call of the model server's reply has no name: its arguments became text")
        if not ending.known and word != _OTHER:
            self._cacheable = False
            self._warn(f"the model server's finish reason {word[:200]!r} is not known: it was read as STOP")
        if ending.reason == "content_filter" and self._finish_message:
            self._warn(f"the model server ended its reply with {word[:200]!r}: {self._finish_message}")
        reason = ending.reason
        if reason in ("stop", "tool_calls"):
            reason = "tool_calls" if self._calls else "stop"
        native = None if word == reason else word
        out.append(Finish(reason, self.read_usage(), native, tuple(self._warnings), cacheable=self._cacheable))
        self.ended = True

    def _find_ending(self, word: str) -> Ending:
        ending = find_ending(word)
        return Ending(fault="server_error") if word == _OTHER and not self._has_output else ending

    @property
    def _has_output(self) -> bool:
        return self._has_content or self._call is not None

    def _add_last_fields(self, out: list[Event]) -> None:
        """Add what belongs to no later part: items, a signature, and what the texts are grounded in."""
        index = -1 if self._in_text else NEXT_MESSAGE
        self._place_items(index, out)
        self._add_citations(index, out)
        if self._signature is not None:
            out.append(_sign_message(self._signature, NEXT_MESSAGE))

    def _end_text(self, out: list[Event]) -> None:
        """End the open text, if there is one. What is known of its sources comes with it."""
        if self._in_text and self._grounding and self._cited_texts < MAX_CITED_TEXTS:
            self._cited_texts += 1
            self._add_citations(-1, out)
        self._in_text = False

    def _add_citations(self, index: int, out: list[Event]) -> None:
        if self._grounding:
            annotations = make_annotations(self._grounding, "".join(self._texts), self._cited)
            if annotations:
                out.append(Extra({"annotations": annotations}, index))

    def _fail(self, fault: Fault, out: list[Event]) -> None:
        """End with a fault. A call that is not complete is left out."""
        self._call = None
        self._place_items(-1, out)
        self._calls.flush(out)
        out.append(Failed(msgspec.structs.replace(fault, status=200)))
        self.ended = True

    def _make_incomplete_fault(self) -> Fault:
        foreign = self._foreign
        if foreign is None or self.started:
            return faults.make_fault("upstream_incomplete", "the model server's reply ended before it was finished")
        keys = ", ".join(repr(key[:40]) for key in list(foreign)[:3])
        text = f"the model server sent no reply of the Gemini API but an object with the keys {keys}"
        return faults.make_fault(
            "upstream_incomplete", f"{text}; are its base_url and its api right?", cause=NOT_A_REPLY.word
        )


def _list_objects(value: Any) -> list[Json]:
    """Return the objects of a list; some relays send one alone instead of it."""
    items = value if isinstance(value, list) else [value]
    return [item for item in items if isinstance(item, dict)]


def _make_signature(signature: str) -> Json:
    return {"google": {"thought_signature": signature}}


def _sign_message(signature: str, index: int) -> Extra:
    return Extra({"extra_content": _make_signature(signature)}, index)
