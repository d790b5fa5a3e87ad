"""The journey of one request: which model, what it is sent, and its reply as events.

`prepare` does everything that can be refused before a byte goes out; `open` sends and waits for the server's word;
the `LiveReply` it returns pushes events at one receiver until its terminal event.
"""

import asyncio
import os
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import httpx
import msgspec

from app import __version__
from app.chat.events import Event, Fault
from app.chat.messages import ChatRequest
from app.chat.stage import Pipe, Stage
from app.errors import BadRequest, UnknownModel, UpstreamFailed
from app.params import merged
from app.profiles import Profile
from app.steps import reply_stages
from app.upstream import chunks, faults, payload
from app.upstream.assembly import Assembler
from app.upstream.client import Body, Target, UpstreamClient, transport_fault
from app.upstream.sse import EventReader, Garbage

RETRY_SECONDS = 0.5
"""The first wait before a request is sent again, doubled each time, where the server names no time itself."""
MAX_RETRY_SECONDS = 30.0
"""A server that asks for a longer wait is not waited for: the caller is told, and can wait better."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way to a model: a server, the model's name there, and what the two can do."""

    target: Target
    model: str
    profile: Profile


@dataclass(frozen=True, slots=True)
class Route:
    """A model as callers know it."""

    model: str
    ways: tuple[Way, ...]
    defaults: Mapping[str, Any]
    max_retries: int = 0


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request that nothing is left to refuse."""

    route: Route
    bodies: tuple[bytes, ...]
    """One for each way."""
    warnings: tuple[str, ...]
    max_retries: int
    wait_seconds: float | None


class Routes(Protocol):
    def find(self, model: str) -> Route | None: ...


class Receiver(Protocol):
    def on_events(self, events: list[Event]) -> None:
        """What one read brought; empty when the server only showed that it lives."""

    def on_crash(self, error: Exception) -> None:
        """A defect of ours while the reply was read. Nothing follows."""


class Gateway:
    def __init__(self, find: Callable[[str], Route | None], default_model: str | None, client: UpstreamClient) -> None:
        self._find = find
        self._default_model = default_model
        self._client = client

    def route(self, model: str | None) -> Route:
        """Raises BadRequest where no model is named and none is the default, UnknownModel."""
        name = model or self._default_model
        if not name:
            raise BadRequest("is required: no default_model is configured", "model")
        route = self._find(name)
        if route is None:
            raise UnknownModel(f"there is no model {name!r}; GET /v1/models lists them", "model")
        return route

    def prepare(self, route: Route, request: ChatRequest) -> Prepared:
        """Raises InvalidInput for what this model cannot be sent."""
        params = merged(route.defaults, request.params)
        request = replace(request, params=params)
        bodies: list[bytes] = []
        warnings: dict[str, None] = dict.fromkeys(_unapplied(params))
        built: dict[tuple[str, int], bytes] = {}
        for way in route.ways:
            key = (way.model, id(way.profile))
            if key not in built:
                body, said = payload.build(request, way.model, way.profile)
                built[key] = msgspec.json.encode(body)
                warnings |= dict.fromkeys(said)
            bodies.append(built[key])
        retries = params.get("max_retries")
        return Prepared(
            route,
            tuple(bodies),
            tuple(warnings),
            route.max_retries if retries is None else retries,
            params.get("request_timeout"),
        )

    async def open(self, prepared: Prepared, reply_id: str) -> "LiveReply":
        """The reply, once a server has begun to answer. Raises UpstreamFailed with the last fault.

        A fault after which the same request may work is answered by the model's next server, then by sending again,
        `max_retries` times; nothing has been said to the caller by then.
        """
        attempts = max(len(prepared.route.ways), 1) + prepared.max_retries
        for attempt in range(attempts):
            number = attempt % len(prepared.route.ways)
            way = prepared.route.ways[number]
            target = way.target.bounded(prepared.wait_seconds)
            try:
                body = await self._client.open(target, prepared.bodies[number])
            except UpstreamFailed as error:
                if not error.retryable or attempt + 1 == attempts:
                    raise
                if attempt + 1 >= len(prepared.route.ways):
                    await asyncio.sleep(_pause(error, attempt + 1 - len(prepared.route.ways)))
                continue
            return LiveReply(body, reply_id, reply_stages(way.profile), target)
        raise AssertionError("a route has at least one way")


def _pause(error: UpstreamFailed, round_: int) -> float:
    """Seconds before asking again, once every server was asked. Raises the error where that would be too long."""
    named = error.fault.retry_after_seconds
    if named is None:
        return min(RETRY_SECONDS * float(2**round_), MAX_RETRY_SECONDS) * (1 + random.random() / 2)
    if named > MAX_RETRY_SECONDS:
        raise error
    return named


def _unapplied(params: Mapping[str, Any]) -> Sequence[str]:
    """What Qwen-Agent's callers may say and this gateway does not do."""
    said = []
    if params.get("use_raw_api") is False or params.get("thought_in_content"):
        said.append("functions are always called natively: use_raw_api and thought_in_content have no effect")
    if (params.get("max_input_tokens") or 0) > 0:
        said.append("generate_cfg.max_input_tokens has no effect: the conversation is sent whole")
    return said


class LiveReply:
    """A model server's reply while it comes. `start` it once; `close` it whatever happens."""

    def __init__(self, body: Body, reply_id: str, stages: Sequence[Stage], target: Target) -> None:
        self._body = body
        self._target = target
        self._reader = EventReader(chunks.decode)
        self._assembler = Assembler(reply_id)
        self._stage = Pipe(stages) if len(stages) != 1 else stages[0]
        self._receiver: Receiver | None = None
        self._over = False
        """Its terminal event was told, or nobody wants it. The body is somebody else's from then on."""
        self._active = True
        self._alive = False
        self._paused = False
        self._since = body.asked_at

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._body.push(self._on_data, self._on_end)

    def pause(self) -> None:
        if not self._over:
            self._paused = True
            self._body.pause()

    def resume(self) -> None:
        if not self._over:
            self._paused = False
            self._active = True
            self._body.resume()

    def close(self) -> None:
        """Stop; a reply that has not ended takes its connection with it. May be called twice."""
        if not self._over:
            self._end()
            self._body.abort()

    def _end(self) -> Receiver:
        receiver, self._receiver = self._receiver, None
        self._over = True
        return receiver or _NOBODY

    def _on_data(self, data: bytes) -> None:
        receiver = self._receiver
        if receiver is None:
            return
        self._active = True
        try:
            events = self._assembler.feed(self._items(data))
            if events:
                events = self._stage.feed(events)
        except Exception as error:
            self._end()
            self._body.abort()
            receiver.on_crash(error)
            return
        if self._assembler.ended:
            self._end()
            self._body.release()
        if events or (not self._alive and self._reader.saw_line):
            self._alive = self._reader.saw_line
            receiver.on_events(events)

    def _items(self, data: bytes) -> list[Any]:
        try:
            return self._reader.feed(self._body.inflate.feed(data))
        except ValueError as error:
            return [Garbage(str(error).encode())]

    def _on_end(self, error: Exception | None) -> None:
        if not self._over:
            self._finish(None if error is None else transport_fault(error, self._target))

    def _finish(self, fault: Fault | None) -> None:
        """No more bytes will come: the body has ended, cleanly where there is no fault."""
        receiver = self._end()
        try:
            events = self._assembler.feed(self._rest(fault is None))
            events = self._stage.feed(events + self._assembler.close(self._reader.junk, fault))
        except Exception as error:
            receiver.on_crash(error)
            return
        receiver.on_events(events)

    def _rest(self, clean: bool) -> list[Any]:
        try:
            return self._reader.close(clean=clean)
        except ValueError:
            return []

    def tick(self, now: float) -> None:
        """Bounds the silence: before the first token (comments do not count), and between any bytes after it."""
        if self._receiver is None:
            return
        if self._active or self._paused or not self._assembler.started:
            self._active = False
            self._since = now
        if self._assembler.started:
            if now - self._since > self._target.idle_seconds:
                self._time_out(f"silence for more than {self._target.idle_seconds:g} s")
        elif now - self._body.asked_at > self._target.first_token_seconds and not self._paused:
            self._time_out(f"no first token within {self._target.first_token_seconds:g} s")

    def _time_out(self, what: str) -> None:
        self._body.abort()
        self._finish(faults.made("timeout", f"the model server timed out: {what}"))


class _Nobody:
    def on_events(self, events: list[Event]) -> None: ...

    def on_crash(self, error: Exception) -> None: ...


_NOBODY = _Nobody()


def new_reply_id() -> str:
    return f"chat-{os.urandom(16).hex()}"


def request_headers(base_url: str, api_key: str | None, headers: Mapping[str, str]) -> httpx.Headers:
    """What every request to a server carries. The body is asked for uncompressed: compressors hold tokens back."""
    base = {
        "host": httpx.URL(base_url).netloc.decode(),
        "accept": "text/event-stream, application/json",
        "accept-encoding": "identity",
        "content-type": "application/json",
        "user-agent": f"parley/{__version__} httpx/{httpx.__version__}",
    }
    if api_key:
        base["authorization"] = f"Bearer {api_key}"
    return httpx.Headers(base | {name.lower(): value for name, value in headers.items()})
