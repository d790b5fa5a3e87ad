"""The clients of the chaos run: each asks one question after the other and checks every byte that comes back."""

import asyncio
import itertools
import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from chaos_agent_readers import AgentScope2Reader, AgentScopeReader, AutogenReader
from chaos_loops import SERVERS, find_loop_mistake
from chaos_named_readers import MessagesReader, ResponsesReader
from chaos_readers import ChatReader, CompletionReader, GeminiReader, ReplyReader, read_error_code, read_whole
from chaos_replies import Kind, Question, Received, WrongReplyError, find_mistake
from chaos_results import Results

DEADLINE_SECONDS = 120.0
"""Longer than anything that the gateway may take (queue, deadline of the attempts, the reply itself, drain): 40 s, and
more on a busy machine. A reply that hangs never ends."""
CANCEL_SECONDS = 0.5
"""After this time every gateway knows that a reply was cancelled."""
TYPED_STATUSES = (429, 502, 503, 504, 529)
LOOK_UP = {
    "name": "look_up",
    "description": "Looks a text up.",
    "parameters": {"type": "object", "properties": {"text": {"type": "string"}}},
}
CHAT, COMPLETIONS, GEMINI = "/v1/chat", "/v1/chat/completions", "/v1beta/models"
MESSAGES, RESPONSES = "/v1/messages", "/v1/responses"
AUTOGEN, AGENTSCOPE, AGENTSCOPE2 = (f"{CHAT} {name}" for name in ("autogen", "agentscope", "agentscope2"))
READERS: dict[str, type[ReplyReader]] = {
    CHAT: ChatReader,
    COMPLETIONS: CompletionReader,
    MESSAGES: MessagesReader,
    RESPONSES: ResponsesReader,
    GEMINI: GeminiReader,
    AUTOGEN: AutogenReader,
    AGENTSCOPE: AgentScopeReader,
    AGENTSCOPE2: AgentScope2Reader,
}
"""By the endpoint: its path, and the format behind it if that is not the path's own. Those of Gemini go on with the
model and the method."""
MODELS = ("plain", "plain", "hedged", "prefix")
SHARED_QUESTIONS = 12
"""Questions that many clients ask at the same time; they change every few seconds."""
SHARED_SECONDS = 4.0


_KINDS = {MESSAGES: " of Messages", RESPONSES: " of Responses", GEMINI: " of Gemini", AUTOGEN: " of AutoGen"}
_KINDS |= {AGENTSCOPE: " of AgentScope", AGENTSCOPE2: " of AgentScope 2"}


class BrokenConnectionError(Exception):
    """The connection ended before the response did."""


@dataclass(frozen=True, slots=True)
class Head:
    status: int
    headers: dict[str, str]


class Connection:
    """HTTP/1.1 to nginx, kept open for the next request where both sides allow it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def send(self, method: str, path: str, headers: dict[str, str], body: bytes = b"") -> Head:
        if self._writer is None:
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port, limit=2**22)
        lines = [f"{method} {path} HTTP/1.1", "host: localhost", f"content-length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self._writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        raw = (await self._need().readuntil(b"\r\n\r\n")).decode().split("\r\n")
        pairs = (line.partition(": ") for line in raw[1:-2])
        return Head(int(raw[0].split(" ")[1]), {name.lower(): value for name, _, value in pairs})

    async def read_part(self, head: Head) -> bytes:
        """The next part of a chunked body; empty at its end."""
        size = int(await self._need().readuntil(b"\r\n"), 16)
        return (await self._need().readexactly(size + 2))[:-2]

    async def read_all(self, head: Head) -> bytes:
        if head.status == 204:
            return b""
        if "content-length" in head.headers:
            return await self._need().readexactly(int(head.headers["content-length"]))
        parts = []
        while part := await self.read_part(head):
            parts.append(part)
        return b"".join(parts)

    def finish(self, head: Head) -> None:
        """The response has been read to its end."""
        if head.headers.get("connection") == "close":
            self.close()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.transport.abort()
        self._reader = self._writer = None

    def _need(self) -> asyncio.StreamReader:
        assert self._reader is not None
        return self._reader


@dataclass(slots=True)
class Request:
    """One question, and how it is asked."""

    id: str
    question: Question
    endpoint: str
    key: str
    stream: bool
    model: str
    body: dict[str, Any]
    is_array: bool = False
    """A stream of Google's API is one JSON array."""
    leave_after: int = 0
    """Frames after which the client closes its connection; 0 for never."""
    then: str = ""
    """What follows: resume, read, cancel, or nothing."""
    slow: bool = False
    """Whether it reads with pauses."""
    started: float = field(default_factory=time.monotonic)

    @property
    def path(self) -> str:
        if self.endpoint != GEMINI:
            return self.endpoint.partition(" ")[0]
        method = "streamGenerateContent" if self.stream else "generateContent"
        return f"{GEMINI}/{self.model}:{method}{'?alt=sse' if self.stream and not self.is_array else ''}"

    @property
    def headers(self) -> dict[str, str]:
        key = {"x-goog-api-key": self.key} if self.endpoint == GEMINI else {"authorization": f"Bearer {self.key}"}
        return {"content-type": "application/json", "x-request-id": self.id, **key}


def make_request(pick: random.Random, number: str, keys: list[str], moment: float) -> Request:
    """Draw a request. Those of the shared questions are equal for all clients that draw the same one."""
    shared = pick.random() < 0.35
    endpoint = pick.choice(tuple(READERS))
    if shared:
        place = pick.randrange(SHARED_QUESTIONS)
        question = _question(
            random.Random(f"{place} {moment // SHARED_SECONDS}"), f"s{place}-{moment // SHARED_SECONDS:.0f}"
        )
    else:
        question = _question(pick, number, loops=endpoint in (CHAT, COMPLETIONS))
    stream = pick.random() < 0.7
    model = pick.choice(MODELS)
    body = _WRITERS[endpoint](question, model, stream)
    if shared or pick.random() < 0.2:
        body["cache"] = {"mode": pick.choices(("on", "refresh", "off"), (8, 1, 1))[0]}
    if endpoint == CHAT and stream and pick.random() < 0.2:
        body["stream_mode"] = "snapshot"
    request = Request(number, question, endpoint, pick.choice(keys), stream, model, body, slow=pick.random() < 0.05)
    request.is_array = endpoint == GEMINI and stream and pick.random() < 0.2
    if stream and not request.is_array and pick.random() < 0.25:
        request.leave_after = pick.randrange(1, 25)
        request.then = pick.choice(("", "resume", "resume", "read", "cancel"))
        if request.then and endpoint == CHAT:
            body["cancel_on_disconnect"] = False
    return request


def _write_chat(question: Question, model: str, stream: bool) -> dict[str, Any]:
    functions = {"call": [LOOK_UP], "loop": list(SERVERS)}.get(question.kind)
    body = {"model": model, "messages": [{"role": "user", "content": question.prompt}], "stream": stream}
    return {**body, "functions": functions} if functions else body


def _write_autogen(question: Question, model: str, stream: bool) -> dict[str, Any]:
    message = {"type": "TextMessage", "source": "user", "content": question.prompt}
    return {**_write_chat(question, model, stream), "format": "autogen", "messages": [message]}


def _write_agentscope(question: Question, model: str, stream: bool) -> dict[str, Any]:
    message = {"name": "user", "role": "user", "content": question.prompt}
    return {**_write_chat(question, model, stream), "format": "agentscope", "messages": [message]}


def _write_agentscope2(question: Question, model: str, stream: bool) -> dict[str, Any]:
    message = {"name": "user", "role": "user", "content": [{"type": "text", "text": question.prompt}]}
    return {**_write_chat(question, model, stream), "format": "agentscope2", "messages": [message]}


def _write_completions(question: Question, model: str, stream: bool) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": model,
        "messages": [{"role": "user", "content": question.prompt}],
        "stream": stream,
    }
    if stream:
        body["stream_options"] = {"include_usage": True}
    if question.kind == "call":
        body["tools"] = [{"type": "function", "function": LOOK_UP}]
    elif question.kind == "loop":
        body["tools"] = [{"type": "mcp", "server_label": name} for name in SERVERS]
    return body


def _write_messages(question: Question, model: str, stream: bool) -> dict[str, Any]:
    message = {"role": "user", "content": question.prompt}
    body: dict[str, Any] = {"model": model, "messages": [message], "max_tokens": 20_000, "stream": stream}
    if question.kind == "call":
        tool = {"name": LOOK_UP["name"], "description": LOOK_UP["description"]}
        body["tools"] = [{**tool, "input_schema": LOOK_UP["parameters"]}]
    return body


def _write_responses(question: Question, model: str, stream: bool) -> dict[str, Any]:
    body: dict[str, Any] = {"model": model, "input": question.prompt, "stream": stream, "store": False}
    return {**body, "tools": [{"type": "function", **LOOK_UP}]} if question.kind == "call" else body


def _write_gemini(question: Question, model: str, stream: bool) -> dict[str, Any]:
    body: dict[str, Any] = {
        "contents": [{"role": "user", "parts": [{"text": question.prompt}]}],
        "generationConfig": {"thinkingConfig": {"includeThoughts": True}},
    }
    if question.kind == "call":
        body["tools"] = [{"functionDeclarations": [LOOK_UP]}]
    return body


_WRITERS: dict[str, Callable[[Question, str, bool], dict[str, Any]]] = {
    CHAT: _write_chat,
    COMPLETIONS: _write_completions,
    MESSAGES: _write_messages,
    RESPONSES: _write_responses,
    GEMINI: _write_gemini,
    AUTOGEN: _write_autogen,
    AGENTSCOPE: _write_agentscope,
    AGENTSCOPE2: _write_agentscope2,
}


def _question(pick: random.Random, name: str, *, loops: bool = False) -> Question:
    """Draw a question. Each token of a loop may be seen once, so that no two requests may ask for the same one."""
    kinds: tuple[Kind, ...] = ("steady", "varying", "call", "loop")
    words = pick.choice((1, 5, 30, 60, 120, 200))
    return Question(name, pick.choices(kinds, (5, 3, 2, 5 * loops))[0], words, pick.choice((0, 5, 30, 60)))


class Client:
    def __init__(self, number: int, seed: str, port: int, keys: list[str], results: Results) -> None:
        self._number, self._keys, self._results = number, keys, results
        self._pick = random.Random(f"{seed} client {number}")
        self._connection = Connection(port)
        self._port = port

    async def run(self, until: float) -> None:
        """Ask until this moment (of `time.monotonic`), and to the end of the last reply."""
        try:
            for count in itertools.count(1):
                if time.monotonic() >= until:
                    return
                number = f"c{self._number}-{count}"
                await self._ask(make_request(self._pick, number, self._keys, time.monotonic()))
                await asyncio.sleep(self._pick.expovariate(1 / 0.3))
        finally:
            self._connection.close()

    async def _ask(self, request: Request) -> None:
        request.started = time.monotonic()
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                outcome = await self._converse(request)
        except TimeoutError:
            self._connection.close()
            self._results.violation(request.id, f"hangs: {DEADLINE_SECONDS:.0f} s and no end of {request.endpoint}")
        except (WrongReplyError, ValueError, KeyError, IndexError) as error:
            self._connection.close()
            self._results.violation(request.id, f"{error!r} {request.endpoint} {json.dumps(request.body)}")
        except (OSError, EOFError, asyncio.LimitOverrunError) as error:
            self._connection.close()
            self._results.broken(request.id, request.started, f"{type(error).__name__}: {error}")
        else:
            self._results.add(outcome, request.started)

    async def _converse(self, request: Request) -> str:
        head = await self._connection.send("POST", request.path, request.headers, json.dumps(request.body).encode())
        if head.status != 200:
            return await self._refusal(request, head)
        if head.headers.get("x-request-id") != request.id:
            raise WrongReplyError(f"the response has the request id {head.headers.get('x-request-id')}")
        cache = head.headers.get("x-parley-cache", "").split(";")[0]
        kind = " with tools" if request.question.kind == "loop" else _KINDS.get(request.endpoint, "")
        if not request.stream or request.is_array:
            received = read_whole(json.loads(await self._connection.read_all(head)))
            self._connection.finish(head)
            return self._judge(request, received, f"whole reply{kind}, {cache}")
        reader = READERS[request.endpoint]()
        left = await self._read_stream(request, head, reader)
        self._check(request, reader.received)
        if not left:
            return self._judge(request, reader.received, f"stream{kind}, {cache}")
        if not request.then or not reader.response_id:
            return "left"
        await asyncio.sleep(self._pick.random())
        return await self._come_back(request, reader)

    async def _read_stream(self, request: Request, head: Head, reader: ReplyReader) -> bool:
        """Whether the client left before the end."""
        rest = b""
        before = reader.frames
        while part := await self._read_part(head, reader):
            *frames, rest = (rest + part).split(reader.frame_end)
            for frame in frames:
                reader.feed(frame)
            if request.leave_after and reader.frames - before >= request.leave_after:
                self._connection.close()
                return True
            if request.slow:
                await asyncio.sleep(0.05)
        self._connection.finish(head)
        if rest.strip(b"\r\n"):
            raise WrongReplyError(f"the stream ends within a frame: {rest[:100]!r}")
        if not reader.received.ended:
            raise WrongReplyError("the stream ends without a last frame")
        return False

    async def _read_part(self, head: Head, reader: ReplyReader) -> bytes:
        """Return what comes next, or nothing at the end. A body that fails within a call may have no last chunk."""
        try:
            return await self._connection.read_part(head)
        except EOFError:
            if not reader.failed_within_call:
                raise
            self._connection.close()
            return b""

    async def _come_back(self, request: Request, reader: ReplyReader) -> str:
        path = f"{CHAT}/{reader.response_id}"
        headers = request.headers | {"x-request-id": f"{request.id}-{request.then}"}
        if request.then == "cancel":
            return await self._cancel(request, path, headers)
        if request.then == "read":
            return await self._read_again(request, path, headers)
        if reader.received.ended:
            return "left"
        head = await self._connection.send("GET", f"{path}/events?after={reader.frames}", headers)
        if head.status == 204:
            raise WrongReplyError(f"204 after frame {reader.frames}, which was not the last one")
        if head.status != 200:
            return await self._lost(request, head)
        request.leave_after = 0
        await self._read_stream(request, head, reader)
        if reader.received.error == "cancelled" and "cancel_on_disconnect" in request.body:
            raise WrongReplyError("the reply was cancelled because its client left, which it had forbidden")
        return self._judge(request, reader.received, "resumed")

    async def _cancel(self, request: Request, path: str, headers: dict[str, str]) -> str:
        head = await self._connection.send("DELETE", path, headers)
        if head.status != 200:
            return await self._lost(request, head)
        await self._connection.read_all(head)
        self._connection.finish(head)
        await asyncio.sleep(CANCEL_SECONDS)
        head = await self._connection.send("GET", path, headers)
        await self._connection.read_all(head)
        self._connection.finish(head)
        if head.status in (200, 202) and not self._results.disturbed(request.started, "redis"):
            raise WrongReplyError(f"a cancelled reply can still be read: {head.status}")
        return "cancelled"

    async def _read_again(self, request: Request, path: str, headers: dict[str, str]) -> str:
        while True:
            head = await self._connection.send("GET", path, headers)
            if head.status not in (200, 202):
                return await self._lost(request, head)
            body = json.loads(await self._connection.read_all(head))
            self._connection.finish(head)
            if head.status == 200:
                return self._judge(request, read_whole(body), "read again")
            await asyncio.sleep(0.5)

    async def _refusal(self, request: Request, head: Head) -> str:
        """A status instead of a reply: an error of the gateway's, or of nginx while a gateway is down."""
        body = await self._connection.read_all(head)
        self._connection.finish(head)
        if "x-request-id" not in head.headers:
            self._results.nginx_error(request.id, request.started, head.status)
            await asyncio.sleep(1)
            return f"nginx: {head.status}"
        answer = json.loads(body)
        error = answer if request.endpoint == AUTOGEN else answer["error"]
        if head.status not in TYPED_STATUSES:
            raise WrongReplyError(f"{head.status} {error['code']}: {str(error)[:300]}")
        return f"{head.status} {read_error_code(error)}"

    async def _lost(self, request: Request, head: Head) -> str:
        """A reply that cannot be had again: it failed, or a killed gateway or Redis had it."""
        body = await self._connection.read_all(head)
        self._connection.finish(head)
        if head.status == 404:
            self._results.not_found(request.id, request.started)
            return f"{request.then}: not found"
        if "x-request-id" not in head.headers:
            self._results.nginx_error(request.id, request.started, head.status)
            return f"nginx: {head.status}"
        error = json.loads(body)["error"]
        ends_with_client = head.status == 409 and "cancel_on_disconnect" not in request.body
        if head.status not in TYPED_STATUSES and not ends_with_client:
            raise WrongReplyError(f"{request.then}: {head.status} {error['code']}: {error['message'][:300]}")
        return f"{request.then}: {head.status} {read_error_code(error)}"

    def _judge(self, request: Request, received: Received, outcome: str) -> str:
        self._check(request, received)
        return f"{outcome}: {received.error if received.ended == 'failed' else received.ended}"

    def _check(self, request: Request, received: Received) -> None:
        find = find_loop_mistake if request.question.kind == "loop" else find_mistake
        if mistake := find(request.question.prompt, received):
            raise WrongReplyError(mistake)
