"""Streams of model servers, as bytes of their APIs."""

import json
from typing import Any

from tests.guards.golden_runner import write_blocks

Json = dict[str, Any]


def write_response(parts: list[str]) -> list[bytes]:
    item: Json = {"id": "msg_1", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
    part: Json = {"type": "output_text", "text": "", "annotations": []}
    whole = {**item, "status": "completed", "content": [{**part, "text": "".join(parts)}]}
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    events: list[Json] = [
        {"type": "response.created", "response": {"id": "resp_1", "object": "response", "status": "in_progress"}},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.content_part.added", **place, "part": part},
        *[{"type": "response.output_text.delta", **place, "delta": text} for text in parts],
        {"type": "response.output_item.done", "output_index": 0, "item": whole},
        {
            "type": "response.completed",
            "response": {"id": "resp_1", "object": "response", "status": "completed", "output": [whole]},
        },
    ]
    return [f"event: {event['type']}\n".encode() + b"data: %b\n\n" % json.dumps(event).encode() for event in events]


def write_gemini(thoughts: list[str], texts: list[str]) -> list[bytes]:
    parts: list[Json] = [{"text": text, "thought": True} for text in thoughts] + [{"text": text} for text in texts]
    contents: list[Json] = [{"content": {"role": "model", "parts": [part]}, "index": 0} for part in parts]
    chunks: list[Json] = [{"candidates": [content]} for content in contents]
    chunks.append({"candidates": [{"content": {"role": "model", "parts": []}, "finishReason": "STOP", "index": 0}]})
    return [b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in chunks]


def write_chat(deltas: list[Json], reason: str) -> list[bytes]:
    choices: list[Json] = [*({"delta": delta} for delta in deltas), {"delta": {}, "finish_reason": reason}]
    frames = [json.dumps({"choices": [{"index": 0, **choice}]}) for choice in choices]
    return [f"data: {frame}\n\n".encode() for frame in (*frames, "[DONE]")]


def write_calls(path: str, text: str, name: str, arguments: Json) -> list[bytes]:
    """Write a stream of the API of a path: a text, and the call of a tool."""
    written = json.dumps(arguments)
    if path.endswith("/messages"):
        blocks = [{"type": "text", "text": text}, {"type": "tool_use", "id": "t1", "name": name, "input": arguments}]
        return write_blocks({"blocks": blocks, "stop_reason": "tool_use"})
    if path.endswith("/responses"):
        item: Json = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": name, "arguments": written}
        *begun, end = write_response([text])
        events: list[Json] = [
            {"type": "response.output_item.added", "output_index": 1, "item": {**item, "arguments": ""}},
            {"type": "response.function_call_arguments.delta", "item_id": "fc_1", "output_index": 1, "delta": written},
            {"type": "response.output_item.done", "output_index": 1, "item": {**item, "status": "completed"}},
        ]
        return [*begun, *(b"data: %b\n\n" % json.dumps(event).encode() for event in events), end]
    if ":" in path:
        *begun, end = write_gemini([], [text])
        part = {"functionCall": {"name": name, "args": arguments}}
        chunk = {"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]}
        return [*begun, b"data: %b\n\n" % json.dumps(chunk).encode(), end]
    call = {"index": 0, "id": "c1", "function": {"name": name, "arguments": written}}
    return write_chat([{"content": text}, {"tool_calls": [call]}], "tool_calls")
