"""Reads replies of the chaos run in the formats of AutoGen and AgentScope, which `/v1/chat` has beside its own."""

import json

from chaos_replies import Received, WrongReplyError
from chaos_stream_reader import Json, StreamReader

_ESTIMATED = "usage_estimated"


class _DataReader(StreamReader):
    """Each frame has `data` alone."""

    def _read(self, frame: bytes) -> Json | None:
        if not frame.startswith(b"data: {") or b"\n" in frame:
            raise WrongReplyError(f"not a frame: {frame[:200]!r}")
        data: Json = json.loads(frame[6:])
        return data


_FIELDS = {"reasoning": "reasoning", "content": "content"}
"""The field of each kind of chunk."""


class AutogenReader(_DataReader):
    """Chunks, each message behind its chunks, then a TaskResult with all messages; or an error."""

    def __init__(self) -> None:
        super().__init__()
        self._texts: dict[str, str] = {}
        """The text so far of each message whose chunks have come, by id."""
        self._messages: list[Json] = []
        self._ids: set[str] = set()

    def _take(self, data: Json) -> None:
        kind = data["type"]
        if kind == "error":
            self._fail(data["code"])
        elif kind == "TaskResult":
            if data["messages"] != self._messages:
                raise WrongReplyError("the result has other messages than the stream")
            self._finish(read_task_result(data))
        else:
            if data["id"] in self._ids:
                raise WrongReplyError(f"two events have the id {data['id']}")
            self._ids.add(data["id"])
            if kind == "ModelClientStreamingChunkEvent":
                self._add_chunk(data)
            else:
                self._add_message(data)

    def _add_chunk(self, data: Json) -> None:
        whole, text = data["full_message_id"], data["content"]
        self._texts[whole] = self._texts.get(whole, "") + text
        field = _FIELDS[data["metadata"]["kind"]]
        setattr(self.received, field, getattr(self.received, field) + text)

    def _add_message(self, data: Json) -> None:
        if data["type"] != "ToolCallRequestEvent" and data["content"] != self._texts.pop(data["id"], ""):
            raise WrongReplyError("a message has another text than its chunks")
        self._messages.append(data)

    def _finish(self, whole: Received) -> None:
        mine = self.received
        if (whole.reasoning, whole.content) != (mine.reasoning, mine.content) or self._texts:
            raise WrongReplyError("the result has other texts than the chunks")
        self.received = whole


def read_task_result(body: Json) -> Received:
    """A whole reply of AutoGen. Raises: WrongReplyError."""
    received = Received(ended="completed", finish_reason=body["stop_reason"])
    for item in body["messages"]:
        match item["type"]:
            case "ThoughtEvent" if item["metadata"]["kind"] == "reasoning":
                received.reasoning += item["content"]
            case "ThoughtEvent" | "TextMessage":
                received.content += item["content"]
            case "ToolCallRequestEvent":
                received.arguments += "".join(call["arguments"] for call in item["content"])
            case other:
                raise WrongReplyError(f"an unknown message: {other}")
    received.usage = body["messages"][-1]["models_usage"]
    return received


class AgentScopeReader(_DataReader):
    """AgentScope 1.x: each frame has the message so far, and the last one its finish reason."""

    def _take(self, data: Json) -> None:
        if "error" in data:
            self._fail(data["error"]["code"])
            return
        whole, mine = read_msg(data["msg"]), self.received
        if not (
            whole.reasoning.startswith(mine.reasoning)
            and whole.content.startswith(mine.content)
            and whole.arguments.startswith(mine.arguments)
        ):
            raise WrongReplyError("a message took back what an earlier one had")
        if data["last"] != bool(whole.finish_reason):
            raise WrongReplyError(f"the finish reason {whole.finish_reason!r} in a frame with last={data['last']}")
        self.received = whole
        if data["last"]:
            whole.ended = "completed"


def read_msg(msg: Json) -> Received:
    """A message of either version, up to where it has come. Raises: WrongReplyError."""
    received = Received()
    for block in msg["content"]:
        match block["type"]:
            case "thinking":
                received.reasoning += block["thinking"]
            case "text":
                received.content += block["text"]
            case "tool_use":
                received.arguments += block["raw_input"]
            case "tool_call":
                received.arguments += block["input"]
            case other:
                raise WrongReplyError(f"an unknown block: {other}")
    metadata = msg["metadata"]
    received.finish_reason = metadata.get("finish_reason", "")
    usage = metadata.get("usage") or msg.get("usage")
    if usage is not None and not any(text.startswith(_ESTIMATED) for text in metadata.get("warnings", ())):
        received.usage = {"prompt_tokens": usage["input_tokens"], "completion_tokens": usage["output_tokens"]}
    return received


_DELTAS = {"THINKING_BLOCK": "reasoning", "TEXT_BLOCK": "content", "TOOL_CALL": "arguments"}


class AgentScope2Reader(_DataReader):
    """AgentScope 2.x: events, of which those of a block are between its start and its end. Their usage may be an
    estimate, and is not read."""

    def __init__(self) -> None:
        super().__init__()
        self._open: list[tuple[str, str]] = []

    def _take(self, data: Json) -> None:
        name, place = data["type"], data.get("block_id") or data.get("tool_call_id") or ""
        if data["id"] != f"{data['reply_id']}-e{self.frames}":
            raise WrongReplyError(f"the event {data['id']} in place {self.frames}")
        if (name == "REPLY_START") != (self.frames == 1):
            raise WrongReplyError(f"{name} in place {self.frames}")
        kind, _, step = name.rpartition("_")
        if kind in _DELTAS:
            self._take_block(kind, step, place, data)
        elif name == "REPLY_END":
            self._end(data)
        elif name not in ("REPLY_START", "MODEL_CALL_START", "MODEL_CALL_END"):
            raise WrongReplyError(f"an unknown event: {name}")

    def _take_block(self, kind: str, step: str, place: str, data: Json) -> None:
        if (step == "START") == ((kind, place) in self._open):
            raise WrongReplyError(f"{kind}_{step} of {place} while {self._open} are open")
        if step == "START":
            self._open.append((kind, place))
        elif step == "END":
            self._open.remove((kind, place))
        else:
            field = _DELTAS[kind]
            setattr(self.received, field, getattr(self.received, field) + data["delta"])

    def _end(self, data: Json) -> None:
        if self._open:
            raise WrongReplyError(f"the reply ends while {self._open} are open")
        if data["error"] is not None:
            self._fail(data["error"]["type"])
            return
        reason = "tool_calls" if self.received.arguments else "stop"
        self.received.finish_reason = data["metadata"].get("finish_reason", reason)
        self.received.ended = "completed"
