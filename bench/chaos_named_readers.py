"""Reads replies of the chaos run whose frames have names: those of the Messages and the Responses API."""

import json

from chaos_replies import Received, WrongReplyError
from chaos_stream_reader import Json, StreamReader

ESTIMATED = "usage_estimated"
_STOP_REASONS = {"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length", "refusal": "content_filter"}
_INCOMPLETE = {"max_output_tokens": "length", "content_filter": "content_filter"}


def is_estimated(body: Json) -> bool:
    """Whether the numbers of a usage are not the model server's."""
    return any(text.startswith(ESTIMATED) for text in (body.get("parley") or {}).get("warnings", ()))


class _NamedReader(StreamReader):
    """Each frame has the name of its event, which its data repeats."""

    heartbeat = ""
    """The name of an event that is none of the reply."""

    def _read(self, frame: bytes) -> Json | None:
        lines = frame.split(b"\n")
        if [line.partition(b": ")[0] for line in lines] != [b"event", b"data"]:
            raise WrongReplyError(f"not a frame: {frame[:200]!r}")
        data: Json = json.loads(lines[1][6:])
        if data["type"] != lines[0][7:].decode():
            raise WrongReplyError(f"event {lines[0]!r} has data of type {data['type']}")
        return None if data["type"] == self.heartbeat else data


class MessagesReader(_NamedReader):
    """`POST /v1/messages`: one block after the other, then `message_stop`; or `error`."""

    heartbeat = "ping"

    def __init__(self) -> None:
        super().__init__()
        self._blocks = 0
        self._kind = ""
        """Of the block that is open; empty between blocks."""
        self._begun = self._told = False
        self._given: Json = {}
        """The usage with which the message began."""

    def _take(self, data: Json) -> None:
        if data["type"] == "error":
            self._fail(data["error"]["code"])
            return
        if self._begun == (data["type"] == "message_start"):
            raise WrongReplyError(f"{data['type']} in place {self.frames}")
        self._begun = True
        match data["type"]:
            case "message_start":
                if data["message"]["content"] != []:
                    raise WrongReplyError("the message begins with content")
                self._given = data["message"]["usage"]
            case "content_block_start":
                self._open(data)
            case "content_block_delta":
                self._add(data)
            case "content_block_stop":
                self._check_open(data)
                self._kind, self._blocks = "", self._blocks + 1
            case "message_delta":
                self._finish(data)
            case "message_stop":
                if not self._told:
                    raise WrongReplyError("the message stops without a reason")
                self.received.ended = "completed"
            case other:
                raise WrongReplyError(f"an unknown event: {other}")

    def _open(self, data: Json) -> None:
        if self._kind or self._told or data["index"] != self._blocks:
            raise WrongReplyError(f"block {data['index']} begins in block {self._blocks} ({self._kind or 'none'})")
        self._kind = data["content_block"]["type"]
        if self._kind not in ("thinking", "text", "tool_use"):
            raise WrongReplyError(f"an unknown block: {self._kind}")

    def _check_open(self, data: Json) -> None:
        if not self._kind or data["index"] != self._blocks:
            raise WrongReplyError(f"{data['type']} of block {data['index']}, but {self._blocks} is open")

    def _add(self, data: Json) -> None:
        self._check_open(data)
        delta = data["delta"]
        match self._kind, delta["type"]:
            case "thinking", "thinking_delta":
                self.received.reasoning += delta["thinking"]
            case "thinking", "signature_delta":
                pass
            case "text", "text_delta":
                self.received.content += delta["text"]
            case "tool_use", "input_json_delta":
                self.received.arguments += delta["partial_json"]
            case kind, other:
                raise WrongReplyError(f"{other} in a block of type {kind}")

    def _finish(self, data: Json) -> None:
        if self._kind or self._told:
            raise WrongReplyError(f"the message ends within a block ({self._kind}), or twice")
        self._told = True
        self.received.finish_reason = _read_stop_reason(data["delta"]["stop_reason"])
        self.received.usage = _read_usage({**data, "usage": self._given | data["usage"]})


def _read_stop_reason(reason: str) -> str:
    return _STOP_REASONS.get(reason, reason)


def _read_usage(body: Json) -> dict[str, object] | None:
    usage = body["usage"]
    if usage is None or is_estimated(body):
        return None
    return {"prompt_tokens": usage["input_tokens"], "completion_tokens": usage["output_tokens"]}


def read_message(body: Json) -> Received:
    """A whole reply of the Messages API."""
    received = Received(ended="completed", finish_reason=_read_stop_reason(body["stop_reason"]))
    received.usage = _read_usage(body)
    for block in body["content"]:
        match block["type"]:
            case "thinking":
                received.reasoning += block["thinking"]
            case "text":
                received.content += block["text"]
            case "tool_use":
                received.arguments += json.dumps(block["input"], ensure_ascii=False, separators=(",", ":"))
            case other:
                raise WrongReplyError(f"an unknown block: {other}")
    return received


_DELTAS = {
    "response.reasoning_summary_text.delta": "reasoning",
    "response.reasoning_text.delta": "reasoning",
    "response.output_text.delta": "content",
    "response.function_call_arguments.delta": "arguments",
}
_ENDS = ("response.completed", "response.incomplete", "response.failed")


class ResponsesReader(_NamedReader):
    """`POST /v1/responses`: the last event has the whole reply, which must be that of the deltas."""

    def __init__(self) -> None:
        super().__init__()
        self._number = -1
        self._error: Json | None = None

    def _take(self, data: Json) -> None:
        number = data.get("sequence_number", self._number + 1)  # a server's own events may have none
        if number != self._number + 1 or (data["type"] == "response.created") != (self.frames == 1):
            raise WrongReplyError(f"{data['type']} with number {number} in place {self.frames}")
        self._number = number
        kind = data["type"]
        if self._error is not None and kind != "response.failed":
            raise WrongReplyError(f"{kind} after an error")
        if field := _DELTAS.get(kind):
            setattr(self.received, field, getattr(self.received, field) + data["delta"])
        elif kind == "error":
            self._error = data
        elif kind == "response.failed":
            if self._error is None:
                raise WrongReplyError("a failed response without the event `error`")
            self._fail(data["response"]["error"]["code"])
        elif kind in _ENDS:
            self._finish(data["response"])

    def _finish(self, response: Json) -> None:
        whole, mine = read_response(response), self.received
        if (whole.reasoning, whole.content) != (mine.reasoning, mine.content) or not _is_same(
            whole.arguments, mine.arguments
        ):
            raise WrongReplyError("the response was completed with other texts than its deltas")
        mine.ended, mine.finish_reason, mine.usage = "completed", whole.finish_reason, whole.usage


def _is_same(one: str, other: str) -> bool:
    return one == other or bool(one and other and json.loads(one) == json.loads(other))


def read_response(body: Json) -> Received:
    """A whole reply of the Responses API."""
    received = Received(ended="completed", usage=_read_usage(body))
    for item in body["output"]:
        match item["type"]:
            case "reasoning":
                parts = [*(item.get("summary") or ()), *(item.get("content") or ())]
                received.reasoning += "".join(part["text"] for part in parts)
            case "message":
                received.content += "".join(part["text"] for part in item["content"])
            case "function_call":
                received.arguments += item["arguments"]
            case other:
                raise WrongReplyError(f"an unknown item: {other}")
    reason = (body.get("incomplete_details") or {}).get("reason")
    received.finish_reason = "tool_calls" if received.arguments else "stop"
    if body["status"] == "incomplete":
        received.finish_reason = _INCOMPLETE.get(str(reason), str(reason))
    elif body["status"] != "completed":
        raise WrongReplyError(f"a whole response with status {body['status']}")
    return received
