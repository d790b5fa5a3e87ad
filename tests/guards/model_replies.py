"""Streams of model servers, as bytes of their APIs."""

import json
from typing import Any

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
