"""Encodes a reply as chunks of Google's Gemini API, or as one object of the same form.

A stream has nothing but `data:` lines and blank lines: the SDKs fail at comments, names and `[DONE]`. A chunk is one
line. It ends with a chunk that has a `finishReason`, or with an error.

To a client of a Gemini server, that server's own chunks (`Passed`) are sent as they are, with the model's name as the
client has it. A chunk with a `finishReason` waits for the end of the reply, because a stream that breaks has none.

A call is sent when its arguments are whole, because `args` is an object, and all calls that follow one another are sent
together. If one of them is no object when the reply ends, none of them is sent: the reply ends with
MALFORMED_FUNCTION_CALL, after which agents ask again. What a model server wants back with the reply is in the signature
of its first call, else of its last text (`app.formats.gemini.signatures`).
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from typing_extensions import override

from app.chat import datauri
from app.chat.accumulator import MessageAccumulator, ReplyMessage, is_json_object
from app.chat.events import Event, Failed, Finish, MediaOutput, Passed, PassedEnd
from app.chat.messages import make_call_id
from app.chat.token_usage import add_left_out
from app.errors import UpstreamFailed
from app.formats.base import USAGE_ESTIMATED, ReplyInfo, is_usage_estimated
from app.formats.encoders import DeltaEncoder, WholeEncoder
from app.formats.gemini.chunks import drop_finish, is_last, join_chunks, rename_model
from app.formats.gemini.citations import write_grounding, write_read_pages
from app.formats.gemini.errors import WRITE_ERROR
from app.formats.gemini.schema import FORMAT, MALFORMED_CALL, MAX_TOKENS, PROHIBITED, SAFETY, STOP
from app.formats.gemini.signatures import find_own_signature, holds_something, write_signature
from app.formats.own_details import count_details, drop_details
from app.formats.seal import Seal
from app.formats.sse import encode_json, escape_line_separators

Json = dict[str, Any]
HEARTBEAT = b"\r\n"
"""A blank line, which all clients skip. They fail at a comment."""
_REASONS = {
    "stop": STOP,
    "tool_calls": STOP,
    "length": MAX_TOKENS,
    "content_filter": SAFETY,
    "tool_limit": MAX_TOKENS,
    "tool_approval": STOP,
}
"""The last two end replies whose tools the gateway runs; `parley.server_tools` says which it was."""
_SPOKEN = ("content", "reasoning_content", "media")
_PLAIN_ENDS, _OWN_ENDS = (None, STOP, MAX_TOKENS), ("stop", "tool_calls", "content_filter")
"""Google's finish reasons that say no more than the gateway's, and those of the gateway that others may be read as."""
_MOST_HELD = 256


class _Ending:
    def __init__(self, parts: list[Json], reason: str, message: str | None = None) -> None:
        """`message` is the `finishMessage`."""
        self.parts = parts
        self.reason = reason
        self.message = message


class _Parts:
    """Writes the messages of a reply as parts. Reasoning and texts are written by the encoder, as they come."""

    def __init__(self, info: ReplyInfo) -> None:
        self._info = info
        self._hides = info.options.hide_thinking
        self._held: list[ReplyMessage] = []
        """The calls that have not been sent."""
        self._unsealed: list[ReplyMessage] = []
        """What was said since the last seal."""
        self._last_text: ReplyMessage | None = None
        """The text after which nothing has come, and whose signature has not been sent."""
        self._signed_texts: set[int] = set()
        """The texts whose own signature was sent."""
        self._ids: set[str] = set()
        self._sent: list[tuple[str, ReplyMessage, Any]] = []
        """The calls that were sent, each with its id there and the `extra_content` that it had then."""
        self.is_native = False
        """The model's server is Google's, which reads its own parts, and no reasoning."""
        self._written: set[int] = set()
        """The details that were written as parts."""

    def adopt(self, accumulator: MessageAccumulator) -> None:
        """Go on behind chunks of the server's own, which had these messages."""
        messages, text = accumulator.messages, accumulator.open_message
        self._ids.update(one.id for one in messages if one.kind == "function_call")
        self._written.update(id(detail) for one in messages for detail in _list_details(one))
        is_signed = text is not None and text.extra.get("extra_content") is not None
        self._last_text = text if text is not None and text.kind == "content" and not is_signed else None

    def _take_items(self, details: Sequence[Any]) -> list[Json]:
        """Return the details that are parts of Google's own."""
        if not self.is_native:
            return []
        parts = []
        for detail in details:
            item = detail.get("item") if isinstance(detail, dict) and detail.get("format") == FORMAT else None
            if isinstance(item, dict) and id(detail) not in self._written:
                self._written.add(id(detail))
                parts.append(item)
        return parts

    def _drop_written(self, details: Sequence[Any]) -> list[Any]:
        return [detail for detail in details if id(detail) not in self._written]

    def begin(self, message: ReplyMessage) -> list[Json]:
        """Return the parts that come before a message: the calls before it, and the signature of the text before."""
        if message.server is not None or message.result is not None:
            return []
        parts = self._sign_text()
        if message.kind == "function_call":
            self._held.append(message)
            return parts + self._take_items(_list_details(message))
        # Arguments may still come behind this message, if there are none yet.
        if self._held and all(call.text.strip() and is_whole(call) for call in self._held):
            parts += self._write_calls(self._take_held())
        parts += self._take_items(_list_details(message))
        self._unsealed.append(message)
        self._last_text = message if message.kind == "content" else None
        return parts

    def end(self, finish: Finish, accumulator: MessageAccumulator) -> _Ending:
        whole = [call for call in self._held if is_whole(call)]
        broken = [call for call in self._held if not is_whole(call)]
        self._held = []
        reason, message = _REASONS[finish.reason], None
        if finish.policy is not None:
            reason, message = PROHIBITED, finish.policy.sentence
        elif broken and finish.reason in ("stop", "tool_calls"):
            names = ", ".join(dict.fromkeys(call.name for call in broken))
            reason, whole = MALFORMED_CALL, []
            message = f"the arguments of {names} are not a JSON object"
        elif self.is_native and finish.native_reason not in _PLAIN_ENDS and finish.reason in _OWN_ENDS:
            reason = str(finish.native_reason)
        elif finish.reason == "stop" and any(one.refusal for one in accumulator.messages):
            reason, message = SAFETY, "the model has refused to answer"
        loose = accumulator.loose_extra.get("reasoning_details")
        details = loose if isinstance(loose, list) else []
        parts = self._take_items(details)
        if whole:
            parts += [*self._sign_text(), *self._write_calls(whole, details)]
        else:
            parts += self._write_last_seal(details)
        return _Ending(parts, reason, message)

    def _take_held(self) -> list[ReplyMessage]:
        held, self._held = self._held, []
        return held

    def _sign_text(self) -> list[Json]:
        """Return the signature of a text that something follows, as a part of its own, because the text was sent."""
        text, self._last_text = self._last_text, None
        signature = None if text is None else find_own_signature(text.extra.get("extra_content"))
        if text is None or signature is None:
            return []
        self._signed_texts.add(text.index)
        return [{"text": "", "thoughtSignature": signature}]

    def _seal(self, *, with_reasoning: bool, details: Sequence[Any] = ()) -> Seal:
        """Return what is to be kept of everything since the last seal, but for calls that are not sent yet."""
        said, self._unsealed = self._unsealed, []
        seals_reasoning = with_reasoning and not self.is_native
        reasoning = "".join(one.text for one in said if one.kind == "reasoning_content") if seals_reasoning else ""
        found = [one for message in said for one in _list_details(message)]
        texts = [
            None if one.index in self._signed_texts else one.extra.get("extra_content")
            for one in said
            if one.kind == "content"
        ]
        details = self._drop_written([*found, *details])
        return Seal(reasoning or None, details, self._take_late_fields(), texts if any(texts) else [])

    def _take_late_fields(self) -> Json:
        """Return the `extra_content` of calls that came after they were sent."""
        now = [(id_, call, call.extra.get("extra_content")) for id_, call, _ in self._sent]
        before, self._sent = self._sent, now
        return {id_: fields for (id_, _, fields), (_, _, had) in zip(now, before, strict=True) if fields != had}

    def _write_calls(self, calls: Sequence[ReplyMessage], details: Sequence[Any] = ()) -> list[Json]:
        ids = [self._choose_id(call) for call in calls]
        own = [find_own_signature(call.extra.get("extra_content")) for call in calls]
        of_calls = [one for call in calls for one in _list_details(call)]
        seal = self._seal(with_reasoning=True, details=[*of_calls, *details])
        sealed = seal.calls | {
            id_: call.extra["extra_content"]
            for id_, call, signature in zip(ids, calls, own, strict=True)
            if signature is None and call.extra.get("extra_content") is not None
        }
        self._sent += [(id_, call, call.extra.get("extra_content")) for id_, call in zip(ids, calls, strict=True)]
        seal = msgspec.structs.replace(seal, calls=sealed)
        if holds_something(seal):
            if own[0] is not None:
                seal = msgspec.structs.replace(seal, calls={ids[0]: calls[0].extra["extra_content"], **sealed})
            own[0] = write_signature(seal)
        return [_write_call(*row) for row in zip(ids, calls, own, strict=True)]

    def _choose_id(self, call: ReplyMessage) -> str:
        """Return the id of a call, which no other call of the reply has."""
        id_ = call.id
        while not id_ or id_ in self._ids:
            id_ = make_call_id(self._info.response_id, call.index, id_)
        self._ids.add(id_)
        return id_

    def _write_last_seal(self, details: Sequence[Any]) -> list[Json]:
        """Return an empty text with the signature of the reply, if there is anything to keep."""
        fields = None if self._last_text is None else self._last_text.extra.get("extra_content")
        seal = self._seal(with_reasoning=self._hides, details=details)
        own = find_own_signature(fields)
        if own is not None and not holds_something(msgspec.structs.replace(seal, texts=seal.texts[:-1])):
            return [{"text": "", "thoughtSignature": own}]
        return [{"text": "", "thoughtSignature": write_signature(seal)}] if holds_something(seal) else []


def is_whole(call: ReplyMessage) -> bool:
    """Whether the arguments of a call are an object, or nothing, which is one without keys."""
    return not call.text.strip() or is_json_object(call.text)


def _list_details(message: ReplyMessage) -> list[Any]:
    details = message.extra.get("reasoning_details")
    return details if isinstance(details, list) else []


def _write_call(id_: str, call: ReplyMessage, signature: str | None) -> Json:
    # A line break between two tokens would be one in the stream.
    arguments = (call.text.strip() or "{}").replace("\n", " ").replace("\r", " ")
    part: Json = {"functionCall": {"id": id_, "name": call.name, "args": msgspec.Raw(arguments.encode())}}
    return part if signature is None else {**part, "thoughtSignature": signature}


def _write_media(media: MediaOutput) -> Json:
    try:
        head = datauri.parse(media.url)
        data = media.url[head.start :] if head.base64 else None
    except ValueError:
        data = None
    if data is None:
        return {"fileData": {"fileUri": media.url}}
    media_type = head.media_type or ("image/png" if media.media == "image" else "audio/wav")
    return {"inlineData": {"mimeType": media_type, "data": data}}


def write_usage(finish: Finish) -> Json:
    """Write the usage, whose total is the sum of prompt, answer and reasoning."""
    usage: Json = finish.usage or finish.estimated_usage or {}
    prompt, completion = add_left_out(usage)
    cached = _read_detail(usage, "prompt_tokens_details", "cached_tokens")
    thoughts = min(_read_detail(usage, "completion_tokens_details", "reasoning_tokens"), completion)
    return {
        "promptTokenCount": prompt,
        **({"cachedContentTokenCount": cached} if cached else {}),
        "candidatesTokenCount": completion - thoughts,
        **({"thoughtsTokenCount": thoughts} if thoughts else {}),
        "totalTokenCount": prompt + completion,
    }


def _read_detail(usage: Json, holder: str, name: str) -> int:
    details = usage.get(holder)
    return _count((details if isinstance(details, dict) else usage).get(name))


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


class _Tail:
    """The last chunk of a reply."""

    def __init__(self, info: ReplyInfo, finish: Finish, ending: _Ending, accumulator: MessageAccumulator) -> None:
        self.candidate: Json = {"finishReason": ending.reason}
        if ending.message is not None:
            self.candidate["finishMessage"] = ending.message
        grounding = write_grounding(accumulator.messages)
        if grounding:
            self.candidate["groundingMetadata"] = grounding
        pages = write_read_pages(accumulator.messages)
        if pages:
            self.candidate["urlContextMetadata"] = pages
        self.beside: Json = {"usageMetadata": write_usage(finish), **_write_beside(info, finish, accumulator)}


def _write_beside(info: ReplyInfo, finish: Finish, accumulator: MessageAccumulator) -> Json:
    """Write `parley`: warnings, and what this format has no place for."""
    warnings = info.warnings_with(finish)
    if is_usage_estimated(finish):
        warnings.append(USAGE_ESTIMATED)
    beside: Json = {"warnings": warnings} if warnings else {}
    beside |= info.write_extensions(finish)
    if finish.usage is not None and finish.usage.get("cost") is not None:
        beside["cost"] = finish.usage["cost"]
    media = [one.media for one in accumulator.messages if one.media is not None and one.media.fields]
    if media:
        beside["media"] = [{"type": one.media, **one.fields} for one in media]
    for key in ("citations", "search_results"):
        values = [one.extra[key] for one in accumulator.messages if one.extra.get(key)]
        values += [accumulator.loose_extra[key]] if accumulator.loose_extra.get(key) else []
        if values:
            beside[key] = values[-1]
    return {"parley": beside} if beside else {}


class GeminiStreamEncoder(DeltaEncoder):
    """Server-sent events."""

    _last = b""
    """What is behind the last chunk."""

    def __init__(self, info: ReplyInfo) -> None:
        super().__init__(info)
        self._parts = _Parts(info)
        self._hides = info.options.hide_thinking
        self._has_parts = False
        self._passes: bool | None = None if info.options.passed else False
        """Whether the server's own chunks are sent; None before the first one, if they may be."""
        self._waiting: str | None = None
        """The server's chunk with a finish reason, behind which none has come."""
        self._pending: list[Event] = []
        """What the server's chunks have brought and the accumulator does not have."""
        self._own_details = 0
        """How many items of `reasoning_details` they had that have not come in an `Extra`."""
        self._tail = b',"modelVersion":%b,"responseId":%b}' % (
            escape_line_separators(encode_json(info.model)),
            encode_json(info.response_id),
        )

    def open(self) -> bytes:
        return b""

    @override
    def heartbeat(self) -> bytes:
        return HEARTBEAT

    @override
    def feed(self, events: list[Event]) -> bytes:
        if self._passes is None and events:
            self._passes = self._parts.is_native = type(events[0]) is Passed or type(events[0]) is PassedEnd
        if not self._passes:
            events, self._own_details = drop_details(events, self._own_details)
            return super().feed(events)
        out: list[bytes] = []
        for place, event in enumerate(events):
            if type(event) is Passed:
                self._own_details += event.details
                out.append(self._write_passed(event.data))
            elif type(event) is PassedEnd:
                return b"".join([*out, self._end_passing(), self.feed(events[place + 1 :])])
            elif type(event) is Finish:
                out.append(self._write_last(self._info.warnings_with(event)))
            elif type(event) is Failed:
                out.append(self.fail(UpstreamFailed(event.fault).to_dict(self._info.request_id)))
            else:
                self._pending.append(event)
                self._own_details -= count_details(event)
        if len(self._pending) >= _MOST_HELD:
            self._accumulate_pending()
        return b"".join(out)

    @override
    def feed_each(self, batches: Sequence[list[Event]]) -> bytes:
        if not self._info.options.passed:
            return super().feed_each(batches)
        return b"".join(map(self.feed, batches))

    def _accumulate_pending(self) -> None:
        pending, self._pending = self._pending, []
        self._accumulator.feed(pending)

    def _write_passed(self, text: str) -> bytes:
        """Write a chunk of the server, but for the last one."""
        out, self._waiting = self._take_waiting(), None
        if is_last(text):
            self._waiting = text
            return out
        return out + self._write_own(text)

    def _take_waiting(self) -> bytes:
        text, self._waiting = self._waiting, None
        return b"" if text is None else self._write_own(text)

    def _write_own(self, text: str) -> bytes:
        return self._frame(escape_line_separators(rename_model(text, self._info.model)))

    def _write_last(self, warnings: list[str]) -> bytes:
        """Write the end of the server's own chunks. What the gateway has to say of the reply is in the last one."""
        if warnings:
            beside = {"parley": {"warnings": warnings}}
            known: Json = msgspec.json.decode(self._waiting or "{}")
            self._waiting = encode_json({**known, **beside}).decode()
        return self._take_waiting() + self._last

    def _end_passing(self) -> bytes:
        """End the server's own chunks. What they have brought is known, but is not written again."""
        self._passes = False
        rest = None if self._waiting is None else drop_finish(self._waiting)
        self._has_parts, self._waiting = True, rest
        self._accumulate_pending()
        self._accumulator.drop_loose_extra()
        self._parts.adopt(self._accumulator)
        return self._take_waiting()

    def _frame(self, data: bytes) -> bytes:
        return b"data: %b\r\n\r\n" % data

    def _write_chunk(self, parts: bytes) -> bytes:
        self._has_parts = True
        return self._frame(
            b'{"candidates":[{"content":{"role":"model","parts":[%b]},"index":0}]%b' % (parts, self._tail)
        )

    @override
    def _write_started(self, message: ReplyMessage) -> bytes:
        parts = self._parts.begin(message)
        if not parts:
            return b""
        return self._write_chunk(escape_line_separators(encode_json(parts))[1:-1])

    @override
    def _write_text(self, message: ReplyMessage, text: str) -> bytes:
        if message.kind not in _SPOKEN or (self._hides and message.kind == "reasoning_content"):
            return b""
        data = escape_line_separators(encode_json(text))
        end = b',"thought":true}' if message.kind == "reasoning_content" else b"}"
        return self._write_chunk(b'{"text":%b%b' % (data, end))

    @override
    def _write_completed(self, message: ReplyMessage) -> bytes:
        if message.media is None:
            return b""
        return self._write_chunk(escape_line_separators(encode_json(_write_media(message.media))))

    @override
    def _write_finish(self, finish: Finish) -> bytes:
        ending = self._parts.end(finish, self._accumulator)
        tail = _Tail(self._info, finish, ending, self._accumulator)
        # The chats of the SDKs forget a turn if one of its chunks has no parts (@google/genai 2.32, google-genai 3.6).
        parts = ending.parts or ([{"text": ""}] if self._has_parts else [])
        content = {"role": "model", **({"parts": parts} if parts else {})}
        body = {"candidates": [{"content": content, **tail.candidate, "index": 0}], **tail.beside}
        data = escape_line_separators(encode_json(body))
        return self._frame(data[:-1] + self._tail) + self._last

    @override
    def fail(self, error: dict[str, Any]) -> bytes:
        out = b"" if self._waiting is None else self._end_passing()  # a reply that breaks has no finish reason
        return out + self._frame(escape_line_separators(encode_json(WRITE_ERROR(error)))) + self._last


class GeminiArrayEncoder(GeminiStreamEncoder):
    """One JSON array, each element of which is sent as it comes. It is whole after a failure, too."""

    _last = b"]"

    def __init__(self, info: ReplyInfo) -> None:
        super().__init__(info)
        self._is_first = True

    @override
    def open(self) -> bytes:
        return b"["

    @override
    def _frame(self, data: bytes) -> bytes:
        is_first, self._is_first = self._is_first, False
        return data if is_first else b",\r\n" + data


class GeminiWholeEncoder(WholeEncoder):
    """One object."""

    def __init__(self, info: ReplyInfo) -> None:
        super().__init__(info)
        self._passed: list[str] = []
        """The server's own chunks."""
        self._is_native = False

    @override
    def feed(self, events: list[Event]) -> bytes:
        if self._info.options.passed:
            for event in events:
                if type(event) is Passed:
                    self._passed.append(event.data)
                elif type(event) is PassedEnd:
                    self._passed, self._is_native = [], True
        return escape_line_separators(super().feed(events))

    @override
    def feed_each(self, batches: Sequence[list[Event]]) -> bytes:
        if not self._info.options.passed:
            return super().feed_each(batches)
        return b"".join(map(self.feed, batches))

    @override
    def _write_reply(self, finish: Finish) -> Json:
        info, accumulator = self._info, self._accumulator
        if self._passed:
            warnings = info.warnings_with(finish)
            beside: Json = {"parley": {"warnings": warnings}} if warnings else {}
            return join_chunks(self._passed, info.model) | beside
        writer, parts = _Parts(info), list[Json]()
        writer.is_native = self._is_native
        for message in accumulator.messages:
            parts += writer.begin(message)
            parts += self._write_message(message)
        ending = writer.end(finish, accumulator)
        parts = _join_signatures([*parts, *ending.parts])
        tail = _Tail(info, finish, ending, accumulator)
        content = {"role": "model", **({"parts": parts} if parts else {})}
        return {
            "candidates": [{"content": content, **tail.candidate, "index": 0}],
            **tail.beside,
            "modelVersion": info.model,
            "responseId": info.response_id,
        }

    def _write_message(self, message: ReplyMessage) -> list[Json]:
        if message.media is not None:
            return [_write_media(message.media)]
        if message.kind == "content":
            return [{"text": message.text}]
        if message.kind == "reasoning_content" and not self._info.options.hide_thinking:
            return [{"text": message.text, "thought": True}]
        return []

    @override
    def _write_failure(self, error: dict[str, Any]) -> Json:
        return WRITE_ERROR(error)


def _join_signatures(parts: Sequence[Json]) -> list[Json]:
    """Return the parts with each signature at the text before it, if that has none."""
    out: list[Json] = []
    for part in parts:
        last = out[-1] if out else {}
        joins = part.get("text") == "" and "thoughtSignature" in part and "text" in last
        if joins and "thought" not in last and "thoughtSignature" not in last:
            out[-1] = {**last, "thoughtSignature": part["thoughtSignature"]}
        else:
            out.append(part)
    return out
