"""A model server of the chaos run, in a process of its own: it computes each reply from its prompt and fails at random.

Every ten seconds it draws how often it fails, and for each request whether and how, all by its seed.
"""

import argparse
import asyncio
import contextlib
import json
import random
import socket
import struct
import time
from typing import Any

import uvloop
from chaos_apis import Api, find_api
from chaos_loops import answer_conversation
from chaos_replies import SAME, answer, read_prompt

PERIOD_SECONDS = 10.0
FAILING = (0.02, 0.05, 0.15, 0.5)
"""How many of the requests of a period fail."""
HEAD_FAULTS = ("429", "500", "503", "503 without Retry-After", "reset", "close", "garbage", "slow", "black hole")
BODY_FAULTS = ("reset", "close", "stall", "garbage", "error", "half a chunk", "pause")
REASONS = {429: "Too Many Requests", 500: "Internal Server Error", 503: "Service Unavailable"}
NO_LINGER = struct.pack("ii", 1, 0)
"""Closing sends a reset."""
STALL_SECONDS = 30.0


class BrokenOffError(Exception):
    """The connection was ended on purpose."""


class ModelServer:
    def __init__(self, name: str, seed: str) -> None:
        self._name, self._seed = name, seed
        self._count = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, BrokenOffError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    (int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0
                )
                body = await reader.readexactly(length)
                if head.startswith(b"POST"):
                    path = head.split(b" ", 2)[1].decode()
                    api = find_api(path)
                    await self._reply(api, api.read_request(path, json.loads(body)), reader, writer)
                else:
                    writer.write(_head(200, {"content-length": "2"}) + b"{}")
        writer.close()

    async def _reply(
        self, api: Api, request: dict[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._count += 1
        pick = random.Random(f"{self._seed} {self._name} {self._count}")
        period = int(time.time() / PERIOD_SECONDS)
        failing = random.Random(f"{self._seed} {self._name} {period}").choice(FAILING)
        fault = ""
        if pick.random() < failing:
            fault = pick.choice([f"head {name}" for name in HEAD_FAULTS] + [f"body {name}" for name in BODY_FAULTS])
        messages = api.read_messages(request)
        prompt = messages[0]["content"]
        question = read_prompt(prompt)
        mark = f"{pick.getrandbits(32):08x}" if question.kind == "varying" else SAME
        loops = question.kind == "loop"
        reply = answer_conversation(messages) if loops else answer(prompt, mark)
        if fault.startswith("head "):
            await _fail_head(fault.removeprefix("head "), pick, reader, writer)
        pieces = _split(list(api.write_events(reply, request["model"], pick)), pick)
        if not request.get("stream"):
            await asyncio.sleep(len(pieces) * question.pace_ms / 1000)
            body = json.dumps(api.write_whole(reply, request["model"])).encode()
            writer.write(_head(200, {"content-type": "application/json", "content-length": str(len(body))}))
            if fault.startswith("body "):
                half = pick.randrange(len(body))
                writer.write(body[:half])
                await _fail_body("pause" if fault == "body pause" else "close", b"", api, pick, reader, writer)
                body = body[half:]
            writer.write(body)
            await writer.drain()
            return
        writer.write(_head(200, {"content-type": "text/event-stream", "transfer-encoding": "chunked"}))
        broken_at = pick.randrange(len(pieces)) if fault else -1
        for place, piece in enumerate(pieces):
            if place == broken_at:
                await _fail_body(fault.removeprefix("body "), piece, api, pick, reader, writer)
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            if question.pace_ms:
                await asyncio.sleep(question.pace_ms / 1000)
            await writer.drain()
        writer.write(b"0\r\n\r\n")


def _head(status: int, headers: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'OK')}", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode()


async def _fail_head(
    fault: str, pick: random.Random, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Fail before the head of the response; a slow one is sent after all."""
    if fault == "slow":
        await asyncio.sleep(pick.uniform(0.3, 3))
        return
    if fault == "black hole":
        await _stall(reader)
    if fault == "garbage":
        writer.write(b"\x00\xffgarbage\r\n\r\n")
    elif fault == "reset":
        _reset(writer)
    elif fault != "close":
        status = int(fault[:3])
        body = json.dumps({"error": {"message": f"{fault} on purpose", "type": "server_error", "code": None}}).encode()
        headers = {"content-type": "application/json", "content-length": str(len(body))}
        if fault in ("429", "503"):
            headers["retry-after"] = str(pick.choice((1, 1, 2)))
        writer.write(_head(status, headers) + body)
        await writer.drain()
    raise BrokenOffError


async def _fail_body(
    fault: str, piece: bytes, api: Api, pick: random.Random, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Fail within the body; after a pause it goes on."""
    if fault == "pause":
        await asyncio.sleep(pick.uniform(0.2, 1))
        return
    if fault == "stall":
        await _stall(reader)
    elif fault == "garbage":
        writer.write(b"9\r\ndata: \xff{\n\r\n3\r\n}\n\n\r\n" if pick.random() < 0.5 else b"zz\r\nno chunk\r\n")
    elif fault == "error":
        error = api.write_error("out of memory on purpose")
        writer.write(b"%x\r\n%b\r\n" % (len(error), error))
    elif fault == "half a chunk":
        writer.write(b"%x\r\n%b" % (len(piece), piece[: pick.randrange(len(piece))]))
    await writer.drain()
    if fault == "reset":
        _reset(writer)
    raise BrokenOffError


def _split(events: list[bytes], pick: random.Random) -> list[bytes]:
    """The reads of a stream: each holds one event or several, and sometimes ends within one."""
    if pick.random() < 0.5:
        return events
    data = b"".join(events)
    size = len(data) // len(events) + pick.randrange(200)
    return [data[at : at + size] for at in range(0, len(data), size)]


async def _stall(reader: asyncio.StreamReader) -> None:
    """Send nothing until the gateway gives up."""
    with contextlib.suppress(TimeoutError, OSError):
        async with asyncio.timeout(STALL_SECONDS):
            await reader.read()
    raise BrokenOffError


def _reset(writer: asyncio.StreamWriter) -> None:
    link = writer.get_extra_info("socket")
    if link is not None:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
    writer.transport.abort()
    raise BrokenOffError


async def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--seed", required=True)
    options = parser.parse_args()
    server = ModelServer(options.name, options.seed)
    await (await asyncio.start_server(server.serve, "127.0.0.1", options.port, backlog=1024)).serve_forever()


if __name__ == "__main__":
    uvloop.run(_main())
