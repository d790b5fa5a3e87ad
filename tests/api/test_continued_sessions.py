"""A gateway that remembers a session answers as one that never saw it, and sends the same bytes with the same key."""

import asyncio
import copy
import gc
import sqlite3
import tracemalloc
from collections.abc import Iterator
from contextlib import ExitStack, closing
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from agent_bodies import GEMINI, WRITERS, make_conversation
from app.formats.request_memory import RequestMemory
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.api.sample_replies import answer_shortly
from tests.each_case import each_case
from tests.effort import LONG
from tests.in_process_gateway import Answer, ModelServer, Running
from tests.session_edits import EDITS, FORMS, Edit, Json, edit, make_path, name_beginning, set_model, write_body

STREAMED = f"{GEMINI}/stream"
PATHS = (*WRITERS, "/v1/messages/count_tokens", "/v1/responses/input_tokens", f"{GEMINI}/count_tokens", STREAMED)
MEMORY_BYTES = 64 * 1024 * 1024
UPSTREAMS: Json = {
    "chat": {"base_url": "http://chat.test/v1"},
    "other": {"base_url": "http://other.test/v1", "kind": "deepseek"},
    "messages": {"base_url": "http://messages.test/v1", "api": "messages", "kind": "anthropic"},
    "responses": {"base_url": "http://responses.test/v1", "api": "responses", "kind": "openai"},
    "gemini": {"base_url": "http://gemini.test/v1beta", "api": "gemini"},
}
MODELS: list[Json] = [
    {"upstreams": ["chat"]},
    {"upstreams": ["messages"]},
    {"upstreams": ["responses"]},
    {"upstreams": ["chat"], "profile": {"replay_reasoning": "think_tags", "native_tools": False}},
    {"upstreams": ["other", "chat", "messages"], "defaults": {"temperature": 0.5}},
    {"upstreams": ["chat"], "profile": {"max_input_tokens": 3000}},
    {"upstreams": ["other"], "fallbacks": ["m0"]},
    {"upstreams": ["gemini"]},
]
SETTINGS: Json = {
    "upstreams": UPSTREAMS,
    "models": {"m": MODELS[0]} | {f"m{number}": MODELS[number % len(MODELS)] for number in range(31)},
    "server": {"log_level": "error", "max_messages": 60},
}
CHANGING_FIELDS = {"id", "age", "created", "created_at", "completed_at", "response_id", "responseId", "request_id"}
HEADERS = {b"content-type", b"x-parley-cache", b"x-parley-warnings"}
"""Headers that say something of the request; the others have ids and times."""
CACHE_MODES = ("refresh", "on", "off")
FORM = st.sampled_from(list(FORMS))
STEPS = st.lists(
    st.tuples(EDITS, st.booleans(), st.none() | FORM, st.sampled_from(CACHE_MODES), st.sampled_from("ab")),
    min_size=2,
    max_size=5,
)
"""What is changed before each request, whether it stays changed, another form of the body than that of the session, the
mode of the cache, and the caller."""


class Outcome(NamedTuple):
    """All that can be seen of one request."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: Any
    sent: list[tuple[str, list[tuple[bytes, bytes]], bytes]]
    """The URL, the headers and the body of each request to a model server."""


class Observed:
    """A gateway with a cache of its own."""

    def __init__(self, stack: ExitStack, loop: asyncio.AbstractEventLoop | None, folder: Path) -> None:
        folder.mkdir()
        self.server, self._file = ModelServer(answer_shortly), folder / "cache.db"
        cache = {"url": f"sqlite:///{self._file}", "scope": "caller"}
        self.running = stack.enter_context(Running({**SETTINGS, "cache": cache}, self.server, loop=loop))

    def forget(self) -> None:
        self.running.context.requests = RequestMemory(MEMORY_BYTES)

    def remember_nothing(self) -> None:
        self.running.context.requests = RequestMemory(0)

    def send(self, path: str, raw: bytes, headers: dict[str, str]) -> Outcome:
        self.server.requests.clear()
        answered = self.running.post(path, raw, headers)
        sent = [(str(each.url), list(each.headers.raw), each.content) for each in self.server.requests]
        shown = [(name, value) for name, value in answered.header_lines if name in HEADERS]
        return Outcome(answered.status, shown, _read_body(answered), sent)

    async def _wait_until_stored(self) -> None:
        while self.running.context.cache.calls or self.running.context.cache.storing:
            await asyncio.sleep(0.001)

    def read_keys(self) -> set[bytes]:
        """Return the keys of the cache."""
        self.running.loop.run_until_complete(self._wait_until_stored())
        with closing(sqlite3.connect(self._file)) as connection:
            made = connection.execute("SELECT name FROM sqlite_master WHERE name = 'entries'").fetchall()
            return {key for (key,) in connection.execute("SELECT key FROM entries")} if made else set()


def _read_body(answered: Answer) -> Any:
    def keep(value: Any) -> Any:
        if isinstance(value, list):
            return [keep(each) for each in value]
        if isinstance(value, dict):
            return {name: keep(each) for name, each in value.items() if name not in CHANGING_FIELDS}
        return value

    return keep(answered.frames if answered.body.startswith(b"data: ") else answered.json)


@pytest.fixture(scope="module")
def gateways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Observed, Observed]]:
    folder = tmp_path_factory.mktemp("sessions")
    with ExitStack() as stack:
        continued = Observed(stack, None, folder / "continued")
        yield continued, Observed(stack, continued.running.loop, folder / "fresh")
        if LONG:
            print(f"{next(PAIRS)} pairs of answers were compared")


NUMBERS = count()
PAIRS = count()


@pytest.mark.parametrize("path", PATHS)
@given(model=st.integers(0, len(MODELS) - 1), form=FORM, steps=STEPS, without_memory=st.booleans())
@settings(max_examples=700 if LONG else 20, deadline=None)
def test_a_continued_session_is_sent_and_answered_as_by_a_fresh_gateway(
    gateways: tuple[Observed, Observed],
    path: str,
    model: int,
    form: str,
    steps: list[tuple[list[Edit], bool, str | None, str, str]],
    without_memory: bool,
) -> None:
    continued, fresh = gateways
    body, whole = write_body(path, 4, 3), write_body(path, 8, 3)
    set_model(body, path, f"m{model}")
    name_beginning(body, str(next(NUMBERS)))  # no reply of another example is found in the caches
    for edits, stays, other_form, mode, caller in steps:
        changed = copy.deepcopy(body)
        for kind, first, second in edits:
            edit(changed, whole, kind, first, second)
        body = changed if stays else body
        headers = {"authorization": f"Bearer {caller}", "x-parley-cache": mode}
        raw = FORMS[other_form or form](changed)
        if without_memory:
            fresh.remember_nothing()
        else:
            fresh.forget()
        next(PAIRS)
        sent_to = make_path(path, str(changed.get("model", f"m{model}")))
        assert continued.send(sent_to, raw, headers) == fresh.send(sent_to, raw, headers)
    assert continued.read_keys() == fresh.read_keys()


@each_case("path", WRITERS)
def test_what_is_remembered_of_many_sessions_takes_no_more_than_the_limit(
    gateways: tuple[Observed, Observed], path: str
) -> None:
    limit, bodies = 4 * 1024 * 1024, [WRITERS[path](make_conversation(14, 10, seed), "m") for seed in range(12)]
    gateway = gateways[0].running

    def measure(max_bytes: int) -> int:
        gateway.context.requests = RequestMemory(max_bytes)
        gc.collect()
        tracemalloc.start()
        try:
            for raw in bodies:
                assert gateway.post(make_path(path, "m"), raw, {"cache-control": "no-store"}).status == 200
            gateways[0].server.requests.clear()
            gc.collect()
            return tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()

    measure(0)  # what is made once
    held = measure(limit) - measure(0)
    assert 0.3 * limit < held <= limit


@each_case("path", WRITERS)
def test_what_is_not_remembered_any_more_is_freed_without_the_garbage_collector(
    gateways: tuple[Observed, Observed], path: str
) -> None:
    gateway = gateways[0].running
    gateway.context.requests = RequestMemory(4 * 1024 * 1024)
    bodies = [
        WRITERS[path](make_conversation(14, 10, seed).until(rounds), "m") for seed in range(10) for rounds in (13, 14)
    ]
    gc.collect()
    gc.disable()
    try:
        for raw in bodies:
            assert gateway.post(make_path(path, "m"), raw, {"cache-control": "no-store"}).status == 200
        assert gc.collect() < 100  # a session has thousands of objects
    finally:
        gc.enable()
