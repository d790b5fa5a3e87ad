"""A reply as OpenAI's `chat.completion.chunk`s or as one `chat.completion`.

Reasoning is `delta.reasoning_content`, calls are proper deltas with an index of their own, the usage chunk comes where
the caller asked for it, `[DONE]` closes, and an error is a data event with an `error` object, as the SDKs expect.
What the caller must know stands in `warnings` beside the choices of the last chunk that has any.
"""

from typing import Any

from app.chat.accumulator import MessageAccumulator, MessageCompleted, MessageDelta, MessageStarted, ReplyMessage
from app.chat.events import Event, Failed, Finish, MediaOutput
from app.errors import UpstreamFailed
from app.formats.base import ReplyInfo
from app.formats.sse import encode_json as _json
from app.formats.sse import escape_line_separators, write_frame

_FIELD = {"reasoning_content": b'{"reasoning_content":%b}', "content": b'{"content":%b}'}
_TYPES = {
    "rate_limit": "rate_limit_error",
    "insufficient_quota": "insufficient_quota",
    "overloaded": "overloaded_error",
    "authentication": "authentication_error",
    "permission": "permission_error",
}
_CODES = {"unknown_model": "model_not_found"}
"""Clients know a missing model by OpenAI's name for it (LiteLLM takes any other for a bad request)."""


def error_body(error: dict[str, Any]) -> dict[str, Any]:
    """OpenAI's error object; what the gateway knows beyond it stands beside its fields."""
    kind = _TYPES.get(error["code"]) or ("invalid_request_error" if error["status"] < 500 else "server_error")
    return {"error": {**error, "code": _CODES.get(error["code"], error["code"]), "type": kind}}


class ChunkEncoder:
    def __init__(self, info: ReplyInfo) -> None:
        self._info = info
        self._accumulator = MessageAccumulator()
        self._calls: dict[int, int] = {}
        self._calls_with_extra: set[int] = set()
        """Calls whose opaque fields were told."""
        self._head = b'data: {"id":%b,"object":"chat.completion.chunk","created":%d,"model":%b,"choices":[' % (
            _json(info.response_id),
            info.created,
            _json(info.model),
        )

    def open(self) -> bytes:
        return self._delta(b'{"role":"assistant","content":""}')

    def feed(self, events: list[Event]) -> bytes:
        out: list[bytes] = []
        for step in self._accumulator.feed(events):
            if isinstance(step, MessageDelta):
                out.append(self._write_text(step.message, step.text))
            elif isinstance(step, MessageStarted):
                out.append(self._write_started(step.message))
            elif isinstance(step, Finish):
                out.append(self._finish(step))
            elif isinstance(step, Failed):
                out.append(self.fail(UpstreamFailed(step.fault).to_dict(self._info.request_id)))
            else:
                assert isinstance(step, MessageCompleted)
                out.append(self._write_completed(step.message))
        return b"".join(out)

    def _delta(self, delta: bytes, finish: bytes = b"null", beside: bytes = b"") -> bytes:
        return b'%b{"index":0,"delta":%b,"finish_reason":%b}]%b}\n\n' % (self._head, delta, finish, beside)

    def _write_started(self, segment: ReplyMessage) -> bytes:
        if segment.kind != "function_call":
            return b""
        place = self._calls[segment.index] = len(self._calls)
        call = {
            "index": place,
            "id": segment.id,
            "type": "function",
            "function": {"name": segment.name, "arguments": ""},
            **_call_extra(segment.extra),
        }
        if "extra_content" in call:
            self._calls_with_extra.add(segment.index)
        return self._delta(escape_line_separators(_json({"tool_calls": [call]})))

    def _write_text(self, segment: ReplyMessage, text: str) -> bytes:
        if segment.kind == "function_call":
            call = b'{"tool_calls":[{"index":%d,"function":{"arguments":%b}}]}'
            return self._delta(call % (self._calls[segment.index], escape_line_separators(_json(text))))
        if segment.refusal:
            return self._delta(b'{"refusal":%b}' % escape_line_separators(_json(text)))
        return self._delta(_FIELD[segment.kind] % escape_line_separators(_json(text)))

    def _write_completed(self, segment: ReplyMessage) -> bytes:
        """What must go back to the model is whole only now."""
        if segment.media is not None:
            return self._delta(
                escape_line_separators(_json(_write_media([segment.media]) | _merge_extras([segment.extra])))
            )
        if segment.kind != "function_call":
            return self._details(segment.extra)
        out = self._details({key: value for key, value in segment.extra.items() if key != "extra_content"})
        late = _call_extra(segment.extra) if segment.index not in self._calls_with_extra else {}
        if late:
            out += self._delta(
                escape_line_separators(_json({"tool_calls": [{"index": self._calls[segment.index], **late}]}))
            )
        return out

    def _details(self, extra: dict[str, Any]) -> bytes:
        beside = _merge_extras([extra])
        return self._delta(escape_line_separators(_json(beside))) if beside else b""

    def _finish(self, finish: Finish) -> bytes:
        warnings = self._info.warnings_with(finish)
        beside = b',"warnings":%b' % escape_line_separators(_json(warnings)) if warnings else b""
        out = self._details(self._accumulator.loose_extra) + self._delta(b"{}", _json(finish.reason), beside)
        if self._info.include_usage:
            out += b'%b],"usage":%b}\n\n' % (self._head, _json(finish.usage))
        return out + b"data: [DONE]\n\n"

    def fail(self, error: dict[str, Any]) -> bytes:
        return write_frame(error_body(error))


class CompletionEncoder:
    """`stream: false`."""

    def __init__(self, info: ReplyInfo) -> None:
        self._info = info
        self._accumulator = MessageAccumulator()

    def open(self) -> bytes:
        return b""

    def feed(self, events: list[Event]) -> bytes:
        for step in self._accumulator.feed(events):
            if isinstance(step, Finish):
                return _json(self._completion(step))
        return b""

    def fail(self, error: dict[str, Any]) -> bytes:
        return _json(error_body(error))

    def _completion(self, finish: Finish) -> dict[str, Any]:
        info = self._info
        warnings = info.warnings_with(finish)
        return {
            "id": info.response_id,
            "object": "chat.completion",
            "created": info.created,
            "model": info.model,
            "choices": [
                {"index": 0, "message": self._message(), "logprobs": None, "finish_reason": finish.reason},
            ],
            "usage": finish.usage,
            **({"warnings": warnings} if warnings else {}),
        }

    def _message(self) -> dict[str, Any]:
        segments = self._accumulator.messages
        said = [one.text for one in segments if one.kind == "content" and not one.refusal]
        refused = [one.text for one in segments if one.refusal]
        message: dict[str, Any] = {
            "role": "assistant",
            "content": "".join(said) if said else None,
            "refusal": "".join(refused) if refused else None,
        }
        reasoning = "".join(one.text for one in segments if one.kind == "reasoning_content")
        if reasoning:
            message["reasoning_content"] = reasoning
        of_calls = [one.extra for one in segments if one.kind == "function_call"]
        extras = [one.extra for one in segments if one.kind != "function_call"]
        without = [{key: value for key, value in extra.items() if key != "extra_content"} for extra in of_calls]
        message |= _merge_extras([*extras, *without, self._accumulator.loose_extra])
        message |= _write_media([one.media for one in segments if one.media is not None])
        calls = [_call(one) for one in segments if one.kind == "function_call"]
        if calls:
            message["tool_calls"] = calls
        return message


def _call(segment: ReplyMessage) -> dict[str, Any]:
    call: dict[str, Any] = {
        "id": segment.id,
        "type": "function",
        "function": {"name": segment.name, "arguments": segment.text},
    }
    return call | _call_extra(segment.extra)


_MESSAGE_EXTRAS = ("reasoning_details", "annotations", "extra_content", "citations", "search_results")
"""Of `extra`: what stands in OpenAI's message itself."""


def _merge_extras(extras: list[dict[str, Any]]) -> dict[str, Any]:
    """Lists of several messages stand one behind the other, of anything else the last one counts."""
    out: dict[str, Any] = {}
    for extra in extras:
        for key in _MESSAGE_EXTRAS:
            value = extra.get(key)
            if value:
                known = out.get(key)
                out[key] = [*known, *value] if isinstance(known, list) and isinstance(value, list) else value
    return out


def _write_media(media: list[MediaOutput]) -> dict[str, Any]:
    """Sound as OpenAI has it, pictures as OpenRouter has them."""
    out: dict[str, Any] = {}
    for one in media:
        if one.media == "audio":
            out["audio"] = {**one.fields, "data": one.url.partition(";base64,")[2] or one.url}
        else:
            out.setdefault("images", []).append({"type": "image_url", "image_url": {"url": one.url}})
    return out


def _call_extra(extra: dict[str, Any]) -> dict[str, Any]:
    """What goes back to the model on the call itself."""
    return {key: value for key, value in extra.items() if key == "extra_content"}
