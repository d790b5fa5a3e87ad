"""The program that `bench/quick` runs under callgrind: the gateway in one process, from socket to socket.

    counted.py LIBRARY GROUP

Everything is the gateway's own but the two ends: bytes are given to the protocol of a caller's connection as if a
socket had brought them, and the connection to the model server is one to `ModelServer` below. LIBRARY is callgrind.c,
compiled. For each case of GROUP it writes dumps of its name, and prints how many requests each of them is of.

So that counts repeat, time stands still, random numbers are the same each time, and no timer runs by itself, only
after the last request of a case, when a second passes at once. What a thread does once a second is not counted.
The garbage collector is off while counting. A dump ends the count before it; what callgrind calls to reset the counts
is wrong where there are threads.
"""

import asyncio
import ctypes
import gc
import heapq
import json
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextvars import Context
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVarTuple

import uvloop
from agent_bodies import WRITERS, Conversation, find_path, make_conversation
from app.config.load import load
from app.main import create_app
from app.server.connection import ClientConnection
from app.server.connection_limits import ConnectionWarnings
from app.server.process import config
from instructions import CHUNK_PAIRS, PAIRS
from uvicorn.lifespan.on import LifespanOn
from uvicorn.server import ServerState

Ts = TypeVarTuple("Ts")

QUESTION = "What is the weather in Paris? Think first, then call the tool."
QUIET_SECONDS = 0.02
"""How long threads get to end what a request has left to them. It is real time, and costs no instructions."""
WARM_UP = 12
"""CPython adapts code to what it has seen."""
SWITCH_SECONDS = 60.0
"""A thread that waits for the interpreter gets it when another one waits for something, never because of the time."""
NO_STORE = b"Cache-Control: no-store\r\n"


class CountedLoop(uvloop.Loop):
    """An event loop whose time passes only when told, and whose connections end in this process."""

    def __init__(self, connect: Callable[[asyncio.Protocol, int | None], asyncio.Transport]) -> None:
        """`connect` makes the other end of a connection to a port."""
        super().__init__()
        self._connect = connect
        self._now = 1000.0
        self._timers: list[asyncio.TimerHandle] = []

    def time(self) -> float:
        return self._now

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        self._timers.append(timer)
        return timer

    def _timer_handle_cancelled(self, timer: asyncio.TimerHandle) -> None:
        """A cancelled timer is dropped when time passes."""

    async def pass_time(self, seconds: float) -> None:
        """Run what is due within `seconds`, in order."""
        until = self._now + seconds
        timers = self._timers
        while True:
            timers[:] = [timer for timer in timers if not timer.cancelled()]
            heapq.heapify(timers)
            if not timers or timers[0].when() > until:
                break
            timer = heapq.heappop(timers)
            self._now = max(self._now, timer.when())
            timer._run()
            await asyncio.sleep(0)
        self._now = until

    async def wait_for_threads(self) -> None:
        done = self.create_future()
        super().call_later(QUIET_SECONDS, done.set_result, None)
        await done

    async def create_connection(  # type: ignore[override]  # of its many parameters the gateway uses two
        self, protocol_factory: Callable[[], Any], host: str | None = None, port: int | None = None, **_: Any
    ) -> tuple[asyncio.Transport, Any]:
        protocol = protocol_factory()
        transport = self._connect(protocol, port)
        protocol.connection_made(transport)
        return transport, protocol


class End(asyncio.Transport):
    """One end of a connection, as its protocol sees it. What it writes is a message of HTTP after another."""

    def __init__(self, protocol: Any) -> None:
        super().__init__({"sockname": ("127.0.0.1", 8000), "peername": ("127.0.0.1", 50000)})
        self.protocol = protocol
        self._data = b""
        self._missing: int | None = None
        """Of the message's body; None: unknown, its head has not ended. -1: it is chunked."""
        self._closed = False

    def on_message(self) -> None:
        raise NotImplementedError

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._missing is None:
            self._data += data
            head, separator, data = self._data.partition(b"\r\n\r\n")
            if not separator:
                return
            _, found, rest = head.lower().partition(b"content-length: ")
            self._missing = int(rest.partition(b"\r\n")[0]) if found else -1
        if self._missing < 0:
            ended = bytes(data[-5:]) == b"0\r\n\r\n"
        else:
            self._missing -= len(data)
            ended = self._missing <= 0
        if ended:
            self._data, self._missing = b"", None
            self.on_message()

    def is_closing(self) -> bool:
        return self._closed

    def close(self) -> None:
        self._closed = True

    abort = close

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def can_write_eof(self) -> bool:
        return True

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


class Caller(End):
    """A caller's end: `ask` returns when the whole reply was written."""

    def __init__(self, loop: asyncio.AbstractEventLoop, protocol: Any) -> None:
        super().__init__(protocol)
        self._loop = loop
        self._answered: asyncio.Future[None] = loop.create_future()
        self.received: list[bytes] | None = None
        """What was written, where a test wants to see it."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.received is not None:
            self.received.append(bytes(data))
        super().write(data)

    def on_message(self) -> None:
        self._answered.set_result(None)

    async def ask(self, request: bytes) -> None:
        self._answered = self._loop.create_future()
        self.protocol.data_received(request)
        await self._answered


class ModelServer(End):
    """The model server's end: answers every request with `reads`, each of which is one read of the gateway."""

    reads: tuple[bytes, ...] = ()

    def __init__(self, loop: asyncio.AbstractEventLoop, protocol: Any) -> None:
        super().__init__(protocol)
        self._call_soon = loop.call_soon

    def on_message(self) -> None:
        self._call_soon(self._send, iter(self.reads))

    def _send(self, reads: Iterator[bytes]) -> None:
        data = next(reads, None)
        if data is not None:
            self.protocol.data_received(data)
            self._call_soon(self._send, reads)


class GuardServer(ModelServer):
    """The end of a guard: lets everything pass."""

    reads = (b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 18\r\n\r\n{"verdict":"pass"}',)


# -- what is said ---------------------------------------------------------------------------------------------------

HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\n"
    b"x-request-id: req_mock\r\ntransfer-encoding: chunked\r\n\r\n"
)
WORDS = (" the", " model", " answers", " with", " a", " short", "\n\n", " café", ' "quoted"', " and", " then", " some")


def chunks(count: int) -> tuple[bytes, ...]:
    """A reply of `count` chunks, each as one chunk of HTTP: a third reasoning, a third content, a third arguments."""
    deltas = [_delta(number, count) for number in range(count)]
    deltas[0] = {"role": "assistant"} | deltas[0]
    frames = [_frame(_chunk([{"index": 0, "delta": delta, "finish_reason": None}])) for delta in deltas]
    usage = {"prompt_tokens": 12, "completion_tokens": count, "total_tokens": count + 12}
    finish = _chunk([{"index": 0, "delta": {}, "finish_reason": "tool_calls"}])
    last = _frame(finish) + _frame(_chunk([]) | {"usage": usage}) + b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"
    return (HEAD + frames[0], *frames[1:], last)


def _delta(number: int, count: int) -> dict[str, Any]:
    word = WORDS[number % len(WORDS)]
    if number < count // 3:
        return {"reasoning_content": word}
    first_call = 2 * count // 3
    if number < first_call:
        return {"content": word}
    text = json.dumps(word)[1:-1]
    if number == first_call:
        text = '{"text": "' + text
    if number == count - 1:
        text += '"}'
    called: dict[str, Any] = {"index": 0, "function": {"arguments": text}}
    if number == first_call:
        called |= {"id": "call_0123456789", "type": "function"}
        called["function"] = {"name": "get_weather", "arguments": text}
    return {"tool_calls": [called]}


def _chunk(choices: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": "chatcmpl-AbCdEfGhIjKlMnOpQrStUv0123456",
        "object": "chat.completion.chunk",
        "created": 1760000000,
        "model": "mock-model",
        "system_fingerprint": "fp_0123456789",
        "choices": [choice | {"logprobs": None} for choice in choices],
    }


def _frame(event: dict[str, Any]) -> bytes:
    return _http_chunk(b"data: " + _json(event) + b"\n\n")


def _named_frame(event: dict[str, Any]) -> bytes:
    return _http_chunk(b"event: %b\ndata: %b\n\n" % (event["type"].encode(), _json(event)))


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _http_chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _thirds(count: int) -> Iterator[tuple[int, str]]:
    """The texts of a reply of `count` deltas and what each is part of: 0 reasoning, 1 content, 2 arguments."""
    for number in range(count):
        word = WORDS[number % len(WORDS)]
        part = 0 if number < count // 3 else 1 if number < 2 * count // 3 else 2
        if part == 2:
            word = json.dumps(word)[1:-1]
            word = ('{"text": "' if number == 2 * count // 3 else "") + word + ('"}' if number == count - 1 else "")
        yield part, word


def responses_events(count: int) -> tuple[bytes, ...]:
    """The same reply as that of `chunks`, of a Responses server."""
    head = {"id": "resp_0123456789", "object": "response", "created_at": 1760000000, "model": "mock-model"}
    made: list[dict[str, Any]] = [{"type": "response.created", "response": head | {"status": "in_progress"}}]
    kinds = ("reasoning_summary_text", "output_text", "function_call_arguments")
    fields: tuple[dict[str, Any], ...] = ({"summary_index": 0}, {"content_index": 0, "logprobs": []}, {})
    texts = ["", "", ""]
    called = {"call_id": "call_0123456789", "name": "get_weather"}

    def item(part: int, text: str) -> dict[str, Any]:
        id_ = f"item_0123456789abcdef0123456789abcdef_{part}"
        if part == 0:
            summary = [{"type": "summary_text", "text": text}] if text else []
            return {"id": id_, "type": "reasoning", "summary": summary, "encrypted_content": "gAAA" * 50}
        if part == 1:
            content = [{"type": "output_text", "text": text, "annotations": []}] if text else []
            return {"id": id_, "type": "message", "role": "assistant", "content": content}
        return {"id": id_, "type": "function_call", **called, "arguments": text}

    def end(part: int) -> dict[str, Any]:
        return {"type": "response.output_item.done", "output_index": part, "item": item(part, texts[part])}

    last = -1
    for part, text in _thirds(count):
        if part != last:
            made += [end(last)] if last >= 0 else []
            made.append({"type": "response.output_item.added", "output_index": part, "item": item(part, "")})
            last = part
        texts[part] += text
        place = {"item_id": item(part, "")["id"], "output_index": part, **fields[part]}
        made.append({"type": f"response.{kinds[part]}.delta", **place, "delta": text})
    made.append(end(last))
    usage = {"input_tokens": 12, "output_tokens": count, "total_tokens": count + 12}
    output = [item(part, texts[part]) for part in range(3)]
    made.append(
        {"type": "response.completed", "response": head | {"status": "completed", "output": output, "usage": usage}}
    )
    frames = [_named_frame({**event, "sequence_number": number}) for number, event in enumerate(made)]
    return (HEAD + frames[0], *frames[1:-1], frames[-1] + b"0\r\n\r\n")


def messages_events(count: int) -> tuple[bytes, ...]:
    """The same reply as that of `chunks`, of a Messages server."""
    message = {"id": "msg_0123456789", "type": "message", "role": "assistant", "model": "mock-model", "content": []}
    usage = {"input_tokens": 12, "output_tokens": 1}
    made: list[dict[str, Any]] = [{"type": "message_start", "message": message | {"usage": usage}}]
    blocks: tuple[dict[str, Any], ...] = (
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "text", "text": ""},
        {"type": "tool_use", "id": "toolu_0123456789", "name": "get_weather", "input": {}},
    )
    kinds = (("thinking_delta", "thinking"), ("text_delta", "text"), ("input_json_delta", "partial_json"))

    def add_delta(part: int, kind: str, field: str, text: str) -> None:
        made.append({"type": "content_block_delta", "index": part, "delta": {"type": kind, field: text}})

    last = -1
    for part, text in _thirds(count):
        if part != last:
            if last == 0:
                add_delta(0, "signature_delta", "signature", "c2ln" * 50)
            made += [{"type": "content_block_stop", "index": last}] if last >= 0 else []
            made.append({"type": "content_block_start", "index": part, "content_block": blocks[part]})
            last = part
        add_delta(part, *kinds[part], text)
    made.append({"type": "content_block_stop", "index": last})
    ending = {"stop_reason": "tool_use", "stop_sequence": None}
    made.append({"type": "message_delta", "delta": ending, "usage": {"output_tokens": count}})
    made.append({"type": "message_stop"})
    frames = list(map(_named_frame, made))
    return (HEAD + frames[0], *frames[1:-1], frames[-1] + b"0\r\n\r\n")


def gemini_events(count: int) -> tuple[bytes, ...]:
    """The same reply as that of `chunks`, of a Gemini server. Its calls come whole, so that a text is in the place of
    the pieces of the arguments, and the call follows."""
    fields = {"modelVersion": "mock-model", "responseId": "AbCdEfGhIjKlMnOpQrStUv"}

    def frame(parts: list[dict[str, Any]], **more: Any) -> bytes:
        candidate = {"content": {"role": "model", "parts": parts}, "index": 0, **more}
        usage = {"promptTokenCount": 12, "totalTokenCount": count + 12, "candidatesTokenCount": count}
        event = {"candidates": [candidate], "usageMetadata": usage, **fields}
        return _http_chunk(b"data: " + _json(event) + b"\r\n\r\n")

    frames = [
        frame([{"text": text, "thought": True} if part == 0 else {"text": text}]) for part, text in _thirds(count)
    ]
    called = {"functionCall": {"name": "get_weather", "args": {"text": "x"}}, "thoughtSignature": "c2ln" * 50}
    last = frame([called]) + frame([{"text": ""}], finishReason="STOP") + b"0\r\n\r\n"
    return (HEAD + frames[0], *frames[1:], last)


def post(body: dict[str, Any] | bytes, *, path: str = "/v1/chat", headers: bytes = b"") -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = b"POST %b HTTP/1.1\r\nHost: 127.0.0.1:8000\r\nContent-Type: application/json\r\n" % path.encode()
    return b"%b%bContent-Length: %d\r\n\r\n%b" % (head, headers, len(data), data)


def question(text: str = QUESTION, **fields: Any) -> dict[str, Any]:
    return {"model": "mock", "messages": [{"role": "user", "content": text}], "stream": False} | fields


def conversation(count: int) -> list[dict[str, str]]:
    """`count` messages, the last of the user's."""
    sentences = (
        "And what is it like in the city of number %d? Tell me in a sentence, please.",
        "There the sun shines: %d.",
    )
    roles = ("user", "assistant")
    return [{"role": roles[back % 2], "content": sentences[back % 2] % back} for back in reversed(range(count))]


def functions(count: int) -> list[dict[str, Any]]:
    parameters = {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "The city to look up"},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
        },
        "required": ["city"],
    }
    row = {"description": "Look up the weather of a city", "parameters": parameters}
    return [{"name": f"get_weather_{number:02}"} | row for number in range(count)]


# -- what is counted ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Case:
    """Requests that are alike for what is counted."""

    name: str
    request: Callable[[int], bytes]
    """Of a number, which is another for each request."""
    reads: tuple[bytes, ...]
    blocks: int = 5
    """How often it is counted; the median counts, for threads meet in another order now and then."""
    count: int = 10
    """Requests of a block. After them a second passes, of which each request counts its part."""


def _always(request: bytes) -> Callable[[int], bytes]:
    return lambda _: request


def whole_cases() -> Iterator[Case]:
    short = chunks(3)
    bypass = _always(post(question(), headers=NO_STORE))
    yield Case("whole bypass", bypass, short)
    completions = _always(post(question(), path="/v1/chat/completions", headers=NO_STORE))
    yield Case("completions bypass", completions, short)
    for count in (1, 21):
        body = question() | {"messages": conversation(count)}
        yield Case(f"{count} messages", _always(post(body, headers=NO_STORE)), short)
    for count in (1, 21):
        body = question() | {"functions": functions(count)}
        yield Case(f"{count} functions", _always(post(body, headers=NO_STORE)), short)
    posts = [post(question(f"{QUESTION} {number:012}")) for number in range(200)]  # to write them is not counted
    yield Case("whole miss", posts.__getitem__, short, 9)
    yield Case("whole hit", _always(post(question("Tell me again."))), short, 9)
    long = question("Tell me more.", stream=True)
    yield Case("stream hit", _always(post(long)), chunks(300), 3, 1)


REPLIES = {
    "qwen": {},
    "snapshot": {"stream_mode": "snapshot"},
    "openai": {"reply_format": "openai"},
    "autogen": {"reply_format": "autogen"},
    "autogen compat": {"reply_format": "autogen", "autogen_stream": "compat"},
    "autogen model": {"reply_format": "autogen", "autogen_stream": "model"},
    "agentscope": {"reply_format": "agentscope"},
    "agentscope2": {"reply_format": "agentscope2"},
    "anthropic": {"reply_format": "anthropic"},
    "responses": {"reply_format": "responses"},
    "gemini": {"reply_format": "gemini"},
}
"""How each format's stream is asked for."""
FEW, MANY = 10, 210
"""Chunks of two streams whose difference is counted."""


def stream_cases() -> Iterator[Case]:
    for name, fields in REPLIES.items():
        asked = _always(post(question(stream=True, **fields), headers=NO_STORE))
        for count in (FEW, MANY):
            yield Case(f"{count} chunks {name}", asked, chunks(count), 3, 1)
            if name == "qwen":
                yield Case(f"{count} chunks at once", asked, (b"".join(chunks(count)),), 3, 1)
    for count in (FEW, MANY):
        posts = [post(question(f"{QUESTION} {count} {number:012}", stream=True)) for number in range(100)]
        yield Case(f"{count} chunks miss", posts.__getitem__, chunks(count), 9, 1)
    yield Case("stream bypass", _always(post(question(stream=True), headers=NO_STORE)), chunks(3))


TURN_ROUNDS, TURN_FUNCTIONS = 20, 20
"""Of the requests of a coding agent, about 120 KB each."""
TURNS = 20
"""More than are sent of a case."""


def turn_cases(paths: Iterable[str] = WRITERS, name_of_case: str = "{} turn {}") -> Iterator[Case]:
    session = make_conversation(TURN_ROUNDS + TURNS, TURN_FUNCTIONS, TURNS)
    for path in paths:
        write = WRITERS[path]
        first = [make_conversation(TURN_ROUNDS, TURN_FUNCTIONS, number) for number in range(TURNS)]
        # The requests that are counted, after the warm-up, have as many rounds as the first ones.
        grown = [session.until(TURN_ROUNDS - WARM_UP - 1 + number) for number in range(TURNS)]
        for name, conversations in (("first", first), ("continued", grown)):
            sent_to = find_path(path, "mock")
            posts = [post(write(each, "mock"), path=sent_to, headers=NO_STORE) for each in conversations]
            yield Case(name_of_case.format(name, path), posts.__getitem__, chunks(3), 3, 1)


SERVERS: dict[str, Callable[[int], tuple[bytes, ...]]] = {
    "chat": chunks,
    "responses": responses_events,
    "messages": messages_events,
    "gemini": gemini_events,
}
"""The replies of each of the upstreams of SETTINGS, which are named after their APIs."""
SETTINGS = """
[upstreams.chat]
base_url = "http://127.0.0.1:9/v1"
[upstreams.responses]
api = "responses"
kind = "openai"
base_url = "http://127.0.0.1:9/v1"
[upstreams.messages]
api = "messages"
kind = "anthropic"
base_url = "http://127.0.0.1:9/v1"
[upstreams.gemini]
api = "gemini"
base_url = "http://127.0.0.1:9/v1beta"
[models.chat]
upstreams = ["chat"]
[models.responses]
upstreams = ["responses"]
[models.messages]
upstreams = ["messages"]
[models.gemini]
upstreams = ["gemini"]
"""
GUARD_PORT = 8
SETTINGS_OF_GROUPS = {
    "apis": SETTINGS,
    "service": f"""
[guards.policy]
url = "http://127.0.0.1:{GUARD_PORT}/verdict"
""",
    "masking": f"""
[masking]
key = "{"01234567" * 8}"
[guards.values]
detectors = ["email", "card", "iban", "phone", "ip", "secrets"]
""",
}
"""The configurations of groups that have one."""


def _ask_in(language: str, conversation: Conversation, model: str) -> bytes:
    """Return a request for a stream, by the path or, where that is `/v1/chat`, by the format of the reply."""
    if language not in WRITERS:
        return post(question(stream=True, model=model, reply_format=language), headers=NO_STORE)
    body = WRITERS[language](conversation, model, stream=True)
    return post(body, path=find_path(language, model, stream=True), headers=NO_STORE)


def api_cases() -> Iterator[Case]:
    session = make_conversation(TURN_ROUNDS + TURNS, TURN_FUNCTIONS, TURNS)
    for language, model in CHUNK_PAIRS:
        asked = _always(_ask_in(language, session.until(0), model))
        for count in (FEW, MANY):
            yield Case(f"{count} chunks {language} {model}", asked, SERVERS[model](count), 3, 1)
    for path, model in PAIRS:
        write, reads, sent_to = WRITERS[path], SERVERS[model], find_path(path, model, stream=True)
        grown = [session.until(TURN_ROUNDS - WARM_UP - 1 + number) for number in range(TURNS)]
        posts = [post(write(each, model, stream=True), path=sent_to, headers=NO_STORE) for each in grown]
        yield Case(f"turn {path} {model}", posts.__getitem__, reads(3), 3, 1)


def guarded_cases(guard: str) -> Iterator[Case]:
    posts = [post(question(f"{QUESTION} {number:012}"), headers=NO_STORE) for number in range(100)]
    yield Case(f"whole {guard}", posts.__getitem__, chunks(3))
    yield from turn_cases(["/v1/messages"], f"{{}} turn {guard}")


GROUPS: dict[str, Callable[[], Iterator[Case]]] = {
    "whole": whole_cases,
    "stream": stream_cases,
    "turn": turn_cases,
    "apis": api_cases,
    "service": partial(guarded_cases, "service"),
    "masking": partial(guarded_cases, "masking"),
}


async def _run(case: Case, loop: CountedLoop, caller: Caller, numbers: range) -> None:
    ModelServer.reads = case.reads
    for number in numbers:
        await caller.ask(case.request(number))
        await loop.wait_for_threads()
    await loop.pass_time(1.0)
    await loop.wait_for_threads()


async def _count_all(loop: CountedLoop, library: Any, group: str) -> None:
    settings = load()
    uvicorn_config = config(settings.server, lambda: create_app(settings))
    uvicorn_config.load()
    lifespan = LifespanOn(uvicorn_config)
    await lifespan.startup()
    state = ServerState()
    state.default_headers = [(b"date", b"Sun, 22 Nov 2026 10:00:00 GMT"), *uvicorn_config.encoded_headers]
    limits = uvicorn_config.limits
    protocol = ClientConnection(uvicorn_config.loaded_app, limits, ConnectionWarnings(), state, lifespan.state, loop)
    caller = Caller(loop, protocol)
    protocol.connection_made(caller)
    gc.disable()
    cases = list(GROUPS[group]())
    for case in cases:
        await _check(case, caller)
        await _run(case, loop, caller, range(1, WARM_UP))
    gc.freeze()  # what stands by now need not be searched for garbage again, which takes a second each time
    library.start_counting()
    # What is counted first is not the same each time. It is what was sent before, so that it leaves nothing behind.
    for start, case in ((0, replace(cases[0], name="first")), *((WARM_UP, case) for case in cases)):
        await _run(case, loop, caller, range(start, start + 1))
        gc.collect()
        library.write_counts(b"")
        for first in range(start + 1, start + 1 + case.blocks * case.count, case.count):
            await _run(case, loop, caller, range(first, first + case.count))
            library.write_counts(case.name.encode())
        print(json.dumps({"name": case.name, "requests": case.count}), flush=True)
    library.stop_counting()
    await lifespan.shutdown()


async def _check(case: Case, caller: Caller) -> None:
    """Ask once, and be sure that it is a reply that is counted."""
    ModelServer.reads = case.reads
    caller.received = []
    await caller.ask(case.request(0))
    reply = b"".join(caller.received)
    caller.received = None
    if not reply.startswith(b"HTTP/1.1 200 ") or (b"get_weather" not in reply):
        raise SystemExit(f"{case.name}: the gateway did not answer as it should: {reply.decode()}")


def _make_repeatable() -> None:
    """The same clock, the same random numbers and the same turns of threads each time."""
    for name, value in (("time", 1_800_000_000.0), ("monotonic", 1000.0), ("perf_counter", 1000.0)):
        setattr(time, name, partial(float, value))
    wait = threading.Event.wait
    threading.Event.wait = lambda event, timeout=None: wait(event)  # type: ignore[assignment, method-assign]
    os.urandom = random.Random(0).randbytes
    sys.setswitchinterval(SWITCH_SECONDS)


def main() -> None:
    _make_repeatable()
    settings = Path(f"{sys.argv[2]}.toml")  # groups that are counted at the same time share a folder
    settings.write_text(SETTINGS_OF_GROUPS.get(sys.argv[2], ""))
    os.environ["PARLEY_CONFIG"] = str(settings)
    library = ctypes.PyDLL(sys.argv[1])
    loop = CountedLoop(lambda protocol, port: (GuardServer if port == GUARD_PORT else ModelServer)(loop, protocol))
    asyncio.set_event_loop(loop)
    loop.run_until_complete(_count_all(loop, library, sys.argv[2]))


if __name__ == "__main__":
    main()
