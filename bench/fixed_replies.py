"""A model server that answers every request with the same short reply:

    fixed_replies.py PORT

It speaks chat completions (whole and streamed), Responses and Messages, for gateways that forward one of the latter."""

import asyncio
import json
import sys
from contextlib import suppress
from typing import Any

TEXT = "ok then"
CHAT = {
    "id": "c1",
    "object": "chat.completion",
    "created": 1,
    "model": "mock",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": TEXT}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7},
}
RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "status": "completed",
    "model": "mock",
    "output": [
        {
            "type": "message",
            "id": "msg_1",
            "status": "completed",
            "role": "assistant",
            "content": [{"type": "output_text", "text": TEXT, "annotations": []}],
        }
    ],
    "usage": {
        "input_tokens": 5,
        "output_tokens": 2,
        "total_tokens": 7,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    },
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
}
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "mock",
    "content": [{"type": "text", "text": TEXT}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 5, "output_tokens": 2},
}
MODELS = {"object": "list", "data": [{"id": "mock", "object": "model"}]}


def _chunk(delta: dict[str, str], finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    usage = {"usage": CHAT["usage"]} if finish_reason else {}
    fields = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "mock"}
    return b"data: " + json.dumps({**fields, "choices": [choice], **usage}).encode() + b"\n\n"


CHUNKS = _chunk({"role": "assistant", "content": "ok"}) + _chunk({"content": " then"}) + _chunk({}, "stop")
REPLIES: dict[str, Any] = {
    "/chat/completions": CHAT,
    "/responses": RESPONSE,
    "/messages": MESSAGE,
    "/models": MODELS,
    "/verdict": {"verdict": "pass"},
}
STREAMED = (b'"stream":true', b'"stream": true')


def asks_for_stream(body: bytes) -> bool:
    """Look for the field anywhere: inside a text its quotation marks would be escaped."""
    return any(mark in body for mark in STREAMED)


def answer(path: str, body: bytes) -> tuple[str, bytes]:
    """Return the media type and the body of the reply."""
    if path.endswith("/chat/completions") and asks_for_stream(body):
        return "text/event-stream", CHUNKS + b"data: [DONE]\n\n"
    found = next((reply for end, reply in REPLIES.items() if path.endswith(end)), {"status": "ok"})
    return "application/json", json.dumps(found).encode()


async def _read_body(reader: asyncio.StreamReader, head: dict[str, str]) -> bytes:
    if "content-length" in head:
        return await reader.readexactly(int(head["content-length"]))
    body = b""
    while head.get("transfer-encoding") == "chunked":
        size = int(await reader.readline(), 16)
        body += await reader.readexactly(size)
        await reader.readline()
        if not size:
            break
    return body


async def read_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[str, bytes]:
    """Return the path and the body of the next request."""
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower().split("\r\n")
    head = {name: value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
    if head.get("expect") == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    return lines[0].split(" ")[1], await _read_body(reader, head)


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            media_type, reply = answer(*await read_request(reader, writer))
            fields = f"content-type: {media_type}\r\ncontent-length: {len(reply)}\r\n\r\n"
            writer.write(f"HTTP/1.1 200 OK\r\n{fields}".encode() + reply)
            await writer.drain()
    writer.close()


async def main() -> None:
    server = await asyncio.start_server(_serve, "127.0.0.1", int(sys.argv[1]), limit=2**26)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
