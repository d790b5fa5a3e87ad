"""Encodes a reply as OpenAI's `chat.completion.chunk` objects, or as one `chat.completion`.

Reasoning is in `delta.reasoning_content`, each tool call has an index, the usage chunk is sent if the caller asked for
it, `[DONE]` is the last frame, and an error is a frame with an `error` object, as the SDKs expect. Warnings are in
`warnings`, next to `choices`, in the last chunk with choices.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from typing_extensions import override

from app.chat.accumulator import ReplyMessage
from app.chat.events import Finish, MediaOutput, TurnEnd
from app.errors import find_code
from app.formats.base import ErrorWriter, ReplyInfo
from app.formats.citations import write_chat_citation
from app.formats.encoders import DeltaEncoder, TokenCursor, WholeEncoder
from app.formats.openai.server_messages import FINISH_REASONS, ServerMessages, list_entries
from app.formats.sse import encode_json as _json
from app.formats.sse import encode_json_lines as _json_lines
from app.formats.sse import escape_line_separators, write_frame
from app.openai_messages.custom_tools import unwrap_input
from app.openai_messages.messages import write_call

_CHUNK = b'%%b{"index":0,"delta":%b,"finish_reason":null}]}\n\n'
_TEXTS = {
    "reasoning_content": _CHUNK % b'{"reasoning_content":%b}',
    "content": _CHUNK % b'{"content":%b}',
}
_REFUSAL = _CHUNK % b'{"refusal":%b}'
_ARGUMENTS = _CHUNK % b'{"tool_calls":[{"index":%d,"function":{"arguments":%b}}]}'
"""The chunk of a new text: the values are the common part of all chunks, and JSON."""


def write_error(error: dict[str, Any]) -> dict[str, Any]:
    """Make OpenAI's error object, with the gateway's other fields of the error added to it."""
    code = error["code"]
    row = find_code(code)
    kind = row.openai_type or ("invalid_request_error" if error["status"] < 500 else "server_error")
    return {"error": {**error, "code": row.openai_code or code, "type": kind}}


WRITE_ERROR = ErrorWriter(write_error, statuses={422: 400})
"""Validation is 400, as at OpenAI: its clients know no 422."""


class ChunkEncoder(DeltaEncoder):
    def __init__(self, info: ReplyInfo) -> None:
        super().__init__(info)
        self._calls: dict[int, int] = {}
        self._calls_with_extra: set[int] = set()
        """Calls whose opaque fields were sent."""
        self._told_details: dict[int, int] = {}
        """How many `reasoning_details` of a call were sent at its beginning, in their order among those of others."""
        self._served = ServerMessages()
        self._head = b'data: {"id":%b,"object":"chat.completion.chunk","created":%d,"model":%b,"choices":[' % (
            _json(info.response_id),
            info.created,
            _json(info.model),
        )

    def open(self) -> bytes:
        return self._delta(b'{"role":"assistant","content":""}')

    def _delta(self, delta: bytes, finish: bytes = b"null", suffix: bytes = b"") -> bytes:
        return b'%b{"index":0,"delta":%b,"finish_reason":%b}]%b}\n\n' % (self._head, delta, finish, suffix)

    @override
    def _write_started(self, message: ReplyMessage) -> bytes:
        if message.kind != "function_call" or message.server is not None:
            return b""
        place = self._calls[message.index] = len(self._calls)
        call = {"index": place, **_write_call(message, "", self._info)}
        if "extra_content" in call:
            self._calls_with_extra.add(message.index)
        out = self._delta(escape_line_separators(_json({"tool_calls": [call]})))
        details = message.extra.get("reasoning_details")
        if isinstance(details, list):
            self._told_details[message.index] = len(details)
            out += self._details({"reasoning_details": details})
        return out

    @override
    def _write_text(self, message: ReplyMessage, text: str) -> bytes:
        data = _json(text)
        if not data.isascii():
            data = escape_line_separators(data)
        if message.kind == "function_result":
            return b""
        if message.kind == "function_call":
            if message.server is not None or message.name in self._info.options.custom_tools:
                return b""  # known only at its end: the gateway runs it, or it is the one text of a custom tool
            return _ARGUMENTS % (self._head, self._calls[message.index], data)
        return (_REFUSAL if message.refusal else _TEXTS[message.kind]) % (self._head, data)

    @override
    def _write_texts(self, message: ReplyMessage, texts: list[str]) -> bytes:
        if message.kind == "function_call" or message.kind == "function_result":
            return super()._write_texts(message, texts)
        start, middle, after = (_REFUSAL if message.refusal else _TEXTS[message.kind]).split(b"%b")
        before = start + self._head + middle
        lines = escape_line_separators(_json_lines(texts))
        return before + lines[:-1].replace(b"\n", after + before) + after

    @override
    def _write_completed(self, message: ReplyMessage) -> bytes:
        """Write the opaque fields of a message, which are complete only at its end."""
        if message.media is not None:
            return self._delta(
                escape_line_separators(_json(_write_media([message.media]) | _merge_extras([message.extra])))
            )
        if message.result is not None:
            return self._write_served(self._served.add_result(message))
        if message.kind != "function_call":
            return self._details(_add_signed_text(message, self._accumulator.messages))
        if message.server is not None:
            return b""
        out = b""
        if message.name in self._info.options.custom_tools:
            call = {"index": self._calls[message.index], "custom": {"input": unwrap_input(message.text)}}
            out = self._delta(escape_line_separators(_json({"tool_calls": [call]})))
        rest = {key: value for key, value in message.extra.items() if key != "extra_content"}
        if isinstance(details := rest.get("reasoning_details"), list):
            rest["reasoning_details"] = details[self._told_details.get(message.index, 0) :]
        out += self._details(rest)
        late = _call_extra(message.extra) if message.index not in self._calls_with_extra else {}
        if late:
            out += self._delta(
                escape_line_separators(_json({"tool_calls": [{"index": self._calls[message.index], **late}]}))
            )
        return out

    @override
    def _write_turn_end(self, turn: TurnEnd) -> bytes:
        entry = self._served.add_turn(self._accumulator.messages)
        return b"" if entry is None else self._write_served(entry)

    def _write_served(self, entry: dict[str, Any]) -> bytes:
        return self._delta(b"{}", suffix=b',"server_message":%b' % escape_line_separators(_json(entry)))

    def _details(self, extra: dict[str, Any]) -> bytes:
        fields = _merge_extras([extra])
        return self._delta(escape_line_separators(_json(fields))) if fields else b""

    @override
    def _write_finish(self, finish: Finish) -> bytes:
        warnings = self._info.warnings_with(finish)
        suffix = b',"warnings":%b' % escape_line_separators(_json(warnings)) if warnings else b""
        reason: str = finish.reason
        delta = b"{}"
        if finish.server_tools is not None:
            reason = FINISH_REASONS.get(finish.reason, reason)
            if self._served.entries:
                delta = escape_line_separators(_json({"server_messages": self._served.entries}))
        for name, value in self._info.write_extensions(finish).items():
            suffix += b',"%b":%b' % (name.encode(), escape_line_separators(_json(value)))
        out = self._details(self._accumulator.loose_extra) + self._delta(delta, _json(reason), suffix)
        if self._info.include_usage:
            out += b'%b],"usage":%b}\n\n' % (self._head, _json(_write_usage(finish.usage)))
        return out + b"data: [DONE]\n\n"

    @override
    def fail(self, error: dict[str, Any]) -> bytes:
        return write_frame(WRITE_ERROR(error))


class ScoredChunkEncoder(ChunkEncoder):
    """Writes chunks with the log probabilities of their text."""

    def __init__(self, info: ReplyInfo) -> None:
        super().__init__(info)
        self._cursor = TokenCursor()

    @override
    def _write_text(self, message: ReplyMessage, text: str) -> bytes:
        tokens = self._cursor.take(message)
        if not tokens:
            return super()._write_text(message, text)
        choice = {"index": 0, "delta": {"content": text}, "logprobs": _write_logprobs(tokens), "finish_reason": None}
        return b"%b%b]}\n\n" % (self._head, escape_line_separators(_json(choice)))

    @override
    def _write_texts(self, message: ReplyMessage, texts: list[str]) -> bytes:
        return b"".join([self._write_text(message, text) for text in texts])


def _write_logprobs(tokens: list[dict[str, Any]]) -> dict[str, Any]:
    return {"content": tokens, "refusal": None}


class CompletionEncoder(WholeEncoder):
    """`stream: false`: one JSON body."""

    @override
    def _write_failure(self, error: dict[str, Any]) -> dict[str, Any]:
        served = self._list_served()
        return WRITE_ERROR(error | {"partial": served} if served else error)

    def _list_served(self) -> list[dict[str, Any]]:
        return list_entries(self._accumulator.messages, self._accumulator.turn_ends)

    @override
    def _write_reply(self, finish: Finish) -> dict[str, Any]:
        info = self._info
        warnings = info.warnings_with(finish)
        reason: str = finish.reason
        message = self._message()
        if finish.server_tools is not None:
            reason = FINISH_REASONS.get(finish.reason, reason)
            if served := self._list_served():
                message["server_messages"] = served
        return {
            "id": info.response_id,
            "object": "chat.completion",
            "created": info.created,
            "model": info.model,
            "choices": [
                {"index": 0, "message": message, "logprobs": self._list_logprobs(), "finish_reason": reason},
            ],
            "usage": _write_usage(finish.usage),
            **({"warnings": warnings} if warnings else {}),
            **info.write_extensions(finish),
        }

    def _list_logprobs(self) -> dict[str, Any] | None:
        tokens = [token for one in self._accumulator.messages for token in one.logprobs]
        return _write_logprobs(tokens) if tokens else None

    def _message(self) -> dict[str, Any]:
        messages = self._accumulator.messages
        content = [one.text for one in messages if one.kind == "content" and not one.refusal]
        refusal = [one.text for one in messages if one.refusal]
        message: dict[str, Any] = {
            "role": "assistant",
            "content": "".join(content) if content else None,
            "refusal": "".join(refusal) if refusal else None,
        }
        reasoning = "".join(one.text for one in messages if one.kind == "reasoning_content")
        if reasoning:
            message["reasoning_content"] = reasoning
        message |= _merge_extras([*_list_extras(messages), self._accumulator.loose_extra])
        message |= _write_media([one.media for one in messages if one.media is not None])
        own = [one for one in messages if one.kind == "function_call" and one.server is None]
        calls = [_write_call(one, one.text, self._info) for one in own]
        if calls:
            message["tool_calls"] = calls
        return message


_NESTED_COUNTS = frozenset(("cached_tokens", "cache_write_tokens", "reasoning_tokens"))


def _write_usage(usage: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the usage with the parts of its totals only where OpenAI has them: clients count those that are beside
    the totals once more."""
    if usage is None or _NESTED_COUNTS.isdisjoint(usage):
        return usage
    return {name: value for name, value in usage.items() if name not in _NESTED_COUNTS}


def _write_call(message: ReplyMessage, arguments: str, info: ReplyInfo) -> dict[str, Any]:
    extra = _call_extra(message.extra)
    if message.name in info.options.custom_tools:
        custom = {"name": message.name, "input": unwrap_input(arguments)}
        return {"id": message.id, "type": "custom", "custom": custom, **extra}
    return write_call(message.id, message.name, arguments, extra)


_MESSAGE_EXTRAS = ("reasoning_details", "annotations", "extra_content", "citations", "search_results")
"""Keys of `extra` that are fields of the message."""


def _list_extras(messages: Sequence[ReplyMessage]) -> Iterator[dict[str, Any]]:
    """Yield what the messages of a reply add to the client's one message. Calls have their `extra_content` themselves,
    and the gateway's own are left out."""
    for one in messages:
        if one.kind != "function_call":
            yield _add_signed_text(one, messages)
        elif one.server is None:
            yield {key: value for key, value in one.extra.items() if key != "extra_content"}


def _add_signed_text(message: ReplyMessage, messages: Sequence[ReplyMessage]) -> dict[str, Any]:
    """Return the extra of a message. A signature of reasoning that is not the reply's first has the text that it signs,
    because a message of the client has the texts of all its reasoning as one."""
    details = message.extra.get("reasoning_details")
    if message.kind != "reasoning_content" or not isinstance(details, list):
        return message.extra
    if message is next(one for one in messages if one.kind == "reasoning_content"):
        return message.extra
    told = [{"text": message.text, **one} if _is_signature(one) else one for one in details]
    return {**message.extra, "reasoning_details": told}


def _is_signature(detail: Any) -> bool:
    return isinstance(detail, dict) and detail.get("type") == "reasoning.text" and "signature" in detail


def _merge_extras(extras: list[dict[str, Any]]) -> dict[str, Any]:
    """Merge the extras of several messages: lists are concatenated, for other values the last one counts."""
    out: dict[str, Any] = {}
    for extra in extras:
        for key in _MESSAGE_EXTRAS:
            value = extra.get(key)
            if value:
                known = out.get(key)
                out[key] = [*known, *value] if isinstance(known, list) and isinstance(value, list) else value
    if isinstance(annotations := out.get("annotations"), list):
        out["annotations"] = [write_chat_citation(one) for one in annotations]
    return out


def _write_media(media: list[MediaOutput]) -> dict[str, Any]:
    """Write audio as OpenAI does, and images as OpenRouter does."""
    out: dict[str, Any] = {}
    for one in media:
        if one.media == "audio":
            out["audio"] = {**one.fields, "data": one.url.partition(";base64,")[2] or one.url}
        else:
            out.setdefault("images", []).append({"type": "image_url", "image_url": {"url": one.url}})
    return out


def _call_extra(extra: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that the client must send back with the call."""
    return {key: value for key, value in extra.items() if key == "extra_content"}
