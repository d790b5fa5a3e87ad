"""Reads replies of the chaos run strictly, in each form in which the gateway sends them."""

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Protocol

from chaos_agent_readers import read_msg, read_task_result
from chaos_named_readers import is_estimated, read_message, read_response
from chaos_replies import Received, ServedCall, ServedResult, WrongReplyError


class ReplyReader(Protocol):
    """Takes the frames of one stream, also those of a response that resumes it."""

    frame_end: bytes
    received: Received
    response_id: str
    frames: int
    """Frames so far, comments left out: what a client resumes after."""

    @property
    def failed_within_call(self) -> bool:
        """Whether the stream has ended with an error within a call, in a format that then closes the connection."""

    def feed(self, frame: bytes) -> None:
        """Raises: WrongReplyError."""


class ChatReader:
    """`POST /v1/chat`, frames of type `response.*` and `message.*`, or `messages` (snapshots)."""

    frame_end = b"\n\n"
    failed_within_call = False

    def __init__(self) -> None:
        self.received = Received()
        self.response_id = ""
        self.frames = 0
        self._kinds: dict[int, str] = {}
        self._completed: set[int] = set()
        self._arguments: dict[int, str] = {}
        """Those of each call so far."""
        self._results: dict[int, str] = {}

    def feed(self, frame: bytes) -> None:
        if frame.startswith(b":"):
            return
        lines = frame.split(b"\n")
        if [line.partition(b": ")[0] for line in lines] != [b"id", b"event", b"data"]:
            raise WrongReplyError(f"not a frame: {frame[:200]!r}")
        data = json.loads(lines[2][6:])
        if self.received.ended:
            raise WrongReplyError(f"{data['type']} after the end of the stream")
        self.frames += 1
        if data["type"] == "response.failed" and data["seq"] < self.frames:
            self.frames = data["seq"]  # the end of a call that was cut off is lost, and its failure follows early
        if int(lines[0][4:]) != self.frames or data["seq"] != self.frames:
            raise WrongReplyError(f"frame {data['seq']} came in place {self.frames}")
        if data["type"] != lines[1][7:].decode():
            raise WrongReplyError(f"event {lines[1]!r} has data of type {data['type']}")
        if (data["type"] == "response.started") != (self.frames == 1):
            raise WrongReplyError(f"{data['type']} in place {self.frames}")
        self._take(data)

    def _take(self, data: dict[str, Any]) -> None:
        match data["type"]:
            case "response.started":
                self.response_id = data["response_id"]
            case "message.started":
                self._kinds[data["index"]] = data["kind"]
            case "message.delta":
                self._add(data["index"], data["delta"])
            case "message.completed":
                self._complete(data["index"], data["message"])
            case "messages":
                self._replace(data["messages"])
            case "response.completed":
                if self._completed != set(self._kinds):
                    raise WrongReplyError("the reply was completed before its messages")
                self.received.ended = "completed"
                self.received.finish_reason, self.received.usage = data["finish_reason"], data["usage"]
            case "response.failed":
                self.received.ended, self.received.error = "failed", data["error"]["code"]
            case other:
                raise WrongReplyError(f"an unknown frame: {other}")

    def _add(self, index: int, delta: dict[str, Any]) -> None:
        kind = self._kinds.get(index)
        field = "content" if kind == "function_result" else kind
        if kind is None or index in self._completed or list(delta) != [field]:
            raise WrongReplyError(f"a delta {list(delta)} of message {index}, which is {kind}")
        if kind == "reasoning_content":
            self.received.reasoning += delta[kind]
        elif kind == "content":
            self.received.content += delta[kind]
        elif kind == "function_result":
            self._results[index] = self._results.get(index, "") + delta["content"]
        else:
            self.received.arguments += delta[kind]["arguments"]
            self._arguments[index] = self._arguments.get(index, "") + delta[kind]["arguments"]

    def _complete(self, index: int, message: dict[str, Any]) -> None:
        whole = Received()
        add_chat_messages(whole, [message])
        kind = self._kinds[index]
        right = {
            # Of several messages of a kind in a loop, only the last one is looked at.
            "reasoning_content": self.received.reasoning.endswith(whole.reasoning),
            "content": self.received.content.endswith(whole.content),
            "function_call": self._arguments.get(index, "") == whole.arguments,
            "function_result": [self._results.get(index, "")] == [result.text for result in whole.results],
        }[kind]
        if index in self._completed or not right:
            raise WrongReplyError(f"message {index} was completed with another text than its deltas, or twice")
        self._completed.add(index)
        self.received.calls += whole.calls
        self.received.results += whole.results

    def _replace(self, messages: list[dict[str, Any]]) -> None:
        whole = Received()
        add_chat_messages(whole, messages)
        mine = self.received
        if not (
            whole.reasoning.startswith(mine.reasoning)
            and whole.content.startswith(mine.content)
            and whole.arguments.startswith(mine.arguments)
        ):
            raise WrongReplyError("a snapshot took back what an earlier one had")
        mine.reasoning, mine.content, mine.arguments = whole.reasoning, whole.content, whole.arguments
        mine.calls, mine.results = whole.calls, whole.results


class CompletionReader:
    """`POST /v1/chat/completions`: chunks, then `[DONE]`; or an error and no `[DONE]`."""

    frame_end = b"\n\n"

    def __init__(self) -> None:
        self.received = Received()
        self.response_id = ""
        self.frames = 0
        self._finish_reason = ""
        self._served: list[dict[str, Any]] = []
        self._arguments: dict[int, str] = {}
        """Those of each call so far; nothing yet where only its name has come."""

    @property
    def failed_within_call(self) -> bool:
        return self.received.ended == "failed" and not all(map(_is_json, self._arguments.values()))

    def feed(self, frame: bytes) -> None:
        if frame.startswith(b":"):
            return
        if not frame.startswith(b"data: ") or b"\n" in frame:
            raise WrongReplyError(f"not a frame: {frame[:200]!r}")
        if self.received.ended:
            raise WrongReplyError(f"{frame[:60]!r} after the end of the stream")
        self.frames += 1
        text = frame[6:]
        if text == b"[DONE]":
            self.received.ended, self.received.finish_reason = "completed", self._finish_reason
            return
        chunk = json.loads(text)
        if "error" in chunk:
            self.received.ended, self.received.error = "failed", chunk["error"]["code"]
            return
        if self.response_id not in ("", chunk["id"]):
            raise WrongReplyError(f"a chunk of {chunk['id']} in the stream {self.response_id}")
        self.response_id = chunk["id"]
        if chunk.get("usage"):
            self.received.usage = chunk["usage"]
        if served := chunk.get("server_message"):
            self._served.append(served)
            add_served_messages(self.received, [served])
        for choice in chunk["choices"]:
            self._take(choice)

    def _take(self, choice: dict[str, Any]) -> None:
        delta = choice["delta"]
        if self._finish_reason:
            raise WrongReplyError("a choice after the finish reason")
        self.received.reasoning += delta.get("reasoning_content") or ""
        self.received.content += delta.get("content") or ""
        for call in delta.get("tool_calls") or ():
            arguments = call["function"].get("arguments") or ""
            self.received.arguments += arguments
            self._arguments[call["index"]] = self._arguments.get(call["index"], "") + arguments
        if delta.get("server_messages", self._served) != self._served:
            raise WrongReplyError("the list of server_messages is not what came one by one")
        self._finish_reason = choice.get("finish_reason") or ""


_OF_SERVER = "x"
"""The id that the model servers give all their replies."""
_SEPARATORS = ("\u2028".encode(), "\u2029".encode(), "\u0085".encode())
"""At which some of Google's SDKs end a line."""
_GEMINI_REASONS = {"STOP": "stop", "MAX_TOKENS": "length", "SAFETY": "content_filter"}


class GeminiReader:
    """`POST /v1beta/models/{model}:streamGenerateContent`: chunks up to one with a finish reason, or to an error."""

    frame_end = b"\r\n\r\n"
    failed_within_call = False

    def __init__(self) -> None:
        self.received = Received()
        self.response_id = ""
        self.frames = 0
        self._id = ""

    def feed(self, frame: bytes) -> None:
        text = frame.lstrip(b"\r\n")  # blank lines are heartbeats
        if not text:
            return
        if not text.startswith(b"data: ") or b"\n" in text or b"\r" in text:
            raise WrongReplyError(f"not a frame: {frame[:200]!r}")
        if any(separator in text for separator in _SEPARATORS):
            raise WrongReplyError(f"a frame has a raw line separator: {frame[:200]!r}")
        self.feed_chunk(json.loads(text[6:]))

    def feed_chunk(self, chunk: dict[str, Any]) -> None:
        if self.received.ended:
            raise WrongReplyError(f"{str(chunk)[:60]!r} after the end of the stream")
        self.frames += 1
        if "error" in chunk:
            self.received.ended, self.received.error = "failed", read_error_code(chunk["error"])
            return
        id_ = chunk["responseId"]
        if self._id not in ("", id_):
            raise WrongReplyError(f"a chunk of {id_} in the stream {self._id}")
        self._id = id_
        self.response_id = "" if id_ == _OF_SERVER else id_
        usage = chunk.get("usageMetadata")
        if usage is not None:
            self.received.usage = None if is_estimated(chunk) else _read_gemini_usage(usage)
        (candidate,) = chunk["candidates"]
        for part in candidate["content"].get("parts", ()):
            self._take(part)
        if reason := candidate.get("finishReason"):
            called = bool(self.received.arguments)
            reason = "tool_calls" if called and reason == "STOP" else _GEMINI_REASONS.get(reason, reason)
            self.received.ended, self.received.finish_reason = "completed", reason

    def _take(self, part: dict[str, Any]) -> None:
        if call := part.get("functionCall"):
            self.received.arguments += json.dumps(call["args"], ensure_ascii=False, separators=(",", ":"))
        elif part.get("thought"):
            self.received.reasoning += part["text"]
        else:
            self.received.content += part["text"]


def _read_gemini_usage(usage: dict[str, Any]) -> dict[str, object]:
    answer = usage["candidatesTokenCount"] + usage.get("thoughtsTokenCount", 0)
    if usage["totalTokenCount"] != usage["promptTokenCount"] + answer:
        raise WrongReplyError(f"the total of the usage is not its sum: {usage}")
    return {"prompt_tokens": usage["promptTokenCount"], "completion_tokens": answer}


def read_error_code(error: dict[str, Any]) -> str:
    """Return the gateway's code of an error. Google's form has the status in its place."""
    if isinstance(error["code"], str):
        return error["code"]
    (reason,) = [one["reason"] for one in error["details"] if "reason" in one]
    return str(reason).lower()


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def read_whole(body: Any) -> Received:
    """A reply that is one JSON body, of each endpoint: of Google's API also an array of chunks. Raises:
    WrongReplyError."""
    if isinstance(body, list) or "candidates" in body:
        return _read_gemini_chunks(body if isinstance(body, list) else [body])
    if body.get("type") == "message":
        return read_message(body)
    if body.get("object") == "response":
        return read_response(body)
    if "msg" in body:
        return replace(read_msg(body["msg"]), ended="completed")
    if "stop_reason" in body:
        return read_task_result(body)
    received = Received(ended="completed", usage=body["usage"])
    if "choices" in body:
        (choice,) = body["choices"]
        message = choice["message"]
        received.finish_reason = choice["finish_reason"]
        received.reasoning = message.get("reasoning_content") or ""
        received.content = message.get("content") or ""
        received.arguments = "".join(call["function"]["arguments"] for call in message.get("tool_calls", ()))
        add_served_messages(received, message.get("server_messages", ()))
    else:
        received.finish_reason = body["finish_reason"]
        add_chat_messages(received, body["messages"])
    return received


def _read_gemini_chunks(chunks: list[dict[str, Any]]) -> Received:
    reader = GeminiReader()
    for chunk in chunks:
        reader.feed_chunk(chunk)
    if not reader.received.ended:
        raise WrongReplyError("the reply ends without a finish reason or an error")
    return reader.received


def add_chat_messages(received: Received, messages: list[dict[str, Any]]) -> None:
    for message in messages:
        id_ = message.get("extra", {}).get("function_id", "")
        if message["role"] == "function":
            failed = message["extra"].get("is_error", False)
            received.results.append(ServedResult(id_, message["content"], failed))
            continue
        if message["role"] != "assistant":
            raise WrongReplyError(f"a message of role {message['role']}")
        received.reasoning += message.get("reasoning_content") or ""
        received.content += message.get("content") or ""
        if call := message.get("function_call"):
            received.arguments += call["arguments"]
            received.calls.append(ServedCall(id_, call["name"], call["arguments"]))


def add_served_messages(received: Received, messages: Iterable[dict[str, Any]]) -> None:
    """Add the calls and results of `server_messages`."""
    for message in messages:
        for call in message.get("tool_calls", ()):
            function = call["function"]
            received.calls.append(ServedCall(call["id"], function["name"], function["arguments"]))
        if message["role"] == "tool":
            failed = message.get("is_error", False)
            received.results.append(ServedResult(message["tool_call_id"], message["content"], failed))
