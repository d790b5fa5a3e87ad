"""What a client of a format reads of a reply, streamed or whole. It shares no line with the encoders."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.in_process_gateway import Answer

Json = dict[str, Any]


@dataclass
class Read:
    text: str = ""
    reasoning: str = ""
    refusal: str = ""
    calls: list[Json] = field(default_factory=list)
    end: str = ""
    signature: str = ""
    frames: list[Json] = field(default_factory=list)


def read_reply(path: str, answer: Answer) -> Read | None:
    stream = answer.headers["content-type"].startswith("text/event-stream")
    reader = READERS.get((path, stream))
    if reader is None:
        return None
    return reader(answer)


def _load(text: str) -> Any:
    return json.loads(text) if text else {}


def _read_chat_stream(answer: Answer) -> Read:
    read = Read(frames=[frame for frame in _frames(answer) if frame.get("choices")])
    calls: dict[int, Json] = {}
    for frame in read.frames:
        choice = frame["choices"][0]
        _add_delta(read, calls, choice["delta"])
        read.end = choice["finish_reason"] or read.end
    read.calls = [{"name": call["name"], "arguments": _load(call["arguments"])} for call in calls.values()]
    return read


def _frames(answer: Answer) -> list[Json]:
    lines = [line[6:] for line in answer.body.decode().split("\n") if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def _add_delta(read: Read, calls: dict[int, Json], delta: Json) -> None:
    read.text += delta.get("content") or ""
    read.reasoning += delta.get("reasoning_content") or ""
    read.refusal += delta.get("refusal") or ""
    for part in delta.get("tool_calls") or []:
        call = calls.setdefault(part["index"], {"name": "", "arguments": ""})
        call["name"] += part["function"].get("name") or ""
        call["arguments"] += part["function"].get("arguments") or ""


def _read_chat(answer: Answer) -> Read:
    choice = answer.json["choices"][0]
    message = choice["message"]
    read = Read(message.get("content") or "", message.get("reasoning_content") or "", message.get("refusal") or "")
    for call in message.get("tool_calls") or []:
        read.calls.append({"name": call["function"]["name"], "arguments": _load(call["function"]["arguments"])})
    read.end = choice["finish_reason"]
    return read


def _read_messages_stream(answer: Answer) -> Read:
    read = Read(frames=answer.frames)
    inputs: dict[int, Json] = {}
    for frame in read.frames:
        if frame["type"] == "content_block_start" and frame["content_block"]["type"] == "tool_use":
            inputs[frame["index"]] = {"name": frame["content_block"]["name"], "arguments": ""}
        elif frame["type"] == "content_block_delta":
            delta = frame["delta"]
            read.text += delta.get("text", "")
            read.reasoning += delta.get("thinking", "")
            read.signature += delta.get("signature", "")
            if "partial_json" in delta:
                inputs[frame["index"]]["arguments"] += delta["partial_json"]
        elif frame["type"] == "message_delta":
            read.end = frame["delta"]["stop_reason"]
    read.calls = [{"name": call["name"], "arguments": _load(call["arguments"])} for call in inputs.values()]
    return read


def _read_messages(answer: Answer) -> Read:
    read = Read(end=answer.json["stop_reason"])
    for block in answer.json["content"]:
        read.text += block.get("text", "")
        read.reasoning += block.get("thinking", "")
        if block["type"] == "tool_use":
            read.calls.append({"name": block["name"], "arguments": block["input"]})
    return read


def _read_responses_stream(answer: Answer) -> Read:
    read = Read(frames=answer.frames)
    for frame in read.frames:
        kind = frame["type"]
        if kind == "response.output_text.delta":
            read.text += frame["delta"]
        elif kind == "response.refusal.delta":
            read.refusal += frame["delta"]
        elif kind in ("response.reasoning_text.delta", "response.reasoning_summary_text.delta"):
            read.reasoning += frame["delta"]
        elif kind == "response.output_item.done" and frame["item"]["type"] == "function_call":
            item = frame["item"]
            read.calls.append({"name": item["name"], "arguments": _load(item["arguments"])})
        elif kind in ("response.completed", "response.failed", "response.incomplete"):
            read.end = frame["response"]["status"]
    return read


def _read_responses(answer: Answer) -> Read:
    read = Read(end=answer.json["status"])
    for item in answer.json["output"]:
        if item["type"] == "function_call":
            read.calls.append({"name": item["name"], "arguments": _load(item["arguments"])})
        for part in item.get("content") or []:
            if item["type"] == "message":
                read.text += part.get("text", "")
                read.refusal += part.get("refusal", "")
            else:
                read.reasoning += part.get("text", "")
    return read


READERS: Mapping[tuple[str, bool], Callable[[Answer], Read]] = {
    ("/v1/chat/completions", True): _read_chat_stream,
    ("/v1/chat/completions", False): _read_chat,
    ("/v1/messages", True): _read_messages_stream,
    ("/v1/messages", False): _read_messages,
    ("/v1/responses", True): _read_responses_stream,
    ("/v1/responses", False): _read_responses,
}
