"""A model server that answers as fast as a real one writes:

    paced_replies.py PORT

Each reply begins after FIRST_SECONDS and has CHUNKS parts, one each CHUNK_SECONDS, in chat completions, Responses or
Messages; one that is not a stream comes whole at that time. Counts of tokens come at once."""

import asyncio
import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from fixed_replies import CHAT, MESSAGE, RESPONSE, asks_for_stream, read_request

FIRST_SECONDS, CHUNK_SECONDS, CHUNKS = 0.05, 0.02, 20
REPLY_SECONDS = FIRST_SECONDS + CHUNKS * CHUNK_SECONDS
WORDS = [f"word{number} " for number in range(CHUNKS)]
HEAD = "HTTP/1.1 200 OK\r\ncontent-type: {}\r\n{}\r\n\r\n"
COUNTED = {"input_tokens": 5, "object": "response.input_tokens"}


def _data(value: dict[str, Any], *, named: bool = True) -> bytes:
    name = f"event: {value['type']}\n" if named else ""
    return f"{name}data: {json.dumps(value, separators=(',', ':'))}\n\n".encode()


def _chat() -> Iterator[bytes]:
    fields = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "mock"}
    for word in WORDS:
        delta = {"role": "assistant", "content": word}
        yield _data({**fields, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}, named=False)
    last = {**fields, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": CHAT["usage"]}
    yield _data(last, named=False) + b"data: [DONE]\n\n"


def _messages() -> Iterator[bytes]:
    begun = _data({"type": "message_start", "message": MESSAGE | {"content": [], "stop_reason": None}})
    begun += _data({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}})
    for word in WORDS:
        delta = {"type": "text_delta", "text": word}
        yield begun + _data({"type": "content_block_delta", "index": 0, "delta": delta})
        begun = b""
    stopped = {"delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": {"output_tokens": CHUNKS}}
    ended = _data({"type": "content_block_stop", "index": 0}) + _data({"type": "message_delta", **stopped})
    yield ended + _data({"type": "message_stop"})


def _responses() -> Iterator[bytes]:
    part = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    message: dict[str, Any] = {"id": "msg_1", "type": "message", "role": "assistant", "content": []}
    running = RESPONSE | {"status": "in_progress", "output": []}
    done = message | {
        "status": "completed",
        "content": [{"type": "output_text", "text": "".join(WORDS), "annotations": []}],
    }
    events: list[list[dict[str, Any]]] = [
        [{"type": "response.output_text.delta", **part, "delta": word}] for word in WORDS
    ]
    empty = {"type": "output_text", "text": "", "annotations": []}
    events[0][:0] = [
        {"type": "response.created", "response": running},
        {"type": "response.output_item.added", "output_index": 0, "item": message | {"status": "in_progress"}},
        {"type": "response.content_part.added", **part, "part": empty},
    ]
    events.append(
        [
            {"type": "response.output_text.done", **part, "text": "".join(WORDS)},
            {"type": "response.content_part.done", **part, "part": done["content"][0]},
            {"type": "response.output_item.done", "output_index": 0, "item": done},
            {"type": "response.completed", "response": RESPONSE | {"output": [done]}},
        ]
    )
    number = 0
    for each in events:
        written = b""
        for event in each:
            written += _data(event | {"sequence_number": number})
            number += 1
        yield written


STREAMS: dict[str, tuple[tuple[bytes, ...], dict[str, Any]]] = {
    "/chat/completions": (tuple(_chat()), CHAT),
    "/messages": (tuple(_messages()), MESSAGE),
    "/responses": (tuple(_responses()), RESPONSE),
}
"""The parts of a stream, and a whole reply, by the end of the path."""


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                path, body = await read_request(reader, writer)
                await _answer(writer, path.partition("?")[0], body)
                await writer.drain()
    finally:
        writer.transport.abort()


async def _answer(writer: asyncio.StreamWriter, path: str, body: bytes) -> None:
    found = next((reply for end, reply in STREAMS.items() if path.endswith(end)), None)
    if found is None:
        return _write_whole(writer, COUNTED if "tokens" in path else {"object": "list", "data": [{"id": "mock"}]})
    parts, whole = found
    if not asks_for_stream(body):
        await asyncio.sleep(REPLY_SECONDS)
        return _write_whole(writer, whole)
    due = asyncio.get_running_loop().time() + FIRST_SECONDS
    written = HEAD.format("text/event-stream", "transfer-encoding: chunked").encode()
    for part in parts:
        await asyncio.sleep(due - asyncio.get_running_loop().time())
        writer.write(written + b"%x\r\n%b\r\n" % (len(part), part))
        written, due = b"", due + CHUNK_SECONDS
    return writer.write(b"0\r\n\r\n")


def _write_whole(writer: asyncio.StreamWriter, answer: dict[str, Any]) -> None:
    text = json.dumps(answer)
    writer.write((HEAD.format("application/json", f"content-length: {len(text)}") + text).encode())


async def main() -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1]), limit=2**26)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
